/* SPDX-License-Identifier: MIT
 *
 * The run that this process makes, as it is shown: what an observer sees, with what the command knows better.
 */
#ifndef GD_CLI_RUN_VIEWS_WATCH_H
#define GD_CLI_RUN_VIEWS_WATCH_H

#include <gpu_dispatch/observe.h>

#include "cli/input/input.h"

struct cli_watch;

/* what: of enum gd_observed. All is borrowed. Where the run cannot be observed, what its statistics tell is shown. 0,
 * or -1 with gd__fail_text(). */
int cli_watch_open(struct cli_watch **out, struct gd_dispatcher *d, const struct cli_input *input, const char *job,
                   unsigned what);

/* A tui_read_fn. */
int cli_watch_read(void *watch, const struct gd_snapshot **out);

/* The run has ended: from now on that is what is read. NULL is fine. */
void cli_watch_end(struct cli_watch *w);

void cli_watch_close(struct cli_watch **w);

#endif
