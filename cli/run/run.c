/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch run`. gd__run_execute() (launch/run.h) executes every run. This file has the functions that the command
 * passes to it, and sets the exit status.
 *
 * Everything that can be checked is checked before the first task is started, in this order: the command line, the
 * command or worker, the journal, the devices, the input, the files to be written. So a run that cannot start
 * reads nothing from standard input and overwrites no old log.
 */
#include "cli/run/run.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/file/run_directory.h"
#include "binding.h"
#include "cli/commands.h"
#include "cli/run/running.h"
#include "cli/run/same_file.h"
#include "cli/run/shard/shard_options.h"
#include "cli/run/stop/exit_status.h"
#include "cli/run/stop/free_wait.h"
#include "cli/say.h"

/* Prints gd__fail_text() if rc is negative. Returns rc. */
static int reported(int rc)
{
    if (rc < 0)
        cli_say("%s", gd__fail_text());
    return rc;
}

/* --- before the run ----------------------------------------------------------------------- */

/* A run is published in a private directory, if that is possible. */
static void report_unpublished(void)
{
    const int directory = gd__run_directory_open(0, true, NULL);
    if (directory >= 0)
        close(directory);
    else if (directory == GD_E_UNSUPPORTED)
        cli_say("other programs cannot see this run: %s", gd_error_text());
}

/* Opens the journal. A signal may end a wait for it. */
static int open_journal(struct cli_running *r)
{
    const int rc = cli_journal_open(&r->journal, r->asked), signal_number = cli_free_wait_end();
    if (signal_number && rc == 0)
        raise(signal_number); /* the signal came after the wait, so it must have its usual effect */
    if (signal_number)
        r->status = CLI_EXIT_SIGNAL + signal_number;
    return rc;
}

static int prepare(void *user, struct gd_options *o)
{
    struct cli_running *r = user;
    if (cli_refuse_same_file(r->asked) < 0 || cli_program_open(&r->program, r->asked) < 0 || open_journal(r) < 0)
        return reported(-1);
    cli_dispatch_options(o, r->asked);
    cli_callbacks_set(r, o);
    if (cli_run_queue_open(&r->queue, r->asked, o) < 0)
        return reported(-1);
    cli_job_name(r->asked, r->job, sizeof r->job);
    o->job = r->job;
    report_unpublished();
    o->worker_argv = cli_program_argv(&r->program);
    o->journal = cli_journal_handle(r->journal);
    r->run.say_replaced = r->asked->verbose;
    return 0;
}

/* Files are divided among shards by size. So all of them must be known, even with --order none. */
static bool needs_whole_input(const struct cli_run *asked)
{
    return cli_halt_needs_total(&asked->halt) || (asked->shard.count > 0 && asked->input_dir);
}

/* "shard 3 of 16 (task 3 of 16 of srun): 61 of 1000 tasks" */
static void say_shard(const struct cli_running *r)
{
    const struct cli_own_tasks *o = &r->own_tasks;
    const uint64_t all = cli_input_total(r->input);
    char shard[192], count[128] = "";
    const char *how = o->deal ? ", divided by size" : o->dir ? ", divided by hash (with --journal: by size)" : "";
    if (r->asked->shard.count == 0 || r->asked->own.is_dealt || cli_run_is_silent(r->asked))
        return;
    if (o->counted)
        snprintf(count, sizeof count, ": %llu of %llu %s%s", (unsigned long long)o->total, (unsigned long long)all,
                 r->asked->input_dir ? "file" : "task", all == 1 ? "" : "s");
    cli_say("%s%s%s", cli_shard_text(r->asked, shard, sizeof shard), count, how);
}

/* A run that waits for files looks as if it hangs. */
static void say_watch(const struct cli_run *asked)
{
    if (asked->watch && !cli_run_is_silent(asked))
        cli_say(asked->idle_exit.ms > 0 ? "watching %s" : "watching %s; end with Ctrl-C", asked->watch);
}

static int open_input(struct cli_running *r)
{
    const struct cli_run *asked = r->asked;
    const struct cli_input_options o = { .sources = asked->sources,
                                         .n_sources = asked->n_sources,
                                         .format = asked->jsonl ? CLI_FORMAT_JSONL
                                                   : asked->nul ? CLI_FORMAT_NUL
                                                                : CLI_FORMAT_LINES,
                                         .skip_blank = asked->skip_blank,
                                         .json_payload = asked->stream != NULL,
                                         .need_total = needs_whole_input(asked),
                                         .shuffle = asked->shuffle,
                                         .seeded = asked->seeded,
                                         .seed = asked->seed,
                                         .idle_ms = asked->idle_exit.never ? 0 : asked->idle_exit.ms,
                                         .patterns = asked->patterns.items,
                                         .recursive = asked->recursive,
                                         .order = asked->order.order };
    if (cli_input_open(&r->input, &o) < 0 || cli_own_tasks_open(&r->own_tasks, asked, r->input, r->journal) < 0)
        return -1;
    r->halt.total = cli_own_tasks_total(&r->own_tasks, r->input);
    gd__run_set_total(&r->run, r->halt.total);
    if (asked->shard.count > 0)
        gd__run_set_shard_total(&r->run, r->halt.total);
    say_shard(r);
    say_watch(asked);
    return 0;
}

static int open_work(struct cli_running *r)
{
    const struct cli_run *asked = r->asked;
    if (asked->own.work_unit <= 0 || asked->n_sources == 0 || asked->sources[0].kind != CLI_SOURCE_LIST)
        return 0;
    return cli_work_open(&r->work, r->run.d, asked->sources[0].files, asked->own.work_unit);
}

static int open_source(void *user)
{
    struct cli_running *r = user;
    const int signal_number = cli_free_wait_end();
    if (signal_number)
        raise(signal_number); /* the signal came after the wait, so it must have its usual effect */
    cli_callbacks_hook(r);
    return reported(open_input(r) < 0 ? -1 : open_work(r));
}

static int open_views(void *user)
{
    return reported(cli_views_open(user));
}

/* --- after the run -------------------------------------------------------------------------- */

static int ended(void *user, int result)
{
    struct cli_running *r = user;
    (void)cli_sinks_flush(&r->sinks);
    cli_interrupt_over(r->interrupt);
    return cli_interrupt_signal(r->interrupt) ? GD_E_INTERRUPTED : result;
}

static void close_views(void *user)
{
    cli_views_close(user);
}

static bool is_of_files(const struct cli_run *asked)
{
    return asked->n_sources > 0 &&
           (asked->sources[0].kind == CLI_SOURCE_DIR || asked->sources[0].kind == CLI_SOURCE_LIST);
}

static void print_summary(struct cli_running *r)
{
    char *text = NULL;
    size_t size = 0;
    if (cli_run_is_silent(r->asked) || r->asked->dry_run || cli_sinks_broken(&r->sinks))
        return;
    FILE *memory = open_memstream(&text, &size);
    if (!memory)
        return;
    (void)gd__run_print_summary(&r->run, memory, is_of_files(r->asked) ? "files" : "tasks");
    if (fclose(memory) == 0)
        cli_sinks_print(&r->sinks, text, size);
    free(text);
}

/* A node that was refused by the queue has done nothing. */
static bool has_begun(const struct cli_running *r, int result)
{
    struct gd_stats s = { .size = sizeof s };
    return !r->queue.is_used || result >= 0 || (gd_dispatcher_stats(r->run.d, &s) == 0 && s.taken > 0);
}

static void report(void *user, int result)
{
    struct cli_running *r = user;
    r->halt.failed += gd__dispatcher_queue_failed(r->run.d);
    if (result < 0 && result != GD_E_SHUTDOWN && result != GD_E_INTERRUPTED)
        cli_say("%s", gd_error_text());
    if (has_begun(user, result))
        print_summary(user);
}

/* Closing can fail too: a log that could not be written changes the exit status. The journal is finished
 * first, while the files that it follows are still open. False: something could not be written, and was reported. */
static bool close_files(struct cli_running *r, int result)
{
    uint64_t failed = r->halt.failed, inputs;
    const bool drained = cli_sinks_flush(&r->sinks); /* false: a thread may still be writing to the files */
    const bool kept = cli_journal_finish(r->journal, result != GD_E_JOURNAL && drained) == 0;
    if (!kept && result != GD_E_JOURNAL) /* an error of the journal was reported already */
        cli_say("%s", gd__fail_text());
    if (drained)
        cli_sinks_close_files(&r->sinks);
    const bool counted = cli_own_tasks_count(&r->own_tasks, r->input, &inputs);
    const bool concluded = cli_journal_conclude(r->journal, inputs, !counted, &failed) == 0;
    if (!concluded && kept)
        cli_say("%s", gd__fail_text());
    r->halt.failed = failed; /* failures of earlier runs count too */
    return kept && concluded && drained && !r->sinks.failed;
}

/* If a thread is still blocked in a write, it may use r. So r is not freed then. */
static void conclude(void *user, int result)
{
    struct cli_running *r = user;
    const bool broken = cli_sinks_broken(&r->sinks), written = close_files(r, result);
    const bool drained = cli_sinks_flush(&r->sinks);
    if (!cli_sinks_end(&r->sinks) || !drained)
        r->run.left_behind = true;
    /* If --halt ended the run, it sets the exit status even if the reader (`| head`) went away. */
    r->status = cli_exit_status(&r->halt, result, !written || (broken && !r->halt.halted));
    if (r->status == 0 && result == GD_E_SHUTDOWN && !r->halt.halted && cli_own_tasks_unread(&r->own_tasks, r->input))
        r->status = 1; /* drained: 0 would mean that everything was done */
    if (result == GD_E_INTERRUPTED && cli_interrupt_signal(r->interrupt))
        r->status = CLI_EXIT_SIGNAL + cli_interrupt_signal(r->interrupt);
}

static void release(void *user)
{
    struct cli_running *r = user;
    cli_interrupt_close(&r->interrupt);
    cli_sinks_close(&r->sinks);
    cli_work_close(&r->work);
    cli_journal_close(&r->journal);
    cli_own_tasks_close(&r->own_tasks);
    cli_input_close(&r->input);
    cli_program_close(&r->program);
    cli_run_queue_close(&r->queue);
}

/* --- what gd__run_execute() reports ----------------------------------------------------------- */

/* True if the error is about the value of --gpus. */
static bool is_wrong_choice(const char *gpus, int code)
{
    struct gd_devices *list = NULL;
    const bool wrong =
        code == GD_E_NO_DEVICES || code == GD_E_BUSY || (code == GD_E_INVALID && gd_devices_open(&list, gpus) < 0);
    gd_devices_close(&list);
    return wrong;
}

static void failed(void *user, int code)
{
    struct cli_running *r = user;
    const int signal_number = cli_free_wait_end();
    if (code == GD_E_INTERRUPTED && signal_number)
        r->status = CLI_EXIT_SIGNAL + signal_number;
    if (is_wrong_choice(r->asked->gpus, code))
        cli_say("--gpus %s: %s", r->asked->gpus, gd_error_text());
    else
        cli_say("%s", gd_error_text());
}

static void say(void *user, const char *what, const char *why)
{
    (void)user;
    cli_say("%s: %s", what, why);
}

static const struct gd__run_parts parts = { .prepare = prepare,
                                            .open_source = open_source,
                                            .open_views = open_views,
                                            .ended = ended,
                                            .close_views = close_views,
                                            .report = report,
                                            .conclude = conclude,
                                            .close = release,
                                            .failed = failed,
                                            .say = say,
                                            .media_seconds = cli_media_seconds };

/* --- the command ------------------------------------------------------------------------------ */

int cli_run_asked(const struct cli_run *asked)
{
    struct cli_running *r = calloc(1, sizeof *r);
    signal(SIGXFSZ, SIG_IGN); /* a file larger than `ulimit -f` is an error like a full disk */
    if (!r) {
        cli_say("out of memory");
        return CLI_EXIT_ERROR;
    }
    r->asked = asked;
    r->halt = asked->halt;
    r->status = CLI_EXIT_ERROR;
    (void)gd__run_execute(&r->run, &parts, r);
    const int status = r->status;
    if (r->run.left_behind) /* the abandoned thread still uses r; the process ends anyway */
        cli_interrupt_close(&r->interrupt);
    else
        free(r);
    return status;
}

/* Prints the help or the list of options, if one was requested, and returns the exit status. Otherwise returns -1. */
static int explain(const struct cli_run *asked)
{
    if (asked->help)
        cli_opts_help(&cli_run_options);
    else if (asked->list_options)
        cli_opts_list(&cli_run_options);
    return asked->help || asked->list_options ? 0 : -1;
}

int cli_run_main(int argc, char **argv)
{
    struct cli_run asked;
    int status = 0;
    signal(SIGPIPE, SIG_IGN);
    if (reported(cli_run_parse(&asked, argc, argv)) < 0)
        status = CLI_EXIT_ERROR;
    else if (explain(&asked) < 0)
        status = cli_run_asked(&asked);
    cli_run_free(&asked);
    return status;
}
