/* SPDX-License-Identifier: MIT
 *
 * How long lists of tasks take, compared with an ideal scheduler, and in which order the tasks start.
 *
 * The scheduler is driven in virtual time. Its workers start a task as soon as they have one, and finish it exactly
 * after its duration. No message is delayed. The ideal scheduler gives each worker, whenever it is free, the first of
 * the tasks that wait.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/internal.h"
#include "core/sched.h"
#include "support/test.h"

enum { MOST_TASKS = 4000, MOST_WORKERS = 16, WINDOW_MAX = 1024 };
#define BEGINNING (1000 * GD__NS_PER_S) /* the virtual time at which a run begins */

struct job {
    uint64_t duration_ns;
    uint64_t arrives_ns; /* after the beginning; later tasks do not arrive earlier */
    int priority;
};

struct list {
    struct job jobs[MOST_TASKS];
    size_t n;
    unsigned n_workers;
    uint64_t ready_gap_ns; /* time from the setup of one worker to that of the next */
};

/* When the tasks of a list start. */
struct timetable {
    uint64_t start_ns[MOST_TASKS]; /* by task, after the beginning */
    size_t order[MOST_TASKS];      /* the tasks, in the order in which they started */
    size_t n;
    uint64_t makespan_ns;
};

static struct list list;
static struct timetable ideal, real;

static void clear_list(unsigned n_workers)
{
    list.n = 0;
    list.n_workers = n_workers;
    list.ready_gap_ns = 0;
}

static void add(uint64_t duration_ns, uint64_t arrives_ns, int priority)
{
    CHECK_LT(list.n, MOST_TASKS);
    list.jobs[list.n++] = (struct job){ duration_ns, arrives_ns, priority };
}

static void enter(struct timetable *t, size_t id, uint64_t start_ns)
{
    CHECK_LT(t->n, list.n);
    t->order[t->n++] = id;
    t->start_ns[id] = start_ns;
    t->makespan_ns = gd__max64(t->makespan_ns, start_ns + list.jobs[id].duration_ns);
}

/* --- the ideal scheduler --- */

/* The task that must start next, among those that have arrived and not started; list.n: there is no such task. */
static size_t first_waiting(const bool *started, uint64_t now)
{
    size_t first = list.n;
    for (size_t i = 0; i < list.n && list.jobs[i].arrives_ns <= now; i++)
        if (!started[i] && (first == list.n || list.jobs[i].priority > list.jobs[first].priority))
            first = i;
    return first;
}

static uint64_t next_arrival(uint64_t now)
{
    for (size_t i = 0; i < list.n; i++)
        if (list.jobs[i].arrives_ns > now)
            return list.jobs[i].arrives_ns;
    return GD__NEVER;
}

static void run_ideal(void)
{
    static bool started[MOST_TASKS];
    uint64_t free_at[MOST_WORKERS] = { 0 };
    memset(started, 0, sizeof started);
    for (unsigned k = 0; k < list.n_workers; k++)
        free_at[k] = k * list.ready_gap_ns;
    ideal = (struct timetable){ .n = 0 };
    while (ideal.n < list.n) {
        unsigned w = 0;
        for (unsigned k = 1; k < list.n_workers; k++)
            w = free_at[k] < free_at[w] ? k : w;
        const size_t id = first_waiting(started, free_at[w]);
        if (id == list.n) {
            const uint64_t until = next_arrival(free_at[w]);
            for (unsigned k = 0; k < list.n_workers; k++)
                free_at[k] = gd__max64(free_at[k], until);
            continue;
        }
        started[id] = true;
        enter(&ideal, id, free_at[w]);
        free_at[w] += list.jobs[id].duration_ns;
    }
}

/* --- the real scheduler, with ideal workers --- */

struct ideal_worker {
    uint64_t ring[WINDOW_MAX]; /* the tasks handed to it, by position */
    uint64_t handed, published, started, finished;
    uint64_t begin_ns, end_ns; /* of the task that it runs; GD__NEVER: none */
    bool stopping, gone;
};

struct rig {
    struct gd__sched sched;
    struct ideal_worker workers[MOST_WORKERS];
    uint64_t now;
    size_t delivered, taken;
    unsigned n_ready;               /* workers below this are set up */
    uint64_t handed_at[MOST_TASKS]; /* by task */
};

static struct rig rig;

