/* SPDX-License-Identifier: MIT
 *
 * A channel and its port in two threads that share one memory, at full speed. The dispatcher takes tasks back at
 * random, and both sides pause at random, so that they sleep and are woken. Every task must come back exactly once,
 * either as a result or as taken back. Results must be in order, and nothing may hang. This test also runs under
 * ThreadSanitizer.
 *
 * A pause waits until the other side sleeps, never for time to pass. The worker polls only a limited number of times,
 * because the dispatcher may be waiting for the worker.
 */
#include "support/test.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>

#include "base/error.h"
#include "shm/channel.h"

enum { WINDOW = 256, RESULTS = 64 };

static struct gd__region arena = GD__REGION_NONE;
static struct gd__arena_header *arena_head;
static struct gd__channel c;
static struct gd__port p;

struct plan {
    uint64_t tasks;
    unsigned take_back_every; /* once in about this many rounds of the dispatcher; 0: never */
    unsigned pause_every;     /* the same, and once in about this many batches of the worker; 0: never */
    uint64_t spin_ns;
    unsigned batch;
};
static struct plan plan;

/* Each side has its own mapping of the memory, and ThreadSanitizer treats two addresses as two places. So this makes
 * each side read at the addresses where the other side writes. */
static void share_addresses(void)
{
    p.in = c.out;
    p.task_slots = c.task_slots;
    p.arena_head = arena_head;
    c.in = p.out;
    c.result_slots = p.result_slots;
}

static void open_both(void)
{
    CHECK_EQ(gd__region_create(&arena, "arena", 4 * GD__PAGE, 4 * GD__PAGE, GD__REGION_WE_WRITE), 0);
    arena_head = arena.base;
    arena_head->magic = GD__ARENA_MAGIC;
    arena_head->size = arena.size;
    struct gd__channel_spec spec = {
        .config = { .task_capacity = WINDOW,
                    .result_capacity = RESULTS,
                    .arena_size = arena.size,
                    .spin_ns = plan.spin_ns },
    };
    CHECK_EQ(gd__channel_open(&c, &spec), 0);
    struct gd__boot boot = {
        .magic = GD__TASK_MAGIC,
        .version = GD__LAYOUT_VERSION,
        .task_region_size = c.tasks.size,
        .result_region_size = c.results.size,
        .arena_size = arena.size,
    };
    int fds[GD__BOOT_FDS] = { dup(c.tasks.fd),        dup(c.results.fd), dup(arena.fd), dup(c.result_bell), -1,
                              dup(c.task_bell_theirs) };
    CHECK_EQ(gd__port_open(&p, &boot, fds), 0);
    share_addresses();
}

