/* SPDX-License-Identifier: MIT
 *
 * The sinks of a run. A sink that fails is reported once, and the exit status of the run shows it. Without a journal
 * the run goes on, because the tasks matter more than their log. With a journal the run ends, because tasks without
 * output are not recorded as done.
 *
 *   lane      added to by                        writes
 *   tasks     the run's thread                   --joblog, --results, --output, --failed, then stdout and stderr of the
 *                                                task, then its record in the journal; also the output of workers
 *   messages  any thread that calls cli_say()    standard error; the end of the progress display
 *
 * A message is printed after the output of the tasks that ended before it. If that output is stuck, the message is
 * printed after a short time (IN_TURN_MS).
 */
#include "cli/output/sinks.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/file/write.h"
#include "binding.h"
#include "cli/run/queue/run_queue.h"
#include "cli/say.h"
#include "tui/terminal.h"

enum {
    GPUS_MOST = 32,           /* the most GPUs of a worker */
    TASKS_LIMIT = 64 << 20,   /* bytes waiting to be written; above this no new task is begun */
    MESSAGES_LIMIT = 1 << 20, /* bytes waiting; above this messages are only counted */
    PACKED_ROOM = 1 << 16,    /* bytes of tasks that end in one round and are added together */
    IN_TURN_MS = 200,         /* how long messages wait for the output of earlier tasks */
};

/* --- opening --------------------------------------------------------------------------- */

/* The headings are written after the journal has cut the file back. */
static int open_joblog(struct cli_sinks *s, const struct cli_run *r, const struct gd_command *command, bool append)
{
    if (cli_joblog_open(&s->joblog, r->joblog, command, append) < 0 ||
        cli_journal_follow(s->journal, r->joblog, cli_joblog_fd(s->joblog)) < 0)
        return -1;
    return cli_joblog_begin(s->joblog);
}

static int open_results(struct cli_sinks *s, const struct cli_run *r)
{
    if (cli_results_open(&s->results, r->results) < 0)
        return -1;
    cli_results_sync(s->results, r->sync && strcmp(r->sync, "full") == 0);
    return 0;
}

static int open_records(struct cli_sinks *s, const struct cli_run *r, bool append)
{
    if (cli_records_open(&s->records, r->output, append) < 0 ||
        cli_journal_follow(s->journal, r->output, cli_records_fd(s->records)) < 0)
        return -1;
    cli_records_json_input(s->records, r->jsonl);
    cli_records_run(s->records, cli_journal_run(s->journal));
    s->output_path = r->output;
    return 0;
}

int cli_sinks_open(struct cli_sinks *s, const struct cli_run *r, const struct gd_command *command,
                   struct cli_journal *journal)
{
    const bool append = journal != NULL; /* the journal empties the files, or cuts them back */
    s->journal = journal;
    s->is_durable = journal || r->queue.url;
    /* All files are checked before the first is cut back. */
    if (cli_journal_check(journal, r->joblog) < 0 || cli_journal_check(journal, r->output) < 0)
        return -1;
    if (r->joblog && open_joblog(s, r, command, append) < 0)
        return -1;
    if (r->results && open_results(s, r) < 0)
        return -1;
    if (r->output && open_records(s, r, append) < 0)
        return -1;
    /* With a journal, the list of failures is made from the journal at the end of the run. */
    return r->failed && !journal ? cli_failures_open(&s->failures, r->failed, r->jsonl) : 0;
}

/* The default style: the panel on a terminal, unless the user types the inputs there. */
static enum cli_progress_style usual_style(const struct cli_run *r)
{
    const bool typed = r->n_sources == 0 && isatty(STDIN_FILENO);
    if (r->quiet || r->dry_run)
        return CLI_PROGRESS_NONE;
    return tui_can_draw(STDERR_FILENO) && !typed ? CLI_PROGRESS_PANEL : CLI_PROGRESS_LINE;
}

