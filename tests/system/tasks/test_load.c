/* Loading ahead: load() runs on I/O threads before process, at most load_ahead tasks ahead. */
#include "support/test.h"
#include "support/world.h"

static void open_loading(struct world *w, unsigned n_gpus, unsigned threads, unsigned ahead)
{
    world_open(w, n_gpus);
    world_ops("l");
    w->o.io_threads = threads;
    w->o.load_ahead = ahead;
}

TEST(process_gets_the_loaded_data)
{
    struct world w;
    open_loading(&w, 2, 2, 0);
    world_add_many(&w, 500, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    for (unsigned i = 0; i < 500; i++)
        CHECK(w.finals[i].answer.loaded);
    CHECK_EQ(world_count(w.page, WC_LOADS), 500);
    CHECK_EQ(world_count(w.page, WC_UNLOADS), 500);
    CHECK_EQ(world_count(w.page, WC_LOADED), 0);
    world_close(&w);
}

/* When this returns, one worker is in its first task, and five more tasks are loaded. A worker claims available tasks
 * when it begins a task. So its setup waits until all tasks are available. */
static void launch_loaded_ahead(struct world *w)
{
    open_loading(w, 1, 2, 6);
    w->setup = (struct world_setup){ .gate = 3 };
    world_add_many(w, 50, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_launch(w);
    world_await_stat(w, taken, 50);
    world_gate_open(w->page, 3);
    world_await(w->page, WC_LOADS, 6);
}

TEST(loads_run_ahead_while_process_is_busy)
{
    struct world w;
    launch_loaded_ahead(&w); /* the first task is still waiting at the gate, in process */
    CHECK_EQ(world_count(w.page, WC_UNLOADS), 0);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 50);
    world_close(&w);
}

/* A task can't be taken back after its worker has begun to load it. The other worker starts later and must still get a
 * task. */
static void check_shared(unsigned n_tasks)
{
    struct world w;
    open_loading(&w, 2, 1, 0);
    w.setup = (struct world_setup){ .what = W_ECHO, .gate = 3, .workers = 2 };
    world_add_many(&w, n_tasks, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    world_gate_open(w.page, 3);
    world_await(w.page, WC_ENTERED, 2); /* both workers are in process, and neither can finish */
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    CHECK(w.finals[0].worker_id != w.finals[1].worker_id); /* the first two tasks run on different workers */
    CHECK_EQ(world_callbacks(&w, 'S'), n_tasks);
    world_close(&w);
}

TEST(each_worker_gets_one_of_two_long_tasks)
{
    check_shared(2);
}

TEST(the_last_of_three_long_tasks_goes_to_the_first_free_worker)
{
    check_shared(3);
}

TEST(load_ahead_is_a_limit)
{
    static const unsigned bounds[] = { 1, 2, 3, 10 };
    for (unsigned k = 0; k < 4; k++) {
        struct world w;
        open_loading(&w, 1, 4, bounds[k]);
        world_add_many(&w, 300, (struct world_order){ .what = W_ECHO });
        CHECK_EQ(world_run(&w), 0);
        CHECK_LE(atomic_load(&w.page->most_loaded), bounds[k] + 1); /* + 1: the task in process */
        world_close(&w);
    }
}

TEST(a_failed_load_fails_its_task)
{
    struct world w;
    open_loading(&w, 1, 2, 0);
    for (unsigned i = 0; i < 60; i++)
        world_add(&w, (struct world_order){ .what = i % 6 == 2 ? W_LOAD_ERROR : W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_failures(&w, GD_FAILURE_ERROR), 10);
    CHECK_STR(w.finals[2].error, "task 2 can't be loaded");
    CHECK_EQ(atomic_load(&w.page->runs[2]), 0); /* process was not called */
    CHECK_EQ(world_callbacks(&w, 'S'), 50);
    CHECK_EQ(world_count(w.page, WC_UNLOADS), 50);
    world_close(&w);
}

TEST(a_load_that_fails_is_retried)
{
    struct world w;
    open_loading(&w, 1, 1, 0);
    w.o.retries = 1;
    w.o.retry_delay_ms = 1;
    world_add(&w, (struct world_order){ .what = W_LOAD_ERROR, .tries = 1 });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].callback, 'S');
    CHECK_EQ(w.finals[0].attempt, 2);
    world_close(&w);
}

TEST(a_crash_in_load_charges_the_right_task)
{
    struct world w;
    open_loading(&w, 2, 4, 8);
    w.o.restart_delay_ms = 0;
    world_add_many(&w, 40, (struct world_order){ .what = W_ECHO });
    const size_t bad = world_add(&w, (struct world_order){ .what = W_LOAD_SEGV });
    world_add_many(&w, 40, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[bad].failure, GD_FAILURE_CRASH);
    CHECK_EQ(world_callbacks(&w, 'S'), 80);
    world_close(&w);
}

TEST(a_crash_in_process_during_loads_charges_the_right_task)
{
    struct world w;
    open_loading(&w, 2, 4, 8);
    w.o.restart_delay_ms = 0;
    world_add_many(&w, 40, (struct world_order){ .what = W_ECHO });
    const size_t bad = world_add(&w, (struct world_order){ .what = W_SEGV });
    world_add_many(&w, 40, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[bad].failure, GD_FAILURE_CRASH);
    CHECK_EQ(world_callbacks(&w, 'S'), 80);
    world_close(&w);
}

TEST(loading_in_batches)
{
    struct world w;
    open_loading(&w, 2, 3, 16);
    world_ops("bl");
    w.o.batch_size = 8;
    for (unsigned i = 0; i < 400; i++)
        world_add(&w, (struct world_order){ .what = i % 50 == 3 ? W_LOAD_ERROR : W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 392);
    for (unsigned i = 0; i < 400; i++)
        CHECK_EQ(w.finals[i].answer.loaded, i % 50 != 3);
    CHECK_EQ(world_count(w.page, WC_LOADED), 0);
    world_close(&w);
}

TEST(many_threads)
{
    struct world w;
    open_loading(&w, 1, 32, 0);
    world_add_many(&w, 1000, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 1000);
    CHECK_EQ(world_count(w.page, WC_LOADED), 0);
    world_close(&w);
}

TEST(shutdown_unloads_the_loaded_tasks)
{
    struct world w;
    launch_loaded_ahead(&w);
    gd_dispatcher_shutdown(w.d);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    CHECK_EQ(world_count(w.page, WC_LOADED), 0);
    world_close(&w);
}

WORLD_MAIN()
