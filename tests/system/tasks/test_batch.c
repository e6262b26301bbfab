/* Batches: they are formed from waiting tasks, wait at most batch_wait to become full, and are split when memory runs
 * out. Each task of a batch has its own result and its own outcome. */
#include "support/test.h"
#include "support/world.h"

static void open_batched(struct world *w, unsigned n_gpus, unsigned batch)
{
    world_open(w, n_gpus);
    world_ops("b");
    w->o.batch_size = batch;
}

TEST(each_task_has_its_own_result)
{
    struct world w;
    open_batched(&w, 2, 8);
    for (unsigned i = 0; i < 500; i++)
        world_add(&w, (struct world_order){ .what = i % 7 == 0   ? W_ERROR
                                                    : i % 5 == 0 ? W_BYTES
                                                                 : W_ECHO,
                                            .n = i * 100 });
    CHECK_EQ(world_run(&w), 0);
    for (unsigned i = 0; i < 500; i++)
        CHECK_EQ(w.finals[i].callback, i % 7 == 0 ? 'E' : 'S');
    world_close(&w);
}

TEST(batches_of_several_sizes)
{
    static const unsigned sizes[] = { 2, 3, 16, 100 };
    for (unsigned k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        struct world w;
        open_batched(&w, 1, sizes[k]);
        w.setup = (struct world_setup){ .gate = 2 };
        world_add_many(&w, 5 * sizes[k], (struct world_order){ .what = W_ECHO });
        world_launch(&w);
        world_await_stat(&w, taken, 5 * sizes[k]); /* all tasks are waiting */
        world_gate_open(w.page, 2);
        CHECK_EQ(world_join(&w), 0);
        CHECK_EQ(atomic_load(&w.page->largest_batch), sizes[k]);
        CHECK_EQ(world_count(w.page, WC_BATCHES), 5); /* formed from what is waiting */
        world_close(&w);
    }
}

TEST(a_batch_of_one_uses_process)
{
    struct world w;
    open_batched(&w, 1, 1);
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_count(w.page, WC_BATCHES), 0);
    world_close(&w);
}

TEST(only_process_batch_given)
{
    struct world w;
    world_open(&w, 1);
    world_ops("bp");
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 10);
    CHECK_EQ(atomic_load(&w.page->largest_batch), 1);
    world_close(&w);
}

TEST(only_process_given)
{
    struct world w;
    world_open(&w, 1);
    w.o.batch_size = 8;
    world_add_many(&w, 30, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 30);
    world_close(&w);
}

TEST(without_batch_wait_a_short_batch_goes_at_once)
{
    struct world w;
    open_batched(&w, 1, 64);
    w.source_gate_at = 3;
    world_add_many(&w, 4, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 3); /* the source has given three tasks and blocks now */
    world_gate_open(w.page, 1);
    CHECK_EQ(world_join(&w), 0);
    world_close(&w);
}

TEST(batch_wait_waits_for_a_full_batch)
{
    struct world w;
    open_batched(&w, 1, 10);
    w.o.batch_wait_us = 60u * 1000 * 1000;
    w.source_gate_at = 5;
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    world_await(w.page, WC_SETUPS, 1);
    world_await(w.page, WC_SOURCE, 6);
    world_gate_open(w.page, 1);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_count(w.page, WC_BATCHES), 1);
    CHECK_EQ(atomic_load(&w.page->largest_batch), 10);
    world_close(&w);
}

TEST(batch_wait_ends)
{
    struct world w;
    open_batched(&w, 1, 10);
    w.o.batch_wait_us = 100 * 1000;
    w.source_gate_at = 5;
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    const uint64_t begin = world_now_ms();
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 5); /* although the source gives no more tasks; otherwise this case would not end */
    CHECK_GE(world_now_ms() - begin, 100);
    world_gate_open(w.page, 1);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 10);
    world_close(&w);
}

TEST(the_end_of_the_source_ends_the_wait)
{
    struct world w;
    open_batched(&w, 1, 10);
    w.o.batch_wait_us = 3600u * 1000 * 1000;
    world_add_many(&w, 13, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 13);
    world_close(&w);
}

TEST(a_full_queue_ends_the_wait)
{
    struct world w;
    open_batched(&w, 1, 64);
    w.o.queue_size = 4;
    w.o.batch_wait_us = 3600u * 1000 * 1000;
    world_add_many(&w, 200, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 200);
    world_close(&w);
}

/* --- out of memory --- */

