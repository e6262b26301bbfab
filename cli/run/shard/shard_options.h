/* SPDX-License-Identifier: MIT
 *
 * --shard: which part of the list a run has, and the names of the files that each shard has for itself.
 *
 *   --shard 3/16   --journal run.db     run.3-of-16.db, and run.3-of-16.failed.jsonl
 *                  --output out.jsonl   out.3-of-16.jsonl; the same for --joblog and --failed
 *                  --output -           unchanged, as are devices and pipes
 *
 * --results and --output-dir are shared by all shards.
 */
#ifndef GD_CLI_RUN_SHARD_SHARD_OPTIONS_H
#define GD_CLI_RUN_SHARD_SHARD_OPTIONS_H

#include "cli/options.h"
#include "cli/run/run_options.h"

/* Finds the shard that --shard means, and replaces the names of files in *r. Also sets the default of --lock-wait. Call
 * it once, after all options were read. cli_shard_options_free() releases the names. Returns 0, or -1 with
 * gd__fail_text(). */
int cli_shard_options_apply(struct cli_run *r);
void cli_shard_options_free(struct cli_run *r);

/* "shard 3 of 16 (task 3 of 16 of srun)" */
const char *cli_shard_text(const struct cli_run *r, char *out, size_t size);

/* Sets a struct cli_lock_wait. */
cli_opt_set cli_set_lock_wait;

#endif
