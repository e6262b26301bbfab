/* Which files of a directory belong to a shard: see deal_files.h. */
#include "launch/deal_files.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "shard/deal_file.h"
#include "shard/names.h"

struct gd__file_deal {
    const char *dir;
    struct gd_shard shard;
    struct gd__deal *by_size; /* NULL: all files go by hash */
    uint64_t count;
};

const char *gd__file_deal_key(const struct gd__file_deal *d, const char *path)
{
    return gd__deal_key_within(path, d->dir);
}

bool gd__file_deal_owns(const struct gd__file_deal *d, const char *path)
{
    const char *key = gd__file_deal_key(d, path);
    return d->by_size ? gd__deal_owner(d->by_size, key, strlen(key)) == d->shard.index
                      : gd_shard_owns(d->shard, key, strlen(key));
}

uint64_t gd__file_deal_count(const struct gd__file_deal *d)
{
    return d->count;
}

static int deal_by_size(struct gd__file_deal *d, const struct gd_files *files, const char *journal)
{
    const size_t n = gd_files_count(files);
    struct gd__deal_item *items = gd__calloc(n + 1, sizeof *items);
    char *path = NULL;
    if (!items)
        return gd__error(GD_E_NO_MEMORY, "no memory for a list of %zu files", n);
    int rc = gd__shard_deal_path(&path, journal, d->shard.count);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        items[i].key = gd__file_deal_key(d, gd_files_path(files, i));
        items[i].key_size = strlen(items[i].key);
        items[i].size = gd_files_size(files, i);
    }
    if (rc == 0)
        rc = gd__deal_publish(&d->by_size, path, items, n, d->shard.count);
    gd__free(path);
    gd__free(items);
    return rc;
}

int gd__file_deal_open(struct gd__file_deal **out, const struct gd_files *files, const char *dir, struct gd_shard shard,
                       const char *journal)
{
    struct gd__file_deal *d = gd__calloc(1, sizeof *d);
    *out = NULL;
    if (!d)
        return gd__error(GD_E_NO_MEMORY, "no memory for the files of a shard");
    d->dir = dir;
    d->shard = shard;
    const int rc = journal && shard.count > 1 ? deal_by_size(d, files, journal) : 0;
    if (rc < 0) {
        gd__file_deal_close(&d);
        return rc;
    }
    for (size_t i = 0; i < gd_files_count(files); i++)
        d->count += gd__file_deal_owns(d, gd_files_path(files, i));
    *out = d;
    return 0;
}

void gd__file_deal_close(struct gd__file_deal **dp)
{
    struct gd__file_deal *d = *dp;
    *dp = NULL;
    if (d)
        gd__deal_close(&d->by_size);
    gd__free(d);
}
