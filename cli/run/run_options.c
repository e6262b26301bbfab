/* SPDX-License-Identifier: MIT
 *
 * The options of `gpu-dispatch run`, and the arguments after them: the command (or the arguments of a worker program)
 * up to the first of
 *
 *   ::: ARGUMENT...      :::+ ARGUMENT...     a source of arguments; + pairs them with those of the source before
 *   :::: FILE...         ::::+ FILE...        each file is a source
 *
 * -a FILE is a source before all of these.
 */
#include "cli/run/run_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/text/parse.h"
#include "cli/input/sources.h"
#include "cli/run/queue/run_queue.h"
#include "cli/run/shard/shard_options.h"

/* --- options that need their own parser ------------------------------------------------------- */

int cli_set_workers(const struct cli_opt *opt, void *field, const char *text)
{
    struct cli_workers *w = field;
    uint64_t number;
    (void)opt;
    if (strncmp(text, "auto:", 5) == 0) {
        if (gd__parse_size(text + 5, &w->model_bytes) < 0 || w->model_bytes == 0)
            return gd__fail("-j %s: after \"auto:\" give the device memory of one worker, as in auto:6G", text);
        w->per_gpu = 0;
        return 0;
    }
    if (strcmp(text, "auto") == 0)
        return gd__fail("-j auto needs the device memory of one worker, as in -j auto:6G");
    if (gd__parse_number("-j", text, 1, 1024, &number) < 0)
        return -1;
    w->per_gpu = (unsigned)number;
    w->model_bytes = 0;
    return 0;
}

static int set_order(const struct cli_opt *opt, void *field, const char *text)
{
    struct cli_run *r = (struct cli_run *)((char *)field - opt->offset);
    r->order.given = true;
    return cli_order_parse(text, &r->order.order);
}

/* "panel, bar or none" */
static const char *join_choices(char *out, size_t size, const char *const *choices)
{
    size_t length = 0;
    for (size_t i = 0; choices[i] && length < size; i++) {
        const char *before = i == 0 ? "" : choices[i + 1] ? ", " : " or ";
        length += (size_t)snprintf(out + length, size - length, "%s%s", before, choices[i]);
    }
    return out;
}

static int one_of(const char *name, const char *const *choices, const char **field, const char *text)
{
    char list[128] = "";
    for (size_t i = 0; choices[i]; i++) {
        if (strcmp(text, choices[i]) == 0) {
            *field = choices[i];
            return 0;
        }
    }
    return gd__fail("%s takes %s, not \"%s\"", name, join_choices(list, sizeof list, choices), text);
}

int cli_set_progress(const struct cli_opt *opt, void *field, const char *text)
{
    static const char *const choices[] = { "auto", "panel", "bar", "eta", "line", "json", "none", NULL };
    (void)opt;
    return one_of("--progress", choices, field, text);
}

int cli_set_sync(const struct cli_opt *opt, void *field, const char *text)
{
    static const char *const choices[] = { "normal", "full", NULL };
    (void)opt;
    return one_of("--sync", choices, field, text);
}

static int set_visible(const struct cli_opt *opt, void *field, const char *text)
{
    static const char *const choices[] = { "uuid", "index", NULL };
    const char *chosen = NULL;
    (void)opt;
    if (one_of("--visible-devices", choices, &chosen, text) < 0 || !chosen)
        return -1;
    *(enum gd_visible_devices *)field = strcmp(chosen, "index") == 0 ? GD_VISIBLE_INDEX : GD_VISIBLE_UUID;
    return 0;
}

int cli_set_retries(const struct cli_opt *opt, void *field, const char *text)
{
    struct cli_retries *r = field;
    r->given = true;
    return cli_set_number(opt, &r->tries, text);
}

static int set_seed(const struct cli_opt *opt, void *field, const char *text)
{
    struct cli_run *r = (struct cli_run *)((char *)field - opt->offset);
    r->seeded = true;
    return cli_set_number64(opt, field, text);
}

static int set_halt(const struct cli_opt *opt, void *field, const char *text)
{
    (void)opt;
    return cli_halt_parse(field, text);
}

int cli_set_timeout(const struct cli_opt *opt, void *field, const char *text)
{
    if (strchr(text, '%'))
        return gd__fail("--timeout %s: a percentage is not supported; write a duration, as in 30s or 5m", text);
    return cli_set_duration(opt, field, text);
}

