/* The order in which tasks start: higher priorities first, and in the order of the source within a priority. Also the
 * time limit that an item can set for its task. Tasks wait at gates, so the test decides when they end. */
#include "support/test.h"
#include "support/world.h"

enum { MOST = 4000 };

/* What the source sets for each task, besides its payload. */
static struct {
    int priority;
    unsigned timeout_ms;
} settings[MOST];

static gd_source_fn *next_item; /* the world's own source */

static int next_with_settings(void *user, struct gd_item *item)
{
    const size_t i = ((struct world *)user)->next;
    const int some = next_item(user, item);
    if (some == 1) {
        item->priority = settings[i].priority;
        item->timeout_ms = settings[i].timeout_ms;
    }
    return some;
}

static void check_limit(struct world *w, const struct gd_report *r)
{
    const unsigned own = settings[r->task_id].timeout_ms;
    CHECK_EQ(r->timeout_ms, own > 0 ? own : w->o.task_timeout_ms);
}

static void open_world(struct world *w, unsigned n_gpus)
{
    world_open(w, n_gpus);
    next_item = w->o.source;
    w->o.source = next_with_settings;
    w->on_final = check_limit;
}

/* A task that waits at its own gate. Gate 1 is that of the source. */
static size_t add_gated(struct world *w)
{
    return world_add(w, (struct world_order){ .what = W_ECHO, .gate = 2 + (uint32_t)w->n_orders });
}

static void open_gate(const struct world *w, size_t task)
{
    world_gate_open(w->page, w->orders[task].gate);
}

/* --- the order of the source --- */

/* The order is promised for tasks that last longer than a millisecond. So the tasks here last longer than that. */
static void let_time_pass(void)
{
    const uint64_t until = world_now_ms() + 3;
    while (world_now_ms() < until)
        sched_yield();
}

/* Whichever task ends, the next one of the source starts. */
TEST(tasks_start_in_the_order_of_the_source)
{
    enum { WORKERS = 3, TASKS = 40 };
    struct world w;
    size_t running[WORKERS];
    open_world(&w, WORKERS);
    for (size_t i = 0; i < TASKS; i++)
        add_gated(&w);
    world_launch(&w);
    world_await(w.page, WC_ENTERED, WORKERS);
    for (size_t i = 0; i < WORKERS; i++)
        running[i] = i;
    srand(5);
    for (size_t next = WORKERS; next < TASKS; next++) {
        size_t *ends = &running[rand() % WORKERS];
        let_time_pass();
        open_gate(&w, *ends);
        world_await(w.page, WC_ENTERED, (uint32_t)next + 1);
        CHECK_EQ(w.page->log[next].task, next);
        *ends = next;
    }
    for (size_t i = 0; i < TASKS; i++)
        open_gate(&w, i);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), TASKS);
    world_close(&w);
}

/* While the first task runs, the other worker does all others. None of them waits for the first worker. Only tasks that
 * were handed to the first worker start later than others behind them. All tasks are waiting before the workers are ready,
 * so the first worker is handed tasks only once. */
