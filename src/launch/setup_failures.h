/* Workers that failed in setup, grouped by their error messages. Each message is reported once. At the end of the run,
 * the number of further workers with the same message is reported. So a missing model on eight GPUs is reported in two
 * lines, not in eight. */
#ifndef GD_LAUNCH_SETUP_FAILURES_H
#define GD_LAUNCH_SETUP_FAILURES_H

#include <stdbool.h>
#include <stddef.h>

enum { GD__SETUP_CAUSES = 16 }; /* further different errors are not grouped */

/* A zeroed struct is empty. */
struct gd__setup_failures {
    struct gd__setup_cause {
        char *error;
        int worker_id; /* the first worker with this error */
        unsigned more; /* further workers with it */
    } causes[GD__SETUP_CAUSES];
    size_t n_causes;
};

/* Returns true if the caller must report the error now, because it is not known from an earlier worker. */
bool gd__setup_failures_add(struct gd__setup_failures *f, int worker_id, const char *error);

/* Reports the other workers of each error with `say`: "3 more workers failed to set up", "the same error as worker
 * 0". */
void gd__setup_failures_report(const struct gd__setup_failures *f,
                               void (*say)(void *user, const char *what, const char *why), void *user);

void gd__setup_failures_free(struct gd__setup_failures *f);

#endif
