/* Workers that have several tasks in flight: begun in order, finished in any order. Tasks wait at gates, so the test
 * decides when they finish. */
#include <string.h>

#include "support/test.h"
#include "support/world.h"

enum { FIRST_GATE = 2, MANY = 12000 };

static unsigned limits_ms[8]; /* by task: its own time limit */
static gd_source_fn *next_item;

static int next_with_limit(void *user, struct gd_item *item)
{
    const size_t i = ((struct world *)user)->next;
    const int some = next_item(user, item);
    if (some == 1 && i < sizeof limits_ms / sizeof limits_ms[0])
        item->timeout_ms = limits_ms[i];
    return some;
}

static void open_world(struct world *w, unsigned n_gpus, unsigned concurrency)
{
    world_ops("f");
    world_open(w, n_gpus);
    w->o.concurrency = concurrency;
    memset(limits_ms, 0, sizeof limits_ms);
    next_item = w->o.source;
    w->o.source = next_with_limit;
}

static size_t add_gated(struct world *w, unsigned what)
{
    return world_add(w, (struct world_order){ .what = (uint16_t)what, .gate = FIRST_GATE + (uint32_t)w->n_orders });
}

static void open_gate(const struct world *w, size_t task)
{
    world_gate_open(w->page, FIRST_GATE + (unsigned)task);
}

static void open_gate_before(struct world *w, const struct gd_report *r)
{
    if (r->task_id > 0)
        open_gate(w, r->task_id - 1);
}

TEST(tasks_begin_in_order_and_finish_in_any_order)
{
    enum { TASKS = 8 };
    struct world w;
    open_world(&w, 1, TASKS);
    w.on_final = open_gate_before; /* each one lets the one before it finish */
    for (size_t i = 0; i < TASKS; i++)
        add_gated(&w, W_ECHO);
    world_launch(&w);
    world_await(w.page, WC_ENTERED, TASKS);
    open_gate(&w, TASKS - 1);
    CHECK_EQ(world_join(&w), 0);
    for (size_t i = 0; i < TASKS; i++) {
        CHECK_EQ(w.finals[i].callback, 'S');
        CHECK_EQ(w.finals[i].order, TASKS - 1 - i);
        CHECK_EQ(w.finals[i].attempt, 1);
    }
    world_close(&w);
}

TEST(results_of_an_ordered_run_are_delivered_in_order)
{
    enum { TASKS = 6 };
    struct world w;
    open_world(&w, 1, TASKS);
    w.o.ordered = true;
    for (size_t i = 0; i < TASKS; i++)
        add_gated(&w, W_ECHO);
    world_launch(&w);
    world_await(w.page, WC_ENTERED, TASKS);
    for (size_t i = TASKS; i > 0; i--)
        open_gate(&w, i - 1);
    CHECK_EQ(world_join(&w), 0);
    for (size_t i = 0; i < TASKS; i++)
        CHECK_EQ(w.finals[i].order, i);
    world_close(&w);
}

static void open_first_gate_at_the_end(struct world *w, const struct gd_report *r)
{
    (void)r;
    if (w->n_finals == MANY - 1)
        open_gate(w, 0);
}

/* Many more tasks than the ring has slots go past the first task. */
TEST(a_task_that_takes_long_does_not_hold_up_the_others)
{
    struct world w;
    open_world(&w, 1, 8);
    w.on_final = open_first_gate_at_the_end;
    add_gated(&w, W_ECHO);
    world_add_many(&w, MANY - 1, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].order, MANY - 1);
    CHECK_EQ(world_callbacks(&w, 'S'), MANY);
    world_close(&w);
}

/* Every worker fills its places at once, and no worker has more than its share. */
TEST(tasks_go_to_the_worker_with_the_fewest)
{
    enum { WORKERS = 2, PLACES = 4, TASKS = WORKERS * PLACES };
    struct world w;
    unsigned of[WORKERS] = { 0 };
    open_world(&w, WORKERS, PLACES);
    w.source_gate_at = 1;
    for (size_t i = 0; i < TASKS; i++)
        add_gated(&w, W_ECHO);
    world_launch(&w);
    (void)world_pid(w.page, 0);
    (void)world_pid(w.page, 1);
    world_gate_open(w.page, 1);
    world_await(w.page, WC_ENTERED, TASKS);
    for (size_t i = 0; i < TASKS; i++)
        of[w.page->log[i].worker]++;
    CHECK_EQ(of[0], PLACES);
    CHECK_EQ(of[1], PLACES);
    for (size_t i = 0; i < TASKS; i++)
        open_gate(&w, i);
    CHECK_EQ(world_join(&w), 0);
    world_close(&w);
}

static void open_the_others(struct world *w, const struct gd_report *r)
{
    if (r->task_id != 0)
        return;
    for (size_t i = 1; i < w->n_orders; i++)
        open_gate(w, i);
}

TEST(a_time_limit_stops_only_one_task)
{
    struct world w;
    open_world(&w, 1, 4);
    limits_ms[0] = 50;
    w.on_final = open_the_others;
    world_add(&w, (struct world_order){ .what = W_POLITE_LOOP });
    for (size_t i = 0; i < 3; i++)
        add_gated(&w, W_ECHO);
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].failure, GD_FAILURE_TIMEOUT);
    CHECK_EQ(w.stats.restarts, 0);
    for (size_t i = 1; i < 4; i++) {
        CHECK_EQ(w.finals[i].callback, 'S');
        CHECK_EQ(w.finals[i].attempt, 1);
    }
    world_close(&w);
}