TEST(no_task_waits_behind_a_long_one)
{
    enum { TASKS = 800, SETUP_GATE = 1, WINDOW = 8 };
    struct world w;
    uint32_t last = 0, late = 0;
    open_world(&w, 2);
    w.o.queue_size = 2 * TASKS; /* so that the source is never waiting for room when it has no more tasks */
    w.o.window = WINDOW;
    w.setup = (struct world_setup){ .gate = SETUP_GATE };
    add_gated(&w);
    world_add_many(&w, TASKS - 1, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    world_await_stat(&w, taken, TASKS);
    world_gate_open(w.page, SETUP_GATE);
    world_await(w.page, WC_ENTERED, TASKS);
    for (size_t line = 0; line < TASKS; line++) {
        const uint32_t task = (uint32_t)w.page->log[line].task;
        late += task < last;
        last = task > last ? task : last;
    }
    CHECK_LE(late, WINDOW + 1); /* the first task itself may be late, too */
    open_gate(&w, 0);
    CHECK_EQ(world_join(&w), 0);
    world_close(&w);
}

/* --- priorities --- */

/* Waits until the run has sorted all tasks by priority. Tasks count as taken a little earlier. */
static void await_all_sorted(struct world *w)
{
    world_await_stat(w, source_done, 1);
}

/* Holds all workers until every task was taken, then lets them run. After the first tasks, the log has the tasks that
 * waited, in the order in which they started. */
static void run_when_all_wait(struct world *w, unsigned n_workers)
{
    world_launch(w);
    world_await(w->page, WC_ENTERED, n_workers);
    world_gate_open(w->page, 1); /* now the source gives the others */
    await_all_sorted(w);
    for (size_t i = 0; i < n_workers; i++)
        open_gate(w, i);
}

/* The source gives far more tasks than the scheduler usually takes at once. */
TEST(tasks_of_a_higher_priority_overtake_all_that_wait)
{
    enum { TASKS = 3000 };
    struct world w;
    uint32_t line = 1;
    open_world(&w, 1);
    w.o.queue_size = 2 * TASKS; /* so that the source is never waiting for room when it has no more tasks */
    w.source_gate_at = 1;
    add_gated(&w);
    world_add_many(&w, TASKS - 1, (struct world_order){ .what = W_ECHO });
    settings[5].priority = GD_PRIORITY_MIN;
    for (size_t i = TASKS - 20; i < TASKS; i++)
        settings[i].priority = i % 2 ? 1 : GD_PRIORITY_MAX;
    run_when_all_wait(&w, 1);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(w.page->n_log, TASKS);
    for (int priority = GD_PRIORITY_MAX; priority >= GD_PRIORITY_MIN; priority--)
        for (size_t i = 1; i < TASKS; i++)
            if (settings[i].priority == priority)
                CHECK_EQ(w.page->log[line++].task, i);
    world_close(&w);
}

/* The worker was handed tasks ahead of time before the urgent one came. */
TEST(an_urgent_task_overtakes_tasks_that_a_worker_was_handed)
{
    struct world w;
    open_world(&w, 1);
    w.o.window = 16;
    w.source_gate_at = 20;
    add_gated(&w);
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO });
    settings[20].priority = 1;
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    world_await_stat(&w, taken, 20);
    world_gate_open(w.page, 1);
    await_all_sorted(&w);
    open_gate(&w, 0);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(w.page->log[1].task, 20);
    for (size_t i = 1; i < 20; i++)
        CHECK_EQ(w.page->log[i + 1].task, i);
    world_close(&w);
}

TEST(results_of_an_ordered_run_come_in_the_order_of_the_source)
{
    enum { TASKS = 1000, WORKERS = 3 };
    struct world w;
    open_world(&w, WORKERS);
    w.o.ordered = true;
    w.o.queue_size = 2 * TASKS; /* so that the source is never waiting for room when it has no more tasks */
    w.source_gate_at = WORKERS;
    for (size_t i = 0; i < WORKERS; i++)
        add_gated(&w);
    world_add_many(&w, TASKS - WORKERS, (struct world_order){ .what = W_ECHO });
    for (size_t i = WORKERS; i < TASKS; i++)
        settings[i].priority = (int)(i * 7 % 8) + GD_PRIORITY_MIN;
    run_when_all_wait(&w, WORKERS);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(settings[w.page->log[WORKERS].task].priority, GD_PRIORITY_MAX); /* the tasks did start by priority */
    for (size_t i = 0; i < TASKS; i++)
        CHECK_EQ(w.finals[i].order, i);
    world_close(&w);
}

/* The tasks before the bad one are processed. */
static void check_bad_priority(int priority, bool in_place, const char *message)
{
    struct world w;
    open_world(&w, 2);
    w.in_place = in_place;
    for (size_t i = 0; i < 100; i++)
        world_add_sized(&w, (struct world_order){ .what = W_ECHO }, i % 2 ? 5000 : sizeof(struct world_order));
    settings[50].priority = priority;
    CHECK_EQ(world_run(&w), GD_E_SOURCE);
    CHECK_CONTAINS(w.text, message);
    CHECK_EQ(w.stats.taken, 50);
    CHECK_EQ(world_callbacks(&w, 'S'), 50);
    world_close(&w);
}

TEST(a_priority_out_of_range_ends_the_source)
{
    check_bad_priority(9, false, "gd_item.priority is 9: the range is -4 to 3");
    check_bad_priority(-5, false, "gd_item.priority is -5: the range is -4 to 3");
    check_bad_priority(4, true, "gd_item.priority is 4: the range is -4 to 3");
}

/* --- time limits --- */

