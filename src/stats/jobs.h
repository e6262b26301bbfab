/* Lists the runs, and finds the one that the user names. */
#ifndef GD_STATS_JOBS_H
#define GD_STATS_JOBS_H

#include <gpu_dispatch/observe.h>

#include "stats/page/layout.h"

struct gd__jobs {
    struct gd_job *items; /* oldest first */
    size_t n, room;
};

void gd__job_describe(struct gd_job *out, const struct gd__page_header *h);

/* Finds all runs of the user. Removes the pages of runs whose process is gone. */
int gd__jobs_find(struct gd__jobs *out);
void gd__jobs_clear(struct gd__jobs *jobs);

/* Returns the index of the job that `which` selects, or GD_E_NO_JOB with an error message that lists the jobs. */
int gd__jobs_choose(const struct gd__jobs *jobs, const char *which);

/* Opens the page of a job. Returns a descriptor, or GD_E_NO_JOB if the job has ended meanwhile. */
int gd__jobs_open_page(const struct gd_job *job);

#endif