/* Order is promised to the millisecond: no task starts while an earlier one of the same priority has waited behind a
 * running task for longer. */
static void check_promise(unsigned w, uint64_t id)
{
    for (unsigned k = 0; k < list.n_workers; k++) {
        const struct ideal_worker *other = &rig.workers[k];
        for (uint64_t p = other->started; k != w && p < other->handed; p++) {
            const uint64_t behind = other->ring[p % WINDOW_MAX];
            const uint64_t since = gd__max64(rig.handed_at[behind], other->begin_ns);
            if (behind > id || list.jobs[behind].priority != list.jobs[id].priority)
                continue;
            if (rig.now > since + GD__NS_PER_MS)
                FAIL("task %llu starts while task %llu has waited behind another one for %llu us",
                     (unsigned long long)id, (unsigned long long)behind,
                     (unsigned long long)((rig.now - since) / GD__NS_PER_US));
        }
    }
}

static void start_next(unsigned w)
{
    struct ideal_worker *worker = &rig.workers[w];
    if (worker->end_ns != GD__NEVER || worker->started == worker->published)
        return;
    const uint64_t id = worker->ring[worker->started++ % WINDOW_MAX];
    check_promise(w, id);
    worker->begin_ns = rig.now;
    worker->end_ns = rig.now + list.jobs[id].duration_ns;
    enter(&real, (size_t)id, rig.now - BEGINNING);
}

static void on_spawn(void *ctx, unsigned w)
{
    (void)ctx;
    rig.workers[w] = (struct ideal_worker){ .end_ns = GD__NEVER };
}

static void on_assign(void *ctx, unsigned w, const struct gd__task *t, unsigned attempt)
{
    (void)ctx;
    CHECK_EQ(attempt, 1);
    rig.workers[w].ring[rig.workers[w].handed++ % WINDOW_MAX] = t->id;
    rig.handed_at[t->id] = rig.now;
}

static void on_publish(void *ctx, unsigned w)
{
    (void)ctx;
    rig.workers[w].published = rig.workers[w].handed;
    start_next(w);
}

static uint64_t on_take_back(void *ctx, unsigned w, uint64_t keep)
{
    (void)ctx;
    struct ideal_worker *worker = &rig.workers[w];
    worker->handed = worker->published = gd__max64(keep, worker->started);
    return worker->handed;
}

static void on_probe(void *ctx, unsigned w, uint64_t head, struct gd__probe *out)
{
    (void)ctx, (void)head;
    *out = (struct gd__probe){ .started = rig.workers[w].started, .start_ns = rig.workers[w].begin_ns };
}

static void on_stop(void *ctx, unsigned w)
{
    (void)ctx;
    rig.workers[w].stopping = true;
}

static void on_deliver(void *ctx, const struct gd__task *t, const struct gd__outcome *o)
{
    (void)ctx, (void)t;
    CHECK_EQ(o->failure, GD_FAILURE_NONE);
    rig.delivered++;
}

static const struct gd__sched_effects effects = {
    /* No task fails, and no worker is killed, so the other effects are not needed. */
    .spawn = on_spawn, .assign = on_assign, .publish = on_publish, .take_back = on_take_back,
    .probe = on_probe, .stop = on_stop,     .deliver = on_deliver,
};

static void open_rig(void)
{
    static int gpu_ids[MOST_WORKERS];
    for (int i = 0; i < MOST_WORKERS; i++)
        gpu_ids[i] = i;
    const struct gd__sched_config config = {
        .n_workers = list.n_workers,
        .gpu_ids = gpu_ids,
        .queue_size = MOST_TASKS,
        .cancel_grace_ns = 3600 * GD__NS_PER_S,
        .cleanup_grace_ns = 3600 * GD__NS_PER_S,
        .crash_limit = 1,
        .setup_attempts = 1,
        .death_limit = 1,
        .window_min = 3, /* applies only to workers that load ahead, so not here */
        .window_max = WINDOW_MAX,
        .batch_size = 1,
        .concurrency = 1,
        .placement = GD_PLACE_DYNAMIC,
    };
    memset(&rig, 0, sizeof rig);
    rig.now = BEGINNING;
    CHECK_EQ(gd__sched_open(&rig.sched, &config, &effects, &rig), 0);
    gd__sched_start(&rig.sched, rig.now);
}

