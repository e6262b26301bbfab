/* The page that a run publishes: its writer's side. See layout.h. */
#ifndef GD_STATS_PAGE_PAGE_H
#define GD_STATS_PAGE_PAGE_H

#include <stdbool.h>

#include "stats/page/layout.h"
#include "stats/page/page_file.h"

struct gd__page_spec {
    const char *job;
    unsigned n_workers, n_devices;
    const struct gd__page_device *devices;
};

struct gd__page {
    int fd;        /* of the file, or of memory without a name */
    int directory; /* -1: it has no name */
    char name[GD__PAGE_NAME];
    uint64_t pid;
    struct gd__page_plan plan;
    unsigned char *base;
    struct gd__page_run run; /* what was published last */
};

/* Makes the page and, where that can be, gives it a name; else it is one for this process alone, and the thread's error
 * text says why. 0 or GD_E_... */
int gd__page_open(struct gd__page **out, const struct gd__page_spec *spec);

/* Takes its name away; observers that have it keep it. Fine on NULL. */
void gd__page_close(struct gd__page **page);

/* Into the rings; seen with the next run published. */
void gd__page_put_task(struct gd__page *p, const struct gd_task_view *task);
void gd__page_put_failure(struct gd__page *p, const struct gd__page_failure *failure);

void gd__page_put_worker(struct gd__page *p, unsigned i, const struct gd__page_worker *worker);
void gd__page_put_run(struct gd__page *p); /* run, as it is here */

/* Nothing more will come: says so, and takes its name away. */
void gd__page_end(struct gd__page *p);

/* The run's thread is about to sleep (0), or awake since then. */
static inline void gd__page_awake(struct gd__page *p, uint64_t since_ns)
{
    struct gd__page_live *live = (struct gd__page_live *)(void *)(p->base + p->plan.live);
    atomic_store_explicit(&live->awake_ns, since_ns, memory_order_relaxed);
}

#endif
