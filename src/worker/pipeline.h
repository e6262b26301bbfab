/* Tasks handed on to something that is told of several at once and answers each in its own time: another program.
 * pipeline.c has the loop, whoever fills struct gd__pipe_ops the way there and back. Main thread only.
 */
#ifndef GD_WORKER_PIPELINE_H
#define GD_WORKER_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

struct gd_worker;
struct gd__entry;

enum { GD__PIPE_DEPTH = 256 /* the most tasks in flight, unless batches are larger */ };

struct gd__pipe_ops {
    bool (*has_room)(struct gd_worker *w); /* another task may be put */
    /* Puts a task on its way, to be sent by exchange. False: it is not sent, e->result says why. */
    bool (*put)(struct gd_worker *w, struct gd__entry *e);
    /* Sends, and waits until something was answered. Does not return otherwise: it ends the process. */
    void (*exchange)(struct gd_worker *w);
    /* Nothing is in flight and a task is about to be put. What has gone wrong meanwhile is not that task's fault. */
    void (*check)(struct gd_worker *w);
};

struct gd__pipeline;

int gd__pipeline_open(struct gd_worker *w); /* its entries are there */
void gd__pipeline_close(struct gd_worker *w);
void gd__pipeline_loop(struct gd_worker *w); /* until told to stop and nothing is in flight */

/* The task in flight with that id; NULL: none. */
struct gd__entry *gd__pipeline_find(struct gd_worker *w, uint64_t id);
uint64_t gd__pipeline_in_flight(const struct gd_worker *w);
/* Its result is settled. */
void gd__pipeline_answered(struct gd_worker *w, struct gd__entry *e);
/* Commits what is answered, as far as the order of positions allows. */
void gd__pipeline_commit(struct gd_worker *w);

#endif
