/* How much of the work is done, as a user or a page reports it. The result is finite, not negative, and not more than
 * the total. */
#ifndef GD_STATS_WORK_H
#define GD_STATS_WORK_H

#include <math.h>

/* An invalid total counts as 0, which means no total. */
static inline void gd__work_fit(double *done, double *total, double said_done, double said_total)
{
    *total = isfinite(said_total) && said_total > 0 ? said_total : 0;
    *done = said_done > 0 ? (said_done < *total ? said_done : *total) : 0; /* a NaN becomes 0 */
}

#endif
