/* Why a worker has nothing to do. */
#ifndef GD_STATS_IDLE_H
#define GD_STATS_IDLE_H

#include <gpu_dispatch/observe.h>

/* What the reason depends on, as the run's thread sees it. */
struct gd__idle_facts {
    enum gd_worker_state state; /* BUSY: it has tasks */
    bool is_spare;              /* it was removed, or not added yet */
    /* for a busy worker */
    uint64_t handed;          /* tasks in its window; each stays there until its record is read */
    uint64_t results_waiting; /* records that it wrote and that the run has not read */
    bool wants_room;          /* it sleeps until some of them are read */
    bool is_started;          /* its first task has entered process */
    bool is_loading;          /* its first task has entered load */
    /* for a worker without tasks */
    uint64_t waiting;   /* tasks that it could get, but that are held back for a fuller batch or by a delay */
    uint64_t parked;    /* results that wait for an earlier task's result */
    bool is_paused;     /* nothing is handed out: that is why they wait */
    bool source_ended;  /* no more tasks will come */
    bool queue_is_full; /* the source must wait until some tasks are done */
};

enum gd_idle_reason gd__idle_why(const struct gd__idle_facts *f); /* depends only on f */

#endif
