/* Retries after ordinary errors: their number, their delays, and errors that must not be retried. */
#include "support/test.h"
#include "support/world.h"

TEST(no_retries_by_default)
{
    struct world w;
    world_open(&w, 1);
    world_add(&w, (struct world_order){ .what = W_ERROR });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].failure, GD_FAILURE_ERROR);
    CHECK_EQ(w.finals[0].attempt, 1);
    CHECK_EQ(w.stats.retried, 0);
    world_close(&w);
}

TEST(retries_up_to_the_limit)
{
    struct world w;
    world_open(&w, 2);
    w.o.retries = 3;
    w.o.retry_delay_ms = 1;
    world_add(&w, (struct world_order){ .what = W_ERROR });
    world_add(&w, (struct world_order){ .what = W_ERROR, .tries = 3 });
    world_add(&w, (struct world_order){ .what = W_ERROR, .tries = 1 });
    world_add(&w, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].callback, 'E');
    CHECK_EQ(w.finals[0].attempt, 4);
    CHECK_STR(w.finals[0].error, "task 0 went wrong at attempt 4");
    CHECK_EQ(w.finals[1].callback, 'S');
    CHECK_EQ(w.finals[1].attempt, 4);
    CHECK_EQ(w.finals[2].attempt, 2);
    CHECK_EQ(w.finals[3].attempt, 1);
    CHECK_EQ(w.stats.retried, 3 + 3 + 1);
    CHECK_EQ(w.stats.crashes, 0);
    CHECK_EQ(w.stats.failed, 1);
    world_close(&w);
}

TEST(a_final_error_is_not_retried)
{
    struct world w;
    world_open(&w, 1);
    w.o.retries = 5;
    world_add(&w, (struct world_order){ .what = W_ERROR_FINAL });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].attempt, 1);
    CHECK_STR(w.finals[0].error, "task 0 is hopeless");
    world_close(&w);
}

static void fail_with_sizes(bool ordered)
{
    static const uint64_t sizes[] = { 0, 1, 3, 20, 24, 25, 4096, 100000, 5u << 20 };
    struct world w;
    world_open(&w, 2);
    w.o.ordered = ordered;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        world_add(&w, (struct world_order){ .what = W_ERROR_DATA, .n = sizes[i] });
    CHECK_EQ(world_run(&w), 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char words[64];
        snprintf(words, sizeof words, "task %zu failed with data", i);
        CHECK_EQ(w.finals[i].failure, GD_FAILURE_ERROR);
        CHECK_STR(w.finals[i].error, words);
    }
    world_close(&w);
}

TEST(a_failure_can_have_data)
{
    fail_with_sizes(false);
}

TEST(a_failure_that_waits_for_its_turn_keeps_its_data)
{
    fail_with_sizes(true);
}

TEST(a_failure_with_data_is_retried)
{
    struct world w;
    world_open(&w, 1);
    w.o.retries = 2;
    w.o.retry_delay_ms = 1;
    world_add(&w, (struct world_order){ .what = W_ERROR_DATA, .n = 1000, .tries = 2 });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].callback, 'S');
    CHECK_EQ(w.finals[0].attempt, 3);
    world_close(&w);
}

TEST(a_failure_whose_data_has_no_room_keeps_its_message)
{
    struct world w;
    world_open(&w, 1);
    world_add(&w, (struct world_order){ .what = W_ERROR_DATA, .n = UINT64_MAX - 10 });
    CHECK_EQ(world_run(&w), 0);
    CHECK_STR(w.finals[0].error, "task 0 failed with data");
    world_close(&w);
}

TEST(an_error_without_a_message_gets_one)
{
    struct world w;
    world_open(&w, 1);
    world_add(&w, (struct world_order){ .what = W_RETURN, .n = 1 });
    world_add(&w, (struct world_order){ .what = W_RETURN, .n = 12345 });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].failure, GD_FAILURE_ERROR);
    CHECK_EQ(w.finals[1].failure, GD_FAILURE_ERROR);
    CHECK_CONTAINS(w.finals[1].error, "12345");
    world_close(&w);
}

