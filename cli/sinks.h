/* SPDX-License-Identifier: MIT
 *
 * All that is written about tasks, as one: standard output, --output, --joblog, --results, the progress display.
 */
#ifndef GD_CLI_SINKS_H
#define GD_CLI_SINKS_H

#include <stdbool.h>

#include "output.h"
#include "progress.h"
#include "run_opts.h"

/* Zeroed: nothing is written. */
struct cli_sinks {
    struct cli_output *output;
    struct cli_records *records;
    struct cli_joblog *joblog;
    struct cli_results *results;
    struct cli_progress *progress;
    bool failed; /* something could not be written; it was said */
};

/* Opens what was asked for. command: of the joblog, may be NULL. 0, or -1 with cli_error_text(). */
int cli_sinks_open(struct cli_sinks *s, const struct cli_run *r, const struct gd_command *command);

/* Begins to draw, if that was asked for. */
int cli_sinks_draw(struct cli_sinks *s, const struct cli_run *r, cli_stats_fn *stats, void *user);

/* Gives a task's end to all of them. */
void cli_sinks_add(struct cli_sinks *s, const struct cli_end *e);

/* cli_say(), beside the progress display. */
void cli_sinks_say(struct cli_sinks *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Nobody reads what goes to standard output any more. */
bool cli_sinks_broken(const struct cli_sinks *s);

void cli_sinks_undraw(struct cli_sinks *s);
void cli_sinks_close(struct cli_sinks *s);

#endif
