/* SPDX-License-Identifier: MIT
 *
 * The progress display: a bar or a line that is redrawn on a terminal, plain lines from time to time elsewhere.
 *
 * A separate thread draws, so that the displayed time advances even while no task ends. It gets the figures through the
 * given function and sleeps between drawings. Every thread that writes to the same terminal does so between
 * cli_progress_pause() and cli_progress_resume(), which remove the line and bring it back.
 */
#ifndef GD_CLI_OUTPUT_PROGRESS_H
#define GD_CLI_OUTPUT_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/dispatcher.h>

#include "tui/panel.h"
#include "view/figures.h"

enum cli_progress_style {
    CLI_PROGRESS_NONE = 0,
    CLI_PROGRESS_BAR = 1,   /* --bar */
    CLI_PROGRESS_ETA = 2,   /* --eta */
    CLI_PROGRESS_LINE = 3,  /* plain lines every five seconds, also on a terminal; a shorter run prints none */
    CLI_PROGRESS_PANEL = 4, /* the live view (tui/panel.h) */
    CLI_PROGRESS_JSON = 5,  /* a JSON object every second, and one at the end */
};

/* The figures to draw. */
struct cli_figures {
    uint64_t total; /* 0: not known */
    uint64_t done;  /* ended, with success or not; includes tasks that ended in earlier runs of the journal */
    uint64_t ended; /* ended in this run */
    uint64_t failed;
    uint64_t running;
    uint64_t workers;
    double seconds;    /* since the run began */
    double eta;        /* seconds left; < 0: not known */
    bool by_work;      /* the run reports its progress as work, in part */
    double part;       /* the part of the work that is done, 0 to 1 */
    const char *state; /* "paused" or "draining"; NULL: neither */
};

/* Computes the figures, the same as the panel shows (view/figures.h). h is the history so far. Uses only the
 * statistics, the time and the work of the snapshot. */
void cli_figures_of(struct cli_figures *f, const struct gd_snapshot *now, struct view_history *h);

/* Lays out one line without a newline, at most width columns. A pure function. Returns the line's length. */
size_t cli_progress_layout(char *out, size_t size, const struct cli_figures *f, enum cli_progress_style style,
                           unsigned width);

struct cli_progress;

/* Returns 0 and the figures (stats, read_ns, work), or another value if there are none yet. Called on the drawing
 * thread. */
typedef int cli_stats_fn(void *user, struct gd_snapshot *out, struct gd_stats *stats); /* out->stats points to stats */

/* Starts drawing to fd, which is usually 2. Returns 0, or -1 with gd__fail_text(). */
int cli_progress_open(struct cli_progress **out, int fd, enum cli_progress_style style, cli_stats_fn *stats,
                      void *user);

/* The same for styles that show more than a line: CLI_PROGRESS_PANEL, CLI_PROGRESS_JSON. */
int cli_progress_open_view(struct cli_progress **out, int fd, enum cli_progress_style style, tui_read_fn *read,
                           void *user);

/* For the panel: the run's work is counted in seconds of this medium ("audio"). The string is borrowed until the close.
 * p may be NULL. */
void cli_progress_media(struct cli_progress *p, const char *media);

/* p may be NULL. */
void cli_progress_pause(struct cli_progress *p);
void cli_progress_resume(struct cli_progress *p);

/* Removes the line. The last state of a bar stays, with a newline. stats is not called any more. */
void cli_progress_close(struct cli_progress **p);

#endif
