/* SPDX-License-Identifier: MIT
 *
 * What observers cost the run that they look at: no-op tasks a second of one worker, of
 *
 *   observers_none       a run without a page
 *   observers_page       one with a page at which nobody looks
 *   observers_stopped    one whose observer was stopped (SIGSTOP)
 *   observers_killed     one whose observer reads a hundred times a second, and is killed half-way
 *   observers_500        one with 500 observers in another process, each of which reads once a second
 *
 * one right after the other, in turn. One JSON object per line: name, unit, the median of the repeats, and the repeats.
 *
 * usage: bench_observers [-r REPEATS] [-q]
 */
#include <gpu_dispatch/gpu_dispatch.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_REPEATS = 101, CROWD = 500, KINDS = 5 };

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int process(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w, (void)t, (void)r;
    return 0;
}

static const struct gd_worker_ops ops = { .size = sizeof ops, .process = process };

/* --- observers: in processes of their own --- */

static void look_once(struct gd_observer *o)
{
    const struct gd_snapshot *s;
    (void)gd_observer_read(o, &s);
}

static void be_stopped(void)
{
    struct gd_observer *o;
    if (gd_observer_open(&o, "bench") == 0)
        look_once(o);
    raise(SIGSTOP);
}

static void read_often(void)
{
    struct gd_observer *o;
    if (gd_observer_open(&o, "bench") < 0)
        return;
    for (;;) {
        look_once(o);
        (void)poll(NULL, 0, 10);
    }
}

static void be_a_crowd(void)
{
    static struct gd_observer *crowd[CROWD];
    const struct rlimit many = { 4 * CROWD, 4 * CROWD };
    (void)setrlimit(RLIMIT_NOFILE, &many);
    for (size_t i = 0; i < CROWD; i++)
        (void)gd_observer_open(&crowd[i], "bench");
    for (size_t i = 0;; i = (i + 1) % CROWD) {
        if (crowd[i])
            look_once(crowd[i]);
        (void)poll(NULL, 0, 1000 / CROWD);
    }
}

static pid_t start(void (*observer)(void))
{
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    observer();
    _exit(0);
}

static void end(pid_t pid)
{
    if (pid <= 0)
        return;
    kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

/* --- a run --- */

static const struct kind {
    const char *name;
    bool published;
    void (*observer)(void);
    bool killed; /* half-way */
} kinds[KINDS] = {
    { "observers_none", false, NULL, false },         { "observers_page", true, NULL, false },
    { "observers_stopped", true, be_stopped, false }, { "observers_killed", true, read_often, true },
    { "observers_500", true, be_a_crowd, false },
};

struct run {
    const struct kind *kind;
    uint64_t n, warm, given, done, warm_at, last;
    uint64_t kill_at;
    pid_t observer;
};

static int give(void *user, struct gd_item *item)
{
    struct run *r = user;
    item->size = 0;
    return r->given++ < r->n;
}

/* The observer comes before the clock starts. */
static void on_success(void *user, const struct gd_report *report)
{
    struct run *r = user;
    (void)report;
    r->done++;
    if (r->done == r->warm / 2 && r->kind->observer)
        r->observer = start(r->kind->observer);
    if (r->done == r->warm) {
        r->warm_at = now_ns();
        r->kill_at = r->n / 2;
    }
    if (r->done == r->kill_at && r->kind->killed)
        kill(r->observer, SIGKILL);
    if (r->done == r->n)
        r->last = now_ns();
}

static double measure(const struct kind *kind, uint64_t n)
{
    static const int ids[] = { 0 };
    struct run r = { .kind = kind, .n = n, .warm = n / 4 };
    struct gd_options o = GD_OPTIONS_INIT;
    o.gpu_ids = ids;
    o.n_gpus = 1;
    o.queue_size = 8192;
    o.user = &r;
    o.source = give;
    o.on_success = on_success;
    o.job = kind->published ? "bench" : NULL;
    const int rc = gd_run(&o);
    end(r.observer);
    if (rc < 0 || r.done != n) {
        fprintf(stderr, "bench: %s\n", gd_error_text());
        exit(1);
    }
    return 1e9 * (double)(n - r.warm) / (double)(r.last - r.warm_at);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_line(const char *name, const double *values, int n)
{
    double sorted[MAX_REPEATS];
    memcpy(sorted, values, (size_t)n * sizeof *values);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    printf("{\"name\": \"%s\", \"unit\": \"tasks/s\", \"median\": %.5g, \"repeats\": [", name, sorted[n / 2]);
    for (int i = 0; i < n; i++)
        printf("%s%.5g", i ? ", " : "", values[i]);
    printf("]}\n");
}

int main(int argc, char **argv)
{
    static double values[KINDS][MAX_REPEATS];
    uint64_t n = 4000000;
    int c, repeats = 5;
    if (gd_worker_main(&argc, argv, &ops) < 0)
        return fprintf(stderr, "%s\n", gd_error_text()), 1;
    while ((c = getopt(argc, argv, "r:q")) != -1) {
        if (c == 'r')
            repeats = atoi(optarg);
        else if (c == 'q')
            n = 1000000;
        else
            return 2;
    }
    if (repeats < 1 || repeats > MAX_REPEATS)
        return fprintf(stderr, "usage: %s [-r 1..%d] [-q]\n", argv[0], MAX_REPEATS), 2;
    for (int i = 0; i < repeats; i++)
        for (int k = 0; k < KINDS; k++)
            values[k][i] = measure(&kinds[k], n);
    for (int k = 0; k < KINDS; k++)
        print_line(kinds[k].name, values[k], repeats);
    return 0;
}
