/* Why a worker has nothing to do. */
#ifndef GD_STATS_IDLE_H
#define GD_STATS_IDLE_H

#include <gpu_dispatch/observe.h>

/* What the reason depends on, as the run's thread sees it. */
struct gd__idle_facts {
    enum gd_worker_state state; /* BUSY: it has tasks */
    /* for a busy worker */
    uint64_t handed;          /* tasks that it has and whose results were not taken */
    uint64_t results_waiting; /* records that it wrote and that were not read */
    bool wants_room;          /* it sleeps until some of them are read */
    bool is_started;          /* its first task has entered process */
    bool is_loading;          /* its first task has entered load */
    /* for a worker without tasks */
    uint64_t waiting;   /* tasks that it could get, but which are held back for a batch or a gap */
    uint64_t parked;    /* results that wait for an earlier task's result */
    bool source_ended;  /* no more tasks will come */
    bool queue_is_full; /* no more tasks may come before some are done */
};

enum gd_idle_reason gd__idle_why(const struct gd__idle_facts *f); /* pure */

#endif
