/* Corrects the figures for the work done that a user or a page reports. The results are finite and not negative, and
 * *done is not more than *total. */
#ifndef GD_STATS_WORK_H
#define GD_STATS_WORK_H

#include <math.h>

/* An invalid total counts as 0, which means no total. */
static inline void gd__work_fit(double *done, double *total, double given_done, double given_total)
{
    *total = isfinite(given_total) && given_total > 0 ? given_total : 0;
    *done = given_done > 0 ? (given_done < *total ? given_done : *total) : 0; /* a NaN becomes 0 */
}

#endif
