/* SPDX-License-Identifier: MIT
 *
 * How fast the library is on this machine.
 *
 *   throughput  no-op tasks a second, from the first result to the last, with one worker and with two
 *   flight      the same with one worker that has up to 64 tasks in flight
 *   latency     a round trip with one task at a time: busy (spinning) and blocking
 *   payload     GB/s of 1 MB, 100 MB and 1 GB payloads to the worker and of results from it (each copied once)
 *   recovery    time from the SIGKILL of a worker until its task runs again, and the time to start a worker
 *   lateness    time from the end of the grace period of a task until its worker is killed
 *   first       time from the call of gd_run() to the first result
 *   memory      resident memory over ten million items
 *   scale       cost per task in the dispatcher, with 1 to 256 workers
 *   stream      small tasks a second through stream programs (JSON lines), with one worker and with two
 *
 * One JSON object per line: name, unit, the median of the repeats, and the repeats.
 *
 * usage: bench_dispatch [-r REPEATS] [-q] [-s HOST:PROGRAM[:PROGRAM]] [part ...]
 *   -q: less work; -s: the worker host and the programs for part stream, the second one in Python
 */
#include <gpu_dispatch/gpu_dispatch.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "line.h"

enum { MAX_REPEATS = 101, MOST_WORKERS = 256 };

static int repeats = 5;
static bool quick;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- the worker --- */

enum work { NOTHING, GIVE_BYTES, DIE_ONCE, HANG };
struct order {
    uint32_t work;
    uint32_t pad;
    uint64_t size;
};

static char *block; /* the result of GIVE_BYTES */

static int give_bytes(struct gd_result *r, size_t size)
{
    static size_t block_size;
    if (block_size < size) {
        free(block);
        block = malloc(size);
        if (!block)
            return gd_result_out_of_memory(r, "no %zu bytes", size);
        memset(block, 7, size);
        block_size = size;
    }
    return gd_result_set(r, block, size);
}

static int process(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w;
    if (t->size != sizeof(struct order))
        return 0;
    struct order o;
    memcpy(&o, t->data, sizeof o);
    if (o.work == GIVE_BYTES)
        return give_bytes(r, o.size);
    if (o.work == DIE_ONCE && t->attempt == 1)
        raise(SIGKILL);
    while (o.work == HANG)
        ;
    return 0;
}

/* If FLIGHT_ENV is set, workers have begin(), which finishes each task at once. */
#define FLIGHT_ENV "GD_BENCH_FLIGHT"

static int begin(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    const int rc = process(w, t, r);
    if (rc == 0)
        gd_result_finish(r);
    return rc;
}

static const struct gd_worker_ops ops = { .size = sizeof ops, .process = process };
static const struct gd_worker_ops flight_ops = { .size = sizeof flight_ops, .begin = begin };

/* --- a run --- */

struct run {
    struct gd_options o;
    uint64_t n, given, done, failed;
    const void *payload;
    size_t payload_size;
    uint64_t warm; /* results before the clock starts */
    uint64_t began, first, last, warm_at;
    double *gaps;                       /* between results, for latency */
    uint64_t first_start, second_start; /* of attempts, for recovery */
    double late_ns;
};

static int give(void *user, struct gd_item *item)
{
    struct run *r = user;
    if (r->given == r->n)
        return 0;
    r->given++;
    item->data = r->payload;
    item->size = r->payload_size;
    return 1;
}

static void count(struct run *r)
{
    if (r->done++ == 0)
        r->first = now_ns();
    if (r->done == r->warm)
        r->warm_at = now_ns();
    if (r->done == r->n)
        r->last = now_ns();
}

static void on_success(void *user, const struct gd_report *report)
{
    (void)report;
    count(user);
}

static void on_success_timed(void *user, const struct gd_report *report)
{
    (void)report;
    struct run *r = user;
    const uint64_t t = now_ns();
    if (r->done > 0)
        r->gaps[r->done - 1] = (double)(t - r->last);
    r->last = t;
    r->done++;
}

