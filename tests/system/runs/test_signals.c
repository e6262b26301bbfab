/* Ctrl-C: the first SIGINT or SIGTERM lets running tasks finish, and the second ends the run at once. After the run,
 * the previous handlers are restored. */
#include "support/test.h"
#include "support/world.h"

enum { SOON_MS = 30000 }; /* less than stop_grace_ms, which is 60 s */

static _Atomic int own_handler_calls;

static void own_handler(int number)
{
    (void)number;
    own_handler_calls++;
}

/* Waits until a signal has taken effect, which cancels waiting tasks. The run must have taken all tasks before the
 * signal. Otherwise there may be no waiting task, and this never returns. */
static void await_drain(struct world *w)
{
    world_await_stat(w, failed, 1);
}

/* A world whose run is shut down by SIGINT and SIGTERM. */
static void open_handling(struct world *w, unsigned n_gpus)
{
    world_open(w, n_gpus);
    w->o.handle_signals = true;
}

static void check_running_tasks_finish(int number)
{
    struct world w;
    open_handling(&w, 2);
    w.o.window = 1;
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 2);
    world_await_stat(&w, taken, 20);
    kill(getpid(), number);
    await_drain(&w);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), GD_E_INTERRUPTED);
    CHECK_GE(world_callbacks(&w, 'S'), 2); /* the tasks that were running */
    CHECK_EQ(world_count(w.page, WC_CLEANUPS), 2);
    CHECK_EQ(world_callbacks(&w, 'S') + world_failures(&w, GD_FAILURE_CANCELLED), w.stats.taken);
    CHECK_STR(w.finals[19].error, "not done: the run was interrupted by a signal");
    world_close(&w);
}

TEST(one_sigint_lets_running_tasks_finish)
{
    check_running_tasks_finish(SIGINT);
}
TEST(one_sigterm_lets_running_tasks_finish)
{
    check_running_tasks_finish(SIGTERM);
}

static void check_second_signal(int first)
{
    struct world w;
    open_handling(&w, 2);
    w.o.stop_grace_ms = 60000;
    world_add_many(&w, 20, (struct world_order){ .what = W_LOOP });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 2);
    world_await_stat(&w, taken, 20);
    kill(getpid(), first);
    await_drain(&w);
    const uint64_t begin = world_now_ms();
    kill(getpid(), SIGINT);
    CHECK_EQ(world_join(&w), GD_E_INTERRUPTED);
    CHECK_LE(world_now_ms() - begin, SOON_MS);
    CHECK_EQ(world_failures(&w, GD_FAILURE_CANCELLED), w.stats.taken);
    world_close(&w);
}

TEST(a_second_sigint_ends_the_run_at_once)
{
    check_second_signal(SIGINT);
}
TEST(a_sigint_after_a_sigterm_ends_the_run_at_once)
{
    check_second_signal(SIGTERM);
}

/* Slurm sends SIGTERM three times when it preempts a job. */
TEST(more_sigterms_change_nothing)
{
    struct world w;
    open_handling(&w, 1);
    w.o.window = 1;
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    world_await_stat(&w, taken, 20);
    for (int i = 0; i < 3; i++) {
        kill(getpid(), SIGTERM);
        await_drain(&w);
    }
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), GD_E_INTERRUPTED);
    CHECK_EQ(w.finals[0].callback, 'S'); /* the task that was running */
    world_close(&w);
}

TEST(two_signals_at_the_same_moment)
{
    struct world w;
    open_handling(&w, 1);
    w.o.stop_grace_ms = 60000;
    world_add_many(&w, 5, (struct world_order){ .what = W_LOOP });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    kill(getpid(), SIGTERM);
    kill(getpid(), SIGINT);
    CHECK_EQ(world_join(&w), GD_E_INTERRUPTED);
    world_close(&w);
}

/* Called in on_worker_exit, before the replacement is started. */
static void interrupt_on_event(struct world *w, const struct world_event *e)
{
    (void)w, (void)e;
    kill(getpid(), SIGINT);
}

