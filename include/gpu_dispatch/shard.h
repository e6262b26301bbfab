/* SPDX-License-Identifier: MIT
 *
 * Shards: one list of tasks, divided among several processes that usually run on several machines. Each process gets the
 * whole list and its own shard, and runs only the tasks of that shard. No server is needed.
 *
 *     struct gd_shard shard;
 *     if (gd_shard_find(&shard, "auto", NULL) < 0)       // or "3/16"
 *         return fprintf(stderr, "%s\n", gd_error_text()), 1;
 *     o.shard = shard;                                   // struct gd_options
 *     jo.shard = shard;                                  // struct gd_journal_options: run.db becomes run.3-of-16.db
 *
 * A task belongs to the shard that the hash of its key gives. So the list may be in another order in each process, and
 * may have grown when a process is started again.
 */
#ifndef GPU_DISPATCH_SHARD_H
#define GPU_DISPATCH_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* People count shards from 1 (--shard 3/16, run.3-of-16.db). Programs count them from 0. */
struct gd_shard {
    uint32_t index; /* from 0 */
    uint32_t count; /* 0: the list is not divided */
};

enum { GD_SHARD_ORIGIN = 96 };

/* Sets *out to the shard that a text means: "3/16" (the third of 16), "auto" (as the environment says: Slurm, PMI, Open
 * MPI, torchrun), or "auto/16" (the same, and there must be 16; Kubernetes has no variable for their number).
 *
 * origin: set to what the shard was found from, such as "task 3 of 16 of srun", and to "" if the text is not automatic. It
 * has room for GD_SHARD_ORIGIN bytes. May be NULL.
 *
 * Returns 0, or GD_E_INVALID. The error message names the variables that were seen, and says what to do. */
int gd_shard_find(struct gd_shard *out, const char *text, char *origin);

/* Returns true if the task with this key belongs to the shard. A run with gd_options.shard asks the same question about
 * each task. Call this function if your program reads or prepares only its own part of the list. The key is what the
 * source gives to gd_item_key(), or else the payload. A shard whose count is 0 has all tasks. The answer depends only on
 * the key, the index and the count. It is the same on every machine, and in every version of the library. */
bool gd_shard_owns(struct gd_shard shard, const void *key, size_t key_size);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