static void on_failure(void *user, const struct gd_report *report)
{
    struct run *r = user;
    if (report->failure == GD_FAILURE_TIMEOUT)
        r->late_ns =
            (double)(report->end_ns - report->start_ns) - 1e6 * (double)(r->o.task_timeout_ms + r->o.cancel_grace_ms);
    else
        fprintf(stderr, "bench: task %" PRIu64 ": %s\n", report->task_id, report->error);
    r->failed++;
}

static void on_start(void *user, uint64_t task_id, int worker_id, unsigned attempt, uint64_t start_ns)
{
    struct run *r = user;
    (void)task_id, (void)worker_id;
    if (attempt == 1)
        r->first_start = start_ns;
    else
        r->second_start = start_ns;
}

static int ids[MOST_WORKERS];

static void prepare(struct run *r, unsigned workers, uint64_t n, const void *payload, size_t size)
{
    memset(r, 0, sizeof *r);
    r->o = (struct gd_options)GD_OPTIONS_INIT;
    r->o.gpu_ids = ids;
    r->o.n_gpus = workers;
    r->o.user = r;
    r->o.source = give;
    r->o.on_success = on_success;
    r->o.on_error = r->o.on_timeout = on_failure;
    r->n = n;
    r->payload = payload;
    r->payload_size = size;
}

static void go(struct run *r)
{
    r->began = now_ns();
    if (gd_run(&r->o) < 0) {
        fprintf(stderr, "bench: %s\n", gd_error_text());
        exit(1);
    }
    if (r->done + r->failed != r->n) {
        fprintf(stderr, "bench: %" PRIu64 " of %" PRIu64 " tasks came back\n", r->done + r->failed, r->n);
        exit(1);
    }
}

/* --- the parts --- */

static void throughput(void)
{
    static const struct {
        const char *name;
        unsigned workers;
        size_t queue;
    } cases[] = { { "throughput_1_worker", 1, 8192 },
                  { "throughput_1_worker_queue_1024", 1, 1024 },
                  { "throughput_2_workers", 2, 8192 } };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        double v[MAX_REPEATS] = { 0 };
        for (int i = 0; i < repeats; i++) {
            struct run r;
            uint64_t eight = 8;
            prepare(&r, cases[c].workers, quick ? 2000000 : 10000000, &eight, sizeof eight);
            r.o.queue_size = cases[c].queue;
            go(&r);
            v[i] = (double)(r.n - 1) / ((double)(r.last - r.first) / 1e9);
        }
        print_line(cases[c].name, "tasks/s", v, (size_t)repeats);
    }
}

/* Measures the cost of the bookkeeping for tasks in flight. The tasks finish at once. */
static void flight(void)
{
    double v[MAX_REPEATS] = { 0 };
    setenv(FLIGHT_ENV, "1", 1);
    for (int i = 0; i < repeats; i++) {
        struct run r;
        uint64_t eight = 8;
        prepare(&r, 1, quick ? 2000000 : 10000000, &eight, sizeof eight);
        r.o.queue_size = 8192;
        r.o.concurrency = 64;
        go(&r);
        v[i] = (double)(r.n - 1) / ((double)(r.last - r.first) / 1e9);
    }
    unsetenv(FLIGHT_ENV);
    print_line("flight_64", "tasks/s", v, (size_t)repeats);
}

static void latency(void)
{
    for (int blocking = 0; blocking < 2; blocking++) {
        double v[MAX_REPEATS] = { 0 };
        for (int i = 0; i < repeats; i++) {
            struct run r;
            uint64_t eight = 8;
            prepare(&r, 1, quick ? 5000 : (blocking ? 20000 : 200000), &eight, sizeof eight);
            r.o.window = 1;
            r.o.queue_size = 64;
            r.o.spin_us = blocking ? 0 : 1000;
            r.o.on_success = on_success_timed;
            r.gaps = calloc(r.n, sizeof *r.gaps);
            if (!r.gaps)
                abort();
            go(&r);
            v[i] = line_median(r.gaps, r.n - 1);
            free(r.gaps);
        }
        print_line(blocking ? "latency_blocking" : "latency_busy", "ns", v, (size_t)repeats);
    }
}