bool cli_is_plugin(const char *path)
{
    for (const char *so = strstr(path, ".so"); so; so = strstr(so + 1, ".so")) {
        if ((so[3] == '\0' || so[3] == '.') && strspn(so + 3, ".0123456789") == strlen(so + 3))
            return true;
    }
    return false;
}

/* All arguments after a program are its own, even if they look like options of ours. There are two exceptions: a plugin
 * takes no arguments, and a string with spaces already contains the arguments. Options of ours may follow these two. */
static bool is_program(const char *value)
{
    return !strpbrk(value, " \t") && !cli_is_plugin(value);
}

/* --- the table -------------------------------------------------------------------- */

#define AT(field) .offset = offsetof(struct cli_run, field)

static const struct cli_opt table[] = {
    { "gpus", 0, "SPEC",
      "devices to use: auto (all GPUs); 0,2 or 0-3 (numbers); 0+1,2+3 (groups); a UUID or its start; free:2 (wait for "
      "2 unused GPUs); sim:4 (4 simulated GPUs); cpu:8 (8 workers, no GPU) (default auto)",
      cli_set_text, AT(gpus), .group = "Devices and workers" },
    { "workers-per-gpu", 'j', "N",
      "number of workers on each GPU; auto:6G starts as many as fit if each needs 6 GiB of free GPU memory (default 1)",
      cli_set_workers, AT(workers) },
    { "jobs", 0, "N", NULL, cli_set_workers, AT(workers) },
    { "gpus-per-worker", 0, "K",
      "give each worker a group of K GPUs; groups are formed from the best-connected GPUs (default 1)", cli_set_number,
      AT(gpus_per_worker), .min = 1, .max = 32 },
    { "visible-devices", 0, "FORM",
      "how CUDA_VISIBLE_DEVICES names the GPUs of a worker: uuid, or index for programs that cannot read UUIDs "
      "(default "
      "uuid)",
      set_visible, AT(visible_devices) },
    { "worker", 0, "FILE",
      "run a worker plugin (.so), or a program that calls gd_worker_main(), instead of a command; the words after a "
      "program are its arguments",
      cli_set_text, AT(worker), .is_last = is_program },
    { "stream", 0, "PROGRAM",
      "run a program that stays alive and exchanges JSON lines, instead of a command; the words after it are its "
      "arguments",
      cli_set_text, AT(stream), .is_last = is_program },
    { "setup-args", 0, "TEXT", "pass TEXT to the setup function of every --worker", cli_set_text, AT(setup_args) },
    { "setup-jobs", 0, "N", "set up at most N workers at the same time (default all)", cli_set_number, AT(setup_jobs),
      .min = 1, .max = 65536 },
    { "setup-timeout", 0, "TIME", "stop a worker that is not ready after TIME (default: no limit)", cli_set_duration,
      AT(setup_timeout_ms) },
    { "batch-size", 0, "N", "give a --worker up to N tasks at once", cli_set_number, AT(batch_size), .min = 1,
      .max = 65536 },
    { "io-threads", 0, "N", "number of threads in each --worker that load the next tasks while one runs (default 1)",
      cli_set_number, AT(io_threads), .min = 1, .max = 1024 },
    { "ignore-gpu-locks", 0, NULL, "also use GPUs that another run has locked with --gpus free, and lock no GPU",
      cli_set_flag, AT(ignore_gpu_locks) },
    { "any-cpu", 0, NULL, "let workers run on any CPU, not only on the CPUs near their GPU", cli_set_flag,
      AT(any_cpu) },
    { "seed", 0, "N",
      "give each worker the seed N plus its GPU number (default 42); with --shuf, N also determines the order",
      set_seed, AT(seed) },

    { "arg-file", 'a', "FILE",
      "create a task for each line of FILE (- is standard input); several files give all combinations", cli_set_list,
      AT(arg_files), .group = "Input" },
    { "null", '0', NULL, "input lines end with a NUL character instead of a newline", cli_set_flag, AT(nul) },
    { "jsonl", 0, NULL, "each input line is a JSON value; a --stream program gets it unchanged", cli_set_flag,
      AT(jsonl) },
    { "input-dir", 0, "DIR", "create a task for each file in DIR", cli_set_text, AT(input_dir) },
    { "watch", 0, "DIR",
      "create a task for each file in DIR, and for new files as they are completed, until Ctrl-C or --idle-exit",
      cli_set_text, AT(watch) },
    { "pattern", 0, "GLOB", "use only files whose names match, such as '*.wav'; may be repeated", cli_set_list,
      AT(patterns) },
    { "recursive", 0, NULL, "also use files in the subdirectories of DIR", cli_set_flag, AT(recursive) },
    { "order", 0, "ORDER",
      "order of the files: size (largest first, so that the run ends soonest), name or none (default size)", set_order,
      AT(order) },
    { "shuf", 0, NULL, "run the tasks in random order", cli_set_flag, AT(shuffle) },
    { "no-run-if-empty", 'r', NULL, "skip inputs that are empty or only white space", cli_set_flag, AT(skip_blank) },
    { "queue-size", 0, "N", "read at most N tasks ahead (default 1024)", cli_set_number, AT(queue_size), .min = 1,
      .max = 1 << 24 },

    { "quote", 'q', NULL, "quote the words of the command, so that the shell does not interpret them", cli_set_flag,
      AT(quote), .group = "Tasks" },
    { "timeout", 0, "TIME", "end a task that runs longer than TIME, such as 30s, 5m or 1.5h", cli_set_timeout,
      AT(timeout_ms) },
    { "term-grace", 0, "TIME", "time from SIGTERM to SIGKILL when a task is ended (default 1s)", cli_set_duration,
      AT(term_grace_ms) },
    { "stop-grace", 0, "TIME",
      "after SIGTERM, end the whole run within TIME; running tasks get most of this time (default 25s)",
      cli_set_duration, AT(stop_grace_ms) },
    { "retries", 0, "N", "try a failing task up to N times in all; 0 means until it succeeds (default 1)",
      cli_set_retries, AT(retries), .max = 1000000 },
    { "crash-limit", 0, "N", "fail a task that has killed its worker N times (default 3)", cli_set_number,
      AT(crash_limit), .min = 1, .max = 1000000 },
    { "max-tasks-per-worker", 0, "N",
      "give a worker a new process after N tasks, for code that leaks (default 0: never)", cli_set_number,
      AT(max_tasks_per_worker), .max = 1 << 30 },
    { "delay", 0, "TIME", "wait at least TIME between the starts of two tasks", cli_set_duration, AT(delay_ms) },
    { "halt", 0, "WHEN",
      "when to stop early, such as soon,fail=1 or now,success=3 or soon,done=50%; soon lets running tasks finish, now "
      "kills "
      "them (default never)",
      set_halt, AT(halt) },
    { "dry-run", 0, NULL, "print the commands without running them", cli_set_flag, AT(dry_run) },

    { "keep-order", 'k', NULL, "print output in the order of the input", cli_set_flag, AT(keep_order),
      .group = "Output" },
    { "tag", 0, NULL, "start each line of output with its input and a TAB", cli_set_flag, AT(tag) },
    { "ungroup", 'u', NULL, "print output immediately, unbuffered; the output of several tasks may mix", cli_set_flag,
      AT(ungroup) },
    { "joblog", 0, "FILE",
      "write a line for each task: start, duration, exit code, command, in the columns of GNU parallel", cli_set_text,
      AT(joblog) },
    { "results", 0, "DIR", "also save the output of each task in files below DIR", cli_set_text, AT(results) },
    { "output", 0, "FILE",
      "write a JSON line for each task: id, input, status, output or error, attempt, worker, gpu, started, seconds; - "
      "is standard output",
      cli_set_text, AT(output) },
    { "bar", 0, NULL, "show a progress bar", cli_set_flag, AT(bar) },
    { "eta", 0, NULL, "show the progress and the estimated time left", cli_set_flag, AT(eta) },
    { "quiet", 0, NULL, "show no progress and no summary", cli_set_flag, AT(quiet) },
    { "verbose", 'v', NULL, "show the GPU of each worker, and report replaced workers", cli_set_flag, AT(verbose) },
    { "progress", 0, "HOW",
      "how to show progress: panel, bar, eta, line (one every few seconds), json or none (default: panel on a "
      "terminal, otherwise line)",
      cli_set_progress, AT(progress) },
    { "http", 0, "[ADDR:]PORT", "show the run on a web page at this address (ADDR is 127.0.0.1 unless given)",
      cli_set_text, AT(http) },
    { "http-token-file", 0, "FILE",
      "private file (mode 600) with the access token of the web page (default: $GPU_DISPATCH_HTTP_TOKEN, or a random "
      "token that is printed with the address)",
      cli_set_text, AT(http_token_file) },

    { "journal", 0, "FILE", "record finished tasks in FILE, so that a killed run can be resumed", cli_set_text,
      AT(journal), .group = "Durable runs" },
    { "resume", 0, NULL, "skip the tasks that the journal records as finished, whether they succeeded or failed",
      cli_set_flag, AT(resume) },
    { "retry-failed", 0, NULL,
      "run the tasks that the journal records as failed; with --resume, also run the remaining tasks", cli_set_flag,
      AT(retry_failed) },
    { "force-resume", 0, NULL,
      "resume even if the command differs from the one in the journal, or if output files are missing or were edited",
      cli_set_flag, AT(force_resume) },
    { "key", 0, "WHAT",
      "what identifies a task: input; file (path, size and time); path; or .NAME, a member of its JSON (default: file "
      "with --input-dir, otherwise input)",
      cli_set_text, AT(key) },
    { "sync", 0, "HOW",
      "what the journal survives: normal (kill -9), or full (kill -9 and power loss) (default normal)", cli_set_sync,
      AT(sync) },
    { "failed", 0, "FILE",
      "write a JSON line for each failed task: input, failure, error, attempts, end of its stderr; FILE can be used as "
      "input with --jsonl -a",
      cli_set_text, AT(failed) },

    { "shard", 0, "K/N",
      "run only shard K of N of the inputs: 3/16 (the third of 16), auto (as Slurm, MPI or torchrun set it) or auto/16 "
      "(for Kubernetes); --journal, --output, --joblog and --failed get names such as run.3-of-16.db",
      cli_set_text, AT(shard_text), .group = "Several machines" },
    { "skip-done", 0, "FILE",
      "also skip the tasks that succeeded according to this other journal, for when the number of shards has changed; "
      "may "
      "be repeated",
      cli_set_list, AT(skip_done) },
    { "lock-wait", 0, "TIME",
      "wait up to TIME if another run uses the journal (default 2m with --shard or in a Slurm job, otherwise 0)",
      cli_set_lock_wait, AT(lock_wait) },

    CLI_QUEUE_URL(struct cli_run, queue,
                  "take the tasks from this queue, such as nats://host/NAME; gpu-dispatch push adds them; run this on "
                  "any number of machines",
                  "Queue"),
    { "idle-exit", 0, "TIME",
      "with --queue: leave after TIME without a task; never: stay even if the queue is done (default: leave when the "
      "queue is done). With --watch: end after TIME without a new file (default never)",
      cli_set_idle_exit, AT(idle_exit) },
    { "spool", 0, "FILE",
      "file for records that the server has not confirmed yet; the next node with this file publishes them (default: "
      "in ~/.local/state/gpu-dispatch)",
      cli_set_text, AT(spool) },
    { "lost-timeout", 0, "TIME", "give up if the server of the queue cannot be reached for TIME (default 10m)",
      cli_set_duration, AT(lost_timeout_ms) },
    { "force", 0, NULL, "run even if other nodes of this queue run another command", cli_set_flag, AT(queue_force) },
    CLI_QUEUE_SPILL_DIR(struct cli_run, queue),
    CLI_QUEUE_CREDENTIALS(struct cli_run, queue),

    { "help", 'h', NULL, "show this help", cli_set_flag, AT(help), .group = "Help" },
    { "list-options", 0, NULL, NULL, cli_set_flag, AT(list_options) },
    { .name = NULL },
};

