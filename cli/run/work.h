/* SPDX-License-Identifier: MIT
 *
 * How much of the work is done, where files differ much in it: told to the dispatcher, which every view asks.
 *
 * Threads: given by the source's, ended by the run's.
 */
#ifndef GD_CLI_RUN_WORK_H
#define GD_CLI_RUN_WORK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/dispatcher.h>
#include <gpu_dispatch/launch.h>

/* Zeroed: nobody counts it, and calls do nothing. */
struct cli_work {
    struct gd_dispatcher *d;
    double unit;
    pthread_mutex_t lock;
    uint64_t *weights; /* of the tasks that were given, by their number */
    size_t n, room;
    uint64_t done, total;
};

/* All of files is to be done, in units of this. All is borrowed. 0, or -1 with gd__fail_text(). */
int cli_work_open(struct cli_work *w, struct gd_dispatcher *d, const struct gd_files *files, double unit);

/* In the source: the next task is of this weight. */
void cli_work_given(struct cli_work *w, uint64_t weight);

/* The journal has skipped a task: it is no part of the whole. On the source's thread. */
void cli_work_skipped(struct cli_work *w, const struct gd_skipped *skipped);

/* A task has come to its end, well or not. One that was cancelled has not. */
void cli_work_ended(struct cli_work *w, const struct gd_report *report);

void cli_work_close(struct cli_work *w);

#endif
