/* SPDX-License-Identifier: MIT
 *
 * The tasks of this shard: see own_tasks.h. The command decides this itself, and not the dispatcher, because it counts the
 * tasks of the shard beforehand.
 */
#include "cli/run/shard/own_tasks.h"

#include <string.h>

#include "base/failure.h"
#include "binding.h"
#include "cli/run/shard/shard_deal.h"

/* Combinations are not held in memory, so there may be very many. Their number is then known only at the end. */
enum { MOST_COUNTED = 1 << 24 };

static bool is_divided(const struct cli_own_tasks *o)
{
    return o->shard.count > 1 && !o->has_all;
}

/* Returns 1 if the task is ours, 0 if not, or -1 with gd__fail_text(). */
static int owns(const struct cli_own_tasks *o, struct cli_journal *k, const void *data, size_t size)
{
    const void *key = data;
    size_t key_size = size;
    if (o->dir) {
        const char *relative = gd__deal_key_within(data, o->dir);
        key = relative;
        key_size = strlen(relative);
    } else if (cli_journal_find_key(k, data, size, &key, &key_size) < 0) {
        return -1;
    }
    const uint32_t owner = o->deal ? gd__deal_owner(o->deal, key, key_size)
                                   : gd__shard_of_key(key_size > 0 ? key : "", key_size, o->shard.count);
    return owner == o->shard.index;
}

/* --- opening ------------------------------------------------------------------------ */

static const char *get_file(const void *input, size_t i, uint64_t *size)
{
    return cli_input_file(input, i, size);
}

static int open_deal(struct cli_own_tasks *o, const struct cli_run *r, const struct cli_input *in)
{
    const struct cli_deal_list list = { .n = cli_input_total(in), .dir = o->dir, .get = get_file, .user = in };
    return cli_deal_open(&o->deal, r->journal_base, o->shard.count, &list);
}

static int count(struct cli_own_tasks *o, struct cli_input *in, struct cli_journal *k)
{
    const uint64_t n = cli_input_total(in);
    for (uint64_t i = 0; i < n; i++) {
        const void *data;
        size_t size;
        const int ours = cli_input_look(in, i, &data, &size) < 0 ? -1 : owns(o, k, data, size);
        if (ours < 0)
            return -1;
        o->total += (unsigned)ours;
    }
    o->counted = true;
    return 0;
}

int cli_own_tasks_open(struct cli_own_tasks *o, const struct cli_run *r, struct cli_input *in, struct cli_journal *k)
{
    *o = (struct cli_own_tasks){ .shard = r->shard, .has_all = r->own.is_dealt, .dir = r->input_dir };
    if (!is_divided(o))
        return 0;
    if (o->dir && r->journal && open_deal(o, r, in) < 0)
        return -1;
    const uint64_t n = cli_input_total(in);
    return n > 0 && (n <= MOST_COUNTED || cli_halt_needs_total(&r->halt)) ? count(o, in, k) : 0;
}

/* --- during the run ------------------------------------------------------------------- */

int cli_own_tasks_take(struct cli_own_tasks *o, struct cli_journal *k, struct gd_item *item)
{
    if (o->shard.count == 0)
        return 1;
    const int ours = is_divided(o) ? owns(o, k, item->data, item->size) : 1;
    if (ours < 0)
        return gd_item_error(item, "%s", gd__fail_text());
    if (ours == 0) {
        gd__item_drop(item);
        return 0;
    }
    gd__item_dealt(item);
    atomic_fetch_add_explicit(&o->given, 1, memory_order_relaxed);
    return 1;
}

uint64_t cli_own_tasks_total(const struct cli_own_tasks *o, const struct cli_input *in)
{
    return is_divided(o) ? o->total : cli_input_total(in);
}

bool cli_own_tasks_count(const struct cli_own_tasks *o, const struct cli_input *in, uint64_t *out)
{
    uint64_t all;
    const bool known = cli_input_count(in, &all), ended = known && cli_input_given(in) == all;
    *out = !is_divided(o) ? all : o->counted ? o->total : atomic_load(&o->given);
    return !is_divided(o) ? known : o->counted || ended;
}

bool cli_own_tasks_unread(const struct cli_own_tasks *o, const struct cli_input *in)
{
    uint64_t n;
    const uint64_t given = is_divided(o) ? atomic_load(&o->given) : cli_input_given(in);
    return !cli_own_tasks_count(o, in, &n) || given < n;
}

void cli_own_tasks_close(struct cli_own_tasks *o)
{
    gd__deal_close(&o->deal);
}
