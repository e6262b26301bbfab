/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch run`: what was asked for, a dispatcher, the input and the sinks, put together.
 *
 * Whatever can be found wrong is found before the first task is started, in this order: the command line, the command
 * or worker, the devices, the input, the files to be written. So nothing is read from standard input, and no old log is
 * overwritten, for a run that can't be.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <gpu_dispatch/gpu_dispatch.h>

#include "base/failure.h"
#include "binding.h"
#include "cli/commands.h"
#include "cli/output/sinks.h"
#include "cli/run/http/page.h"
#include "cli/run/journal/run_journal.h"
#include "cli/run/program.h"
#include "cli/run/run.h"
#include "cli/run/same_file.h"
#include "cli/run/stop/exit_status.h"
#include "cli/run/stop/interrupt.h"
#include "cli/run/stop/suspend.h"
#include "cli/run/watch.h"
#include "cli/run/work.h"
#include "cli/say.h"
#include "view/figures.h"

struct run {
    const struct cli_run *asked;
    struct cli_program program;
    struct gd_dispatcher *d;
    struct cli_input *input;
    struct cli_journal *journal; /* NULL: there is no journal */
    struct cli_sinks sinks;
    struct cli_halt halt;
    struct cli_work work;
    struct gd_balancer *balancer;
    struct gd_worker_stats *workers; /* as they were in the beginning, in the order of their slots */
    size_t n_workers;
    struct cli_page page; /* --http */
    struct cli_interrupt *interrupt;
    char job[256]; /* what observers know the run by: its command */
    struct cli_watch *watch;
    int no_setup;            /* 1 + the worker whose setup was last said to have failed */
    atomic_bool aborted;     /* workers were killed */
    atomic_bool ended_early; /* by --halt, or since nobody reads the output */
    bool left_behind;        /* a thread sits in a write that was given up, and may use all of this */
};

/* --- what the dispatcher calls --------------------------------------------------------- */

static int next_task(void *user, struct gd_item *item)
{
    struct run *run = user;
    cli_work_look(&run->work);
    int some = cli_input_next(run->input, item);
    if (some > 0)
        cli_work_given(&run->work, item->weight);
    int rc = some > 0 ? cli_journal_key(run->journal, item) : 0;
    return rc < 0 ? rc : some;
}

static void cancel_input(void *user)
{
    struct run *run = user;
    cli_input_cancel(run->input);
}

static void abort_run(struct run *run)
{
    run->aborted = true;
    gd_dispatcher_abort(run->d);
}

/* On a thread of the sinks: what tasks give can't be kept, or nobody reads it. */
static void end_for_trouble(void *user)
{
    struct run *run = user;
    if (!atomic_exchange(&run->ended_early, true))
        abort_run(run);
}

static void halt(struct run *run, enum cli_halt_when when)
{
    char why[CLI_HALT_ROOM];
    if (when == CLI_HALT_NEVER || atomic_exchange(&run->ended_early, true))
        return;
    cli_halt_words(&run->halt, why, sizeof why);
    if (when == CLI_HALT_SOON) {
        cli_say("%s: starting no more tasks, the running ones may finish", why);
        gd_dispatcher_shutdown(run->d);
    } else {
        cli_say("%s: ending the running tasks", why);
        abort_run(run);
    }
}

/* How long what was processed plays, where somebody can tell. */
static double media_seconds(const struct cli_run *r, const struct cli_task_end *e)
{
    return r->own.media_seconds ? r->own.media_seconds(e) : 0;
}

static void task_ended(void *user, const struct gd_report *report)
{
    struct run *run = user;
    struct cli_task_end e;
    cli_task_end_read(&e, report, run->program.kind);
    e.slot = (unsigned)(report->worker_id + 1); /* {%}; 0: no worker had it */
    cli_sinks_add(&run->sinks, &e);
    cli_work_ended(&run->work, report);
    (void)gd_balancer_add(run->balancer, report, media_seconds(run->asked, &e));
    halt(run, cli_halt_add(&run->halt, &e));
}

/* The library's words on a worker, without the "worker 0 (GPU 0) " that ours have already. */
static const char *after_name(const char *words)
{
    int length = 0;
    (void)sscanf(words, "worker %*d (GPU %*d) %n", &length);
    return words + length;
}

static void setup_failed(void *user, int worker_id, int gpu_id, const char *error)
{
    struct run *run = user;
    run->no_setup = worker_id + 1;
    cli_say("worker %d on GPU %d failed to set up: %s", worker_id, gpu_id, after_name(error));
}

/* A worker that is killed because we said so has not failed. */
static void cleanup_failed(void *user, int worker_id, int gpu_id, const char *error)
{
    struct run *run = user;
    if (run->aborted || cli_interrupt_count(run->interrupt) > 1)
        return; /* it was not given the time */
    cli_say("worker %d on GPU %d failed to clean up: %s", worker_id, gpu_id, after_name(error));
}

static void worker_exited(void *user, int worker_id, int gpu_id, const char *why, bool given_up)
{
    struct run *run = user;
    if (!given_up)
        gd_balancer_restarted(run->balancer, gpu_id);
    if ((given_up && run->no_setup != worker_id + 1) || run->asked->verbose) /* not the same words twice */
        cli_say("worker %d on GPU %d %s: %s", worker_id, gpu_id, given_up ? "is given up" : "is replaced",
                after_name(why));
}

static void warn_of_shortage(void *user, const char *why)
{
    (void)user;
    cli_say("%s: fewer tasks will run at once (see ulimit -u, and the cgroup's pids.max)", why);
}

static void device_out(void *user, int gpu_id, const char *why)
{
    (void)user;
    cli_say("GPU %d is taken out of use: %s", gpu_id, why);
}

/* Only where a panel is shown: it would be torn apart otherwise. */
static void worker_wrote(void *user, int worker_id, int stream, const char *text, size_t size)
{
    struct run *run = user;
    cli_sinks_pass(&run->sinks, worker_id, stream, text, size);
}

/* The figures are as of the last event, which with long tasks may be hours ago; the time is now. */
static int stats_now(void *user, struct gd_snapshot *out, struct gd_stats *s)
{
    struct run *run = user;
    struct timespec now;
    int rc = gd_dispatcher_stats(run->d, s);
    clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    s->now_ns = out->read_ns = now_ns > s->now_ns ? now_ns : s->now_ns;
    view_part_cancelled(s);
    s->total = cli_input_total(run->input);
    gd_dispatcher_work(run->d, &out->work_done, &out->work_total);
    return rc;
}

static void say_line(void *user, const char *words)
{
    (void)user;
    cli_say("%s", words);
}

/* A signal came: on the thread that takes them. */
static void hurry(void *user, unsigned count)
{
    struct run *run = user;
    cli_sinks_hurry(&run->sinks, count);
}

static void round_ended(void *user)
{
    struct run *run = user;
    cli_sinks_round(&run->sinks);
}

/* The last task has ended, and the journal waits for what was written of it. */
static void flush_sinks(void *user)
{
    struct run *run = user;
    (void)cli_sinks_flush(&run->sinks);
}

/* --- the dispatcher -------------------------------------------------------------------------- */

/* Running tasks may take as long as they need after the first Ctrl-C or --halt soon. */
enum { NO_HURRY_MS = INT_MAX };

static unsigned retries_of(const struct cli_run *r)
{
    return r->retries.tries ? r->retries.tries - 1 : UINT_MAX - 1;
}

/* What observers see it by: the command, as far as there is room. */
static void name_job(const struct cli_run *r, char *out, size_t size)
{
    size_t n = 0;
    snprintf(out, size, "%s", r->own.job ? r->own.job : r->n_words > 0 ? "" : "(commands)");
    for (size_t i = 0; !r->own.job && i < r->n_words && n < size; i++) {
        const int more = snprintf(out + n, size - n, "%s%s", i > 0 ? " " : "", r->words[i]);
        n += more > 0 ? (size_t)more : 0;
    }
}

static int open_dispatcher(struct run *run)
{
    const struct cli_run *r = run->asked;
    struct gd_options o = GD_OPTIONS_INIT;
    name_job(r, run->job, sizeof run->job);
    o.job = run->job;
    o.gpus = r->gpus;
    o.workers_per_gpu = r->workers.per_gpu;
    o.model_bytes = r->workers.model_bytes;
    o.any_cpu = r->any_cpu;
    o.worker_argv = cli_program_argv(&run->program);
    o.setup_args = r->setup_args;
    o.setup_args_size = r->setup_args ? strlen(r->setup_args) + 1 : 0;
    o.base_seed = r->seed;
    o.setup_jobs = r->setup_jobs;
    o.setup_timeout_ms = r->setup_timeout_ms;
    o.queue_size = r->queue_size;
    o.task_timeout_ms = r->timeout_ms;
    o.cancel_grace_ms = r->term_grace_ms;
    o.retries = retries_of(r);
    o.retry_timeouts = true; /* as parallel has it */
    o.crash_limit = r->crash_limit;
    o.start_gap_ms = r->delay_ms;
    /* With --halt no task lies in a worker's hands that may turn out not to be started. */
    o.window = r->halt.when == CLI_HALT_NEVER ? 0 : 1;
    o.ordered = r->keep_order;
    o.batch_size = r->batch_size ? r->batch_size : o.batch_size;
    o.io_threads = r->io_threads ? r->io_threads : o.io_threads;
    o.stop_grace_ms = NO_HURRY_MS;
    o.orphans = GD_ORPHANS_REAP; /* SIGCHLD is blocked: see main() */
    o.user = run;
    o.source = next_task;
    o.source_cancel = cancel_input;
    o.on_success = o.on_error = task_ended;
    o.on_setup_fail = setup_failed;
    o.on_cleanup_fail = cleanup_failed;
    o.on_worker_exit = worker_exited;
    o.on_device_out = device_out;
    o.journal = cli_journal_handle(run->journal);
    if (cli_sinks_style(r) == CLI_PROGRESS_PANEL) {
        o.output = GD_OUTPUT_CAPTURE;
        o.on_output = worker_wrote;
    }
    int rc = gd_dispatcher_open(&run->d, &o);
    if (rc == GD_E_NO_DEVICES)
        return gd__fail("--gpus %s: %s", r->gpus, gd_error_text());
    if (rc < 0)
        return gd__fail("%s", gd_error_text());
    gd__dispatcher_hook(run->d, &(struct gd__hooks){ .user = run,
                                                     .fd = -1,
                                                     .after_round = round_ended,
                                                     .before_end = flush_sinks,
                                                     .shortage = warn_of_shortage });
    return 0;
}

/* --- the input --------------------------------------------------------------------------------- */

static int open_input(struct run *run)
{
    const struct cli_run *r = run->asked;
    const struct cli_input_options o = { .sources = r->sources,
                                         .n_sources = r->n_sources,
                                         .format = r->jsonl ? CLI_FORMAT_JSONL
                                                   : r->nul ? CLI_FORMAT_NUL
                                                            : CLI_FORMAT_LINES,
                                         .skip_blank = r->skip_blank,
                                         .json_payload = r->stream != NULL,
                                         .need_total = cli_halt_needs_total(&r->halt),
                                         .shuffle = r->shuffle,
                                         .seeded = r->seeded,
                                         .seed = r->seed,
                                         .patterns = r->patterns.items,
                                         .recursive = r->recursive,
                                         .order = r->order.order };
    if (cli_input_open(&run->input, &o) < 0)
        return -1;
    run->halt.total = cli_input_total(run->input);
    gd_dispatcher_set_total(run->d, run->halt.total);
    return 0;
}

static int open_work(struct run *run)
{
    const struct cli_run *r = run->asked;
    if (r->own.work_unit <= 0 || r->n_sources == 0 || r->sources[0].kind != CLI_SOURCE_LIST)
        return 0;
    return cli_work_open(&run->work, run->d, cli_journal_handle(run->journal), r->sources[0].files, r->own.work_unit);
}

/* --- who is where --------------------------------------------------------------------------------- */

static void show_map(const struct run *run)
{
    const struct gd_worker_stats *w = run->workers;
    struct gd_devices *devices = NULL;
    if (gd_devices_open(&devices, run->asked->gpus) < 0)
        devices = NULL;
    for (size_t i = 0; i < run->n_workers; i++) {
        struct gd_device d = { .size = sizeof d };
        int at = devices ? gd_devices_find(devices, (int)w[i].gpu_id) : -1;
        if (at < 0 || gd_devices_get(devices, (size_t)at, &d) < 0)
            cli_say("worker %d: GPU %d", (int)w[i].worker_id, (int)w[i].gpu_id);
        else
            cli_say("worker %d: GPU %d, %s%s%s", (int)w[i].worker_id, d.id, d.name, *d.uuid ? ", " : "", d.uuid);
    }
    gd_devices_close(&devices);
}

/* The devices in the order of their workers, each once; returns how many. */
static size_t gpus_of(const struct gd_worker_stats *w, size_t n, int *ids, unsigned *workers)
{
    size_t n_ids = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = 0;
        while (at < n_ids && ids[at] != (int)w[i].gpu_id)
            at++;
        if (at == n_ids) {
            ids[n_ids] = (int)w[i].gpu_id;
            workers[n_ids++] = 0;
        }
        workers[at]++;
    }
    return n_ids;
}

static int list_workers(struct run *run)
{
    int n = gd_dispatcher_worker_stats(run->d, NULL, sizeof *run->workers, 0);
    if (n < 0)
        return gd__fail("%s", gd_error_text());
    run->workers = calloc((size_t)n + 1, sizeof *run->workers);
    if (!run->workers)
        return gd__fail("out of memory");
    run->n_workers = (size_t)gd_dispatcher_worker_stats(run->d, run->workers, sizeof *run->workers, (size_t)n);
    if (run->asked->verbose)
        show_map(run);
    return 0;
}

static int open_balancer(struct run *run)
{
    int *ids = calloc(run->n_workers + 1, sizeof *ids), rc = -1;
    unsigned *workers = calloc(run->n_workers + 1, sizeof *workers);
    if (!ids || !workers) {
        (void)gd__fail("out of memory");
        goto out;
    }
    size_t n_ids = gpus_of(run->workers, run->n_workers, ids, workers);
    rc = gd_balancer_open(&run->balancer, ids, n_ids, workers[0], cli_input_total(run->input));
    if (rc < 0)
        (void)gd__fail("%s", gd_error_text());
    for (size_t i = 0; rc == 0 && i < n_ids; i++)
        gd_balancer_set_workers(run->balancer, ids[i], workers[i]);
out:
    free(ids);
    free(workers);
    return rc;
}

/* --- all of it -------------------------------------------------------------------------------------- */

static int open_sinks(struct run *run)
{
    run->sinks.d = run->d;
    run->sinks.trouble = end_for_trouble;
    run->sinks.user = run;
    return cli_sinks_open(&run->sinks, run->asked, run->program.command, run->journal);
}

static int open_run(struct run *run)
{
    run->halt = run->asked->halt;
    if (cli_refuse_same_file(run->asked) < 0 || cli_program_open(&run->program, run->asked) < 0 ||
        cli_journal_open(&run->journal, run->asked) < 0 || open_dispatcher(run) < 0 || open_input(run) < 0 ||
        open_work(run) < 0 || list_workers(run) < 0 || open_balancer(run) < 0 ||
        cli_page_open(&run->page, run->asked, run->d, run->input, run->job) < 0)
        return -1;
    if (open_sinks(run) < 0 ||
        cli_watch_open(&run->watch, run->d, run->input, run->job, GD_OBSERVED_FAILURES | GD_OBSERVED_DEVICES) < 0 ||
        cli_sinks_draw(&run->sinks, run->asked, stats_now, run, run->watch) < 0)
        return -1;
    cli_suspend_with(run->d);
    return cli_interrupt_open(&run->interrupt, run->d, say_line, hurry,
                              run); /* last: its thread uses all of the above */
}

static void close_run(struct run *run)
{
    cli_page_close(&run->page);
    cli_interrupt_close(&run->interrupt);
    cli_sinks_close(&run->sinks);
    cli_watch_close(&run->watch);
    gd_balancer_close(&run->balancer);
    free(run->workers);
    cli_suspend_with(NULL);
    gd_dispatcher_close(&run->d);
    cli_work_close(&run->work);
    cli_journal_close(&run->journal);
    cli_input_close(&run->input);
    cli_program_close(&run->program);
}

static bool is_of_files(const struct cli_run *r)
{
    return r->n_sources > 0 && (r->sources[0].kind == CLI_SOURCE_DIR || r->sources[0].kind == CLI_SOURCE_LIST);
}

/* The figures of the end. What was done before is no part of them. */
static void print_summary(struct run *run)
{
    struct gd_stats s = { .size = sizeof s };
    struct gd_snapshot now = { .stats = &s };
    char *text = NULL;
    size_t size = 0;
    if (cli_run_is_silent(run->asked) || run->asked->dry_run || cli_sinks_broken(&run->sinks))
        return;
    if (run->journal && stats_now(run, &now, &s) == 0)
        gd_balancer_set_total(run->balancer, s.total > s.skipped ? s.total - s.skipped : 0);
    FILE *memory = open_memstream(&text, &size);
    if (!memory)
        return;
    (void)gd_balancer_print(run->balancer, memory, is_of_files(run->asked) ? "files" : "tasks");
    if (fclose(memory) == 0)
        cli_sinks_print(&run->sinks, text, size);
    free(text);
}

/* Closing can fail too: what a log could not take shows in the exit status. The journal comes first, since it follows
 * the files. rc: of the run. False: something could not be written, and was told of. */
static bool close_files(struct run *run, int rc)
{
    uint64_t failed = run->halt.failed, inputs;
    const bool drained = cli_sinks_flush(&run->sinks); /* if not, a thread may be writing to the files */
    if (!run->watch)                                   /* else somebody still asks it for figures */
        gd_dispatcher_close(&run->d);
    const bool kept = cli_journal_finish(run->journal, rc != GD_E_JOURNAL && drained) == 0;
    if (!kept && rc != GD_E_JOURNAL) /* that was said */
        cli_say("%s", gd__fail_text());
    if (drained)
        cli_sinks_close_files(&run->sinks);
    const bool counted = cli_input_count(run->input, &inputs);
    const bool concluded = cli_journal_conclude(run->journal, inputs, !counted, &failed) == 0;
    if (!concluded && kept)
        cli_say("%s", gd__fail_text());
    run->halt.failed = failed; /* those of the runs before count too */
    return kept && concluded && drained && !run->sinks.failed;
}

/* Nothing is drawn any more, and nobody asks for figures. False: the terminal takes nothing, and its thread sits there.
 */
static bool end_views(struct run *run)
{
    cli_watch_end(run->watch);
    const bool undrawn = cli_sinks_undraw(&run->sinks);
    cli_page_close(&run->page);
    if (undrawn)
        cli_watch_close(&run->watch); /* before the dispatcher that it watches */
    return undrawn;
}

static int do_run(struct run *run)
{
    int rc = gd_dispatcher_run(run->d);
    cli_suspend_with(NULL);
    const bool drained = cli_sinks_flush(&run->sinks);
    cli_interrupt_over(run->interrupt);
    if (cli_interrupt_count(run->interrupt) > 0)
        rc = GD_E_INTERRUPTED;
    const bool undrawn = end_views(run);
    if (rc < 0 && rc != GD_E_SHUTDOWN && rc != GD_E_INTERRUPTED)
        cli_say("%s", gd_error_text());
    print_summary(run);
    const bool broken = cli_sinks_broken(&run->sinks), written = close_files(run, rc);
    run->left_behind = !cli_sinks_end(&run->sinks) || !undrawn || !drained;
    /* A reader that went away (`| head`) does not hide what stopped the run before. */
    return cli_exit_status(&run->halt, rc, !written || (broken && !run->halt.halted));
}

/* What was asked for other than a run; -1: nothing. */
static int explain(const struct cli_run *asked)
{
    if (asked->help)
        cli_opts_help(&cli_run_options);
    else if (asked->list_options)
        cli_opts_list(&cli_run_options);
    return asked->help || asked->list_options ? 0 : -1;
}

int cli_run_asked(const struct cli_run *asked)
{
    struct run *run = calloc(1, sizeof *run);
    int status = CLI_EXIT_ERROR;
    signal(SIGXFSZ, SIG_IGN); /* a file larger than `ulimit -f` is an error like a full disk */
    if (!run) {
        cli_say("out of memory");
        return status;
    }
    run->asked = asked;
    if (open_run(run) < 0)
        cli_say("%s", gd__fail_text());
    else
        status = do_run(run);
    if (run->left_behind) { /* the process ends beside it */
        cli_interrupt_close(&run->interrupt);
        return status;
    }
    close_run(run);
    free(run);
    return status;
}

int cli_run_main(int argc, char **argv)
{
    struct cli_run asked;
    int status = 0;
    signal(SIGPIPE, SIG_IGN);
    if (cli_run_parse(&asked, argc, argv) < 0) {
        cli_say("%s", gd__fail_text());
        status = CLI_EXIT_ERROR;
    } else if (explain(&asked) < 0) {
        status = cli_run_asked(&asked);
    }
    cli_run_free(&asked);
    return status;
}