const struct cli_opts cli_run_options = {
    .command = "run",
    .usage = "usage: gpu-dispatch run [OPTIONS] [--] COMMAND [WORD...] [::: INPUT...]\n"
             "       gpu-dispatch run [OPTIONS] --worker FILE [ARG...] [::: INPUT...]\n"
             "       gpu-dispatch run [OPTIONS] --stream PROGRAM [ARG...] [::: INPUT...]\n"
             "\n"
             "Runs COMMAND once for each input, one task at a time on each GPU. The inputs are\n"
             "the words after :::, or the lines of the files after :::: or -a, or the files in\n"
             "--input-dir. If none of these is given, they are the lines of standard input.\n"
             "\n"
             "Examples:\n"
             "  gpu-dispatch run python3 infer.py {} ::: *.jpg\n"
             "  gpu-dispatch run -k --retries 3 --timeout 5m ./transcribe {} {.}.txt ::: *.wav\n"
             "  ls | gpu-dispatch run --gpus sim:2 echo {} is task {#} on GPU {gpu}\n"
             "  gpu-dispatch run --input-dir data --pattern '*.wav' --recursive \\\n"
             "      --output out.jsonl --stream python3 worker.py --model large\n",
    .table = table,
    .after = "Placeholders: {} the input, {.} without its extension, {/} its base name,\n"
             "{//} its directory, {/.} base name without extension, {#} task number,\n"
             "{%} worker number, {gpu} GPU number, {2} the second argument of the task.\n"
             "\n"
             "Exit status: 0 all tasks succeeded; 1-100 number of failed tasks; 101 more than\n"
             "100 failed; 130 Ctrl-C; 143 SIGTERM; 129 SIGHUP; 255 any other error.\n"
             "More: gpu-dispatch help, man gpu-dispatch-run.\n",
};