static uint64_t started_at[8];
static unsigned n_started;

static void note_start(struct world *w, uint64_t task_id, int worker_id)
{
    (void)w, (void)task_id, (void)worker_id;
    started_at[n_started++] = world_now_ms();
}

TEST(the_delay_doubles)
{
    struct world w;
    world_open(&w, 1);
    w.o.retries = 3;
    w.o.retry_delay_ms = 40;
    w.o.on_task_start = world_on_task_start;
    w.on_started = note_start;
    world_add(&w, (struct world_order){ .what = W_ERROR });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(n_started, 4);
    CHECK_GE(started_at[1] - started_at[0], 40 - 1);
    CHECK_GE(started_at[2] - started_at[1], 80 - 1);
    CHECK_GE(started_at[3] - started_at[2], 160 - 1);
    CHECK_LE(started_at[3] - started_at[0], 20000); /* the delays add up to 280 ms; a busy machine adds more */
    world_close(&w);
}

/* The total time of a task begins with its first attempt, whether that attempt failed or crashed. */
TEST(a_report_has_the_start_of_the_first_attempt)
{
    const uint64_t delay_ms = 20;
    struct world w;
    world_open(&w, 1);
    w.o.retries = 2;
    w.o.retry_delay_ms = (unsigned)delay_ms;
    world_add(&w, (struct world_order){ .what = W_ERROR });
    world_add(&w, (struct world_order){ .what = W_ERROR, .tries = 1 });
    world_add(&w, (struct world_order){ .what = W_KILL, .tries = 2 });
    world_add(&w, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_GE(w.finals[0].start_ns - w.finals[0].first_start_ns, 3 * delay_ms * 1000000);
    CHECK_GE(w.finals[1].start_ns - w.finals[1].first_start_ns, delay_ms * 1000000);
    CHECK_GT(w.finals[2].first_start_ns, 0);
    CHECK_LT(w.finals[2].first_start_ns, w.finals[2].start_ns);
    CHECK_EQ(w.finals[3].first_start_ns, w.finals[3].start_ns);
    world_close(&w);
}

/* Ends the run after the other twenty tasks. They run while the first task waits for its retry. */
static void shut_down_after_twenty(struct world *w, const struct gd_report *r)
{
    (void)r;
    if (w->n_finals == 20)
        gd_dispatcher_shutdown(w->d);
}

TEST(a_waiting_retry_does_not_delay_other_tasks)
{
    struct world w;
    world_open(&w, 1);
    w.o.retries = 1;
    w.o.retry_delay_ms = 60000;
    w.on_final = shut_down_after_twenty;
    world_add(&w, (struct world_order){ .what = W_ERROR });
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), GD_E_SHUTDOWN);
    CHECK_EQ(world_callbacks(&w, 'S'), 20);
    CHECK_EQ(w.finals[0].failure, GD_FAILURE_CANCELLED);
    world_close(&w);
}

TEST(errors_and_crashes_are_counted_separately)
{
    struct world w;
    world_open(&w, 1);
    w.o.retries = 1;
    w.o.retry_delay_ms = 1;
    w.o.crash_limit = 2;
    world_add(&w, (struct world_order){ .what = W_ERROR });
    world_add(&w, (struct world_order){ .what = W_KILL });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].attempt, 2);
    CHECK_EQ(w.finals[1].attempt, 2);
    CHECK_EQ(w.finals[1].failure, GD_FAILURE_CRASH);
    world_close(&w);
}

TEST(each_error_has_its_own_message)
{
    struct world w;
    world_open(&w, 1);
    world_add_many(&w, 200, (struct world_order){ .what = W_ERROR });
    CHECK_EQ(world_run(&w), 0);
    for (unsigned i = 0; i < 200; i++) {
        char words[64];
        snprintf(words, sizeof words, "task %u went wrong at attempt 1", i);
        CHECK_STR(w.finals[i].error, words);
    }
    world_close(&w);
}

WORLD_MAIN()
