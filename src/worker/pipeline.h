/* Passes tasks on to another program, which gets several at once and may answer them in any order. pipeline.c has the
 * loop. The functions in struct gd__pipe_ops send and receive. Main thread only. */
#ifndef GD_WORKER_PIPELINE_H
#define GD_WORKER_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

struct gd_worker;
struct gd__entry;
struct gd__flight_pipe;

enum { GD__PIPE_DEPTH = 256 /* the maximum number of tasks in flight, unless batches are larger */ };

struct gd__pipe_ops {
    bool (*has_room)(struct gd_worker *w); /* another task may be put */
    /* Puts a task into the buffer that exchange sends. If it can't be sent, returns false and sets e->result to the
     * reason. */
    bool (*put)(struct gd_worker *w, struct gd__entry *e);
    /* Sends the buffer, and waits until a task is answered. If that is impossible, ends the process. */
    void (*exchange)(struct gd_worker *w);
    /* Called when no task is in flight, before one is put. Finds errors that this task did not cause. */
    void (*check)(struct gd_worker *w);
    /* Used instead of all of the above if setup has set w->announced: see flight/flight.h. */
    const struct gd__flight_pipe *flight;
};

struct gd__pipeline;

int gd__pipeline_open(struct gd_worker *w); /* the entries must exist */
void gd__pipeline_close(struct gd_worker *w);
void gd__pipeline_loop(struct gd_worker *w); /* returns after a stop was requested and no task is in flight */

/* The task in flight with this id, or NULL. */
struct gd__entry *gd__pipeline_find(struct gd_worker *w, uint64_t id);
uint64_t gd__pipeline_in_flight(const struct gd_worker *w);
/* Records that the task's result is settled. */
void gd__pipeline_answered(struct gd_worker *w, struct gd__entry *e);
/* Commits the answered tasks, as far as the order of positions allows. */
void gd__pipeline_commit(struct gd_worker *w);

#endif
