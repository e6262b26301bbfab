/* Why a worker has nothing to do. */
#ifndef GD_STATS_IDLE_H
#define GD_STATS_IDLE_H

#include <gpu_dispatch/observe.h>

/* What that depends on, as the run's thread sees it. */
struct gd__idle_facts {
    enum gd_worker_state state; /* BUSY: it has been handed tasks */
    /* of one that is busy */
    uint64_t handed;          /* tasks that it has and whose results were not taken, */
    uint64_t results_waiting; /* records that it wrote and that were not read */
    bool wants_room;          /* it sleeps until some are */
    bool is_started;          /* its first task: process has been entered, */
    bool is_loading;          /* or load has */
    /* of one that has nothing */
    uint64_t waiting;   /* tasks that it could get, but for a batch or a gap */
    uint64_t parked;    /* results that wait for an earlier task's */
    bool source_ended;  /* no more will come */
    bool queue_is_full; /* no more may come before something is done */
};

enum gd_idle_reason gd__idle_why(const struct gd__idle_facts *f); /* pure */

#endif
