/* Workers with load() and begin(): tasks are loaded ahead on I/O threads, begin in order, and several are in flight. */
#include <sched.h>

#include "base/clock.h"
#include "support/test.h"
#include "support/world.h"

enum { FIRST_GATE = 2, GRACE_MS = WORLD_PATIENCE_MS, FIRST_MS = GRACE_MS + 500 };

static void open_world(struct world *w, unsigned n_gpus, unsigned concurrency, unsigned ahead)
{
    world_ops("fl");
    world_open(w, n_gpus);
    w->o.concurrency = concurrency;
    w->o.io_threads = 2;
    w->o.load_ahead = ahead;
}

static void add_gated(struct world *w, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        world_add(w, (struct world_order){ .what = W_ECHO, .gate = FIRST_GATE + (uint32_t)w->n_orders });
}

static void open_gates(const struct world *w)
{
    for (size_t i = 0; i < w->n_orders; i++)
        world_gate_open(w->page, FIRST_GATE + (unsigned)i);
}

static void check_unloaded(const struct world *w)
{
    CHECK_EQ(world_count(w->page, WC_LOADED), 0);
    CHECK_EQ(world_count(w->page, WC_UNLOADS), world_count(w->page, WC_LOADS));
}

TEST(every_task_is_loaded_before_it_begins)
{
    enum { TASKS = 3000 };
    struct world w;
    open_world(&w, 2, 8, 0);
    world_add_many(&w, TASKS, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    for (unsigned i = 0; i < TASKS; i++)
        CHECK(w.finals[i].answer.loaded);
    CHECK_EQ(world_count(w.page, WC_LOADS), TASKS);
    check_unloaded(&w);
    world_close(&w);
}

/* When this returns, `places` tasks are in flight on one worker, and `ahead` tasks are loaded, these included. */
static void launch_full(struct world *w, unsigned places, unsigned ahead, unsigned tasks)
{
    open_world(w, 1, places, ahead);
    add_gated(w, tasks);
    world_launch(w);
    world_await(w->page, WC_ENTERED, places);
    world_await(w->page, WC_LOADS, ahead);
}

TEST(tasks_are_loaded_while_all_places_are_taken)
{
    struct world w;
    launch_full(&w, 3, 7, 20);
    CHECK_EQ(world_count(w.page, WC_UNLOADS), 0);
    open_gates(&w);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 20);
    CHECK_LE(atomic_load(&w.page->most_loaded), 7);
    check_unloaded(&w);
    world_close(&w);
}

/* The other worker starts later and must still get tasks for its places. */
TEST(the_last_tasks_are_left_for_another_worker)
{
    struct world w;
    open_world(&w, 2, 2, 0);
    w.setup = (struct world_setup){ .what = W_ECHO, .gate = 1, .workers = 2 };
    add_gated(&w, 4);
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 2);
    world_await_stat(&w, taken, 4);
    world_gate_open(w.page, 1);
    world_await(w.page, WC_ENTERED, 4); /* all four are in flight, two on each worker */
    open_gates(&w);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 4);
    world_close(&w);
}

TEST(a_failed_load_fails_its_task_and_is_retried)
{
    struct world w;
    open_world(&w, 1, 4, 0);
    w.o.retries = 1;
    w.o.retry_delay_ms = 1;
    for (unsigned i = 0; i < 60; i++)
        world_add(&w, (struct world_order){ .what = i % 6 == 2 ? W_LOAD_ERROR : W_ECHO, .tries = i % 12 == 2 });
    CHECK_EQ(world_run(&w), 0);
    for (unsigned i = 0; i < 60; i++)
        CHECK_EQ(w.finals[i].failure, i % 12 == 8 ? GD_FAILURE_ERROR : GD_FAILURE_NONE);
    CHECK_STR(w.finals[8].error, "task 8 can't be loaded");
    CHECK_EQ(w.finals[2].attempt, 2);
    CHECK_EQ(world_count(w.page, WC_LOADED), 0);
    world_close(&w);
}

/* With a crash limit of 1, a task that is charged wrongly would fail at once. */
static void check_crash(unsigned what)
{
    enum { TASKS = 60, BAD = 25 };
    struct world w;
    open_world(&w, 2, 4, 8);
    w.o.crash_limit = 1;
    w.o.restart_delay_ms = 0;
    for (unsigned i = 0; i < TASKS; i++)
        world_add(&w, (struct world_order){ .what = (uint16_t)(i == BAD ? what : W_ECHO) });
    CHECK_EQ(world_run(&w), 0);
    for (unsigned i = 0; i < TASKS; i++)
        CHECK_EQ(w.finals[i].failure, i == BAD ? GD_FAILURE_CRASH : GD_FAILURE_NONE);
    world_close(&w);
}

