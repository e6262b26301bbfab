/* SPDX-License-Identifier: MIT
 *
 * Divides files by size: see shard_deal.h.
 */
#include "cli/run/shard/shard_deal.h"

#include <stdlib.h>
#include <string.h>

#include <gpu_dispatch/error.h>

#include "base/alloc.h"
#include "base/failure.h"
#include "shard/deal_file.h"
#include "shard/names.h"

static struct gd__deal_item *list_items(const struct cli_deal_list *list)
{
    struct gd__deal_item *items = calloc(list->n + 1, sizeof *items);
    for (size_t i = 0; items && i < list->n; i++) {
        const char *key = gd__deal_key_within(list->get(list->user, i, &items[i].size), list->dir);
        items[i].key = key;
        items[i].key_size = strlen(key);
    }
    return items;
}

/* A deal that is not in a file: written to memory and read again. */
static int make_deal(struct gd__deal **out, const char *path, struct gd__deal_item *items, size_t n, uint32_t shards)
{
    struct gd__buffer text = { 0 };
    int rc = gd__deal_items(items, &n, shards);
    if (rc == 0)
        rc = gd__deal_write(&text, items, n, shards);
    if (rc == 0)
        rc = gd__deal_parse(out, text.data, text.size, shards, path);
    gd__buffer_free(&text);
    return rc;
}

typedef int make_fn(struct gd__deal **out, const char *path, struct gd__deal_item *items, size_t n, uint32_t shards);

static int open_or(make_fn *make, struct gd__deal **out, const char *beside, uint32_t shards,
                   const struct cli_deal_list *list)
{
    char *path = NULL;
    *out = NULL;
    int rc = gd__shard_deal_path(&path, beside, shards);
    if (rc == 0)
        rc = gd__deal_open(out, path, shards);
    if (rc == 0) {
        struct gd__deal_item *items = list_items(list);
        rc = items ? make(out, path, items, list->n, shards) : GD_E_NO_MEMORY;
        free(items);
    }
    gd__free(path);
    if (rc == GD_E_NO_MEMORY)
        return gd__fail("out of memory");
    return rc < 0 ? gd__fail("%s", gd_error_text()) : 0;
}

int cli_deal_open(struct gd__deal **out, const char *beside, uint32_t shards, const struct cli_deal_list *list)
{
    return open_or(gd__deal_publish, out, beside, shards, list);
}

int cli_deal_preview(struct gd__deal **out, const char *beside, uint32_t shards, const struct cli_deal_list *list)
{
    return open_or(make_deal, out, beside, shards, list);
}
