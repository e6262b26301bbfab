/* SPDX-License-Identifier: MIT
 *
 * Queues through the public interface, on a server that is running: tasks a second of
 *
 *   push      adding tasks, one in each message
 *   work      a node that runs them, from the first end of a task to the last; the worker does nothing
 *   bundled   the same with many tasks in each message
 *
 * usage: bench_queue_ours [-r REPEATS] [-n TASKS] [-b BYTES] [-B BUNDLE] nats://HOST:PORT
 */
#include <gpu_dispatch/gpu_dispatch.h>
#include <gpu_dispatch/queue.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../line.h"

enum {
    MAX_REPEATS = 101,
    BYTES_MOST = 1 << 16,
    BUNDLED_TIMES = 10 /* bundled tasks are faster: measure more of them */
};

static const char *server;
static int repeats = 1;
static uint64_t n_tasks = 50000;
static size_t task_size = 100;
static unsigned bundle = 1000;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void check(int rc, const char *what)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "bench_queue_ours: %s: %s\n", what, gd_error_text());
    exit(1);
}

/* --- the worker --- */

static int process(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w, (void)t, (void)r;
    return 0;
}

static const struct gd_worker_ops ops = { .size = sizeof ops, .process = process };

/* --- a queue --- */

/* A new queue each time. */
static struct gd_queue_options new_queue(char url[256])
{
    static unsigned count;
    struct gd_queue_options q = GD_QUEUE_OPTIONS_INIT;
    snprintf(url, 256, "%s/bench_%d_%u", server, (int)getpid(), count++);
    q.url = url;
    return q;
}

/* Returns the seconds. */
static double push(const struct gd_queue_options *q, uint64_t n, unsigned per_message)
{
    char payload[BYTES_MOST + 32];
    struct gd_queue_push_options po = GD_QUEUE_PUSH_OPTIONS_INIT;
    struct gd_queue_push_counts counts = { .size = sizeof counts };
    struct gd_queue_push *p;
    po.bundle = per_message;
    memset(payload, 'x', sizeof payload);
    const uint64_t start = now_ns();
    check(gd_queue_push_open(&p, q, &po), "open a push");
    for (uint64_t i = 0; i < n; i++) {
        const int digits = snprintf(payload, 24, "%" PRIu64, i);
        payload[digits] = ' ';
        const struct gd_queue_item item = { .size = sizeof item, .data = payload, .data_size = task_size };
        check(gd_queue_push_add(p, &item), "add a task");
    }
    check(gd_queue_push_finish(&p, &counts), "finish a push");
    const double seconds = (double)(now_ns() - start) / 1e9;
    if (counts.added != n) {
        fprintf(stderr, "bench_queue_ours: %" PRIu64 " of %" PRIu64 " tasks were added\n", counts.added, n);
        exit(1);
    }
    return seconds;
}

struct ends {
    uint64_t done, failed, first_ns;
};

static void on_success(void *user, const struct gd_report *report)
{
    struct ends *e = user;
    (void)report;
    if (e->done++ == 0)
        e->first_ns = now_ns();
}

static void on_error(void *user, const struct gd_report *report)
{
    struct ends *e = user;
    (void)report;
    e->failed++;
}

/* Runs a node until the queue is done, that is, until the server has all records. Returns tasks a second. */
static double work(struct gd_queue_options *q, uint64_t n)
{
    struct ends e = { 0 };
    struct gd_options o = GD_OPTIONS_INIT;
    char spool[64];
    snprintf(spool, sizeof spool, "/tmp/gd-bench-spool-%d", (int)getpid());
    q->spool = spool;
    o.gpus = "sim:1";
    o.queue = q;
    o.queue_size = 8192;
    o.user = &e;
    o.on_success = on_success;
    o.on_error = on_error;
    check(gd_run(&o), "run a node");
    const double seconds = (double)(now_ns() - e.first_ns) / 1e9;
    unlink(spool);
    if (e.done != n) {
        fprintf(stderr, "bench_queue_ours: %" PRIu64 " done and %" PRIu64 " failed of %" PRIu64 "\n", e.done, e.failed,
                n);
        exit(1);
    }
    return (double)n / seconds;
}

static void usage(const char *program)
{
    fprintf(stderr, "usage: %s [-r REPEATS] [-n TASKS] [-b BYTES] [-B BUNDLE] nats://HOST:PORT\n", program);
    exit(2);
}

int main(int argc, char **argv)
{
    double pushed[MAX_REPEATS] = { 0 }, worked[MAX_REPEATS] = { 0 }, bundled[MAX_REPEATS] = { 0 },
           bundled_push[MAX_REPEATS] = { 0 };
    char url[256];
    check(gd_worker_main(&argc, argv, &ops), "be a worker");
    for (int c; (c = getopt(argc, argv, "r:n:b:B:")) != -1;) {
        if (c == 'r')
            repeats = atoi(optarg);
        else if (c == 'n')
            n_tasks = strtoull(optarg, NULL, 10);
        else if (c == 'b')
            task_size = strtoull(optarg, NULL, 10);
        else if (c == 'B')
            bundle = (unsigned)strtoul(optarg, NULL, 10);
        else
            usage(argv[0]);
    }
    if (argc != optind + 1 || repeats < 1 || repeats > MAX_REPEATS || n_tasks < 1 || task_size > BYTES_MOST ||
        task_size < 24)
        usage(argv[0]);
    server = argv[optind];
    for (int i = 0; i < repeats; i++) {
        struct gd_queue_options q = new_queue(url);
        pushed[i] = (double)n_tasks / push(&q, n_tasks, 1);
        worked[i] = work(&q, n_tasks);
        q = new_queue(url);
        const uint64_t many = n_tasks * BUNDLED_TIMES;
        bundled_push[i] = (double)many / push(&q, many, bundle);
        bundled[i] = work(&q, many);
    }
    print_line("queue_ours_push", "tasks/s", pushed, (size_t)repeats);
    print_line("queue_ours_work", "tasks/s", worked, (size_t)repeats);
    print_line("queue_ours_bundled_push", "tasks/s", bundled_push, (size_t)repeats);
    print_line("queue_ours_bundled", "tasks/s", bundled, (size_t)repeats);
    return 0;
}