/* The process is killed, and the others in flight run again. They are not charged. */
TEST(a_task_that_does_not_stop_costs_the_others_nothing)
{
    struct world w;
    open_world(&w, 1, 4);
    limits_ms[0] = WORLD_PATIENCE_MS; /* the task must begin before that */
    w.o.cancel_grace_ms = 50;
    w.o.crash_limit = 1;
    w.on_final = open_the_others;
    world_add(&w, (struct world_order){ .what = W_LOOP });
    for (size_t i = 0; i < 3; i++)
        add_gated(&w, W_ECHO);
    world_launch(&w);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(w.finals[0].failure, GD_FAILURE_TIMEOUT);
    CHECK_EQ(w.stats.restarts, 1);
    for (size_t i = 1; i < 4; i++)
        CHECK_EQ(w.finals[i].callback, 'S');
    world_close(&w);
}

/* With a crash limit of 1, a charged task would fail at once. */
TEST(a_crash_with_several_in_flight_charges_only_the_task_that_crashes_alone)
{
    enum { TASKS = 40 };
    struct world w;
    open_world(&w, 2, 8);
    w.o.crash_limit = 1;
    for (size_t i = 0; i < TASKS; i++)
        world_add(&w, (struct world_order){ .what = i == 5 ? W_SEGV : W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    for (size_t i = 0; i < TASKS; i++)
        CHECK_EQ(w.finals[i].failure, i == 5 ? GD_FAILURE_CRASH : GD_FAILURE_NONE);
    world_close(&w);
}

/* The others finish only after the first task has run out of memory. */
TEST(running_out_of_memory_beside_others_is_not_charged)
{
    enum { TASKS = 4 };
    struct world w;
    open_world(&w, 1, TASKS);
    world_add(&w, (struct world_order){ .what = W_OOM, .tries = 1, .gate = 1 });
    for (size_t i = 1; i < TASKS; i++)
        add_gated(&w, W_ECHO);
    world_launch(&w);
    world_await(w.page, WC_ENTERED, TASKS);
    world_gate_open(w.page, 1);
    world_await_stat(&w, retried, 1);
    for (size_t i = 1; i < TASKS; i++)
        open_gate(&w, i);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(w.finals[0].failure, GD_FAILURE_NONE);
    CHECK_EQ(w.finals[0].attempt, 2);
    world_close(&w);
}

static unsigned parts_of[4];

static void count_part(void *user, uint64_t task_id, int worker_id, unsigned attempt, const void *data, size_t size)
{
    uint64_t number = UINT64_MAX;
    (void)user;
    CHECK_EQ(worker_id, 0);
    CHECK_EQ(attempt, 1);
    CHECK_EQ(size, sizeof number);
    memcpy(&number, data, sizeof number);
    CHECK_EQ(number, parts_of[task_id]);
    parts_of[task_id]++;
}

TEST(partial_results_reach_on_partial_in_order)
{
    struct world w;
    open_world(&w, 1, 4);
    w.o.on_partial = count_part;
    memset(parts_of, 0, sizeof parts_of);
    for (unsigned i = 0; i < 4; i++)
        world_add(&w, (struct world_order){ .what = W_PARTIAL, .n = 100 * i });
    CHECK_EQ(world_run(&w), 0);
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQ(parts_of[i], 100 * i);
    CHECK_EQ(world_callbacks(&w, 'S'), 4);
    world_close(&w);
}

TEST(a_shutdown_lets_all_tasks_in_flight_finish)
{
    enum { PLACES = 4, TASKS = 20 };
    struct world w;
    open_world(&w, 1, PLACES);
    for (size_t i = 0; i < TASKS; i++)
        add_gated(&w, W_ECHO);
    world_launch(&w);
    world_await(w.page, WC_ENTERED, PLACES);
    world_await_stat(&w, taken, TASKS);
    gd_dispatcher_shutdown(w.d);
    world_await_stat(&w, cancelled, TASKS - PLACES);
    for (size_t i = 0; i < TASKS; i++)
        open_gate(&w, i);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    CHECK_EQ(world_callbacks(&w, 'S'), PLACES);
    world_close(&w);
}

TEST(many_tasks_on_several_workers)
{
    struct world w;
    open_world(&w, 2, 64);
    world_add_many(&w, MANY, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), MANY);
    world_close(&w);
}

TEST(a_worker_without_begin_has_one_task_at_a_time)
{
    struct world w;
    world_ops("");
    world_open(&w, 1);
    w.o.concurrency = 8;
    world_add_many(&w, 100, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.workers[0].in_flight, 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 100);
    world_close(&w);
}

TEST(a_bad_concurrency_is_refused)
{
    struct world w;
    open_world(&w, 1, 5000);
    world_add(&w, (struct world_order){ .what = W_ECHO });
    struct gd_dispatcher *d = NULL;
    CHECK_EQ(gd_dispatcher_open(&d, &w.o), GD_E_INVALID);
    CHECK(strstr(gd_error_text(), "concurrency is 5000: it must be 0 to 4096"));
    world_close(&w);
}

WORLD_MAIN()
