/* SPDX-License-Identifier: MIT
 *
 * A stop uses up no attempts. In the library, a failure after the beginning of a stop is reported as cancelled.
 */
#include "support/test.h"
#include "support/world.h"

/* Waits until the stop has taken effect: waiting tasks are cancelled. */
static void await_drain(struct world *w)
{
    world_await_stat(w, failed, 1);
}

/* Shuts the run down while two tasks run. After that the two tasks do what their orders say. */
static void shut_down_then_do(struct world *w, struct world_order order, struct world_order other)
{
    w->o.window = 1;
    order.gate = other.gate = 2;
    world_add(w, order);
    world_add(w, other);
    world_add_many(w, 20, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_launch(w);
    world_await(w->page, WC_ENTERED, 2);
    world_await_stat(w, taken, 22);
    gd_dispatcher_shutdown(w->d);
    await_drain(w);
    world_gate_open(w->page, 2);
    CHECK_EQ(world_join(w), GD_E_SHUTDOWN);
}

static void is_cancelled(enum world_what what, unsigned retries)
{
    struct world w;
    world_open(&w, 2);
    w.o.retries = retries;
    shut_down_then_do(&w, (struct world_order){ .what = what }, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(w.finals[0].failure, GD_FAILURE_CANCELLED);
    CHECK_CONTAINS(w.finals[0].error, "shut down");
    CHECK_EQ(w.finals[1].failure, GD_FAILURE_NONE); /* a success after the stop still counts */
    CHECK_EQ(world_failures(&w, GD_FAILURE_CANCELLED), w.stats.taken - 1);
    CHECK_EQ(w.stats.cancelled, w.stats.taken - 1);
    world_close(&w);
}

TEST(an_error_is_cancelled)
{
    is_cancelled(W_ERROR, 0);
}
TEST(an_error_with_attempts_left)
{
    is_cancelled(W_ERROR, 3);
}
TEST(a_final_error)
{
    is_cancelled(W_ERROR_FINAL, 3);
}
TEST(an_error_with_data)
{
    is_cancelled(W_ERROR_DATA, 0);
}
TEST(a_crash)
{
    is_cancelled(W_SEGV, 0);
}
TEST(out_of_memory)
{
    is_cancelled(W_OOM, 0);
}

TEST(a_timeout)
{
    struct world w;
    world_open(&w, 2);
    w.o.task_timeout_ms = 5000;
    w.o.cancel_grace_ms = 60000;
    shut_down_then_do(&w, (struct world_order){ .what = W_POLITE_LOOP }, (struct world_order){ .what = W_POLITE_LOOP });
    CHECK_EQ(world_failures(&w, GD_FAILURE_TIMEOUT), 0);
    CHECK_EQ(world_failures(&w, GD_FAILURE_CANCELLED), w.stats.taken);
    world_close(&w);
}

/* A stop signal ends a worker. The run waits one second before it charges the task. Other tasks do not wait. */
TEST(other_tasks_continue_before_the_task_is_charged)
{
    struct world w;
    world_open(&w, 2);
    w.o.crash_limit = 1;
    world_add(&w, (struct world_order){ .what = W_SIGNAL, .n = SIGTERM });
    world_add_many(&w, 200, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].failure, GD_FAILURE_CRASH);
    CHECK_EQ(w.finals[0].signal, SIGTERM);
    CHECK_CONTAINS(w.finals[0].error, "killed by signal 15");
    CHECK_EQ(world_callbacks(&w, 'S'), 200);
    world_close(&w);
}

WORLD_MAIN()