/* If a worker is so slow that the time limit of a task is over before it begins, the task does not begin. These cases do
 * not depend on that: they wait for the timeout, or raise the limit until the task begins in time. */

enum { SHORT_MS = 40, TRIES = 8 };

static void await_begun(const struct world *w, size_t task)
{
    while (atomic_load(&w->page->runs[task]) == 0)
        sched_yield();
}

static void check_timed_out(const struct world *w, size_t task, unsigned limit_ms)
{
    char error[64];
    snprintf(error, sizeof error, "timed out after %g s", limit_ms / 1000.0);
    CHECK_EQ(w->finals[task].callback, 'T');
    CHECK_STR(w->finals[task].error, error);
}

/* The run has no time limit. The task without its own limit goes on until the other one has timed out. */
TEST(a_time_limit_of_one_task)
{
    struct world w;
    open_world(&w, 2);
    world_add(&w, (struct world_order){ .what = W_POLITE_LOOP });
    settings[0].timeout_ms = SHORT_MS;
    add_gated(&w);
    world_launch(&w);
    await_begun(&w, 1);
    world_await_stat(&w, timeouts, 1);
    open_gate(&w, 1);
    CHECK_EQ(world_join(&w), 0);
    check_timed_out(&w, 0, SHORT_MS);
    CHECK_EQ(w.finals[1].callback, 'S');
    CHECK_EQ(w.stats.crashes, 0);
    world_close(&w);
}

/* The tasks before and after it, on the same worker, have no limit. Returns whether the task had its whole limit. */
static bool has_its_whole_limit(unsigned limit_ms)
{
    struct world w;
    open_world(&w, 1);
    w.o.window = 4;
    add_gated(&w);
    world_add(&w, (struct world_order){ .what = W_POLITE_LOOP });
    settings[1].timeout_ms = limit_ms;
    add_gated(&w);
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    world_await_stat(&w, taken, 3);
    open_gate(&w, 0);
    await_begun(&w, 2);
    open_gate(&w, 2);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(w.finals[0].callback, 'S');
    check_timed_out(&w, 1, limit_ms);
    CHECK_EQ(w.finals[2].callback, 'S');
    const bool whole =
        atomic_load(&w.page->runs[1]) > 0 && w.finals[1].end_ns - w.finals[1].start_ns >= (uint64_t)limit_ms * 1000000;
    world_close(&w);
    return whole;
}

TEST(a_time_limit_counts_from_the_start_of_its_task)
{
    bool whole = false;
    for (unsigned i = 0; i < TRIES && !whole; i++)
        whole = has_its_whole_limit(SHORT_MS << i);
    CHECK(whole);
}

TEST(a_longer_time_limit_than_that_of_the_run)
{
    struct world w;
    open_world(&w, 2);
    w.o.task_timeout_ms = SHORT_MS;
    add_gated(&w);
    settings[0].timeout_ms = WORLD_ENDLESS_MS;
    world_add(&w, (struct world_order){ .what = W_POLITE_LOOP });
    world_launch(&w);
    world_await_stat(&w, timeouts, 1);
    await_begun(&w, 0);
    open_gate(&w, 0);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(w.finals[0].callback, 'S');
    check_timed_out(&w, 1, SHORT_MS);
    world_close(&w);
}

/* A batch ends at the shortest limit of its tasks. Each task is then run again alone, with its own limit. Returns whether
 * the batch began in time. */
static bool run_batch_with_limit(unsigned limit_ms)
{
    struct world w;
    open_world(&w, 1);
    world_ops("b");
    w.o.batch_size = 2;
    w.o.batch_wait_us = 60 * 1000 * 1000;
    world_add(&w, (struct world_order){ .what = W_POLITE_LOOP, .tries = 1 }); /* loops in the batch only */
    world_add(&w, (struct world_order){ .what = W_POLITE_LOOP });
    settings[1].timeout_ms = limit_ms;
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].callback, 'S');
    CHECK_EQ(w.finals[0].attempt, 2);
    check_timed_out(&w, 1, limit_ms);
    const bool began = w.page->largest_batch == 2;
    world_close(&w);
    return began;
}

TEST(the_shortest_time_limit_of_a_batch_counts)
{
    bool began = false;
    for (unsigned i = 0; i < TRIES && !began; i++)
        began = run_batch_with_limit(SHORT_MS << i);
    CHECK(began);
}

WORLD_MAIN()
