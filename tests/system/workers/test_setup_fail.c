/* A run continues with the workers whose setup succeeds. If all setups fail, every task that was taken is reported. */
#include "support/test.h"
#include "support/world.h"

TEST(some_workers_fail)
{
    struct world w;
    world_open(&w, 4);
    w.setup = (struct world_setup){ .what = W_ERROR, .workers = 1 | 4 };
    w.source_gate_at = 1;
    world_add_many(&w, 100, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    world_await_stat(&w, setup_failures, 2);
    world_gate_open(w.page, 1);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 100);
    CHECK_EQ(world_events(&w, 's'), 2);
    CHECK_EQ(world_events(&w, 'x') + world_events(&w, 'X'), 0); /* no second event for its exit */
    CHECK_EQ(w.workers[0].state, GD_WORKER_FAILED);
    CHECK_EQ(w.workers[1].state, GD_WORKER_FINISHED);
    CHECK_EQ(world_count(w.page, WC_SETUPS), 4); /* a setup that returns an error is not tried again */
    CHECK_EQ(world_count(w.page, WC_CLEANUPS), 2);
    for (size_t i = 0; i < 100; i++)
        CHECK(w.finals[i].worker_id == 1 || w.finals[i].worker_id == 3);
    world_close(&w);
}

TEST(the_message_of_setup_is_reported)
{
    struct world w;
    world_open(&w, 2);
    w.setup = (struct world_setup){ .what = W_ERROR };
    world_add_many(&w, 5, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), GD_E_SETUP);
    CHECK_EQ(world_events(&w, 's'), 2);
    for (unsigned i = 0; i < w.n_events; i++) {
        char words[64];
        if (w.events[i].kind != 's')
            continue;
        snprintf(words, sizeof words, "setup of worker %d refused", w.events[i].worker_id);
        CHECK_STR(w.events[i].text, words);
        CHECK_EQ(w.events[i].gpu_id, w.events[i].worker_id);
    }
    world_close(&w);
}

TEST(all_workers_fail)
{
    struct world w;
    world_open(&w, 3);
    w.o.queue_size = 10;
    w.setup = (struct world_setup){ .what = W_ERROR };
    world_add_many(&w, 100, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), GD_E_SETUP);
    CHECK_CONTAINS(w.text, "All workers failed during setup: setup of worker ");
    CHECK_EQ(world_failures(&w, GD_FAILURE_NO_WORKER), w.stats.taken);
    CHECK_EQ(w.stats.setup_failures, 3);
    CHECK_LT(w.stats.taken, 100); /* the run does not take all tasks from the source */
    if (w.stats.taken > 0) {
        CHECK_CONTAINS(w.finals[0].error, "All workers failed during setup");
        CHECK_EQ(w.finals[0].worker_id, -1);
        CHECK_EQ(w.finals[0].attempt, 0);
        CHECK_EQ(w.finals[0].start_ns, 0);
    }
    world_close(&w);
}

TEST(all_workers_fail_while_the_queue_is_full)
{
    struct world w;
    world_open(&w, 2);
    w.o.queue_size = 10;
    w.setup = (struct world_setup){ .what = W_ERROR, .gate = 2 };
    world_add_many(&w, 100, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    world_await_stat(&w, taken, 10);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), GD_E_SETUP);
    CHECK_GE(w.stats.taken, 10);
    CHECK_EQ(world_failures(&w, GD_FAILURE_NO_WORKER), w.stats.taken);
    world_close(&w);
}

TEST(all_workers_fail_while_the_source_blocks)
{
    struct world w;
    world_open(&w, 2);
    w.o.stop_grace_ms = 200;
    w.source_gate_at = 3;
    w.source_left = true;
    w.setup = (struct world_setup){ .what = W_ERROR, .gate = 2 };
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    world_await(w.page, WC_SOURCE, 4); /* the source has given three tasks and blocks */
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), GD_E_SETUP);
    CHECK_CONTAINS(w.text, "All workers failed during setup: setup of worker ");
    CHECK_EQ(w.stats.taken, 3);
    CHECK_EQ(world_failures(&w, GD_FAILURE_NO_WORKER), 3);
    _exit(0); /* the thread of the source still waits */
}

