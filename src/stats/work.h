/* How much of the whole is done, as somebody says: finite, not negative, no more done than there is. */
#ifndef GD_STATS_WORK_H
#define GD_STATS_WORK_H

#include <math.h>

/* A total that makes no sense is none. */
static inline void gd__work_fit(double *done, double *total, double said_done, double said_total)
{
    *total = isfinite(said_total) && said_total > 0 ? said_total : 0;
    *done = said_done > 0 ? (said_done < *total ? said_done : *total) : 0; /* not a number: 0 */
}

#endif
