/* SPDX-License-Identifier: MIT
 *
 * Measures what a journal costs.
 *
 *   rate    runs short tasks (a few microseconds each) in four ways, one after the other in each round, and measures
 *           the tasks per second:
 *             journal_plain      without a journal and without an output file
 *             journal_kept       with a journal
 *             journal_written    with an output file
 *             journal_followed   with a journal and an output file that the journal follows
 *           journal_ratio is kept divided by plain, journal_followed_ratio is followed divided by written. The names
 *           with _cpu are the processor time of the dispatching process for each task. Other load on the machine
 *           changes them less than the rates.
 *   resume  makes a journal with many records and resumes it with three lists: in the same order, with a new line
 *           first, and in another order. For each list it measures the time until the journal is open, until the first
 *           new task is done and until the run has ended, and the peak resident memory
 *
 * One JSON object per line: name, unit, median, repeats.
 *
 * usage: bench_journal [-r ROUNDS] [-n TASKS] [-u MICROSECONDS] [-m RECORDS] [-d DIR] rate|resume ...
 */
#include <fcntl.h>
#include <gpu_dispatch/gpu_dispatch.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/hash/key.h"
#include "journal/journal.h"
#include "line.h"

enum { MAX_ROUNDS = 101, LINE = 32 };

static unsigned rounds = 5;
static uint64_t n_tasks = 300000, n_records = 10000000;
static const char *dir = ".";

