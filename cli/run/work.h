/* SPDX-License-Identifier: MIT
 *
 * How much of the work is done, for files that need very different amounts of work. It is reported to the dispatcher,
 * and every view reads it there.
 *
 * Threads: the source's thread adds tasks, the run's thread ends them.
 */
#ifndef GD_CLI_RUN_WORK_H
#define GD_CLI_RUN_WORK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/dispatcher.h>
#include <gpu_dispatch/launch.h>

/* A zeroed struct counts nothing, and calls do nothing. */
struct cli_work {
    struct gd_dispatcher *d;
    double unit;
    pthread_mutex_t lock;
    uint64_t *weights; /* the weights of the tasks so far, indexed by their numbers */
    uint64_t *begun;   /* how much of each running task is done */
    size_t n, room;
    uint64_t done, running, total; /* work of tasks that have ended; that is done in running tasks; of all tasks */
};

/* The work of a file is its size times `unit`. The total is the work of all files. All arguments are borrowed. Returns
 * 0, or -1 with gd__fail_text(). */
int cli_work_open(struct cli_work *w, struct gd_dispatcher *d, const struct gd_files *files, double unit);

/* Called in the source: the next task has this weight. */
void cli_work_given(struct cli_work *w, uint64_t weight);

/* The journal has skipped a task. Its work is removed from the total. Called on the source's thread. */
void cli_work_skipped(struct cli_work *w, const struct gd_skipped *skipped);

/* This much of a running task is done, at most all of it. An attempt that begins anew begins with less. */
void cli_work_reached(struct cli_work *w, uint64_t task_id, double work);

/* A task has ended, with success or failure. A cancelled task has not ended. */
void cli_work_ended(struct cli_work *w, const struct gd_report *report);

void cli_work_close(struct cli_work *w);

#endif
