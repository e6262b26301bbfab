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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpu_dispatch/gpu_dispatch.h>

#include "bytes.h"
#include "commands.h"
#include "interrupt.h"
#include "run_opts.h"
#include "sinks.h"
#include "status.h"

/* This program again: as a worker it is the host. */
#define SELF "/proc/self/exe"

struct run {
    struct cli_run asked;
    struct gd_command *command; /* NULL: it is no command */
    char **argv;                /* of the workers, if the library made it; or */
    char **own_argv;
    enum cli_result_kind kind;
    struct gd_dispatcher *d;
    struct cli_input *input;
    struct cli_sinks sinks;
    struct cli_halt halt;
    struct gd_balancer *balancer;
    struct gd_worker_stats *workers; /* as they were in the beginning, in the order of their slots */
    size_t n_workers;
    struct cli_interrupt *interrupt;
    int no_setup;               /* 1 + the worker whose setup was last said to have failed */
    bool aborted;               /* workers were killed */
    bool ended_early;           /* by --halt, or since nobody reads the output */
    _Atomic uint64_t cancelled; /* tasks that were never done; the dispatcher counts them as failed */
};

/* --- what the dispatcher calls --------------------------------------------------------- */

static int next_task(void *user, struct gd_item *item)
{
    struct run *run = user;
    return cli_input_next(run->input, item);
}

static void cancel_input(void *user)
{
    struct run *run = user;
    cli_input_cancel(run->input);
}

static void abort_run(struct run *run)
{
    run->ended_early = run->aborted = true;
    gd_dispatcher_abort(run->d);
}

static void halt(struct run *run, enum cli_halt_when when)
{
    char why[128];
    if (when == CLI_HALT_NEVER || run->ended_early)
        return;
    run->ended_early = true;
    cli_halt_words(&run->halt, why, sizeof why);
    if (when == CLI_HALT_SOON) {
        cli_sinks_say(&run->sinks, "%s: starting no more, running tasks may finish", why);
        gd_dispatcher_shutdown(run->d);
    } else {
        cli_sinks_say(&run->sinks, "%s: ending the running tasks", why);
        abort_run(run);
    }
}

/* The number of a worker, from 1, as {%} has it; its id may be that of its GPU. */
static unsigned slot_of(const struct run *run, int worker_id)
{
    for (size_t i = 0; i < run->n_workers; i++) {
        if (run->workers[i].worker_id == (uint64_t)worker_id)
            return (unsigned)i + 1;
    }
    return 0;
}

static void task_ended(void *user, const struct gd_report *report)
{
    struct run *run = user;
    struct cli_end e;
    cli_end_read(&e, report, run->kind);
    run->cancelled += report->failure == GD_FAILURE_CANCELLED;
    e.slot = slot_of(run, report->worker_id);
    cli_sinks_add(&run->sinks, &e);
    (void)gd_balancer_add(run->balancer, report, 0);
    halt(run, cli_halt_add(&run->halt, &e));
    if (cli_sinks_broken(&run->sinks) && !run->ended_early)
        abort_run(run);
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
    cli_sinks_say(&run->sinks, "worker %d on GPU %d failed to set up: %s", worker_id, gpu_id, after_name(error));
}

/* A worker that is killed because we said so has not failed. */
static void cleanup_failed(void *user, int worker_id, int gpu_id, const char *error)
{
    struct run *run = user;
    if (run->aborted || cli_interrupt_count(run->interrupt) > 1)
        return; /* it was not given the time */
    cli_sinks_say(&run->sinks, "worker %d on GPU %d failed to clean up: %s", worker_id, gpu_id, after_name(error));
}

static void worker_exited(void *user, int worker_id, int gpu_id, const char *why, bool given_up)
{
    struct run *run = user;
    if (!given_up)
        gd_balancer_restarted(run->balancer, gpu_id);
    if ((given_up && run->no_setup != worker_id + 1) || run->asked.verbose) /* not the same words twice */
        cli_sinks_say(&run->sinks, "worker %d on GPU %d %s: %s", worker_id, gpu_id,
                      given_up ? "is given up" : "is replaced", after_name(why));
}

static void device_out(void *user, int gpu_id, const char *why)
{
    struct run *run = user;
    cli_sinks_say(&run->sinks, "GPU %d is taken out of use: %s", gpu_id, why);
}

static int stats_now(void *user, struct gd_stats *out)
{
    struct run *run = user;
    int rc = gd_dispatcher_stats(run->d, out);
    uint64_t cancelled = run->cancelled;
    out->failed -= cancelled < out->failed ? cancelled : out->failed;
    out->total = cli_input_total(run->input);
    return rc;
}

static void say_line(void *user, const char *words)
{
    struct run *run = user;
    cli_sinks_say(&run->sinks, "%s", words);
}

/* --- the workers ------------------------------------------------------------------------- */

