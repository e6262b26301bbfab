/* SPDX-License-Identifier: MIT
 *
 * A lane: a thread that runs jobs one after the other, in the order in which they were added. Lanes write everything
 * that a run writes. A write can block for ever (a pipe without a reader, a terminal after Ctrl-S, a network disk that
 * is unavailable), but the run's own thread must keep serving signals and time limits.
 *
 *     struct cli_lane *lane;
 *     cli_lane_open(&lane, &(struct cli_lane_options){ .name = "gd-output", .limit = 64 << 20, .full = ..., ... });
 *     cli_lane_add(lane, &job->base);             // any thread; never waits
 *     cli_lane_hurry(lane, 1);                    // any thread: a signal came
 *     if (!cli_lane_wait(lane)) ...               // given up: the thread is blocked in a write
 *     cli_lane_close(&lane);
 */
#ifndef GD_CLI_OUTPUT_LANE_H
#define GD_CLI_OUTPUT_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli_lane;

/* The first member of every job. After a job is added it belongs to the lane, and run() frees it. */
struct cli_job {
    struct cli_job *next;
    void (*run)(struct cli_job *job);
    size_t bytes; /* memory that counts against the limit until the job has run */
};

struct cli_lane_options {
    const char *name;                    /* name of the thread, at most 15 characters */
    size_t limit;                        /* bytes of waiting jobs */
    void (*full)(void *user, bool full); /* called with true when more than the limit waits, and with false when at most
                                            half of the limit waits. From any thread. NULL: not called */
    void *user;
};

/* Returns 0, or -1 with gd__fail_text(). */
int cli_lane_open(struct cli_lane **out, const struct cli_lane_options *o);

/* Adds a job. Never waits. Returns the job's number, from 1. Any thread. */
uint64_t cli_lane_add(struct cli_lane *l, struct cli_job *job);

/* The same, but if more bytes than the limit wait already, returns false. Then the job still belongs to the caller. */
bool cli_lane_try_add(struct cli_lane *l, struct cli_job *job);

/* The number of the job that was added last; 0: no job was added. */
uint64_t cli_lane_last(struct cli_lane *l);

/* Waits until the job with this number is done or the lane is given up, but at most ms milliseconds (UINT_MAX: for
 * ever). */
void cli_lane_reach(struct cli_lane *l, uint64_t job, unsigned ms);

/* Sets the number of signals that have come so far. After the first signal, cli_lane_wait() gives the lane up after
 * five seconds without progress. After the second signal it waits one second. After the third it gives up at once. */
void cli_lane_hurry(struct cli_lane *l, unsigned signals);

/* Waits until all jobs are done. Returns false if the lane was given up. Then some jobs are not done and will not be
 * run. The job that blocks the thread may continue later and still use its data. */
bool cli_lane_wait(struct cli_lane *l);

/* Called by a job before and after a step that it must not do if the lane was given up. In that case cli_lane_commit()
 * returns false. Otherwise the lane cannot be given up until cli_lane_committed() is called. */
bool cli_lane_commit(struct cli_lane *l);
void cli_lane_committed(struct cli_lane *l);

/* Waits like cli_lane_wait(). If the lane was given up, frees nothing, because its thread still exists. The process is
 * about to end anyway. NULL is fine. */
void cli_lane_close(struct cli_lane **l);

#endif