TEST(during_a_respawn)
{
    for (unsigned i = 0; i < 10; i++) {
        struct world w;
        open_handling(&w, 2);
        w.on_event = interrupt_on_event;
        world_add(&w, (struct world_order){ .what = W_KILL });
        world_add_many(&w, 30, (struct world_order){ .what = W_ECHO, .gate = 2 });
        world_gate_open(w.page, 2);
        const int rc = world_run(&w); /* the worker may die after all other tasks are done */
        CHECK(rc == GD_E_INTERRUPTED || rc == 0);
        world_close(&w);
    }
}

TEST(during_setup)
{
    struct world w;
    open_handling(&w, 2);
    w.o.cancel_grace_ms = 100;
    w.setup = (struct world_setup){ .gate = 5 };
    world_add_many(&w, 5, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    world_await(w.page, WC_SETUPS, 2);
    kill(getpid(), SIGINT);
    CHECK_EQ(world_join(&w), GD_E_INTERRUPTED);
    world_close(&w);
}

static void interrupt_first(struct world *w, const struct gd_report *r)
{
    if (r->task_id == 0)
        kill(getpid(), SIGINT);
    (void)w;
}

TEST(handlers_are_restored)
{
    struct world w;
    struct sigaction own = { .sa_handler = own_handler }, now;
    sigaction(SIGINT, &own, NULL);
    signal(SIGTERM, SIG_IGN);
    open_handling(&w, 1);
    w.on_final = interrupt_first;
    world_add_many(&w, 5000, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), GD_E_INTERRUPTED);
    CHECK_EQ(own_handler_calls, 0); /* the handler of the run got the signal */
    sigaction(SIGINT, NULL, &now);
    CHECK(now.sa_handler == own_handler);
    sigaction(SIGTERM, NULL, &now);
    CHECK(now.sa_handler == SIG_IGN);
    raise(SIGINT);
    CHECK_EQ(own_handler_calls, 1);
    world_close(&w);
}

static void interrupt_every(struct world *w, const struct gd_report *r)
{
    (void)w, (void)r;
    kill(getpid(), SIGINT);
}

TEST(without_handle_signals_the_program_gets_its_signals)
{
    struct world w;
    struct sigaction own = { .sa_handler = own_handler };
    sigaction(SIGINT, &own, NULL);
    world_open(&w, 1);
    w.on_final = interrupt_every;
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 10);
    CHECK_GE(own_handler_calls, 1);
    world_close(&w);
}

TEST(two_dispatchers_are_both_interrupted)
{
    struct world w[2];
    for (unsigned i = 0; i < 2; i++) {
        open_handling(&w[i], 1);
        w[i].leaves_children = 1; /* the worker of the other run */
        world_add_many(&w[i], 20, (struct world_order){ .what = W_ECHO, .gate = 2 });
        world_launch(&w[i]);
        world_await(w[i].page, WC_ENTERED, 1); /* before the next world changes $GD_WORLD_PAGE */
        world_await_stat(&w[i], taken, 20);
    }
    kill(getpid(), SIGINT);
    for (unsigned i = 0; i < 2; i++) {
        await_drain(&w[i]);
        world_gate_open(w[i].page, 2);
    }
    for (unsigned i = 0; i < 2; i++)
        CHECK_EQ(world_join(&w[i]), GD_E_INTERRUPTED);
    CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
    struct sigaction now;
    sigaction(SIGINT, NULL, &now);
    CHECK(now.sa_handler == SIG_DFL);
    for (unsigned i = 0; i < 2; i++)
        world_close(&w[i]);
}

/* Ctrl-C in a terminal sends SIGINT to the foreground process group. The workers are not in this group. */
TEST(ctrl_c_does_not_reach_the_workers)
{
    struct world w;
    open_handling(&w, 2);
    w.o.window = 1;
    world_add_many(&w, 4, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 2);
    world_await_stat(&w, taken, 4);
    kill(0, SIGINT); /* this case has its own process group */
    await_drain(&w);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), GD_E_INTERRUPTED);
    CHECK_GE(world_callbacks(&w, 'S'), 2);
    CHECK_EQ(w.stats.crashes, 0);
    world_close(&w);
}

TEST(a_signal_after_the_run_reaches_the_program)
{
    struct world w;
    struct sigaction own = { .sa_handler = own_handler };
    sigaction(SIGTERM, &own, NULL);
    open_handling(&w, 1);
    world_add(&w, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    raise(SIGTERM);
    CHECK_EQ(own_handler_calls, 1);
    world_close(&w);
}

WORLD_MAIN()