static unsigned draw(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Polls until the other side sleeps, but at most this many times. */
static void pause_for(const _Atomic uint32_t *sleeping, unsigned polls)
{
    while (polls-- > 0 && atomic_load_explicit(sleeping, memory_order_relaxed) == 0)
        sched_yield();
}

/* ---- the worker ---- */

static void run_tasks(uint64_t first, uint64_t n)
{
    for (uint64_t position = first; position < first + n; position++) {
        const struct gd__task_slot *task = gd__port_task(&p, position);
        struct gd__result_slot *r = gd__port_result(&p);
        *r = (struct gd__result_slot){
            .kind = GD__R_SUCCESS, .inline_size = 8, .attempt = task->attempt, .position = position
        };
        r->task_id = task->task_id;
        memcpy(r->bytes, task->payload.bytes, 8);
        gd__port_commit(&p);
    }
}

static void *work(void *arg)
{
    unsigned random = 5;
    (void)arg;
    while (gd__port_wait(&p)) {
        uint64_t there = p.limit - p.next, n = there < plan.batch ? there : plan.batch;
        if (!gd__port_claim(&p, n))
            continue;
        run_tasks(p.next - n, n);
        if (plan.pause_every && draw(&random) % plan.pause_every == 0) {
            gd__port_flush(&p);
            pause_for(&arena_head->sleeping, draw(&random) % 200);
        }
    }
    return NULL;
}

/* ---- the dispatcher ---- */

static struct {
    uint64_t given, finished, taken_back, sleeps;
    uint64_t held[WINDOW]; /* the task at each position in flight */
    uint64_t next_task;
    uint64_t again[WINDOW]; /* tasks that were taken back and wait to be given again */
    unsigned n_again;
    unsigned char *done; /* number of results of each task */
    uint32_t sleep;
    unsigned random;
} d;

static void give_one(void)
{
    uint64_t position = c.task_tail;
    uint64_t task = d.n_again ? d.again[--d.n_again] : d.next_task++;
    d.held[position % WINDOW] = task;
    struct gd__task_slot *slot = gd__channel_append(&c);
    *slot = (struct gd__task_slot){ .task_id = task, .attempt = (uint32_t)position, .batch = 1 };
    uint64_t twice = task * 2;
    slot->payload.size = 8;
    memcpy(slot->payload.bytes, &twice, 8);
    d.given++;
}

static bool has_more(void)
{
    return d.n_again || d.next_task < plan.tasks;
}

static void give_some(void)
{
    unsigned n = 1 + draw(&d.random) % WINDOW;
    while (n-- > 0 && c.task_tail - d.finished < WINDOW && has_more())
        give_one();
    gd__channel_publish(&c);
}

static void take_back_some(void)
{
    uint64_t old = c.task_tail;
    uint64_t keep = d.finished + draw(&d.random) % (old - d.finished + 1);
    uint64_t end = gd__channel_take_back(&c, keep);
    CHECK_GE(end, keep);
    CHECK_LE(end, old);
    for (uint64_t position = end; position < old; position++) {
        d.again[d.n_again++] = d.held[position % WINDOW];
        d.taken_back++;
    }
}

static uint64_t take_results(void)
{
    struct gd__result_slot out = { 0 };
    const void *bytes;
    uint64_t size, n = 0;
    int code;
    while ((code = gd__channel_next(&c, &out, &bytes, &size)) > 0) {
        CHECK_EQ(out.position, d.finished); /* in order, without gaps, and without tasks that were taken back */
        CHECK_LT(out.position, c.task_tail);
        uint64_t task = d.held[out.position % WINDOW], twice;
        CHECK_EQ(out.task_id, task);
        CHECK_EQ(out.attempt, (uint32_t)out.position);
        memcpy(&twice, bytes, 8);
        CHECK_EQ(size, 8);
        CHECK_EQ(twice, task * 2);
        CHECK_EQ(d.done[task]++, 0);
        d.finished++;
        n++;
    }
    CHECK_EQ(code, 0);
    if (n)
        gd__channel_done(&c, c.result_head, c.result_head);
    return n;
}

static void sleep_for_results(void)
{
    d.sleep = gd__next_sleep(d.sleep);
    atomic_store_explicit(&arena_head->sleeping, d.sleep, memory_order_relaxed);
    gd__full_fence();
    if (!gd__channel_has_result(&c)) {
        struct pollfd wait = { .fd = c.result_bell, .events = POLLIN };
        CHECK_EQ(poll(&wait, 1, -1), 1);
        uint64_t rings;
        CHECK_EQ(read(c.result_bell, &rings, sizeof rings), sizeof rings);
        d.sleeps++;
    }
    atomic_store_explicit(&arena_head->sleeping, 0, memory_order_relaxed);
}

static void dispatch(void)
{
    while (d.finished < c.task_tail || has_more()) {
        if (has_more())
            give_some();
        if (plan.take_back_every && draw(&d.random) % plan.take_back_every == 0)
            take_back_some();
        /* The worker gets no new tasks now. So it goes to sleep, because it has no tasks or no room for results. */
        if (plan.pause_every && draw(&d.random) % plan.pause_every == 0)
            pause_for(&c.in->sleeping, UINT_MAX);
        if (take_results() == 0 && d.finished < c.task_tail)
            sleep_for_results();
    }
}

static void run(struct plan wanted)
{
    pthread_t worker;
    plan = wanted;
    if (TEST_SLOWDOWN > 1)
        plan.tasks /= 10;
    d.done = calloc(plan.tasks, 1);
    d.random = 17;
    open_both();
    CHECK_EQ(pthread_create(&worker, NULL, work, NULL), 0);
    dispatch();
    gd__channel_stop(&c);
    pthread_join(worker, NULL);
    for (uint64_t i = 0; i < plan.tasks; i++)
        CHECK_EQ(d.done[i], 1);
    CHECK_EQ(d.given, d.finished + d.taken_back);
    CHECK_EQ(d.finished, plan.tasks);
    printf("# %llu tasks, %llu taken back, %llu + %u sleeps\n", (unsigned long long)d.finished,
           (unsigned long long)d.taken_back, (unsigned long long)d.sleeps, p.sleep);
    free(d.done);
    gd__port_close(&p);
    gd__channel_close(&c);
    gd__region_close(&arena);
}

TEST_WITHIN(120, two_million_tasks_without_pauses)
{
    run((struct plan){ .tasks = 2000000, .spin_ns = 20000, .batch = 1 });
}

TEST_WITHIN(120, two_million_tasks_with_many_taken_back)
{
    run((struct plan){ .tasks = 2000000, .spin_ns = 20000, .batch = 1, .take_back_every = 2 });
    CHECK_GT(d.taken_back, 1000);
}

TEST_WITHIN(120, both_sides_sleep_and_are_woken)
{
    run((struct plan){ .tasks = 300000, .spin_ns = 0, .batch = 1, .take_back_every = 5, .pause_every = 50 });
    CHECK_GT(d.sleeps, 10);
    CHECK_GT(p.sleep, 10);
}

TEST_WITHIN(120, both_sides_spin_and_sleep)
{
    run((struct plan){ .tasks = 300000, .spin_ns = 3000, .batch = 1, .take_back_every = 5, .pause_every = 50 });
}

TEST_WITHIN(120, batches_are_taken_back_completely)
{
    run((struct plan){ .tasks = 1000000, .spin_ns = 5000, .batch = 7, .take_back_every = 2, .pause_every = 200 });
    CHECK_GT(d.taken_back, 1000);
}

TEST_MAIN()
