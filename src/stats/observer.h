/* Opening an observer from within the library. */
#ifndef GD_STATS_OBSERVER_H
#define GD_STATS_OBSERVER_H

#include <gpu_dispatch/observe.h>

/* Opens an observer of an open page. Takes over fd, even on failure. own: the run belongs to this process. */
int gd__observer_open_page(struct gd_observer **out, int fd, bool own);

#endif
