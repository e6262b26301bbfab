/* SPDX-License-Identifier: MIT
 *
 * Files whose sizes are known are divided by size, so that all shards have about the same amount of work. The first shard
 * to come publishes the deal, and all shards read it: see shard/deal_file.h. Files that appear later go by hash.
 *
 * The key of a file is its path relative to the directory that is searched: gd__deal_key_within(). So machines may have
 * mounted the directory at different places.
 */
#ifndef GD_CLI_RUN_SHARD_SHARD_DEAL_H
#define GD_CLI_RUN_SHARD_SHARD_DEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shard/deal.h"

/* What is dealt: n items. */
struct cli_deal_list {
    size_t n;
    const char *dir; /* may be NULL */
    /* The path and the size of item i. The path is valid as long as the list. */
    const char *(*get)(const void *user, size_t i, uint64_t *size);
    const void *user;
};

/* Opens the deal for this number of shards, and makes it if there is none. beside: the file whose name it has, with the
 * ending .of-N.deal. Returns 0, or -1 with gd__fail_text(). Release it with gd__deal_close(). */
int cli_deal_open(struct gd__deal **out, const char *beside, uint32_t shards, const struct cli_deal_list *list);

/* The same, but writes no file: for --dry-run. */
int cli_deal_preview(struct gd__deal **out, const char *beside, uint32_t shards, const struct cli_deal_list *list);

#endif
