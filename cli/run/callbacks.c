/* SPDX-License-Identifier: MIT
 *
 * Callbacks of a run of the command: the source, the end of each task, and the actions that follow. All are called on
 * the run's thread, except for the source and cli_end_for_trouble().
 */
#include "binding.h"
#include "cli/run/running.h"
#include "cli/run/stop/free_wait.h"
#include "cli/say.h"

/* --- the source ------------------------------------------------------------------------- */

static int next_task(void *user, struct gd_item *item)
{
    struct cli_running *r = user;
    int ours = 0;
    while (ours == 0) {
        const int some = cli_input_next(r->input, item);
        if (some <= 0)
            return some;
        ours = cli_own_tasks_take(&r->own_tasks, r->journal, item);
    }
    if (ours < 0)
        return ours;
    cli_work_given(&r->work, item->weight);
    const int rc = cli_journal_key(r->journal, item);
    return rc < 0 ? rc : 1;
}

static void task_skipped(void *user, const struct gd_skipped *skipped)
{
    struct cli_running *r = user;
    cli_work_skipped(&r->work, skipped);
}

static void cancel_input(void *user)
{
    struct cli_running *r = user;
    cli_input_cancel(r->input);
}

/* --- stops -------------------------------------------------------------------------------- */

void cli_end_for_trouble(void *running)
{
    struct cli_running *r = running;
    if (cli_interrupt_hung_up()) /* the terminal is gone, but running tasks may finish: the run is being shut down */
        return;
    if (!atomic_exchange(&r->ended_early, true))
        gd__run_abort(&r->run, "the output could not be written");
}

static void halt(struct cli_running *r, enum cli_halt_when when)
{
    char why[CLI_HALT_ROOM], reason[CLI_HALT_ROOM + 16];
    if (when == CLI_HALT_NEVER || atomic_exchange(&r->ended_early, true))
        return;
    cli_halt_reason(&r->halt, why, sizeof why);
    snprintf(reason, sizeof reason, "--halt: %s", why);
    if (when == CLI_HALT_SOON) {
        cli_say("%s: starting no more tasks, the running ones may finish", why);
        gd__run_shutdown(&r->run, reason);
    } else {
        cli_say("%s: ending the running tasks", why);
        gd__run_abort(&r->run, reason);
    }
}

/* --- ends of tasks ------------------------------------------------------------------------- */

static void read_end(const struct cli_running *r, struct cli_task_end *e, const struct gd_report *report)
{
    cli_task_end_read(e, report, r->program.kind);
    e->slot = (unsigned)(report->worker_id + 1); /* {%}; 0: no worker got the task */
}

static void task_ended(void *user, const struct gd_report *report)
{
    struct cli_running *r = user;
    struct cli_task_end e;
    read_end(r, &e, report);
    cli_sinks_add(&r->sinks, &e);
    cli_work_ended(&r->work, report);
    if (r->asked->own.on_end)
        r->asked->own.on_end(r->asked->own.user, &e);
    halt(r, cli_halt_add(&r->halt, &e));
}

static void task_progressed(void *user, uint64_t task_id, int worker_id, unsigned attempt, const void *data,
                            size_t size)
{
    struct cli_running *r = user;
    (void)worker_id, (void)attempt;
    cli_work_reached(&r->work, task_id, r->asked->own.work_done(data, size));
}

double cli_media_seconds(void *running, const struct gd_report *report)
{
    const struct cli_running *r = running;
    struct cli_task_end e;
    if (!r->asked->own.media_seconds)
        return 0;
    read_end(r, &e, report);
    return r->asked->own.media_seconds(&e);
}

/* --- the rest ------------------------------------------------------------------------------- */

/* Used only while a panel is shown: output written directly would break up the panel. */
static void worker_wrote(void *user, int worker_id, int stream, const char *text, size_t size)
{
    struct cli_running *r = user;
    cli_sinks_pass(&r->sinks, worker_id, stream, text, size);
}

static void warn_of_shortage(void *user, const char *why)
{
    (void)user;
    cli_say("%s: fewer tasks will run at once (see ulimit -u, and the cgroup's pids.max)", why);
}

static void round_ended(void *user)
{
    struct cli_running *r = user;
    cli_sinks_round(&r->sinks);
}

/* Called after the last task has ended. The journal waits until the output of all tasks is written. */
static void flush_sinks(void *user)
{
    struct cli_running *r = user;
    (void)cli_sinks_flush(&r->sinks);
}

void cli_callbacks_set(struct cli_running *r, struct gd_options *o)
{
    o->user = r;
    o->source = next_task;
    o->source_cancel = cancel_input;
    o->on_skip = task_skipped;
    o->on_success = o->on_error = task_ended;
    o->on_device_note = cli_free_wait_note;
    if (r->asked->own.work_done)
        o->on_partial = task_progressed;
    if (cli_sinks_style(r->asked) == CLI_PROGRESS_PANEL) {
        o->output = GD_OUTPUT_CAPTURE;
        o->on_output = worker_wrote;
    }
}

void cli_callbacks_hook(struct cli_running *r)
{
    gd__dispatcher_hook(r->run.d, &(struct gd__hooks){ .user = r,
                                                       .fd = -1,
                                                       .after_round = round_ended,
                                                       .before_end = flush_sinks,
                                                       .shortage = warn_of_shortage,
                                                       .queue_note = cli_run_queue_say });
}