/* --- the arguments after the options --------------------------------------------------- */

/* Puts a program in front of the arguments. A string with spaces, if it is not the name of a file, is the program and
 * its first arguments. */
static int put_program(struct cli_run *r, const char *program)
{
    char *next = NULL;
    if (!*program)
        return 0; /* the program is the first of the arguments */
    r->split = strdup(program);
    if (!r->split)
        return gd__fail("out of memory");
    bool whole = access(program, F_OK) == 0;
    for (char *word = whole ? r->split : strtok_r(r->split, " \t", &next); word;
         word = whole ? NULL : strtok_r(NULL, " \t", &next))
        r->words[r->n_words++] = word;
    return 0;
}

static int read_words(struct cli_run *r, int argc, char **argv)
{
    const char *program = r->stream ? r->stream : r->worker ? r->worker : "";
    const bool is_missing = cli_is_separator(program); /* the inputs begin where the program should be */
    r->words = calloc((size_t)argc + strlen(program) + 4, sizeof *r->words);
    if (!r->words)
        return gd__fail("out of memory");
    if (put_program(r, program) < 0)
        return -1;
    for (int i = 0; i < argc; i++)
        r->words[r->n_words++] = argv[i];
    if ((r->n_words == 0 || is_missing) && (r->stream || r->worker))
        return gd__fail("--%s needs a program: --%s PROGRAM", r->stream ? "stream" : "worker",
                        r->stream ? "stream" : "worker");
    return 0;
}