enum cli_progress_style cli_sinks_style(const struct cli_run *r)
{
    static const struct {
        const char *name;
        enum cli_progress_style style;
    } styles[] = {
        { "panel", CLI_PROGRESS_PANEL }, { "bar", CLI_PROGRESS_BAR },   { "eta", CLI_PROGRESS_ETA },
        { "line", CLI_PROGRESS_LINE },   { "json", CLI_PROGRESS_JSON }, { "none", CLI_PROGRESS_NONE },
    };
    if (r->bar || r->eta)
        return r->bar ? CLI_PROGRESS_BAR : CLI_PROGRESS_ETA;
    for (size_t i = 0; r->progress && i < sizeof styles / sizeof styles[0]; i++) {
        if (strcmp(r->progress, styles[i].name) != 0)
            continue;
        const bool cannot = styles[i].style == CLI_PROGRESS_PANEL && !tui_can_draw(STDERR_FILENO);
        return cannot ? CLI_PROGRESS_LINE : styles[i].style;
    }
    return usual_style(r);
}

static int open_progress(struct cli_sinks *s, enum cli_progress_style style, cli_stats_fn *stats, void *user,
                         struct cli_watch *watch)
{
    if (style == CLI_PROGRESS_NONE)
        return 0;
    if (style == CLI_PROGRESS_PANEL || style == CLI_PROGRESS_JSON)
        return cli_progress_open_view(&s->progress, STDERR_FILENO, style, cli_watch_read, watch);
    return cli_progress_open(&s->progress, STDERR_FILENO, style, stats, user);
}

static void hold(void *user, bool full)
{
    const struct cli_sinks *s = user;
    gd__dispatcher_hold(s->d, full);
}

