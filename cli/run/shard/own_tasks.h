/* SPDX-License-Identifier: MIT
 *
 * Which tasks of the input belong to the shard of this run, and how many these are.
 *
 *   input                        key                                   divided by
 *   lists, words                 what identifies the task (--key)      the hash of the key
 *   --input-dir                  the path relative to the directory    size, if there is a journal; otherwise the hash
 *
 * The deal by size is a file beside the journal. A run without a journal has no place for it.
 */
#ifndef GD_CLI_RUN_SHARD_OWN_TASKS_H
#define GD_CLI_RUN_SHARD_OWN_TASKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/input/input.h"
#include "cli/run/journal/run_journal.h"
#include "cli/run/run_options.h"
#include "shard/deal.h"

/* A zeroed struct has all tasks. */
struct cli_own_tasks {
    struct gd_shard shard;      /* count 0: the list is not divided */
    bool has_all;               /* the input has no tasks of other shards */
    struct gd__deal *deal;      /* NULL: by hash */
    const char *dir;            /* keys are relative to it; NULL: keys are those of the journal */
    bool counted;               /* total is known */
    uint64_t total;             /* tasks of this shard */
    atomic_uint_fast64_t given; /* ... that were given so far */
};

/* Prepares the division of an input that was just opened, and counts the tasks of this shard if the input is not a
 * stream. Returns 0, or -1 with gd__fail_text(). */
int cli_own_tasks_open(struct cli_own_tasks *o, const struct cli_run *r, struct cli_input *in, struct cli_journal *k);

/* Called in the source with each task of the input. Returns 1 if the task is one of this shard; the item then says so. 0:
 * it is one of another shard, and the item was dropped. Returns a negative code after an error. */
int cli_own_tasks_take(struct cli_own_tasks *o, struct cli_journal *k, struct gd_item *item);

/* As cli_input_total() and cli_input_count(), for this shard. cli_own_tasks_unread(): some were never made into tasks. */
uint64_t cli_own_tasks_total(const struct cli_own_tasks *o, const struct cli_input *in);
bool cli_own_tasks_count(const struct cli_own_tasks *o, const struct cli_input *in, uint64_t *out);
bool cli_own_tasks_unread(const struct cli_own_tasks *o, const struct cli_input *in);

void cli_own_tasks_close(struct cli_own_tasks *o);

#endif
