/* SPDX-License-Identifier: MIT
 *
 * How far the run is: a bar or a line that is redrawn on a terminal, plain lines now and then elsewhere.
 *
 * Threads: a thread of its own draws, so that time is seen to pass while nothing ends. It asks for the figures through
 * the given function and sleeps between drawings. Everyone who writes to the same terminal does so between
 * cli_progress_pause() and cli_progress_resume(), which take the line off and put it back.
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
    CLI_PROGRESS_LINE = 3,  /* plain lines, every five seconds, also on a terminal; none for a run that is shorter */
    CLI_PROGRESS_PANEL = 4, /* the live view (tui/panel.h) */
    CLI_PROGRESS_JSON = 5,  /* a JSON object a second, and one at the end */
};

/* What is drawn. */
struct cli_figures {
    uint64_t total; /* 0: not known */
    uint64_t done;  /* ended, well or not, and those that a journal had as ended already */
    uint64_t ended; /* in this run */
    uint64_t failed;
    uint64_t running;
    uint64_t workers;
    double seconds; /* since the run began */
    double eta;     /* seconds left; < 0: not known */
    bool by_work;   /* how far it is was told as work: */
    double part;    /* of that, 0 to 1 */
};

/* Those that the panel shows too (view/figures.h); h: what was seen before. Of the snapshot statistics, time and work
 * are looked at. */
void cli_figures_of(struct cli_figures *f, const struct gd_snapshot *now, struct view_history *h);

/* One line without a newline, at most width columns. Pure. Returns its length. */
size_t cli_progress_layout(char *out, size_t size, const struct cli_figures *f, enum cli_progress_style style,
                           unsigned width);

struct cli_progress;

/* 0 and the figures (stats, read_ns, work), or anything else if there are none yet. Called on the drawing thread. */
typedef int cli_stats_fn(void *user, struct gd_snapshot *out, struct gd_stats *stats); /* out->stats points to stats */

/* fd is mostly 2. Starts drawing. 0, or -1 with gd__fail_text(). */
int cli_progress_open(struct cli_progress **out, int fd, enum cli_progress_style style, cli_stats_fn *stats,
                      void *user);

/* The same for those that show more than a line: CLI_PROGRESS_PANEL, CLI_PROGRESS_JSON. */
int cli_progress_open_view(struct cli_progress **out, int fd, enum cli_progress_style style, tui_read_fn *read,
                           void *user);

/* What the run's work is seconds of, for the panel: borrowed until it is closed. NULL is fine for p. */
void cli_progress_media(struct cli_progress *p, const char *media);

/* NULL is fine for these. */
void cli_progress_pause(struct cli_progress *p);
void cli_progress_resume(struct cli_progress *p);

/* Takes the line off; a bar's last state stays, with a newline. stats is not called any more. */
void cli_progress_close(struct cli_progress **p);

#endif
