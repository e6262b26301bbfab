/* SPDX-License-Identifier: MIT
 *
 * All that is written about tasks, as one: standard output, --output, --joblog, --results, the progress display.
 */
#ifndef GD_CLI_SINKS_H
#define GD_CLI_SINKS_H

#include <stdbool.h>

#include "keep.h"
#include "output.h"
#include "passed.h"
#include "progress.h"
#include "run_opts.h"
#include "watch.h"

/* Zeroed: nothing is written. */
struct cli_sinks {
    struct cli_output *output;
    struct cli_records *records;
    struct cli_joblog *joblog;
    struct cli_results *results;
    struct cli_failures *failures;
    struct cli_progress *progress;
    struct cli_keep *keep; /* borrowed; NULL: there is no journal */
    const char *output_path;
    struct cli_passed *passed; /* NULL: workers write by themselves */
    bool failed;               /* something could not be written; it was said */
};

/* Opens what was asked for. command: of the joblog, may be NULL. keep: the journal, or NULL; it follows the files, and
 * they are gone on with if it is resumed. 0, or -1 with cli_error_text(). */
int cli_sinks_open(struct cli_sinks *s, const struct cli_run *r, const struct gd_command *command,
                   struct cli_keep *keep);

/* What is shown of a run that was asked for like this, where standard error is what it is now. */
enum cli_progress_style cli_sinks_style(const struct cli_run *r);

/* Begins to draw, if that was asked for. watch: for what shows more than a line. */
int cli_sinks_draw(struct cli_sinks *s, const struct cli_run *r, cli_stats_fn *stats, void *user,
                   struct cli_watch *watch);

/* What a worker wrote by itself, while a panel is shown. stream is 1 or 2. */
void cli_sinks_pass(struct cli_sinks *s, int worker_id, int stream, const char *text, size_t size);

/* Gives a task's end to all of them, and what is known of it to the journal. False: there is a journal, and this task's
 * output could not be kept: it is not done, and there is no sense in going on. */
bool cli_sinks_add(struct cli_sinks *s, const struct cli_end *e);

/* cli_say(), beside the progress display. */
void cli_sinks_say(struct cli_sinks *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Nobody reads what goes to standard output any more. */
bool cli_sinks_broken(const struct cli_sinks *s);

void cli_sinks_undraw(struct cli_sinks *s);
void cli_sinks_close(struct cli_sinks *s);

#endif