static void payload(void)
{
    static const struct {
        const char *label;
        size_t size;
        uint64_t n, warm;
        unsigned queue;
    } cases[] = { { "1MB", 1000000, 6000, 3000, 32 },
                  { "100MB", 100000000, 60, 25, 2 },
                  { "1GB", 1000000000, 12, 6, 2 } };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const size_t size = cases[c].size;
        char *bytes = malloc(size);
        if (!bytes)
            abort();
        memset(bytes, 1, size);
        for (int out = 0; out < 2; out++) {
            double v[MAX_REPEATS] = { 0 };
            for (int i = 0; i < repeats; i++) {
                struct run r;
                const struct order order = { .work = GIVE_BYTES, .size = size };
                prepare(&r, 1, cases[c].n, out ? (const void *)&order : bytes, out ? sizeof order : size);
                r.warm = cases[c].warm;
                r.o.queue_size = r.o.window = cases[c].queue;
                r.o.queue_bytes = 2 * cases[c].queue * size;
                go(&r);
                v[i] = (double)(r.n - r.warm) * (double)size / (double)(r.last - r.warm_at);
            }
            char name[64];
            snprintf(name, sizeof name, "payload_%s_%s", out ? "out" : "in", cases[c].label);
            print_line(name, "GB/s", v, (size_t)repeats);
        }
        free(bytes);
    }
}

static void recovery(void)
{
    double again[MAX_REPEATS] = { 0 }, start[MAX_REPEATS] = { 0 };
    const int n = repeats < 15 ? 15 : repeats;
    for (int i = 0; i < n; i++) {
        struct run r;
        const struct order order = { .work = DIE_ONCE };
        prepare(&r, 1, 1, &order, sizeof order);
        r.o.on_task_start = on_start;
        go(&r);
        again[i] = (double)(r.second_start - r.first_start) / 1e6;
        start[i] = (double)(r.first_start - r.began) / 1e6;
    }
    print_line("recovery_from_kill", "ms", again, (size_t)n);
    print_line("start_to_first_task", "ms", start, (size_t)n);
}

static void lateness(void)
{
    double v[MAX_REPEATS] = { 0 };
    const int n = repeats < 9 ? 9 : repeats;
    for (int i = 0; i < n; i++) {
        struct run r;
        const struct order order = { .work = HANG };
        prepare(&r, 1, 1, &order, sizeof order);
        r.o.task_timeout_ms = 60;
        r.o.cancel_grace_ms = 40;
        go(&r);
        v[i] = r.late_ns / 1e6;
    }
    print_line("kill_lateness", "ms", v, (size_t)n);
}

static void first(void)
{
    double v[MAX_REPEATS] = { 0 };
    const int n = repeats < 15 ? 15 : repeats;
    for (int i = 0; i < n; i++) {
        struct run r;
        uint64_t eight = 8;
        prepare(&r, 1, 1, &eight, sizeof eight);
        go(&r);
        v[i] = (double)(r.first - r.began) / 1e6;
    }
    print_line("first_result", "ms", v, (size_t)n);
}

/* Measures the peak resident memory of this process, so it must run before other parts that need much memory. The
 * figure for the worker is the peak of all child processes. */
