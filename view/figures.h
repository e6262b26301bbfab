/* SPDX-License-Identifier: MIT
 *
 * Figures computed from a run's statistics (progress, pace, time left), and how they are formatted. The Python
 * package's display uses the same terms.
 */
#ifndef GD_VIEW_FIGURES_H
#define GD_VIEW_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/observe.h>

enum { VIEW_SAMPLES = 64 };

/* Earlier samples of a run. A zeroed struct is empty. */
struct view_history {
    struct view_sample {
        uint64_t ns, ended;
        double work;
    } samples[VIEW_SAMPLES];  /* the last samples, at least a fifth of a second apart */
    size_t n;                 /* number of samples ever taken */
    struct view_sample first; /* when the first task had ended and its work was reported; ns 0: not yet */
    char failure[320];        /* message of the last failure; "": none */
    char request[256];        /* the last request to the job, and its outcome; "": none */
    bool refused;             /* that request was refused */
};

/* The dispatcher counts cancelled tasks as failed, although they were never tried. This subtracts them from the failed
 * tasks. Must be called once for each snapshot, before any view uses it. */
void view_part_cancelled(struct gd_stats *s);

void view_history_add(struct view_history *h, const struct gd_snapshot *s);

/* Unknown figures are negative. */
struct view_figures {
    uint64_t total;   /* 0: not known */
    uint64_t passed;  /* ended or skipped */
    uint64_t ended;   /* succeeded or failed, in this run */
    double part;      /* finished part, 0 to 1: of the work if that is known, else of the tasks; 1 only at the end */
    double elapsed;   /* seconds; 0: not begun */
    double rate_now;  /* tasks a second, over the last ten seconds */
    double rate_mean; /* tasks a second, over the whole run */
    double eta; /* seconds, at the pace since the first task ended; so the time for setup does not count. Not known
                         while the run is paused or draining */
    double work_done, work_total; /* total 0: not known (gd_dispatcher_set_work) */
    double work_rate;             /* work per second, at that pace */
};

void view_figures_of(struct view_figures *f, const struct gd_snapshot *s, const struct view_history *h);

/* What the whole run does: "running", "paused" (nothing new starts), "draining" (it ends after its running tasks),
 * "idle" (it has ended, and its workers wait for another run) or "ended". Static. */
const char *view_run_state(const struct gd_snapshot *s);

/* "paused", "draining" or "idle"; NULL: the run is none of these. Static. */
const char *view_held_state(const struct gd_snapshot *s);

/* --- formatting: each function returns out ------------------------------------- */

char *view_show_clock(char *out, size_t size, double seconds);               /* "1:02:03"; "-" if not known */
char *view_show_duration(char *out, size_t size, double seconds, bool utf8); /* "12.5 ms", "3.1 s", "0:12:00" */
char *view_show_since(char *out, size_t size, double seconds);               /* the same, never finer than 0.1 s */
char *view_show_count(char *out, size_t size, uint64_t count);               /* "1,234,567" */
char *view_show_short_count(char *out, size_t size, uint64_t count);         /* the same up to 7 digits, then "12.3M" */
char *view_show_rate(char *out, size_t size, double per_second);             /* "3.4", "1,200"; "-" */
char *view_show_memory(char *out, size_t size, uint64_t used, uint64_t total); /* "12/80G" */

#endif
