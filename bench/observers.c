/* SPDX-License-Identifier: MIT
 *
 * Measures how much observers slow a run down: no-op tasks a second of one worker, for
 *
 *   observers_none       a run that publishes no page
 *   observers_page       a run with a page that is not read
 *   observers_stopped    a run whose observer was stopped (SIGSTOP)
 *   observers_killed     a run whose observer reads a hundred times a second, and is killed half-way
 *   observers_500        a run with 500 observers in another process; each reads once a second what `gpu-dispatch top`
 *                        reads
 *   observers_500_tasks  the same, but each also reads the tasks that ended
 *   observers_500_floor  a process that wakes up as often as that of observers_500, but reads nothing
 *
 * All seven are measured in turn, one right after the other. The clock starts when all observers have read once. For
 * the last three, two more figures are printed: the processor time of a read with its wake-up (..._us), and of opening
 * an observer with its first read (..._first_us), in microseconds. Other load on the machine changes these figures less
 * than the rates. One JSON object per line: name, unit, the median of the repeats, and the repeats.
 *
 * usage: bench_observers [-r REPEATS] [-q]
 */
#include <gpu_dispatch/gpu_dispatch.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "line.h"

enum { MAX_REPEATS = 101, CROWD = 500, KINDS = 7, CHECK_EVERY = 1024, WARM = 500000 };

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* What the observing process reports to the process of the run. */
static struct reported {
    _Atomic uint64_t ready;    /* all have read once */
    _Atomic uint64_t first_ns; /* processor time until then */
    _Atomic uint64_t reads, read_ns;
} * reported;

static int process(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w, (void)t, (void)r;
    return 0;
}

static const struct gd_worker_ops ops = { .size = sizeof ops, .process = process };

/* --- observers, in their own processes --- */

static void read_once(struct gd_observer *o)
{
    const struct gd_snapshot *s;
    (void)gd_observer_read(o, &s);
}

static void be_stopped(void)
{
    struct gd_observer *o;
    if (gd_observer_open(&o, "bench") == 0)
        read_once(o);
    atomic_store(&reported->ready, 1);
    raise(SIGSTOP);
}

static void read_often(void)
{
    struct gd_observer *o;
    if (gd_observer_open(&o, "bench") < 0)
        return;
    for (;;) {
        read_once(o);
        atomic_store(&reported->ready, 1);
        (void)poll(NULL, 0, 10);
    }
}

static struct gd_observer *crowd[CROWD];

static void open_crowd(unsigned what)
{
    const struct rlimit many = { 4 * CROWD, 4 * CROWD };
    const uint64_t begun = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    (void)setrlimit(RLIMIT_NOFILE, &many);
    for (size_t i = 0; i < CROWD; i++) {
        if (gd_observer_open(&crowd[i], "bench") < 0 || gd_observer_select(crowd[i], what) < 0)
            _exit(1);
        read_once(crowd[i]);
    }
    atomic_store(&reported->first_ns, clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begun);
}

/* The observers read one after the other, evenly spread over the second. */
static void be_a_crowd(bool reads, unsigned what)
{
    if (reads)
        open_crowd(what);
    uint64_t at = now_ns();
    const uint64_t begun = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    atomic_store(&reported->ready, 1);
    for (size_t i = 0;; i = (i + 1) % CROWD) {
        at += 1000000000u / CROWD;
        const struct timespec t = { (time_t)(at / 1000000000u), (long)(at % 1000000000u) };
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        if (reads)
            read_once(crowd[i]);
        atomic_fetch_add(&reported->reads, 1);
        atomic_store(&reported->read_ns, clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begun);
    }
}

static void be_tops(void)
{
    be_a_crowd(true, GD_OBSERVED_FAILURES | GD_OBSERVED_DEVICES);
}

static void be_pages(void)
{
    be_a_crowd(true, GD_OBSERVED_TASKS | GD_OBSERVED_FAILURES | GD_OBSERVED_DEVICES);
}

static void be_wakeups(void)
{
    be_a_crowd(false, 0);
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
    bool timed;  /* its process reports its processor time */
} kinds[KINDS] = {
    { "observers_none", false, NULL, false, false },          { "observers_page", true, NULL, false, false },
    { "observers_stopped", true, be_stopped, false, false },  { "observers_killed", true, read_often, true, false },
    { "observers_500", true, be_tops, false, true },          { "observers_500_tasks", true, be_pages, false, true },
    { "observers_500_floor", true, be_wakeups, false, true },
};

struct run {
    const struct kind *kind;
    uint64_t length_ns; /* of the measurement */
    uint64_t given, done;
    uint64_t from_ns, from_done, until_ns, until_done;
    atomic_bool over;
    pid_t observer;
};

