/* Which worker gets which task: dynamic placement, contiguous chunks, by size, and custom strategies. Also what happens
 * to the tasks of a lost worker. */
#include "support/test.h"
#include "support/world.h"

static void open_when_one_is_left(struct world *w, const struct gd_report *r)
{
    (void)r;
    if (w->n_finals == w->n_orders - 1)
        world_gate_open(w->page, 2);
}

/* Task 0 blocks until all other tasks are final. So tasks that are handed to the same worker must be taken back. */
static void tail_is_taken_back(unsigned window, unsigned batch)
{
    struct world w;
    world_open(&w, 2);
    if (batch > 1)
        world_ops("b");
    w.o.batch_size = batch;
    w.o.window = window;
    w.on_final = open_when_one_is_left;
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_add_many(&w, 300, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].order, 300);
    for (unsigned i = 0; i < w.n_orders; i++)
        CHECK_EQ(w.finals[i].attempt, 1);
    world_close(&w);
}

TEST(the_tail_is_taken_back_from_a_blocked_worker)
{
    tail_is_taken_back(0, 1);
}
TEST(the_tail_is_taken_back_from_a_full_window)
{
    tail_is_taken_back(128, 1);
}

TEST(a_free_worker_gets_the_next_task)
{
    struct world w;
    world_open(&w, 4);
    w.o.window = 1;
    for (unsigned i = 0; i < 4; i++)
        world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 10 + i });
    world_add_many(&w, 4, (struct world_order){ .what = W_ECHO, .gate = 20 });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 4);
    world_gate_open(w.page, 12); /* one worker is free now and gets task 4 */
    world_await(w.page, WC_ENTERED, 5);
    CHECK_EQ(w.page->log[4].task, 4);
    world_gate_open(w.page, 10);
    world_gate_open(w.page, 11);
    world_gate_open(w.page, 13);
    world_gate_open(w.page, 20);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(w.finals[4].worker_id, w.finals[2].worker_id);
    world_close(&w);
}

TEST(a_worker_that_starts_late_gets_tasks)
{
    struct world w;
    world_open(&w, 2);
    w.setup = (struct world_setup){ .gate = 2, .workers = 2 }; /* worker 1 sets up late */
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 3 });
    world_add_many(&w, 50, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1); /* worker 0 has the blocked task and some tasks handed out ahead */
    world_gate_open(w.page, 2);
    world_await(w.page, WC_ENTERED, 51); /* worker 1 does all other tasks */
    world_gate_open(w.page, 3);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(w.finals[0].worker_id, 0);
    for (unsigned i = 1; i <= 50; i++)
        CHECK_EQ(w.finals[i].worker_id, 1);
    world_close(&w);
}

TEST(chunks_by_ceiling_division)
{
    static const struct {
        unsigned tasks, workers, chunk;
    } cases[] = { { 10, 4, 3 }, { 12, 4, 3 }, { 3, 4, 1 }, { 1, 3, 1 }, { 100, 3, 34 } };
    for (unsigned k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct world w;
        world_open(&w, cases[k].workers);
        w.o.placement = GD_PLACE_CHUNKS;
        w.o.total_tasks = cases[k].tasks;
        w.o.queue_size = 100;
        world_add_many(&w, cases[k].tasks, (struct world_order){ .what = W_ECHO });
        CHECK_EQ(world_run(&w), 0);
        for (unsigned i = 0; i < cases[k].tasks; i++)
            CHECK_EQ(w.finals[i].worker_id, i / cases[k].chunk);
        world_close(&w);
    }
}

/* The total is set after the dispatcher is opened, as for a list that is read later. */
TEST(chunks_of_a_total_that_was_set_later)
{
    struct world w;
    world_open(&w, 4);
    w.o.placement = GD_PLACE_CHUNKS;
    w.o.total_tasks = 4;
    w.o.queue_size = 100;
    world_add_many(&w, 40, (struct world_order){ .what = W_ECHO });
    world_start(&w);
    gd_dispatcher_set_total(w.d, 40);
    CHECK_EQ(world_finish(&w), 0);
    for (unsigned i = 0; i < 40; i++)
        CHECK_EQ(w.finals[i].worker_id, i / 10);
    gd_dispatcher_close(&w.d);
    world_close(&w);
}

/* A total that the options do not allow is also refused if it is set later. */
TEST(chunks_of_an_impossible_total)
{
    static const uint64_t totals[] = { 0, 101 };
    for (unsigned k = 0; k < 2; k++) {
        struct world w;
        world_open(&w, 2);
        w.o.placement = GD_PLACE_CHUNKS;
        w.o.total_tasks = 4;
        w.o.queue_size = 100;
        world_add_many(&w, 4, (struct world_order){ .what = W_ECHO });
        world_start(&w);
        gd_dispatcher_set_total(w.d, totals[k]);
        CHECK_EQ(world_finish(&w), GD_E_INVALID);
        CHECK_CONTAINS(w.text, "GD_PLACE_CHUNKS divides the whole list in advance");
        CHECK_EQ(w.n_finals, 0);
        gd_dispatcher_close(&w.d);
        world_close(&w);
    }
}

TEST(chunks_with_more_tasks_than_the_total)
{
    struct world w;
    world_open(&w, 2);
    w.o.placement = GD_PLACE_CHUNKS;
    w.o.total_tasks = 10;
    world_add_many(&w, 30, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 30);
    world_close(&w);
}

