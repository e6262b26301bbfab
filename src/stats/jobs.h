/* Which runs there are, and which of them is meant. */
#ifndef GD_STATS_JOBS_H
#define GD_STATS_JOBS_H

#include <gpu_dispatch/observe.h>

#include "stats/page/layout.h"

struct gd__jobs {
    struct gd_job *items; /* oldest first */
    size_t n, room;
};

void gd__job_describe(struct gd_job *out, const struct gd__page_header *h);

/* All of the user's runs; removes the pages of those that are gone. */
int gd__jobs_find(struct gd__jobs *out);
void gd__jobs_clear(struct gd__jobs *jobs);

/* Its place among them, or GD_E_NO_JOB with words that say what there is. Pure. */
int gd__jobs_choose(const struct gd__jobs *jobs, const char *which);

/* Opens the page of a job: a descriptor, or GD_E_NO_JOB: it has ended meanwhile. */
int gd__jobs_open_page(const struct gd_job *job);

#endif