static int give(void *user, struct gd_item *item)
{
    struct run *r = user;
    item->size = 0;
    const bool more = !atomic_load_explicit(&r->over, memory_order_relaxed);
    r->given += more;
    return more;
}

/* Starts the observers. True after all of them have read once. */
static bool is_ready(struct run *r)
{
    if (!r->kind->observer)
        return true;
    if (r->observer == 0)
        r->observer = start(r->kind->observer);
    if (!atomic_load(&reported->ready) && waitpid(r->observer, NULL, WNOHANG) != 0) {
        fprintf(stderr, "bench: there is no observer\n");
        exit(1);
    }
    return atomic_load(&reported->ready) != 0;
}

static void check_clock(struct run *r)
{
    if (r->from_ns == 0 && !is_ready(r))
        return;
    const uint64_t now = now_ns();
    if (r->from_ns == 0) {
        r->from_done = r->done;
        r->from_ns = now;
    }
    if (r->kind->killed && now - r->from_ns > r->length_ns / 2)
        kill(r->observer, SIGKILL); /* may happen several times, because the process is reaped only at the end */
    if (now - r->from_ns >= r->length_ns) {
        r->until_done = r->done;
        r->until_ns = now;
        atomic_store(&r->over, true);
    }
}

static void on_success(void *user, const struct gd_report *report)
{
    struct run *r = user;
    (void)report;
    r->done++;
    if (r->done >= WARM && r->done % CHECK_EVERY == 0 && r->until_ns == 0)
        check_clock(r);
}

static double measure(const struct kind *kind, uint64_t length_ns)
{
    static const int ids[] = { 0 };
    struct run r = { .kind = kind, .length_ns = length_ns };
    struct gd_options o = GD_OPTIONS_INIT;
    memset(reported, 0, sizeof *reported);
    o.gpu_ids = ids;
    o.n_gpus = 1;
    o.queue_size = 8192;
    o.user = &r;
    o.source = give;
    o.on_success = on_success;
    o.job = kind->published ? "bench" : NULL;
    const int rc = gd_run(&o);
    end(r.observer);
    if (rc < 0 || r.done != r.given) {
        fprintf(stderr, "bench: %s\n", gd_error_text());
        exit(1);
    }
    return 1e9 * (double)(r.until_done - r.from_done) / (double)(r.until_ns - r.from_ns);
}

static double values[KINDS][MAX_REPEATS], read_us[KINDS][MAX_REPEATS], first_us[KINDS][MAX_REPEATS];

static void repeat(int i, uint64_t length_ns)
{
    for (int k = 0; k < KINDS; k++) {
        values[k][i] = measure(&kinds[k], length_ns);
        const uint64_t reads = atomic_load(&reported->reads);
        read_us[k][i] = reads > 0 ? (double)atomic_load(&reported->read_ns) / 1e3 / (double)reads : 0;
        first_us[k][i] = (double)atomic_load(&reported->first_ns) / 1e3 / CROWD;
    }
}

static void print_all(int repeats)
{
    char name[64];
    for (int k = 0; k < KINDS; k++) {
        print_line(kinds[k].name, "tasks/s", values[k], (size_t)repeats);
        if (!kinds[k].timed)
            continue;
        snprintf(name, sizeof name, "%s_us", kinds[k].name);
        print_line(name, "us", read_us[k], (size_t)repeats);
        snprintf(name, sizeof name, "%s_first_us", kinds[k].name);
        print_line(name, "us", first_us[k], (size_t)repeats);
    }
}

int main(int argc, char **argv)
{
    uint64_t length_ns = 2000000000u; /* every observer reads twice */
    int c, repeats = 5;
    if (gd_worker_main(&argc, argv, &ops) < 0)
        return fprintf(stderr, "%s\n", gd_error_text()), 1;
    while ((c = getopt(argc, argv, "r:q")) != -1) {
        if (c == 'r')
            repeats = atoi(optarg);
        else if (c == 'q')
            length_ns /= 8;
        else
            return 2;
    }
    if (repeats < 1 || repeats > MAX_REPEATS)
        return fprintf(stderr, "usage: %s [-r 1..%d] [-q]\n", argv[0], MAX_REPEATS), 2;
    char dir[] = "/dev/shm/bench-XXXXXX"; /* a separate directory, because opening an observer reads all jobs in it */
    if (!mkdtemp(dir) || setenv("GPU_DISPATCH_JOBS", dir, 1) < 0)
        return perror("bench: a directory in /dev/shm"), 1;
    reported = mmap(NULL, sizeof *reported, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (reported == MAP_FAILED)
        return perror("bench: mmap"), 1;
    for (int i = 0; i < repeats; i++)
        repeat(i, length_ns);
    print_all(repeats);
    (void)rmdir(dir);
    return 0;
}