/* Without words the inputs are commands, as with GNU parallel. */
static int open_command(struct run *run)
{
    const struct gd_command_spec spec = { .size = sizeof spec,
                                          .words = run->asked.words,
                                          .quote = run->asked.quote,
                                          .dry_run = run->asked.dry_run,
                                          .ungroup = run->asked.ungroup,
                                          .host = SELF };
    run->kind = CLI_RESULT_COMMAND;
    if (gd_command_open(&run->command, &spec) < 0)
        return -1;
    if (!spec.dry_run && gd_command_check(run->command) < 0)
        return -1;
    run->argv = gd_command_worker(&spec);
    return run->argv ? 0 : -1;
}

/* 0 if a program can be found; the words are as for a command's. */
static int check_program(const char *program)
{
    const char *const words[] = { program, NULL };
    const struct gd_command_spec spec = { .size = sizeof spec, .words = words, .quote = true };
    struct gd_command *command;
    int rc = gd_command_open(&command, &spec);
    if (rc == 0) {
        rc = gd_command_check(command);
        gd_command_close(&command);
    }
    return rc;
}

static int open_stream(struct run *run)
{
    const struct gd_stream_spec spec = {
        .size = sizeof spec, .words = run->asked.words, .json = run->asked.jsonl, .host = SELF
    };
    run->kind = CLI_RESULT_JSON;
    if (check_program(run->asked.words[0]) < 0)
        return -1;
    run->argv = gd_stream_worker(&spec);
    return run->argv ? 0 : -1;
}

/* A copy of the words, after first if there is one. */
static int copy_argv(struct run *run, const char *first)
{
    const struct cli_run *r = &run->asked;
    size_t n = 0;
    run->own_argv = calloc(r->n_words + 2, sizeof *run->own_argv);
    if (!run->own_argv)
        return cli_error("out of memory");
    if (first)
        run->own_argv[n++] = strdup(first);
    for (size_t i = 0; i < r->n_words; i++)
        run->own_argv[n++] = strdup(r->words[i]);
    for (size_t i = 0; i < n; i++) {
        if (!run->own_argv[i])
            return cli_error("out of memory");
    }
    return 0;
}

static void free_argv(char **argv)
{
    for (size_t i = 0; argv && argv[i]; i++)
        free(argv[i]);
    free(argv);
}

static int open_worker(struct run *run)
{
    const struct cli_run *r = &run->asked;
    run->kind = CLI_RESULT_BYTES;
    if (!cli_is_plugin(r->words[0]))
        return check_program(r->words[0]) < 0 ? cli_error("%s", gd_error_text()) : copy_argv(run, NULL);
    if (r->n_words > 1)
        return cli_error("a plugin takes no arguments (\"%s\"): give --setup-args TEXT", r->words[1]);
    if (access(r->words[0], R_OK) < 0)
        return cli_error("cannot read worker plugin %s: %s", r->words[0], strerror(errno));
    return copy_argv(run, SELF);
}

static int open_workers(struct run *run)
{
    if (run->asked.worker)
        return open_worker(run);
    if ((run->asked.stream ? open_stream(run) : open_command(run)) < 0)
        return cli_error("%s", gd_error_text());
    return 0;
}

/* --- the dispatcher -------------------------------------------------------------------------- */

/* Running tasks may take as long as they need after the first Ctrl-C or --halt soon. */
enum { NO_HURRY_MS = INT_MAX };

static unsigned retries_of(const struct cli_run *r)
{
    return r->retries.tries ? r->retries.tries - 1 : UINT_MAX - 1;
}

static int open_dispatcher(struct run *run)
{
    const struct cli_run *r = &run->asked;
    struct gd_options o = GD_OPTIONS_INIT;
    o.gpus = r->gpus;
    o.workers_per_gpu = r->workers.per_gpu;
    o.model_bytes = r->workers.model_bytes;
    o.any_cpu = r->any_cpu;
    o.worker_argv = run->argv ? run->argv : run->own_argv;
    o.setup_args = r->setup_args;
    o.setup_args_size = r->setup_args ? strlen(r->setup_args) + 1 : 0;
    o.base_seed = r->seed;
    o.setup_jobs = r->setup_jobs;
    o.setup_timeout_ms = r->setup_timeout_ms;
    o.queue_size = r->queue_size;
    o.task_timeout_ms = r->timeout_ms;
    o.cancel_grace_ms = r->term_grace_ms;
    o.retries = retries_of(r);
    o.crash_limit = r->crash_limit;
    o.start_gap_ms = r->delay_ms;
    /* With --halt no task lies in a worker's hands that may turn out not to be started. */
    o.window = r->halt.when == CLI_HALT_NEVER ? 0 : 1;
    o.ordered = r->keep_order;
    o.batch_size = r->batch_size ? r->batch_size : o.batch_size;
    o.io_threads = r->io_threads ? r->io_threads : o.io_threads;
    o.stop_grace_ms = NO_HURRY_MS;
    o.handle_signals = false;
    o.user = run;
    o.source = next_task;
    o.source_cancel = cancel_input;
    o.on_success = o.on_error = task_ended;
    o.on_setup_fail = setup_failed;
    o.on_cleanup_fail = cleanup_failed;
    o.on_worker_exit = worker_exited;
    o.on_device_out = device_out;
    int rc = gd_dispatcher_open(&run->d, &o);
    if (rc == GD_E_NO_DEVICES)
        return cli_error("--gpus %s: %s", r->gpus, gd_error_text());
    return rc < 0 ? cli_error("%s", gd_error_text()) : 0;
}

