/* SPDX-License-Identifier: MIT
 *
 * A lane: a thread that does jobs one after the other, in the order in which they were added. Everything that a run
 * writes is written by a lane, since a write can take for ever (a pipe that nobody reads, a terminal after Ctrl-S, a
 * network disk that is away) and the run's own thread must go on to serve signals and time limits.
 *
 *     struct cli_lane *lane;
 *     cli_lane_open(&lane, &(struct cli_lane_options){ .name = "gd-output", .limit = 64 << 20, .full = ..., ... });
 *     cli_lane_add(lane, &job->base);             // any thread; never waits
 *     cli_lane_hurry(lane, 1);                    // any thread: a signal came
 *     if (!cli_lane_wait(lane)) ...               // given up: the thread sits in a write that does not end
 *     cli_lane_close(&lane);
 */
#ifndef GD_CLI_OUTPUT_LANE_H
#define GD_CLI_OUTPUT_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli_lane;

/* The beginning of what is to be done. Owned by the lane once it was added; run() frees it. */
struct cli_job {
    struct cli_job *next;
    void (*run)(struct cli_job *job);
    size_t bytes; /* of memory, which count against the limit until it was run */
};

struct cli_lane_options {
    const char *name;                    /* of the thread: at most 15 characters */
    size_t limit;                        /* bytes of jobs */
    void (*full)(void *user, bool full); /* more than that wait; half of it or less do. From any thread. NULL: none */
    void *user;
};

/* 0, or -1 with gd__fail_text(). */
int cli_lane_open(struct cli_lane **out, const struct cli_lane_options *o);

/* Any thread; never waits. Returns the job's number, from 1. */
uint64_t cli_lane_add(struct cli_lane *l, struct cli_job *job);

/* The same, unless more than the limit waits already: false then, and the job is still the caller's. */
bool cli_lane_try_add(struct cli_lane *l, struct cli_job *job);

/* The number of the job that was added last; 0: none was. */
uint64_t cli_lane_last(struct cli_lane *l);

/* Waits until that job was done, at most so long (UINT_MAX: for ever), or until the lane is given up. */
void cli_lane_reach(struct cli_lane *l, uint64_t job, unsigned ms);

/* Signals that have come so far. After the first cli_lane_wait() gives up when nothing has moved for five seconds,
 * after the second for one second, after a third at once. */
void cli_lane_hurry(struct cli_lane *l, unsigned signals);

/* Waits until all jobs are done. False: it was given up on, for good, and jobs are left. The job at which the thread
 * sits may go on later, and may then use what it was given; others are not run. */
bool cli_lane_wait(struct cli_lane *l);

/* Around what a job may only do if it was not given up. False: it was. The lane can't be given up before the end. */
bool cli_lane_commit(struct cli_lane *l);
void cli_lane_committed(struct cli_lane *l);

/* Waits as cli_lane_wait() does. Of a lane that was given up nothing is freed, since its thread is still there: the
 * process is about to end. NULL is fine. */
void cli_lane_close(struct cli_lane **l);

#endif
