/* SPDX-License-Identifier: MIT
 *
 * A run of the command, while it lasts: its parts for the one composition of a run (launch/run.h, which says in which
 * order they are opened and closed).
 *
 *   run.c               the parts in their order, and the exit status
 *   dispatch_options.c  the options of the command as those of the library
 *   callbacks.c         what the dispatcher calls: the source, ends of tasks, stops that they cause
 *   views/views.c       what shows the run and writes its output, and the signals
 */
#ifndef GD_CLI_RUN_RUNNING_H
#define GD_CLI_RUN_RUNNING_H

#include <stdatomic.h>

#include "cli/output/sinks.h"
#include "cli/run/http/page.h"
#include "cli/run/journal/run_journal.h"
#include "cli/run/program.h"
#include "cli/run/stop/interrupt.h"
#include "cli/run/views/watch.h"
#include "cli/run/work.h"
#include "launch/run.h"

struct cli_running {
    const struct cli_run *asked;
    struct gd__run run; /* dispatcher, workers, figures */

    /* opened before the dispatcher */
    struct cli_program program;
    struct cli_journal *journal; /* NULL: there is no journal */
    char job[256];               /* what observers know the run by: its command */

    /* the source */
    struct cli_input *input;
    struct cli_work work;

    /* what looks at the dispatcher */
    struct cli_page page; /* --http */
    struct cli_watch *watch;
    struct cli_sinks sinks;
    struct cli_interrupt *interrupt;

    struct cli_halt halt;
    atomic_bool ended_early; /* by --halt, or since nobody reads the output */
    int status;              /* the exit status */
};

/* What was asked for, except for worker program, callbacks and journal. */
void cli_dispatch_options(struct gd_options *o, const struct cli_run *asked);

/* What observers know the run by, as far as there is room. */
void cli_job_name(const struct cli_run *asked, char *out, size_t size);

/* The callbacks in the options; and, once there is a dispatcher, the hooks into its loop. */
void cli_callbacks_set(struct cli_running *r, struct gd_options *o);
void cli_callbacks_hook(struct cli_running *r);

/* A sink cannot go on: ends the run. Any thread. */
void cli_end_for_trouble(void *running);

/* A gd__run_parts.media_seconds. */
double cli_media_seconds(void *running, const struct gd_report *report);

/* Opens all that shows the run, and takes the signals. 0, or -1 with gd__fail_text(). */
int cli_views_open(struct cli_running *r);

/* Nothing is drawn any more, and nobody asks the dispatcher for figures. If the terminal takes nothing, the run is left
 * behind (launch/run.h). What was not opened is fine. */
void cli_views_close(struct cli_running *r);

#endif