static void memory(void)
{
    struct run r;
    struct rusage self, children;
    unsigned char bytes[100] = { 0 };
    prepare(&r, 2, quick ? 1000000 : 10000000, bytes, sizeof bytes);
    go(&r);
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    const double parent = (double)self.ru_maxrss / 1024, child = (double)children.ru_maxrss / 1024;
    print_line("memory_dispatcher", "MB", &parent, 1);
    print_line("memory_worker", "MB", &child, 1);
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* The processor time of the dispatcher itself, between the first quarter of the results and the last result. The time
 * for starting and ending so many processes, and for their scheduling by the kernel, is not measured. */
struct scale_run {
    struct run r;
    double cpu_at_warm, cpu_at_end;
};

static void on_success_scale(void *user, const struct gd_report *report)
{
    struct scale_run *s = user;
    (void)report;
    count(&s->r);
    if (s->r.done == s->r.warm)
        s->cpu_at_warm = cpu_seconds();
    if (s->r.done == s->r.n)
        s->cpu_at_end = cpu_seconds();
}

static void scale(void)
{
    static const unsigned workers[] = { 1, 4, 16, 64, 256 };
    for (size_t c = 0; c < sizeof workers / sizeof *workers; c++) {
        double wall[MAX_REPEATS] = { 0 }, cpu[MAX_REPEATS] = { 0 };
        for (int i = 0; i < repeats; i++) {
            struct scale_run s = { .cpu_at_warm = 0 };
            uint64_t eight = 8;
            prepare(&s.r, workers[c], quick ? 1000000 : 3000000, &eight, sizeof eight);
            s.r.o.queue_size = workers[c] < 32 ? 8192 : 256 * (size_t)workers[c];
            s.r.o.on_success = on_success_scale;
            s.r.warm = s.r.n / 4;
            go(&s.r);
            const double n = (double)(s.r.n - s.r.warm);
            wall[i] = (double)(s.r.last - s.r.warm_at) / n;
            cpu[i] = (s.cpu_at_end - s.cpu_at_warm) * 1e9 / n;
        }
        char name[64];
        snprintf(name, sizeof name, "scale_cpu_%u", workers[c]);
        print_line(name, "ns/task", cpu, (size_t)repeats);
        snprintf(name, sizeof name, "scale_wall_%u", workers[c]);
        print_line(name, "ns/task", wall, (size_t)repeats);
    }
}

/* --- programs --- */

static char *stream_host, *stream_programs[2]; /* -s HOST:PROGRAM:PROGRAM */

static void split_streams(char *text)
{
    stream_host = strtok(text, ":");
    for (int i = 0; i < 2; i++)
        stream_programs[i] = strtok(NULL, ":");
}

static double stream_rate(char *program, char *argument, unsigned workers)
{
    static char option[] = "--stream", end[] = "--", input[] = "input 7";
    char *argv[] = { stream_host, option, end, program, argument, NULL };
    struct run r;
    prepare(&r, workers, quick ? 200000 : 1000000, input, sizeof input - 1);
    r.o.worker_argv = argv;
    r.warm = r.n / 10;
    go(&r);
    return (double)(r.n - r.warm) / ((double)(r.last - r.warm_at) / 1e9);
}

static void stream(void)
{
    static char concurrency[] = "64";
    const struct {
        const char *name;
        char *program, *argument;
    } cases[] = { { "stream_c", stream_programs[0], NULL },
                  { "stream_python", stream_programs[1], NULL },
                  { "stream_c_flight_64", stream_programs[0], concurrency } };
    for (unsigned workers = 1; workers <= 2; workers++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            double v[MAX_REPEATS] = { 0 };
            char name[64];
            if (!cases[c].program)
                continue;
            for (int i = 0; i < repeats; i++)
                v[i] = stream_rate(cases[c].program, cases[c].argument, workers);
            snprintf(name, sizeof name, "%s_%u", cases[c].name, workers);
            print_line(name, "tasks/s", v, (size_t)repeats);
        }
}

static const struct {
    const char *name;
    void (*run)(void);
} parts[] = {
    { "memory", memory },   { "throughput", throughput }, { "flight", flight },     { "latency", latency },
    { "payload", payload }, { "recovery", recovery },     { "lateness", lateness }, { "first", first },
    { "scale", scale },     { "stream", stream },
};

static bool wanted(const char *name, int argc, char **argv)
{
    bool any = false;
    for (int i = optind; i < argc; i++) {
        any = true;
        if (strcmp(argv[i], name) == 0)
            return true;
    }
    return !any;
}

int main(int argc, char **argv)
{
    int c;
    if (gd_worker_main(&argc, argv, getenv(FLIGHT_ENV) ? &flight_ops : &ops) < 0) {
        fprintf(stderr, "%s\n", gd_error_text());
        return 1;
    }
    while ((c = getopt(argc, argv, "r:qs:")) != -1) {
        if (c == 'r')
            repeats = atoi(optarg);
        else if (c == 'q')
            quick = true;
        else if (c == 's')
            split_streams(optarg);
        else
            return 2;
    }
    if (repeats < 1 || repeats > MAX_REPEATS) {
        fprintf(stderr, "usage: %s [-r 1..%d] [-q] [-s HOST:PROGRAM[:PROGRAM]] [part ...]\n", argv[0], MAX_REPEATS);
        return 2;
    }
    for (int i = 0; i < MOST_WORKERS; i++)
        ids[i] = i;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (wanted(parts[i].name, argc, argv))
            parts[i].run();
    return 0;
}