static uint64_t next_ready(void)
{
    return rig.n_ready < list.n_workers ? BEGINNING + rig.n_ready * list.ready_gap_ns : GD__NEVER;
}

static void get_ready(void)
{
    for (; next_ready() <= rig.now; rig.n_ready++)
        if (!rig.workers[rig.n_ready].gone)
            CHECK_EQ(gd__sched_ready(&rig.sched, rig.now, rig.n_ready, 1), 0);
}

static void take_arrivals(void)
{
    if (rig.taken == list.n)
        return;
    for (; rig.taken < list.n && BEGINNING + list.jobs[rig.taken].arrives_ns <= rig.now; rig.taken++) {
        const struct gd__new_task task = { .payload = (const uint64_t[4]){ 0 },
                                           .priority = list.jobs[rig.taken].priority };
        CHECK_EQ(gd__sched_add(&rig.sched, rig.now, &task), rig.taken);
    }
    if (rig.taken == list.n)
        gd__sched_source_end(&rig.sched, rig.now);
}

static void finish_task(unsigned w)
{
    struct ideal_worker *worker = &rig.workers[w];
    const struct gd__outcome o = { .worker = (int)w, .start_ns = worker->begin_ns, .end_ns = worker->end_ns };
    worker->finished++;
    worker->end_ns = GD__NEVER;
    start_next(w); /* if it has another task, it does not wait for the dispatcher */
    CHECK_EQ(gd__sched_result(&rig.sched, rig.now, w, &o, 0), 0);
}

static void leave(unsigned w)
{
    struct ideal_worker *worker = &rig.workers[w];
    if (!worker->stopping || worker->gone || worker->finished < worker->handed)
        return;
    worker->gone = true;
    gd__sched_exited(&rig.sched, rig.now, w,
                     &(struct gd__death){ .started = worker->started, .message = "exited with code 0" });
}

static uint64_t next_event(void)
{
    uint64_t next = gd__min64(gd__sched_deadline(&rig.sched), next_ready());
    if (rig.taken < list.n)
        next = gd__min64(next, BEGINNING + list.jobs[rig.taken].arrives_ns);
    for (unsigned w = 0; w < list.n_workers; w++)
        next = gd__min64(next, rig.workers[w].end_ns);
    return next;
}

static void run_real(void)
{
    real = (struct timetable){ .n = 0 };
    open_rig();
    for (;;) {
        get_ready();
        take_arrivals();
        for (unsigned w = 0; w < list.n_workers; w++)
            if (rig.workers[w].end_ns == rig.now)
                finish_task(w);
        gd__sched_tick(&rig.sched, rig.now);
        gd__sched_pump(&rig.sched, rig.now);
        for (unsigned w = 0; w < list.n_workers; w++)
            leave(w);
        if (gd__sched_finished(&rig.sched))
            break;
        const uint64_t next = next_event();
        CHECK(next != GD__NEVER); /* otherwise the run does not end */
        CHECK_GE(next, rig.now);
        rig.now = next;
    }
    CHECK_EQ(rig.delivered, list.n);
    CHECK_EQ(real.n, list.n);
    gd__sched_close(&rig.sched);
}

/* --- random lists --- */

static uint64_t chance;

static uint64_t below(uint64_t n)
{
    uint64_t x = chance += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (x ^ (x >> 31)) % n;
}

/* 10 ms to 10 s, each order of magnitude as often as the others. */
static uint64_t random_duration(void)
{
    static const uint64_t scale[] = { 10, 100, 1000 };
    return scale[below(3)] * GD__NS_PER_MS * (1000 + below(9001)) / 1000;
}

static void draw_list(uint64_t seed)
{
    chance = seed;
    const bool priorities = below(2), trickles = below(3) == 0;
    const size_t n = 1 + below(300);
    uint64_t arrives = 0;
    clear_list(1 + (unsigned)below(MOST_WORKERS));
    list.ready_gap_ns = below(2) * below(GD__NS_PER_S);
    for (size_t i = 0; i < n; i++) {
        arrives += trickles && below(3) == 0 ? below(2 * GD__NS_PER_S) : 0;
        add(random_duration(), arrives, priorities && below(4) == 0 ? GD__PRIORITY_MIN + (int)below(8) : 0);
    }
}

