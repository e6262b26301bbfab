/* SPDX-License-Identifier: MIT
 *
 * What the views show of the run in this process: an observer's snapshot, corrected where the command has better
 * figures.
 */
#ifndef GD_CLI_RUN_VIEWS_WATCH_H
#define GD_CLI_RUN_VIEWS_WATCH_H

#include <gpu_dispatch/observe.h>

#include "cli/input/input.h"

struct cli_watch;

/* what: values of enum gd_observed. All arguments are borrowed. If the run cannot be observed, its statistics are
 * shown. Returns 0, or -1 with gd__fail_text(). */
int cli_watch_open(struct cli_watch **out, struct gd_dispatcher *d, const struct cli_input *input, const char *job,
                   unsigned what);

/* A tui_read_fn. */
int cli_watch_read(void *watch, const struct gd_snapshot **out);

/* The run has ended: from now on snapshots are marked as ended. NULL does nothing. */
void cli_watch_end(struct cli_watch *w);

void cli_watch_close(struct cli_watch **w);

#endif
