/* Observers, as the rest of the library opens them. */
#ifndef GD_STATS_OBSERVER_H
#define GD_STATS_OBSERVER_H

#include <gpu_dispatch/observe.h>

/* Of a page that is open; takes fd over, also when it fails. own: of a run of this process. */
int gd__observer_open_page(struct gd_observer **out, int fd, bool own);

#endif