static void die(const char *what)
{
    fprintf(stderr, "bench_journal: %s: %s\n", what, gd_error_text());
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* --- the worker --- */

static uint64_t spin_ns;

static int setup(struct gd_worker *w, const struct gd_setup *s)
{
    (void)w;
    memcpy(&spin_ns, s->args, sizeof spin_ns);
    return 0;
}

static int process(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w, (void)t, (void)r;
    const double until = now() + (double)spin_ns / 1e9;
    while (now() < until)
        ;
    return 0;
}

/* --- a run --- */

enum order { SAME, NEW_FIRST, SHUFFLED };

struct run {
    uint64_t n, next, n_old;
    enum order order;
    char line[LINE];
    double first, last; /* when the first and the last result came */
    uint64_t done;
    int out;
};

static uint64_t line_at(const struct run *r, uint64_t i)
{
    if (r->order == NEW_FIRST)
        return i == 0 ? r->n_old : i - 1;
    if (i >= r->n_old || r->order == SAME)
        return i;
    return i * UINT64_C(2654435761) % r->n_old; /* a prime, so that every line comes once */
}

static size_t write_line(char line[LINE], uint64_t number)
{
    return (size_t)snprintf(line, LINE, "images/%012llu.jpg", (unsigned long long)number);
}

static int next_line(void *user, struct gd_item *item)
{
    struct run *r = user;
    if (r->next == r->n)
        return 0;
    item->size = write_line(r->line, line_at(r, r->next++));
    item->data = r->line;
    return 1;
}

static void on_success(void *user, const struct gd_report *report)
{
    struct run *r = user;
    if (r->done++ == 0)
        r->first = now();
    if (r->out >= 0 && dprintf(r->out, "{\"task\": %llu}\n", (unsigned long long)report->task_id) < 0)
        exit(1);
    r->last = now();
}

static void run(struct run *r, struct gd_journal *journal)
{
    static const int gpu = 0;
    struct gd_options o = GD_OPTIONS_INIT;
    o.gpu_ids = &gpu;
    o.n_gpus = 1;
    o.queue_size = 8192;
    o.setup_args = &spin_ns;
    o.setup_args_size = sizeof spin_ns;
    o.source = next_line;
    o.on_success = on_success;
    o.user = r;
    o.journal = journal;
    if (gd_run(&o) < 0)
        die("run");
}

static void remove_journal(const char *path)
{
    char log[512];
    unlink(path);
    snprintf(log, sizeof log, "%s-wal", path);
    unlink(log);
    snprintf(log, sizeof log, "%s-shm", path);
    unlink(log);
}

/* --- rate --- */

static double cpu_us(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Returns the tasks per second. *cpu: the processor time for each task, in microseconds. */
static double rate(const char *path, const char *out, double *cpu)
{
    struct gd_journal_options jo = GD_JOURNAL_OPTIONS_INIT;
    struct gd_journal *j = NULL;
    struct run r = { .n = n_tasks, .n_old = n_tasks, .out = -1 };
    const double before = cpu_us();
    jo.path = path;
    if (path && gd_journal_open(&j, &jo) < 0)
        die("open");
    if (out) {
        r.out = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
        if (r.out < 0 || (j && gd_journal_follow(j, out, r.out) < 0))
            die("follow");
    }
    run(&r, j);
    if (gd_journal_close(&j) < 0)
        die("close");
    *cpu = (cpu_us() - before) / (double)n_tasks;
    if (path)
        remove_journal(path);
    if (out) {
        close(r.out);
        unlink(out);
    }
    return (double)(r.done - 1) / (r.last - r.first);
}

static void measure_rate(void)
{
    double plain[MAX_ROUNDS], kept[MAX_ROUNDS], written[MAX_ROUNDS], followed[MAX_ROUNDS], ratio[MAX_ROUNDS],
        followed_ratio[MAX_ROUNDS], cpu_plain[MAX_ROUNDS], cpu_kept[MAX_ROUNDS], cpu_written[MAX_ROUNDS],
        cpu_followed[MAX_ROUNDS];
    char path[400], out[400];
    snprintf(path, sizeof path, "%s/bench-journal.db", dir);
    snprintf(out, sizeof out, "%s/bench-journal.jsonl", dir);
    remove_journal(path);
    for (unsigned i = 0; i < rounds; i++) {
        plain[i] = rate(NULL, NULL, &cpu_plain[i]);
        kept[i] = rate(path, NULL, &cpu_kept[i]);
        ratio[i] = kept[i] / plain[i];
        written[i] = rate(NULL, out, &cpu_written[i]);
        followed[i] = rate(path, out, &cpu_followed[i]);
        followed_ratio[i] = followed[i] / written[i];
    }
    print_line("journal_plain", "tasks/s", plain, rounds);
    print_line("journal_kept", "tasks/s", kept, rounds);
    print_line("journal_ratio", "", ratio, rounds);
    print_line("journal_written", "tasks/s", written, rounds);
    print_line("journal_followed", "tasks/s", followed, rounds);
    print_line("journal_followed_ratio", "", followed_ratio, rounds);
    print_line("journal_plain_cpu", "us", cpu_plain, rounds);
    print_line("journal_kept_cpu", "us", cpu_kept, rounds);
    print_line("journal_written_cpu", "us", cpu_written, rounds);
    print_line("journal_followed_cpu", "us", cpu_followed, rounds);
}

/* --- resume --- */

static const char fill_sql[] =
    "INSERT INTO task(id, key, version, state, attempts, number, run, started, seconds, worker, gpu, input_size, input)"
    " VALUES(?1, ?2, NULL, 'done', 1, ?1 - 1, 1, 1.7e9, 0.25, 0, 0, ?3, ?4)";

static void must(int rc, sqlite3 *db)
{
    if (rc == SQLITE_OK || rc == SQLITE_DONE)
        return;
    fprintf(stderr, "bench_journal: %s\n", sqlite3_errmsg(db));
    exit(1);
}

/* Makes a journal like that of a run with n_records tasks. */
static void make_records(const char *path)
{
    struct gd_journal_options jo = GD_JOURNAL_OPTIONS_INIT;
    struct gd_journal *j;
    struct run r = { .n = 1, .n_old = 1, .out = -1 };
    sqlite3 *db;
    sqlite3_stmt *s;
    unsigned char hash[GD__HASH_SIZE];
    char line[LINE], sql[128];
    remove_journal(path);
    jo.path = path;
    if (gd_journal_open(&j, &jo) < 0)
        die("open");
    run(&r, j);
    if (gd_journal_close(&j) < 0)
        die("close");
    must(sqlite3_open(path, &db), db);
    must(sqlite3_exec(db, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN", NULL, NULL, NULL), db);
    must(sqlite3_prepare_v2(db, fill_sql, -1, &s, NULL), db);
    for (uint64_t i = 1; i < n_records; i++) {
        const size_t size = write_line(line, i);
        gd__key_hash(line, size, hash);
        sqlite3_bind_int64(s, 1, (sqlite3_int64)i + 1);
        sqlite3_bind_blob(s, 2, hash, sizeof hash, SQLITE_STATIC);
        sqlite3_bind_int64(s, 3, (sqlite3_int64)size);
        sqlite3_bind_text(s, 4, line, (int)size, SQLITE_STATIC);
        must(sqlite3_step(s), db);
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
    snprintf(sql, sizeof sql, "UPDATE run SET all_done = %llu; COMMIT; PRAGMA journal_mode = WAL",
             (unsigned long long)n_records);
    must(sqlite3_exec(db, sql, NULL, NULL, NULL), db);
    sqlite3_close(db);
}

static double peak_mb(void)
{
    char line[256];
    double kb = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f))
        (void)sscanf(line, "VmHWM: %lf kB", &kb);
    if (f)
        fclose(f);
    return kb / 1024;
}

/* Runs in its own process, so that the peak memory is that of this part only. */
static void resume(const char *path, enum order order, const char *name)
{
    char label[64];
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        struct gd_journal_options jo = GD_JOURNAL_OPTIONS_INIT;
        struct gd_journal *j;
        struct run r = { .n = n_records + 1, .n_old = n_records, .order = order, .out = -1 };
        jo.path = path;
        jo.resume = GD_JOURNAL_RESUME_REST;
        const double begin = now();
        if (gd_journal_open(&j, &jo) < 0)
            die("open");
        const double opened = now() - begin;
        run(&r, j);
        const double end = now() - begin, first = r.first - begin, peak = peak_mb();
        if (gd_journal_close(&j) < 0)
            die("close");
        if (r.done != 1) {
            fprintf(stderr, "bench_journal: %llu tasks were run, not 1\n", (unsigned long long)r.done);
            exit(1);
        }
        snprintf(label, sizeof label, "resume_%s_open", name);
        print_line(label, "s", &opened, 1);
        snprintf(label, sizeof label, "resume_%s_first", name);
        print_line(label, "s", &first, 1);
        snprintf(label, sizeof label, "resume_%s_all", name);
        print_line(label, "s", &end, 1);
        snprintf(label, sizeof label, "resume_%s_peak", name);
        print_line(label, "MB", &peak, 1);
        exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        exit(1);
}

static void measure_resume(void)
{
    char path[400], sql[128];
    snprintf(path, sizeof path, "%s/bench-resume.db", dir);
    make_records(path);
    static const struct {
        enum order order;
        const char *name;
    } cases[] = { { SAME, "same" }, { NEW_FIRST, "new_first" }, { SHUFFLED, "shuffled" } };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        resume(path, cases[i].order, cases[i].name);
        sqlite3 *db; /* removes the new task again, so that every measurement starts with the same journal */
        must(sqlite3_open(path, &db), db);
        snprintf(sql, sizeof sql, "DELETE FROM task WHERE id > %llu", (unsigned long long)n_records);
        must(sqlite3_exec(db, sql, NULL, NULL, NULL), db);
        sqlite3_close(db);
    }
    remove_journal(path);
}

int main(int argc, char **argv)
{
    static const struct gd_worker_ops ops = { .size = sizeof ops, .setup = setup, .process = process };
    if (gd_worker_main(&argc, argv, &ops) < 0)
        die("worker");
    spin_ns = 8000;
    for (int c; (c = getopt(argc, argv, "r:n:u:m:d:")) != -1;) {
        if (c == 'r')
            rounds = (unsigned)atoi(optarg) < MAX_ROUNDS ? (unsigned)atoi(optarg) : MAX_ROUNDS;
        else if (c == 'n')
            n_tasks = strtoull(optarg, NULL, 10);
        else if (c == 'u')
            spin_ns = strtoull(optarg, NULL, 10) * 1000;
        else if (c == 'm')
            n_records = strtoull(optarg, NULL, 10);
        else if (c == 'd')
            dir = optarg;
        else
            return 2;
    }
    for (int i = optind; i < argc; i++) {
        if (strcmp(argv[i], "rate") == 0)
            measure_rate();
        else if (strcmp(argv[i], "resume") == 0)
            measure_resume();
    }
    return 0;
}
