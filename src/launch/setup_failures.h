/* Workers that failed in setup, grouped by their error messages: each message is reported once, with a count at the
 * end. On a machine with eight GPUs a missing model is one line and a count, not eight times the same line. */
#ifndef GD_LAUNCH_SETUP_FAILURES_H
#define GD_LAUNCH_SETUP_FAILURES_H

#include <stdbool.h>
#include <stddef.h>

enum { GD__SETUP_CAUSES = 16 }; /* errors after these are not grouped */

/* A zeroed struct is empty. */
struct gd__setup_failures {
    struct gd__setup_cause {
        char *error;
        int worker_id; /* the first worker with this error */
        unsigned more; /* further workers with it */
    } causes[GD__SETUP_CAUSES];
    size_t n_causes;
};

/* True: no earlier worker had this error, so it is to be reported now. */
bool gd__setup_failures_add(struct gd__setup_failures *f, int worker_id, const char *error);

/* Reports the rest through `say`: "3 more workers failed to set up", "the same error as worker 0". */
void gd__setup_failures_report(const struct gd__setup_failures *f,
                               void (*say)(void *user, const char *what, const char *why), void *user);

void gd__setup_failures_free(struct gd__setup_failures *f);

#endif