TEST(a_crash_in_load_charges_the_right_task)
{
    check_crash(W_LOAD_SEGV);
}

TEST(a_crash_in_flight_charges_the_right_task)
{
    check_crash(W_SEGV);
}

TEST(a_load_that_does_not_end_times_out)
{
    struct world w;
    open_world(&w, 1, 4, 8);
    w.o.task_timeout_ms = WORLD_PATIENCE_MS;
    w.o.cancel_grace_ms = 50;
    w.o.crash_limit = 1;
    world_add(&w, (struct world_order){ .what = W_LOAD_LOOP });
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].failure, GD_FAILURE_TIMEOUT);
    CHECK_EQ(world_callbacks(&w, 'S'), 10);
    CHECK_EQ(w.stats.restarts, 1);
    world_close(&w);
}

static void await_cancelled(const struct world *w, uint64_t n)
{
    struct gd_stats stats = { .size = sizeof stats };
    while (stats.cancelled < n) {
        sched_yield();
        CHECK_EQ(gd_dispatcher_stats(w->d, &stats), 0);
    }
}

static gd_source_fn *next_item;

static int next_with_limit(void *user, struct gd_item *item)
{
    const bool first = ((struct world *)user)->next == 0;
    const int some = next_item(user, item);
    item->timeout_ms = first ? FIRST_MS : 0;
    return some;
}

static void open_gates_after_first(struct world *w, const struct gd_report *r)
{
    if (r->task_id == 0)
        open_gates(w);
}

/* The task cannot begin before another one has finished, so it is not the worker's fault that it does not end. The first
 * task occupies its place for longer than the grace period. */
TEST(a_cancelled_task_that_waits_for_a_place_costs_nothing)
{
    struct world w;
    open_world(&w, 1, 2, 4);
    w.o.cancel_grace_ms = GRACE_MS; /* the first task must end in this time when it is asked to stop */
    next_item = w.o.source;
    w.o.source = next_with_limit;
    w.on_final = open_gates_after_first;
    world_add(&w, (struct world_order){ .what = W_POLITE_LOOP });
    add_gated(&w, 1);
    world_add(&w, (struct world_order){ .what = W_POLITE_LOOP });
    add_gated(&w, 1);
    world_launch(&w);
    world_await(w.page, WC_LOADS, 4);
    world_await(w.page, WC_ENTERED, 2);
    CHECK_EQ(gd_dispatcher_cancel_task(w.d, 2), 0);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(w.finals[0].failure, GD_FAILURE_TIMEOUT);
    CHECK_GE(w.finals[0].end_ns - w.finals[0].start_ns, FIRST_MS * GD__NS_PER_MS); /* it was not asked to stop before */
    CHECK_EQ(w.finals[2].failure, GD_FAILURE_CANCELLED);
    CHECK_EQ(world_callbacks(&w, 'S'), 2);
    CHECK_EQ(w.stats.restarts, 0);
    check_unloaded(&w);
    world_close(&w);
}

TEST(a_shutdown_cancels_what_is_not_loaded)
{
    struct world w;
    launch_full(&w, 2, 5, 20);
    world_await_stat(&w, taken, 20);
    gd_dispatcher_shutdown(w.d);
    await_cancelled(&w, 15);
    open_gates(&w);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    CHECK_EQ(world_callbacks(&w, 'S'), 5);
    check_unloaded(&w);
    world_close(&w);
}

TEST(a_task_that_runs_out_of_memory_beside_others_is_run_again)
{
    struct world w;
    open_world(&w, 1, 4, 8);
    for (unsigned i = 0; i < 200; i++)
        world_add(&w, (struct world_order){ .what = i % 20 == 7 ? W_OOM : W_ECHO, .tries = i % 20 == 7 });
    CHECK_EQ(world_run(&w), 0);
    for (unsigned i = 0; i < 200; i++)
        CHECK(w.finals[i].failure == GD_FAILURE_NONE ||
              (i % 20 == 7 && w.finals[i].failure == GD_FAILURE_OUT_OF_MEMORY));
    check_unloaded(&w);
    world_close(&w);
}

WORLD_MAIN()