/* --- options that exclude each other ------------------------------------------------------- */

static int check(const struct cli_run *r)
{
    const bool command = !r->stream && !r->worker, dir = r->input_dir || r->watch;
    const struct {
        bool wrong;
        const char *message;
    } rules[] = {
        { r->stream && r->worker, "--stream and --worker cannot be combined: give one of them" },
        { r->input_dir && r->watch, "--input-dir and --watch cannot be combined: give one of them" },
        { r->patterns.n && !dir, "--pattern selects files of a directory: give --input-dir DIR or --watch DIR too" },
        { r->recursive && !dir,
          "--recursive is for the files of a directory: give --input-dir DIR or --watch DIR too" },
        { r->order.given && !dir, "--order is for the files of a directory: give --input-dir DIR or --watch DIR too" },
        { r->watch && r->shuffle, "--shuf needs all inputs first: it cannot be combined with --watch" },
        { r->watch && r->dry_run, "--dry-run is not possible with --watch: use --input-dir to see the commands" },
        { r->watch && cli_halt_needs_total(&r->halt),
          "--halt with a percentage is not possible with --watch: the number of tasks is not known" },
        { r->watch && r->shard_text,
          "--watch cannot be combined with --shard: give each machine a directory of its own, or use a queue" },
        { r->idle_exit.given && !r->watch && !r->queue.url,
          "--idle-exit is for a queue or a directory: give --queue nats://HOST/NAME or --watch DIR too" },
        { r->nul && r->jsonl, "-0 and --jsonl are two input formats: give one of them" },
        { r->nul && r->input_dir, "-0 is for inputs read from files: it cannot be combined with --input-dir" },
        { r->jsonl && r->input_dir, "--jsonl is for inputs read from files: it cannot be combined with --input-dir" },
        { r->nul && r->watch, "-0 is for inputs read from files: it cannot be combined with --watch" },
        { r->jsonl && r->watch, "--jsonl is for inputs read from files: it cannot be combined with --watch" },
        { r->tag && r->ungroup, "--tag needs the output of each task separately: it cannot be combined with -u" },
        { r->keep_order && r->ungroup, "-k needs the output of each task separately: it cannot be combined with -u" },
        { r->results && r->ungroup,
          "--results needs the output of each task separately: it cannot be combined with -u" },
        { r->output && r->ungroup, "--output needs the output of each task separately: it cannot be combined with -u" },
        { r->bar && r->eta, "--bar and --eta cannot be combined: give one of them" },
        { (r->bar || r->eta) && r->progress, "--bar, --eta and --progress cannot be combined: give one of them" },
        { r->journal && !*r->journal, "--journal needs the name of a file: --journal FILE" },
        { r->resume && !r->journal, "--resume needs a journal: give --journal FILE" },
        { r->retry_failed && !r->journal, "--retry-failed needs a journal: give --journal FILE" },
        { r->force_resume && !r->journal, "--force-resume needs a journal: give --journal FILE" },
        { r->key && !r->journal, "--key chooses what identifies a task in a journal: give --journal FILE" },
        { r->sync && !r->journal, "--sync is for a journal: give --journal FILE" },
        { r->skip_done.n && !r->journal, "--skip-done needs a journal for this run: give --journal FILE" },
        { r->lock_wait.given && !r->journal, "--lock-wait is for a journal: give --journal FILE" },
        { r->journal && r->dry_run, "--dry-run runs nothing, so there is nothing to record: leave out --journal" },
        { r->http_token_file && !r->http, "--http-token-file is for --http: give --http too" },
        { !command && r->ungroup, "-u is for commands: it cannot be combined with --stream or --worker" },
        { !command && r->quote, "-q is for commands: it cannot be combined with --stream or --worker" },
        { !command && r->dry_run, "--dry-run is for commands: it cannot be combined with --stream or --worker" },
        { !r->worker && r->setup_args, "--setup-args is for workers: give --worker FILE too" },
        { !r->worker && r->batch_size, "--batch-size is for workers: give --worker FILE too" },
        { !r->worker && r->io_threads, "--io-threads is for workers: give --worker FILE too" },
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].wrong)
            return gd__fail("%s", rules[i].message);
    }
    return 0;
}