TEST(by_size_distributes_the_largest_first_in_turn)
{
    struct world w;
    static const size_t sizes[] = { 100, 500, 300, 200, 600, 400 };
    world_open(&w, 2);
    w.o.placement = GD_PLACE_BY_SIZE;
    w.setup = (struct world_setup){ .gate = 2 };
    for (unsigned i = 0; i < 6; i++)
        world_add_sized(&w, (struct world_order){ .what = W_ECHO }, sizes[i]);
    world_launch(&w);
    world_await_stat(&w, source_done, 1);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    /* 600 | 500, 400 | 300, 200 | 100: tasks 4 5 3 on one worker, 1 2 0 on the other */
    CHECK_EQ(w.finals[4].worker_id, w.finals[5].worker_id);
    CHECK_EQ(w.finals[4].worker_id, w.finals[3].worker_id);
    CHECK_EQ(w.finals[1].worker_id, w.finals[2].worker_id);
    CHECK_EQ(w.finals[1].worker_id, w.finals[0].worker_id);
    CHECK_NE(w.finals[1].worker_id, w.finals[4].worker_id);
    CHECK_LT(w.finals[4].order, w.finals[5].order);
    CHECK_LT(w.finals[5].order, w.finals[3].order);
    world_close(&w);
}

static int every_third(void *user, uint64_t task_id, uint64_t weight, unsigned n_workers)
{
    const struct world *w = user;
    CHECK_EQ(weight, w->sizes[task_id]);
    CHECK_EQ(n_workers, 3);
    return task_id % 4 == 3 ? -1 : (int)(task_id % 4);
}

TEST(a_custom_strategy)
{
    struct world w;
    world_open(&w, 3);
    w.gpus[0] = 11;
    w.gpus[1] = 12;
    w.gpus[2] = 13;
    w.o.placement = GD_PLACE_CUSTOM;
    w.o.place = every_third;
    for (unsigned i = 0; i < 200; i++)
        world_add_sized(&w, (struct world_order){ .what = W_ECHO }, 24 + i);
    CHECK_EQ(world_run(&w), 0);
    for (unsigned i = 0; i < 200; i++)
        if (i % 4 < 3)
            CHECK_EQ(w.finals[i].worker_id, (int)(i % 4));
    world_close(&w);
}

static int nonsense(void *user, uint64_t task_id, uint64_t weight, unsigned n_workers)
{
    (void)user, (void)weight;
    return task_id % 2 ? (int)n_workers + 5 : -77;
}

TEST(a_strategy_that_names_no_worker_means_any_worker)
{
    struct world w;
    world_open(&w, 2);
    w.o.placement = GD_PLACE_CUSTOM;
    w.o.place = nonsense;
    world_add_many(&w, 50, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 50);
    world_close(&w);
}

static void lost_worker(enum gd_placement placement, uint32_t what)
{
    struct world w;
    world_open(&w, 3);
    w.o.placement = placement;
    w.o.place = every_third;
    w.o.total_tasks = 90;
    w.o.restart_delay_ms = 1;
    w.setup = (struct world_setup){ .what = what, .workers = 2 }; /* the setup of worker 1 always fails */
    world_add_many(&w, 90, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 90);
    for (unsigned i = 0; i < 90; i++)
        CHECK_NE(w.finals[i].worker_id, 1);
    world_close(&w);
}

TEST(the_chunk_of_a_lost_worker_moves)
{
    lost_worker(GD_PLACE_CHUNKS, W_ERROR);
}
TEST(the_tasks_by_size_of_a_lost_worker_move)
{
    lost_worker(GD_PLACE_BY_SIZE, W_ERROR);
}
TEST(the_custom_tasks_of_a_lost_worker_move)
{
    lost_worker(GD_PLACE_CUSTOM, W_SEGV);
}

/* A worker dies in the middle of its chunk and is not replaced. */
TEST(the_rest_of_a_chunk_moves_when_its_worker_is_not_replaced)
{
    struct world w;
    world_open(&w, 2);
    w.o.placement = GD_PLACE_CHUNKS;
    w.o.total_tasks = 40;
    w.o.death_limit = 1;
    w.o.crash_limit = 1;
    world_add(&w, (struct world_order){ .what = W_KILL });
    world_add_many(&w, 39, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].failure, GD_FAILURE_CRASH);
    CHECK_EQ(world_callbacks(&w, 'S'), 39);
    CHECK_EQ(w.workers[0].state, GD_WORKER_FAILED);
    world_close(&w);
}

TEST(a_worker_that_is_replaced_keeps_its_chunk)
{
    struct world w;
    world_open(&w, 2);
    w.o.placement = GD_PLACE_CHUNKS;
    w.o.total_tasks = 40;
    world_add(&w, (struct world_order){ .what = W_KILL, .tries = 1 });
    world_add_many(&w, 39, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    for (unsigned i = 0; i < 40; i++)
        CHECK_EQ(w.finals[i].worker_id, i / 20);
    world_close(&w);
}

static void open_when_eight_are_left(struct world *w, const struct gd_report *r)
{
    (void)r;
    if (w->n_finals == w->n_orders - 8)
        world_gate_open(w->page, 2);
}

/* The first eight tasks are for worker 0, which is blocked. They fill the queue, except for one place. The other worker
 * must get its tasks one at a time through that place. */
static int first_eight_to_0(void *user, uint64_t task_id, uint64_t weight, unsigned n_workers)
{
    (void)user, (void)weight, (void)n_workers;
    return task_id >= 8;
}

TEST(an_idle_worker_gets_tasks_although_another_fills_the_queue)
{
    struct world w;
    world_open(&w, 2);
    w.o.queue_size = 8;
    w.o.placement = GD_PLACE_CUSTOM;
    w.o.place = first_eight_to_0;
    w.on_final = open_when_eight_are_left;
    world_add_many(&w, 8, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_add_many(&w, 50, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    for (unsigned i = 0; i < w.n_orders; i++)
        CHECK_EQ(w.finals[i].worker_id, i >= 8);
    world_close(&w);
}

WORLD_MAIN()