TEST(random_lists_take_as_long_as_with_the_ideal_scheduler)
{
    double worst = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        draw_list(seed);
        run_ideal();
        run_real();
        const double ratio = (double)real.makespan_ns / (double)ideal.makespan_ns;
        worst = ratio > worst ? ratio : worst;
        if (ratio > 1.02)
            FAIL("list %llu: %zu tasks on %u workers take %.3f s, ideally %.3f s", (unsigned long long)seed, list.n,
                 list.n_workers, (double)real.makespan_ns / 1e9, (double)ideal.makespan_ns / 1e9);
    }
    printf("# 200 lists: at worst %.2f %% longer than ideal\n", 100 * (worst - 1));
}

/* Tasks last longer than a millisecond, so they start in exactly the ideal order. */
TEST(random_lists_start_in_order)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        draw_list(seed);
        run_ideal();
        run_real();
        for (size_t i = 0; i < list.n; i++)
            if (real.order[i] != ideal.order[i])
                FAIL("list %llu: task %zu starts as number %zu, ideally task %zu", (unsigned long long)seed,
                     real.order[i], i, ideal.order[i]);
    }
}

/* --- examples --- */

static void draw_example(unsigned n_workers, const double *seconds, size_t n)
{
    clear_list(n_workers);
    for (size_t i = 0; i < n; i++)
        add((uint64_t)(seconds[i] * (double)GD__NS_PER_S), 0, 0);
}

/* The workers are set up one after the other, as processes are. Those that are ready first must not be handed two long
 * tasks each. */
TEST(four_tasks_of_5_s_and_four_of_3_s_take_8_s_on_four_workers)
{
    draw_example(4, (const double[]){ 5, 5, 5, 5, 3, 3, 3, 3 }, 8);
    list.ready_gap_ns = 10 * GD__NS_PER_MS;
    run_real();
    CHECK_GE(real.makespan_ns, 8 * GD__NS_PER_S);
    CHECK_LE(real.makespan_ns, 8 * GD__NS_PER_S + 8 * GD__NS_PER_S / 50);
}

TEST(short_tasks_do_not_wait_behind_a_long_first_one)
{
    draw_example(2, (const double[]){ 6, .5, .5, .5, .5, .5, .5, .5 }, 8);
    list.ready_gap_ns = 10 * GD__NS_PER_MS;
    run_real();
    for (size_t i = 0; i < list.n; i++)
        CHECK_EQ(real.order[i], i);
    CHECK_EQ(real.makespan_ns, 6 * GD__NS_PER_S);
}

/* Short tasks make windows grow. The long tasks that follow are then in the windows too, and are taken back. */
TEST(long_tasks_after_short_ones_are_shared_out)
{
    clear_list(4);
    for (size_t i = 0; i < 3000; i++)
        add(20 * GD__NS_PER_US, 0, 0);
    for (size_t i = 0; i < 8; i++)
        add((i < 4 ? 5 : 3) * GD__NS_PER_S, 0, 0);
    run_ideal();
    run_real();
    CHECK_LE(real.makespan_ns, ideal.makespan_ns + 10 * GD__NS_PER_MS);
}

/* The same, with long tasks anywhere between short ones. */
TEST(long_tasks_among_short_ones_are_shared_out)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        chance = seed;
        clear_list(2 + (unsigned)below(MOST_WORKERS - 1));
        for (size_t i = 0; i < 2000; i++)
            add(below(40) == 0 ? random_duration() : 1 + below(200 * GD__NS_PER_US), 0, 0);
        run_ideal();
        run_real();
        if (real.makespan_ns > ideal.makespan_ns + ideal.makespan_ns / 50)
            FAIL("list %llu: %u workers take %.3f s, ideally %.3f s", (unsigned long long)seed, list.n_workers,
                 (double)real.makespan_ns / 1e9, (double)ideal.makespan_ns / 1e9);
    }
}

/* An urgent task that arrives while others wait starts next, even if a worker was handed tasks already. */
TEST(an_urgent_task_starts_next)
{
    clear_list(3);
    for (size_t i = 0; i < 30; i++)
        add(GD__NS_PER_S, 0, 0);
    add(GD__NS_PER_S, 1500 * GD__NS_PER_MS, 1); /* the workers become free after 2 s */
    add(GD__NS_PER_S, 1500 * GD__NS_PER_MS, 2);
    run_real();
    CHECK_EQ(real.order[6], 31);
    CHECK_EQ(real.order[7], 30);
    CHECK_EQ(real.order[8], 6);
}

TEST_MAIN()