static int read_sources(struct cli_run *r, int argc, char **argv)
{
    struct cli_sources all = { 0 };
    const struct cli_source_dir dir = { .path = r->watch ? r->watch : r->input_dir, .watch = r->watch != NULL };
    const int rc = cli_sources_read(&all, &r->arg_files, dir, argc, argv);
    r->sources = all.items;
    r->n_sources = all.n;
    return rc;
}

/* A run with a queue has a source without inputs. */
static int read_queue(struct cli_run *r)
{
    if (cli_run_queue_check(r, r->n_sources > 0) < 0)
        return -1;
    if (!r->queue.url)
        return 0;
    struct cli_sources all = { r->sources, r->n_sources };
    const int rc = cli_sources_add(&all, (struct cli_source){ .kind = CLI_SOURCE_WORDS });
    r->sources = all.items;
    r->n_sources = all.n;
    return rc;
}

void cli_run_defaults(struct cli_run *r)
{
    *r = (struct cli_run){ .gpus = "auto",
                           .workers.per_gpu = 1,
                           .seed = 42,
                           .term_grace_ms = 1000,
                           .stop_grace_ms = 25000,
                           .retries.tries = 1,
                           .crash_limit = 3,
                           .queue_size = 1024 };
}

int cli_run_parse(struct cli_run *r, int argc, char **argv)
{
    cli_run_defaults(r);
    int first = cli_opts_parse(&cli_run_options, r, argc, argv);
    if (first < 0)
        return -1;
    if (r->help || r->list_options)
        return 0;
    int end = first;
    while (end < argc && !cli_is_separator(argv[end]))
        end++;
    if (cli_run_queue_check(r, r->arg_files.n > 0 || r->input_dir || r->watch) < 0 || check(r) < 0 ||
        read_words(r, end - first, argv + first) < 0 || read_sources(r, argc - end, argv + end) < 0)
        return -1;
    return read_queue(r) < 0 ? -1 : cli_shard_options_apply(r);
}

void cli_run_free(struct cli_run *r)
{
    free(r->arg_files.items);
    free(r->patterns.items);
    free(r->words);
    free(r->sources);
    free(r->split);
    cli_shard_options_free(r);
}
