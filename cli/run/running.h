/* SPDX-License-Identifier: MIT
 *
 * The state of a run of the command. launch/run.h says in which order its parts are opened and closed.
 *
 *   run.c               the parts in their order, and the exit status
 *   dispatch_options.c  the options of the command as options of the library
 *   callbacks.c         the dispatcher's callbacks: the source, ends of tasks, stops that they cause
 *   views/views.c       the views (they show the run and write its output) and the signals
 */
#ifndef GD_CLI_RUN_RUNNING_H
#define GD_CLI_RUN_RUNNING_H

#include <stdatomic.h>

#include "cli/output/sinks.h"
#include "cli/run/http/page.h"
#include "cli/run/journal/run_journal.h"
#include "cli/run/program.h"
#include "cli/run/queue/run_queue.h"
#include "cli/run/shard/own_tasks.h"
#include "cli/run/stop/interrupt.h"
#include "cli/run/views/watch.h"
#include "cli/run/work.h"
#include "launch/run.h"

struct cli_running {
    const struct cli_run *asked;
    struct gd__run run; /* dispatcher, workers, figures */

    /* opened before the dispatcher */
    struct cli_program program;
    struct cli_journal *journal; /* NULL: no journal */
    struct cli_run_queue queue;
    char job[256]; /* the run's name for observers: its command */

    /* the source */
    struct cli_input *input;
    struct cli_own_tasks own_tasks;
    struct cli_work work;

    /* views, which read the dispatcher */
    struct cli_page page; /* --http */
    struct cli_watch *watch;
    struct cli_sinks sinks;
    struct cli_interrupt *interrupt;

    struct cli_halt halt;
    atomic_bool ended_early; /* by --halt or cli_end_for_trouble() */
    int status;              /* the exit status */
};

/* Sets the options of the library, except for worker program, callbacks and journal. */
void cli_dispatch_options(struct gd_options *o, const struct cli_run *asked);

/* Writes the run's name for observers, cut to size. */
void cli_job_name(const struct cli_run *asked, char *out, size_t size);

/* cli_callbacks_set() sets the callbacks in the options. cli_callbacks_hook() adds the hooks into the dispatcher's
 * loop, after the dispatcher was opened. */
void cli_callbacks_set(struct cli_running *r, struct gd_options *o);
void cli_callbacks_hook(struct cli_running *r);

/* Ends the run because a sink cannot go on. May be called on any thread. */
void cli_end_for_trouble(void *running);

/* The function media_seconds of struct gd__run_parts. */
double cli_media_seconds(void *running, const struct gd_report *report);

/* Opens everything that shows the run, and begins to handle the signals. Returns 0, or -1 with gd__fail_text(). */
int cli_views_open(struct cli_running *r);

/* Stops drawing and reading the dispatcher's figures. If the terminal accepts no output, the run is left behind
 * (launch/run.h). Views that were not opened are skipped. */
void cli_views_close(struct cli_running *r);

#endif
