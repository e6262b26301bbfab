/* The writer's side of the page that a run publishes. See layout.h. */
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
    int fd;        /* descriptor of the file or of a memfd */
    int directory; /* -1: the page has no name */
    char name[GD__PAGE_NAME];
    uint64_t pid;
    struct gd__page_plan plan;
    unsigned char *base;
    struct gd__page_run run; /* as last published */
};

/* Makes the page and gives it a name if possible. Otherwise only this process can use it, and the error message says
 * why. Returns 0 or GD_E_... */
int gd__page_open(struct gd__page **out, const struct gd__page_spec *spec);

/* Removes the page's name. Observers that have the page open can still read it. *page may be NULL. */
void gd__page_close(struct gd__page **page);

/* Add an entry to a ring. Readers see it after the next gd__page_put_run(). */
void gd__page_put_task(struct gd__page *p, const struct gd_task_view *task);
void gd__page_put_failure(struct gd__page *p, const struct gd__page_failure *failure);
void gd__page_put_request(struct gd__page *p, const struct gd__page_request *request);

void gd__page_put_worker(struct gd__page *p, unsigned i, const struct gd__page_worker *worker);
void gd__page_put_run(struct gd__page *p); /* publishes the member run */

/* Publishes the end of the run, and removes the page's name. */
void gd__page_end(struct gd__page *p);

/* Records that the run's thread is about to sleep (0), or since when it is awake. */
static inline void gd__page_awake(struct gd__page *p, uint64_t since_ns)
{
    struct gd__page_live *live = (struct gd__page_live *)(void *)(p->base + p->plan.live);
    atomic_store_explicit(&live->awake_ns, since_ns, memory_order_relaxed);
}

#endif