/* --- the input --------------------------------------------------------------------------------- */

static int open_input(struct run *run)
{
    const struct cli_run *r = &run->asked;
    const struct cli_input_options o = { .sources = r->sources,
                                         .n_sources = r->n_sources,
                                         .format = r->jsonl ? CLI_FORMAT_JSONL
                                                   : r->nul ? CLI_FORMAT_NUL
                                                            : CLI_FORMAT_LINES,
                                         .skip_blank = r->skip_blank,
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
    return 0;
}

/* --- who is where --------------------------------------------------------------------------------- */

static void show_map(const struct run *run)
{
    const struct gd_worker_stats *w = run->workers;
    struct gd_devices *devices = NULL;
    if (gd_devices_open(&devices, run->asked.gpus) < 0)
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
        return cli_error("%s", gd_error_text());
    run->workers = calloc((size_t)n + 1, sizeof *run->workers);
    if (!run->workers)
        return cli_error("out of memory");
    run->n_workers = (size_t)gd_dispatcher_worker_stats(run->d, run->workers, sizeof *run->workers, (size_t)n);
    if (run->asked.verbose)
        show_map(run);
    return 0;
}

static int open_balancer(struct run *run)
{
    int *ids = calloc(run->n_workers + 1, sizeof *ids), rc = -1;
    unsigned *workers = calloc(run->n_workers + 1, sizeof *workers);
    if (!ids || !workers) {
        (void)cli_error("out of memory");
        goto out;
    }
    size_t n_ids = gpus_of(run->workers, run->n_workers, ids, workers);
    rc = gd_balancer_open(&run->balancer, ids, n_ids, workers[0], cli_input_total(run->input));
    if (rc < 0)
        (void)cli_error("%s", gd_error_text());
    for (size_t i = 0; rc == 0 && i < n_ids; i++)
        gd_balancer_set_workers(run->balancer, ids[i], workers[i]);
out:
    free(ids);
    free(workers);
    return rc;
}

/* --- all of it -------------------------------------------------------------------------------------- */

static int open_run(struct run *run)
{
    run->halt = run->asked.halt;
    if (open_workers(run) < 0 || open_dispatcher(run) < 0 || open_input(run) < 0 || list_workers(run) < 0 ||
        open_balancer(run) < 0)
        return -1;
    if (cli_sinks_open(&run->sinks, &run->asked, run->command) < 0)
        return -1;
    if (cli_sinks_draw(&run->sinks, &run->asked, stats_now, run) < 0)
        return -1;
    return cli_interrupt_open(&run->interrupt, run->d, say_line, run); /* last: its thread uses all of the above */
}

static void close_run(struct run *run)
{
    cli_interrupt_close(&run->interrupt);
    cli_sinks_close(&run->sinks);
    gd_balancer_close(&run->balancer);
    free(run->workers);
    gd_dispatcher_close(&run->d);
    cli_input_close(&run->input);
    gd_command_close(&run->command);
    gd_argv_free(run->argv);
    free_argv(run->own_argv);
    cli_run_free(&run->asked);
}

static int do_run(struct run *run)
{
    int rc = gd_dispatcher_run(run->d);
    cli_interrupt_stop(run->interrupt); /* it speaks beside the progress display, which goes next */
    cli_sinks_undraw(&run->sinks);
    if (cli_interrupt_count(run->interrupt) > 0)
        rc = GD_E_INTERRUPTED;
    else if (rc < 0 && rc != GD_E_SHUTDOWN)
        cli_say("%s", gd_error_text());
    cli_output_end_line(run->sinks.output);
    const bool broken = cli_sinks_broken(&run->sinks);
    if (!run->asked.quiet && !run->asked.dry_run && !broken)
        (void)gd_balancer_print(run->balancer, stderr, run->asked.input_dir ? "files" : "tasks");
    /* Closing can fail too: what a log could not take shows in the exit status. */
    struct cli_sinks sinks = run->sinks;
    run->sinks = (struct cli_sinks){ 0 };
    cli_sinks_close(&sinks);
    return cli_status(&run->halt, rc, sinks.failed || broken);
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

int cli_run_main(int argc, char **argv)
{
    struct run run = { 0 };
    int status = CLI_STATUS_ERROR;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file larger than `ulimit -f` is an error like a full disk */
    int rc = cli_run_parse(&run.asked, argc, argv);
    if (rc == 0 && explain(&run.asked) == 0)
        status = 0;
    else if (rc < 0 || open_run(&run) < 0)
        cli_say("%s", cli_error_text());
    else
        status = do_run(&run);
    close_run(&run);
    return status;
}