TEST(a_batch_out_of_memory_is_split_and_the_safe_size_is_kept)
{
    struct world w;
    open_batched(&w, 1, 16);
    w.setup = (struct world_setup){ .gate = 2 };
    world_add_many(&w, 160, (struct world_order){ .what = W_OOM_AMONG, .n = 5 }); /* five tasks fit */
    world_launch(&w);
    world_await_stat(&w, taken, 160);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 160);
    /* Sizes of the batches: 16, 8, 4, 4, 8, 4, 4 for the first 16 tasks, then 36 batches of 4. A few more are allowed,
     * because some batches were handed out before the safe size was known. */
    CHECK_LE(world_count(w.page, WC_BATCHES), 7 + 36 + 8);
    for (unsigned i = 0; i < 160; i++) {
        CHECK_EQ(w.finals[i].attempt, 1);
        CHECK_LE(w.finals[i].answer.batch, 5);
    }
    CHECK_EQ(w.finals[159].answer.batch, 4); /* still in batches, not one by one */
    world_close(&w);
}

TEST(one_task_that_never_fits_fails_alone)
{
    struct world w;
    open_batched(&w, 1, 8);
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    world_add(&w, (struct world_order){ .what = W_OOM });
    world_add_many(&w, 50, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[10].failure, GD_FAILURE_OUT_OF_MEMORY);
    CHECK_STR(w.finals[10].error, "task 10 does not fit");
    CHECK_EQ(world_callbacks(&w, 'S'), 60);
    CHECK_EQ(w.stats.crashes, 0);
    world_close(&w);
}

TEST(out_of_memory_without_batches_is_a_failure_that_may_be_retried)
{
    struct world w;
    world_open(&w, 1);
    w.o.retries = 2;
    w.o.retry_delay_ms = 1;
    world_add(&w, (struct world_order){ .what = W_OOM });
    world_add(&w, (struct world_order){ .what = W_OOM, .tries = 1 });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].failure, GD_FAILURE_OUT_OF_MEMORY);
    CHECK_EQ(w.finals[0].attempt, 3);
    CHECK_EQ(w.finals[1].callback, 'S');
    world_close(&w);
}

/* --- crashes and time limits in a batch --- */

TEST(a_crash_in_a_batch_charges_the_right_task)
{
    struct world w;
    open_batched(&w, 2, 8);
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO });
    const size_t bad = world_add(&w, (struct world_order){ .what = W_SEGV });
    world_add_many(&w, 30, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 50);
    CHECK_EQ(w.finals[bad].failure, GD_FAILURE_CRASH);
    CHECK_EQ(w.finals[bad].signal, SIGSEGV);
    world_close(&w);
}

TEST(several_tasks_in_batches_kill_their_workers)
{
    struct world w;
    open_batched(&w, 3, 8);
    w.o.restart_delay_ms = 0;
    for (unsigned i = 0; i < 200; i++)
        world_add(&w, (struct world_order){ .what = i % 40 == 17 ? W_KILL : W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_failures(&w, GD_FAILURE_CRASH), 5);
    CHECK_EQ(world_callbacks(&w, 'S'), 195);
    world_close(&w);
}

TEST(a_timeout_in_a_batch_charges_the_right_task)
{
    struct world w;
    open_batched(&w, 1, 8);
    w.o.task_timeout_ms = WORLD_PATIENCE_MS;
    w.o.cancel_grace_ms = 50;
    world_add_many(&w, 3, (struct world_order){ .what = W_ECHO });
    const size_t bad = world_add(&w, (struct world_order){ .what = W_LOOP });
    world_add_many(&w, 12, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 15);
    CHECK_EQ(w.finals[bad].callback, 'T');
    world_close(&w);
}

TEST(a_task_in_a_batch_stops_at_its_time_limit)
{
    struct world w;
    open_batched(&w, 1, 8);
    w.o.task_timeout_ms = WORLD_PATIENCE_MS;
    world_add_many(&w, 3, (struct world_order){ .what = W_ECHO });
    const size_t bad = world_add(&w, (struct world_order){ .what = W_POLITE_LOOP });
    world_add_many(&w, 12, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[bad].callback, 'T');
    CHECK_EQ(world_callbacks(&w, 'S'), 15);
    CHECK_EQ(w.stats.crashes, 0);
    world_close(&w);
}

TEST(a_device_lost_in_a_batch)
{
    struct world w;
    open_batched(&w, 2, 8);
    world_add_many(&w, 5, (struct world_order){ .what = W_ECHO });
    world_add(&w, (struct world_order){ .what = W_DEVICE_LOST, .tries = 1 });
    world_add_many(&w, 30, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 36);
    world_close(&w);
}

TEST(batches_on_several_workers_lose_nothing)
{
    struct world w;
    open_batched(&w, 4, 32);
    w.o.batch_wait_us = 500;
    world_add_many(&w, 5000, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 5000);
    for (unsigned i = 0; i < 5000; i++)
        CHECK_EQ(atomic_load(&w.page->runs[i]), 1);
    world_close(&w);
}

WORLD_MAIN()