TEST(all_workers_fail_in_an_ordered_run)
{
    struct world w;
    world_open(&w, 2);
    w.o.ordered = true;
    w.setup = (struct world_setup){ .what = W_ERROR };
    world_add_many(&w, 100, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), GD_E_SETUP);
    for (size_t i = 0; i < w.stats.taken; i++)
        CHECK_EQ(w.finals[i].order, i);
    world_close(&w);
}

TEST(exit_with_code_0_in_setup_is_a_setup_failure)
{
    struct world w;
    world_open(&w, 1);
    w.o.setup_attempts = 1;
    w.setup = (struct world_setup){ .what = W_EXIT, .code = 0 };
    world_add_many(&w, 1, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), GD_E_SETUP);
    CHECK_STR(w.text, "All workers failed during setup: exited with code 0");
    world_close(&w);
}

TEST(crashes_in_setup_are_tried_again_up_to_setup_attempts)
{
    struct world w;
    world_open(&w, 1);
    w.o.setup_attempts = 5;
    w.o.restart_delay_ms = 1;
    w.setup = (struct world_setup){ .what = W_EXIT, .code = 3, .restarts = 4 };
    world_add_many(&w, 5, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 5);
    CHECK_EQ(w.stats.restarts, 4);
    CHECK_EQ(w.finals[0].answer.restarts, 4);
    CHECK_EQ(world_events(&w, 'x'), 4);
    CHECK_CONTAINS(world_event(&w, 'x')->text, "3");
    world_close(&w);
}

TEST(crashes_in_setup_end_as_a_setup_failure)
{
    struct world w;
    world_open(&w, 1);
    w.o.setup_attempts = 2;
    w.setup = (struct world_setup){ .what = W_SEGV };
    world_add_many(&w, 5, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), GD_E_SETUP);
    CHECK_EQ(world_count(w.page, WC_SETUPS), 2);
    CHECK_EQ(w.stats.setup_failures, 1);
    world_close(&w);
}

TEST(a_setup_that_hangs)
{
    struct world w;
    world_open(&w, 2);
    w.o.setup_timeout_ms = WORLD_PATIENCE_MS; /* also applies to the other worker, which is ready in time */
    w.o.setup_attempts = 2;
    w.o.restart_delay_ms = 1;
    w.setup = (struct world_setup){ .gate = 5, .workers = 1 }; /* never opened */
    w.source_gate_at = 1;
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    world_await_stat(&w, setup_failures, 1);
    world_gate_open(w.page, 1);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 20);
    CHECK_EQ(world_event(&w, 's')->worker_id, 0);
    CHECK_CONTAINS(world_event(&w, 's')->text, "setup");
    CHECK_EQ(world_events(&w, 's'), 1);
    CHECK_EQ(world_count(w.page, WC_SETUPS), 3); /* worker 0 had two attempts, worker 1 had one */
    world_close(&w);
}

/* Every setup waits for a gate. The test counts the setups that have begun. */
TEST(setup_jobs_limits_the_setups_at_one_time)
{
    struct world w;
    world_open(&w, 4);
    w.o.setup_jobs = 2;
    w.setup = (struct world_setup){ .gate = 2 };
    world_add_many(&w, 4, (struct world_order){ .what = W_ECHO, .gate = 3 });
    world_launch(&w);
    world_await(w.page, WC_SETUPS, 2);
    struct gd_worker_stats s[4];
    unsigned starting, off;
    do { /* wait until the statistics show two workers that start */
        starting = off = 0;
        gd_dispatcher_worker_stats(w.d, s, sizeof *s, 4);
        for (unsigned i = 0; i < 4; i++) {
            starting += s[i].state == GD_WORKER_STARTING;
            off += s[i].state == GD_WORKER_OFF;
        }
        sched_yield();
    } while (starting < 2);
    CHECK_EQ(starting, 2);
    CHECK_EQ(off, 2);
    CHECK_EQ(world_count(w.page, WC_SETUPS), 2);
    world_gate_open(w.page, 2);
    world_await(w.page, WC_ENTERED, 4); /* all four workers were started */
    world_gate_open(w.page, 3);
    CHECK_EQ(world_join(&w), 0);
    world_close(&w);
}

TEST(setup_jobs_and_failing_setups)
{
    struct world w;
    world_open(&w, 6);
    w.o.setup_jobs = 1;
    w.o.restart_delay_ms = 1;
    w.setup = (struct world_setup){ .what = W_SEGV, .workers = 1 | 2 | 4 | 8 | 16 };
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 20);
    world_close(&w);
}

WORLD_MAIN()