static bool is_same_file(int a, int b)
{
    struct stat one, other;
    return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

static void add_message(void *user, const char *line, size_t size);

static int open_lanes(struct cli_sinks *s)
{
    const struct cli_lane_options tasks = { .name = "gd-output", .limit = TASKS_LIMIT, .full = hold, .user = s };
    const struct cli_lane_options messages = { .name = "gd-messages", .limit = MESSAGES_LIMIT };
    pthread_mutex_init(&s->err_lock, NULL);
    s->one_stream = is_same_file(STDOUT_FILENO, STDERR_FILENO);
    s->thread = pthread_self();
    s->packed = aligned_alloc(CLI_TASK_END_ALIGN, PACKED_ROOM);
    if (!s->packed)
        return gd__fail("out of memory");
    if (cli_lane_open(&s->tasks, &tasks) < 0 || cli_lane_open(&s->messages, &messages) < 0)
        return -1;
    cli_set_speaker(add_message, s);
    return 0;
}

int cli_sinks_draw(struct cli_sinks *s, const struct cli_run *r, cli_stats_fn *stats, void *user,
                   struct cli_watch *watch)
{
    static const int fds[] = { STDOUT_FILENO, STDERR_FILENO };
    const enum cli_progress_style style = cli_sinks_style(r);
    if (open_lanes(s) < 0 || open_progress(s, style, stats, user, watch) < 0)
        return -1;
    cli_progress_media(s->progress, r->own.media);
    if (style == CLI_PROGRESS_PANEL && cli_worker_lines_open(&s->worker_lines, fds, s->progress) < 0)
        return -1;
    /* If the records go to standard output, nothing else does. */
    const struct cli_streams_options o = { .tag = r->tag,
                                           .silent = r->own.silent || (r->output && strcmp(r->output, "-") == 0),
                                           .progress = s->progress,
                                           .err_lock = &s->err_lock };
    return cli_streams_open(&s->output, &o);
}

/* --- our messages -------------------------------------------------------------------------- */

struct message_job {
    struct cli_job base;
    struct cli_sinks *sinks;
    uint64_t after; /* the last job of the tasks lane when the message was added */
    size_t size;
    char text[];
};

/* Writes a notice about dropped messages, which is printed before the next message. */
static size_t dropped_notice(struct cli_sinks *s, char *out, size_t room)
{
    const unsigned long long n = atomic_exchange(&s->dropped, 0);
    const int size = n ? snprintf(out, room, "%s: %llu messages were dropped here\n", cli_name(), n) : 0;
    return size > 0 ? (size_t)size : 0;
}

static void write_message(struct cli_job *base)
{
    struct message_job *w = (struct message_job *)base;
    struct cli_sinks *s = w->sinks;
    char missing[128];
    cli_lane_reach(s->tasks, w->after, s->one_stream ? UINT_MAX : IN_TURN_MS);
    cli_progress_pause(s->progress);
    pthread_mutex_lock(&s->err_lock);
    const size_t size = dropped_notice(s, missing, sizeof missing);
    /* If standard error can't be written, there is nowhere to report that. */
    if (gd__write_all(STDERR_FILENO, missing, size) == 0)
        (void)gd__write_all(STDERR_FILENO, w->text, w->size);
    pthread_mutex_unlock(&s->err_lock);
    cli_progress_resume(s->progress);
    free(w);
}

static void add_message(void *user, const char *line, size_t size)
{
    struct cli_sinks *s = user;
    struct message_job *w = malloc(sizeof *w + size);
    if (pthread_equal(pthread_self(), s->thread))
        cli_sinks_round(s);
    if (w) {
        *w = (struct message_job){ .base = { .run = write_message, .bytes = sizeof *w + size },
                                   .sinks = s,
                                   .after = cli_lane_last(s->tasks),
                                   .size = size };
        memcpy(w->text, line, size);
    }
    if (w && cli_lane_try_add(s->messages, &w->base))
        return;
    free(w);
    atomic_fetch_add(&s->dropped, 1);
}

void cli_sinks_print(struct cli_sinks *s, const char *text, size_t size)
{
    add_message(s, text, size);
}

/* --- output of tasks: on the lane ------------------------------------------------------------ */

static void check(struct cli_sinks *s, int rc)
{
    if (rc < 0 && !atomic_exchange(&s->failed, true))
        cli_say("%s", gd__fail_text());
}

/* Where the user finds the task's output. */
static const char *output_place(const struct cli_sinks *s, const struct cli_task_end *e)
{
    return s->results && e->report->start_ns ? cli_results_path(s->results) : s->output_path;
}

/* With a journal, a task that did not finish is left for a run that resumes, and with a queue for another node. That run
 * writes the record of the task. */
static bool is_left(const struct cli_sinks *s, const struct cli_task_end *e)
{
    const enum gd_failure why = e->report->failure;
    return s->is_durable && !e->ok && (why == GD_FAILURE_CANCELLED || why == GD_FAILURE_NO_WORKER);
}

static void write_all(struct cli_sinks *s, struct cli_task_end *e)
{
    int gpus[GPUS_MOST];
    if (s->d && e->slot > 0 && (s->joblog || s->records)) {
        const int n = gd_dispatcher_worker_gpus(s->d, e->slot - 1, gpus, GPUS_MOST);
        e->gpu_ids = gpus;
        e->n_gpus = n > 0 ? (size_t)n : 0;
    }
    if (s->joblog)
        check(s, cli_joblog_add(s->joblog, e));
    if (s->results)
        check(s, cli_results_add(s->results, e));
    if (s->records && !is_left(s, e))
        check(s, cli_records_add(s->records, e));
    if (s->failures)
        check(s, cli_failures_add(s->failures, e));
    check(s, cli_streams_add(s->output, e));
    e->gpu_ids = NULL;
    e->n_gpus = 0;
}

/* Called after each write. */
static void look_for_trouble(struct cli_sinks *s)
{
    if (cli_streams_broken(s->output) || cli_worker_lines_broken(s->worker_lines) ||
        (s->records && cli_records_broken(s->records)))
        s->broken = true;
    if ((s->broken || (s->is_durable && s->failed)) && !atomic_exchange(&s->troubled, true))
        s->trouble(s->user);
}

/* Ends of tasks, one after the other (cli_task_end_pack()), each with its deferred journal record or NULL. */
struct tasks_job {
    struct cli_job base;
    struct cli_sinks *sinks;
    size_t n;
    _Alignas(CLI_TASK_END_ALIGN) char ends[];
};

/* Writes the deferred journal record. A task is not recorded as done if its output could not be written, or if nothing
 * reads the output any more. */
static void settle(struct cli_sinks *s, void *record, const struct cli_task_end *e)
{
    if (!record)
        return;
    struct gd__record_note note;
    cli_journal_note(s->journal, e, output_place(s, e), s->failed || s->broken);
    cli_run_queue_note(&note, e, s->failed || s->broken);
    gd__record_settle(s->d, record, e->report, &note);
}

/* Returns the size of the packed task, or 0 if the lane was given up meanwhile. */
static size_t put_task(struct cli_sinks *s, const char *at)
{
    struct gd_report report;
    struct cli_task_end e;
    void *record;
    const size_t size = cli_task_end_unpack(&e, &report, at, &record);
    write_all(s, &e);
    if (!cli_lane_commit(s->tasks))
        return 0;
    look_for_trouble(s);
    settle(s, record, &e);
    atomic_fetch_sub(&s->waiting, 1);
    cli_lane_committed(s->tasks);
    return size;
}

static void put_tasks(struct cli_job *base)
{
    struct tasks_job *t = (struct tasks_job *)base;
    const char *at = t->ends;
    for (size_t i = 0, size = 1; i < t->n && size > 0; i++) {
        size = put_task(t->sinks, at);
        at += size;
    }
    free(t);
}

struct worker_lines_job {
    struct cli_job base;
    struct cli_sinks *sinks;
    int worker_id, stream;
    size_t size;
    char text[];
};

static void write_worker_lines(struct cli_job *base)
{
    struct worker_lines_job *p = (struct worker_lines_job *)base;
    struct cli_sinks *s = p->sinks;
    cli_worker_lines_add(s->worker_lines, p->worker_id, p->stream, p->text, p->size);
    if (cli_lane_commit(s->tasks)) {
        look_for_trouble(s);
        cli_lane_committed(s->tasks);
    }
    free(p);
}

/* --- output of tasks: added by the run's thread -------------------------------------------------- */

/* Whether nothing is written about the task. */
static bool has_no_output(const struct cli_sinks *s, const struct cli_task_end *e)
{
    const bool in_files = s->joblog || s->results || s->records || s->failures || s->is_durable;
    return !in_files && e->ok && e->kind == CLI_RESULT_COMMAND && e->out_size + e->err_size == 0;
}

static void lose_task(struct cli_sinks *s, const struct gd_report *r, struct gd__journal_task *record)
{
    gd__record_drop(record);
    check(s, gd__fail("out of memory: the output of task %llu is lost", (unsigned long long)r->task_id));
    if (s->is_durable && !atomic_exchange(&s->troubled, true))
        s->trouble(s->user);
}

static void lose_packed(struct cli_sinks *s)
{
    const char *at = s->packed;
    for (size_t i = 0; i < s->n_packed; i++) {
        struct gd_report report;
        struct cli_task_end e;
        void *record;
        at += cli_task_end_unpack(&e, &report, at, &record);
        lose_task(s, &report, record);
    }
}

/* NULL: no memory. */
static struct tasks_job *new_tasks_job(struct cli_sinks *s, size_t n, size_t size)
{
    /* Both sizes are multiples of the alignment. */
    struct tasks_job *t = aligned_alloc(CLI_TASK_END_ALIGN, sizeof *t + size);
    if (t)
        *t = (struct tasks_job){ .base = { .run = put_tasks, .bytes = sizeof *t + size }, .sinks = s, .n = n };
    return t;
}

static void add_tasks(struct cli_sinks *s, struct tasks_job *t)
{
    atomic_fetch_add(&s->waiting, t->n);
    (void)cli_lane_add(s->tasks, &t->base);
}

void cli_sinks_round(struct cli_sinks *s)
{
    if (s->n_packed == 0)
        return;
    struct tasks_job *t = new_tasks_job(s, s->n_packed, s->packed_size);
    if (t) {
        memcpy(t->ends, s->packed, s->packed_size);
        add_tasks(s, t);
    } else {
        lose_packed(s);
    }
    s->packed_size = s->n_packed = 0;
}

/* A large task gets a separate job, so that it is copied only once. */
static void add_large(struct cli_sinks *s, const struct cli_task_end *e, struct gd__journal_task *record, size_t size)
{
    struct tasks_job *t = new_tasks_job(s, 1, size);
    if (!t) {
        lose_task(s, e->report, record);
        return;
    }
    cli_task_end_pack(t->ends, e, record);
    add_tasks(s, t);
}

void cli_sinks_add(struct cli_sinks *s, const struct cli_task_end *e)
{
    struct gd__journal_task *record = gd__record_put_off(s->d);
    if (!record && has_no_output(s, e))
        return;
    const size_t size = cli_task_end_packed_size(e);
    if (size > PACKED_ROOM - s->packed_size)
        cli_sinks_round(s);
    if (size > PACKED_ROOM) {
        add_large(s, e, record, size);
        return;
    }
    cli_task_end_pack(s->packed + s->packed_size, e, record);
    s->packed_size += size;
    s->n_packed++;
}

void cli_sinks_pass(struct cli_sinks *s, int worker_id, int stream, const char *text, size_t size)
{
    struct worker_lines_job *p = s->worker_lines ? malloc(sizeof *p + size) : NULL;
    if (!p)
        return;
    cli_sinks_round(s);
    *p = (struct worker_lines_job){ .base = { .run = write_worker_lines, .bytes = sizeof *p + size },
                                    .sinks = s,
                                    .worker_id = worker_id,
                                    .stream = stream,
                                    .size = size };
    memcpy(p->text, text, size);
    (void)cli_lane_add(s->tasks, &p->base);
}

void cli_sinks_hurry(struct cli_sinks *s, unsigned signals)
{
    cli_lane_hurry(s->tasks, signals);
    cli_lane_hurry(s->messages, signals);
}

bool cli_sinks_broken(const struct cli_sinks *s)
{
    return s->broken;
}

/* --- the end ------------------------------------------------------------------------------------- */

struct call_job {
    struct cli_job base;
    struct cli_sinks *sinks;
    void (*call)(struct cli_sinks *s);
};

static void do_call(struct cli_job *base)
{
    struct call_job *c = (struct call_job *)base;
    c->call(c->sinks);
    free(c);
}

/* If there is no memory, the call is skipped. */
static void add_call(struct cli_lane *l, struct cli_sinks *s, void (*call)(struct cli_sinks *s))
{
    struct call_job *c = malloc(sizeof *c);
    if (!c)
        return;
    *c = (struct call_job){ .base = { .run = do_call, .bytes = sizeof *c }, .sinks = s, .call = call };
    (void)cli_lane_add(l, &c->base);
}

static void close_worker_lines(struct cli_sinks *s)
{
    cli_worker_lines_close(&s->worker_lines);
}

/* Called after the lane was given up. Reports how much output is lost. */
static void say_lost(struct cli_sinks *s)
{
    const unsigned long long n = s->waiting;
    if (n > 0)
        cli_say("the output of %llu task%s could not be written, because nothing reads it%s", n, n == 1 ? "" : "s",
                s->journal ? "; run the same command with --resume to run the tasks that are not in the journal" : "");
}

bool cli_sinks_flush(struct cli_sinks *s)
{
    if (s->flushed)
        return s->drained;
    s->flushed = true;
    cli_sinks_round(s);
    add_call(s->tasks, s, close_worker_lines);
    s->drained = cli_lane_wait(s->tasks);
    if (!s->drained)
        say_lost(s);
    return s->drained;
}

static void end_progress(struct cli_sinks *s)
{
    if (s->drained)
        cli_streams_end_line(s->output);
    cli_progress_close(&s->progress);
}

bool cli_sinks_undraw(struct cli_sinks *s)
{
    if (!s->messages)
        return true;
    add_call(s->messages, s, end_progress);
    return cli_lane_wait(s->messages);
}

void cli_sinks_close_files(struct cli_sinks *s)
{
    check(s, s->records ? cli_records_close(&s->records) : 0);
    check(s, s->joblog ? cli_joblog_close(&s->joblog) : 0);
    check(s, s->failures ? cli_failures_close(&s->failures) : 0);
    cli_results_close(&s->results);
}

/* If the lane was given up, later messages are not written either. */
bool cli_sinks_end(struct cli_sinks *s)
{
    return !s->messages || cli_lane_wait(s->messages);
}

void cli_sinks_close(struct cli_sinks *s)
{
    cli_lane_close(&s->tasks);
    cli_lane_close(&s->messages);
    cli_set_speaker(NULL, NULL);
    cli_worker_lines_close(&s->worker_lines);
    cli_streams_close(&s->output);
    cli_progress_close(&s->progress);
    cli_sinks_close_files(s);
    free(s->packed);
}
