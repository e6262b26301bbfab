/* Crashes: a worker that dies, for any reason and at any place, costs only its current attempt. */
#include <stdatomic.h>

#include "support/test.h"
#include "support/world.h"
#include "worker/host.h"

/* One task among others on two workers does `what`. Only that task fails, as a crash. */
static void crash_among_others(enum world_what what, uint64_t n, int sig, int code)
{
    struct world w;
    world_open(&w, 2);
    world_add_many(&w, 40, (struct world_order){ .what = W_ECHO });
    const size_t bad = world_add(&w, (struct world_order){ .what = (uint16_t)what, .n = n });
    world_add_many(&w, 40, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    const struct world_final *f = &w.finals[bad];
    CHECK_EQ(world_callbacks(&w, 'S'), 80);
    CHECK_EQ(f->callback, 'E');
    CHECK_EQ(f->failure, GD_FAILURE_CRASH);
    CHECK_EQ(f->attempt, 3);
    CHECK_EQ(f->signal, sig);
    CHECK_EQ(f->exit_code, code);
    CHECK_EQ(atomic_load(&w.page->runs[bad]), 3);
    CHECK_EQ(w.stats.crashes, 3);
    CHECK_EQ(world_events(&w, 'x'), 3);
    CHECK_LE(w.stats.restarts, 3);
    CHECK_EQ(w.stats.retried, 2);
    for (size_t i = 0; i < w.n_orders; i++)
        if (i != bad)
            CHECK_EQ(w.finals[i].attempt, 1); /* no other task is charged */
    world_close(&w);
}

TEST(segfault_in_process)
{
    crash_among_others(W_SEGV, 0, SIGSEGV, 0);
}
TEST(abort_in_process)
{
    crash_among_others(W_ABORT, 0, SIGABRT, 0);
}
TEST(exit_in_process)
{
    crash_among_others(W_EXIT, 7, 0, 7);
}
TEST(exit_with_zero_in_process)
{
    crash_among_others(W_EXIT, 0, 0, 0);
}
TEST(kill_9_in_process)
{
    crash_among_others(W_KILL, 0, SIGKILL, 0);
}
TEST(write_to_the_payload_is_a_crash)
{
    struct world w;
    world_open(&w, 1);
    world_add_sized(&w, (struct world_order){ .what = W_WRITE_INPUT }, 4096);
    world_add(&w, (struct world_order){ .what = W_WRITE_INPUT }); /* in the ring, which is mapped read-only too */
    world_add(&w, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].failure, GD_FAILURE_CRASH);
    CHECK_EQ(w.finals[0].signal, SIGSEGV);
    CHECK_EQ(w.finals[1].failure, GD_FAILURE_CRASH);
    CHECK_EQ(w.finals[2].callback, 'S');
    world_close(&w);
}

TEST(a_second_attempt_may_succeed)
{
    struct world w;
    world_open(&w, 2);
    world_add(&w, (struct world_order){ .what = W_SEGV, .tries = 2 });
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 11);
    CHECK_EQ(w.finals[0].attempt, 3);
    CHECK_EQ(w.stats.crashes, 2);
    world_close(&w);
}

TEST(a_task_fails_after_crash_limit_crashes)
{
    for (unsigned limit = 1; limit <= 5; limit += 2) {
        struct world w;
        world_open(&w, 1);
        w.o.crash_limit = limit;
        world_add(&w, (struct world_order){ .what = W_KILL });
        world_add(&w, (struct world_order){ .what = W_ECHO });
        CHECK_EQ(world_run(&w), 0);
        CHECK_EQ(w.finals[0].attempt, limit);
        CHECK_EQ(atomic_load(&w.page->runs[0]), limit);
        CHECK_EQ(w.finals[1].callback, 'S');
        world_close(&w);
    }
}

TEST(report_has_the_signal_and_the_last_lines_of_stderr)
{
    struct world w;
    world_open(&w, 1);
    w.o.crash_limit = 1;
    world_add(&w, (struct world_order){ .what = W_STDERR_SEGV, .n = 40 });
    world_add(&w, (struct world_order){ .what = W_EXIT, .n = 9 });
    CHECK_EQ(world_run(&w), 0);
    CHECK_CONTAINS(w.finals[0].error, "line 40");
    CHECK_CONTAINS(w.finals[0].error, "line 39");
    CHECK(!strstr(w.finals[0].error, "line 1\n")); /* only the last lines */
    CHECK_CONTAINS(w.finals[0].error, "signal 11");
    CHECK_CONTAINS(w.finals[1].error, "9");
    CHECK(!strstr(w.finals[1].error, "line 40")); /* another process wrote that line */
    CHECK_CONTAINS(world_event(&w, 'x')->text, "line 40");
    world_close(&w);
}

TEST(every_crash_has_its_own_last_lines)
{
    struct world w;
    world_open(&w, 2);
    w.o.crash_limit = 1;
    w.o.restart_delay_ms = 0;
    w.o.death_limit = 1000;
    for (unsigned i = 0; i < 40; i++)
        world_add(&w, (struct world_order){ .what = W_STDERR_SEGV, .n = 100 + 10 * i });
    CHECK_EQ(world_run(&w), 0);
    for (unsigned i = 0; i < 40; i++) {
        char line[32];
        snprintf(line, sizeof line, "line %u", 100 + 10 * i);
        CHECK_CONTAINS(w.finals[i].error, line);
        snprintf(line, sizeof line, "line %u", 101 + 10 * i);
        CHECK(!strstr(w.finals[i].error, line));
    }
    world_close(&w);
}

/* The setup of the replacement blocks until every task is final. So the other worker must do the tasks that the dead
 * worker had not begun. */
static void open_gate_when_all_are_done(struct world *w, const struct gd_report *r)
{
    (void)r;
    if (w->n_finals == w->n_orders)
        world_gate_open(w->page, 4);
}

TEST(unstarted_tasks_of_a_dead_worker_do_not_wait_for_its_replacement)
{
    struct world w;
    world_open(&w, 2);
    w.o.window = 8;
    w.o.crash_limit = 1;
    w.on_final = open_gate_when_all_are_done;
    w.setup = (struct world_setup){ .gate = 4, .after = 1 };
    world_add(&w, (struct world_order){ .what = W_KILL, .gate = 2 });
    world_add_many(&w, 31, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 2); /* both workers are in a task and have more tasks */
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 31);
    for (size_t i = 1; i < w.n_orders; i++) {
        CHECK_EQ(w.finals[i].attempt, 1);
        CHECK_EQ(atomic_load(&w.page->runs[i]), 1);
    }
    world_close(&w);
}

static void kill_idle_worker(struct world *w, const struct gd_report *r)
{
    /* The worker has no task now, because the source waits at its gate. */
    kill((pid_t)w->finals[r->task_id].answer.pid, SIGKILL);
}

static void open_source_gate(struct world *w, const struct world_event *e)
{
    (void)e;
    world_gate_open(w->page, 1);
}

static void open_source_gate_after_setup_failure(struct world *w, const struct world_event *e)
{
    if (e->kind == 's')
        world_gate_open(w->page, 1);
}

TEST(killed_between_tasks)
{
    struct world w;
    world_open(&w, 1);
    w.source_gate_at = 1;
    w.on_final = kill_idle_worker;
    w.on_event = open_source_gate;
    world_add_many(&w, 2, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 2);
    CHECK_EQ(w.finals[1].attempt, 1);
    CHECK_GE(w.stats.crashes, 1);
    CHECK_NE(w.finals[0].answer.pid, w.finals[1].answer.pid);
    world_close(&w);
}

static void crash_in_setup(enum world_what what)
{
    struct world w;
    world_open(&w, 2);
    w.setup = (struct world_setup){ .what = what, .workers = 1, .restarts = 2, .code = 5 };
    world_add_many(&w, 50, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 50);
    CHECK_EQ(world_events(&w, 's'), 0); /* the third start succeeded, or the run ended before it */
    world_close(&w);
}

TEST(segfault_in_setup)
{
    crash_in_setup(W_SEGV);
}
TEST(exit_in_setup)
{
    crash_in_setup(W_EXIT);
}
TEST(kill_9_in_setup)
{
    crash_in_setup(W_KILL);
}

TEST(a_worker_that_always_crashes_in_setup_fails_and_the_others_continue)
{
    struct world w;
    world_open(&w, 2);
    w.o.restart_delay_ms = 1;
    w.setup = (struct world_setup){ .what = W_STDERR_SEGV, .workers = 1 };
    w.source_gate_at = 1;
    w.on_event = open_source_gate_after_setup_failure;
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 20);
    CHECK_EQ(world_events(&w, 's'), 1);
    CHECK_EQ(world_event(&w, 's')->worker_id, 0);
    CHECK_CONTAINS(world_event(&w, 's')->text, "signal 11");
    CHECK_CONTAINS(world_event(&w, 's')->text, "line 3");
    CHECK_EQ(w.stats.setup_failures, 1);
    CHECK_EQ(world_count(w.page, WC_SETUPS), 4); /* worker 1 once, worker 0 three times */
    CHECK_EQ(w.workers[0].state, GD_WORKER_FAILED);
    world_close(&w);
}

static void crash_in_cleanup(enum world_what what, const char *word)
{
    struct world w;
    world_open(&w, 2);
    w.setup = (struct world_setup){ .cleanup = what, .workers = 2, .code = 5 };
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 10);
    CHECK_EQ(world_events(&w, 'c'), 1);
    CHECK_EQ(world_event(&w, 'c')->worker_id, 1);
    CHECK_CONTAINS(world_event(&w, 'c')->text, word);
    world_close(&w);
}

TEST(segfault_in_cleanup)
{
    crash_in_cleanup(W_SEGV, "signal 11");
}
TEST(kill_9_in_cleanup)
{
    crash_in_cleanup(W_KILL, "signal 9");
}
TEST(exit_in_cleanup)
{
    crash_in_cleanup(W_EXIT, "5");
}

TEST(one_task_among_ten_thousand_kills_its_workers)
{
    struct world w;
    world_open(&w, 3);
    w.o.queue_size = 4096;
    world_add_many(&w, 5000, (struct world_order){ .what = W_ECHO });
    const size_t bad = world_add(&w, (struct world_order){ .what = W_SEGV });
    world_add_many(&w, 5000, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 10000);
    CHECK_EQ(w.finals[bad].failure, GD_FAILURE_CRASH);
    CHECK_EQ(w.stats.crashes, 3);
    for (size_t i = 0; i < w.n_orders; i++)
        if (i != bad)
            CHECK_EQ(w.finals[i].attempt, 1);
    world_close(&w);
}

TEST(every_task_kills_its_worker)
{
    struct world w;
    world_open(&w, 2);
    w.o.crash_limit = 1;
    w.o.death_limit = 1000;
    w.o.restart_delay_ms = 0;
    world_add_many(&w, 40, (struct world_order){ .what = W_KILL });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_failures(&w, GD_FAILURE_CRASH), 40);
    world_close(&w);
}

TEST(a_worker_that_never_finishes_a_task_is_not_replaced_any_more)
{
    struct world w;
    world_open(&w, 1);
    w.o.crash_limit = 100;
    w.o.death_limit = 4;
    w.o.restart_delay_ms = 1;
    world_add_many(&w, 3, (struct world_order){ .what = W_KILL });
    CHECK_EQ(world_run(&w), GD_E_NO_WORKERS);
    CHECK_EQ(world_events(&w, 'X'), 1);
    CHECK_EQ(w.stats.crashes, 4);
    CHECK_EQ(world_failures(&w, GD_FAILURE_NO_WORKER), 3);
    world_close(&w);
}

/* Every process does exactly so many tasks and cleans up after the last one. The replacement is not a crash. */
static void check_renewal(const char *ops, unsigned batch, unsigned concurrency)
{
    enum { EACH = 6, PROCESSES = 20, TASKS = EACH * PROCESSES - 2 };
    struct world w;
    world_open(&w, 1);
    world_ops(ops);
    w.o.max_tasks_per_worker = EACH;
    w.o.batch_size = batch;
    w.o.concurrency = concurrency;
    world_add_many(&w, TASKS, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), TASKS);
    CHECK_EQ(world_count(w.page, WC_SETUPS), PROCESSES);
    CHECK_EQ(world_count(w.page, WC_CLEANUPS), PROCESSES);
    CHECK_EQ(w.stats.restarts, PROCESSES - 1);
    CHECK_EQ(w.stats.crashes, 0);
    CHECK_EQ(world_events(&w, 'x') + world_events(&w, 'X'), 0);
    for (size_t i = 0; i < w.n_orders; i++)
        CHECK_EQ(w.finals[i].attempt, 1);
    world_close(&w);
}

TEST(a_worker_gets_a_new_process_after_some_tasks)
{
    check_renewal("", 1, 1);
}

TEST(a_worker_with_batches_gets_a_new_process)
{
    check_renewal("b", 4, 1);
}

TEST(a_worker_with_tasks_in_flight_gets_a_new_process)
{
    check_renewal("f", 1, 4);
    check_renewal("f", 1, 64);
    check_renewal("fl", 1, 4);
}

/* Twelve tasks that crash three times each are 36 deaths in a row, more than the death limit. */
TEST(tasks_that_fail_for_their_crashes_do_not_use_up_the_only_worker)
{
    struct world w;
    world_open(&w, 1);
    w.o.restart_delay_ms = 0;
    CHECK_EQ(w.o.death_limit, 10);
    CHECK_EQ(w.o.crash_limit, 3);
    world_add_many(&w, 12, (struct world_order){ .what = W_KILL });
    world_add_many(&w, 5, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_failures(&w, GD_FAILURE_CRASH), 12);
    CHECK_EQ(world_callbacks(&w, 'S'), 5);
    CHECK_EQ(world_events(&w, 'X'), 0);
    world_close(&w);
}

TEST(a_missing_program)
{
    struct world w;
    char name[] = "/nonexistent/worker";
    char *argv[] = { name, NULL };
    world_open(&w, 2);
    w.o.worker_argv = argv;
    w.o.restart_delay_ms = 1;
    world_add_many(&w, 5, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), GD_E_SETUP);
    CHECK_EQ(world_failures(&w, GD_FAILURE_NO_WORKER), w.stats.taken);
    CHECK_EQ(world_events(&w, 's'), 2);
    CHECK_CONTAINS(world_event(&w, 's')->text, "/nonexistent/worker");
    CHECK_CONTAINS(world_event(&w, 's')->text, "No such file");
    world_close(&w);
}

/* The message of a report must name the worker. on_worker_exit has the worker as an argument, so its text does not name
 * it. */
TEST(only_the_message_of_a_report_names_the_worker)
{
    struct world w;
    world_open(&w, 1);
    w.o.crash_limit = 1;
    world_add(&w, (struct world_order){ .what = W_EXIT, .n = 7 });
    CHECK_EQ(world_run(&w), 0);
    CHECK_CONTAINS(w.finals[0].error, "worker 0 (GPU 0) exited with code 7");
    CHECK_EQ(strncmp(world_event(&w, 'x')->text, "exited with code 7", strlen("exited with code 7")), 0);
    world_close(&w);
}

TEST(a_program_that_is_not_a_worker)
{
    struct world w;
    char name[] = "/bin/true";
    char *argv[] = { name, NULL };
    world_open(&w, 1);
    w.o.worker_argv = argv;
    w.o.restart_delay_ms = 1;
    world_add_many(&w, 5, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), GD_E_SETUP);
    CHECK_CONTAINS(w.text, "All workers failed during setup: exited with code 0 without calling gd_worker_main()");
    CHECK_EQ(world_count(w.page, WC_SETUPS), 0);
    world_close(&w);
}

TEST(a_device_lost_twice_is_not_used_any_more)
{
    struct world w;
    world_open(&w, 2);
    world_add(&w, (struct world_order){ .what = W_DEVICE_LOST });
    w.o.n_gpus = 1;
    w.o.workers_per_gpu = 2;
    w.o.crash_limit = 10;
    world_add_many(&w, 3, (struct world_order){ .what = W_DEVICE_LOST });
    CHECK_EQ(world_run(&w), GD_E_NO_WORKERS);
    CHECK_EQ(world_callbacks(&w, 'S'), 0);
    CHECK_EQ(world_events(&w, 'X'), 2);
    world_close(&w);
}

TEST(a_lost_device_replaces_the_process_and_the_task_is_run_again)
{
    struct world w;
    world_open(&w, 2);
    world_add(&w, (struct world_order){ .what = W_DEVICE_LOST, .tries = 1 });
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 21);
    CHECK_EQ(w.finals[0].attempt, 2);
    world_close(&w);
}

/* --- kill points: a worker dies at each named point of its code --- */

static void die_at(const char *point, unsigned nth, const char *ops, unsigned batch)
{
    char spec[64];
    struct world w;
    snprintf(spec, sizeof spec, "%s:%u", point, nth);
    setenv("GD_KILL", spec, 1);
    world_ops(ops);
    world_open(&w, 2);
    w.o.batch_size = batch;
    world_add_many(&w, 60, (struct world_order){ .what = W_ECHO });
    world_add_many(&w, 5, (struct world_order){ .what = W_BYTES, .n = 100000 });
    world_add(&w, (struct world_order){ .what = W_ERROR });
    const int rc = world_run(&w);
    if (rc != 0)
        FAIL("%s (%s, batch %u): %s", spec, ops, batch, w.text);
    if (world_callbacks(&w, 'S') != 65)
        FAIL("%s (%s, batch %u): %u done", spec, ops, batch, world_callbacks(&w, 'S'));
    /* Each of the two workers dies once, so a task is charged at most twice and does not fail. */
    CHECK_EQ(world_failures(&w, GD_FAILURE_CRASH), 0);
    CHECK_EQ(w.finals[65].failure, GD_FAILURE_ERROR);
    world_close(&w);
}

static const char *const points[] = {
#define POINT(name) name,
    GD__KILL_POINTS(POINT)
#undef POINT
};
enum { N_POINTS = sizeof points / sizeof *points };

static void die_everywhere(const char *ops, unsigned batch)
{
    static const unsigned nth[] = { 1, 2, 7 };
    for (unsigned k = 0; k < N_POINTS; k++)
        for (unsigned n = 0; n < sizeof nth / sizeof *nth; n++)
            die_at(points[k], nth[n], ops, batch);
}

TEST_WITHIN(120, every_kill_point)
{
    die_everywhere("", 1);
}
TEST_WITHIN(120, every_kill_point_in_batches)
{
    die_everywhere("b", 4);
}
TEST_WITHIN(120, every_kill_point_with_loading)
{
    die_everywhere("l", 1);
}
TEST_WITHIN(120, every_kill_point_with_loading_in_batches)
{
    die_everywhere("bl", 4);
}

/* Every process dies at the point. The run still ends, and every task is reported. */
TEST_WITHIN(120, every_kill_point_in_every_process)
{
    setenv("GD_KILL_ALWAYS", "1", 1);
    for (unsigned k = 0; k < N_POINTS; k++) {
        struct world w;
        setenv("GD_KILL", points[k], 1);
        world_ops(strncmp(points[k], "load", 4) ? "" : "l");
        world_open(&w, 2);
        w.o.restart_delay_ms = 0;
        w.o.death_limit = 5;
        world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
        const int rc = world_run(&w); /* checks that each task has one final callback */
        if (rc != 0 && rc != GD_E_SETUP && rc != GD_E_NO_WORKERS)
            FAIL("%s: %s", points[k], w.text);
        if (k < 4)
            CHECK_EQ(rc, GD_E_SETUP); /* before "ready" */
        if (strcmp(points[k], "committed") == 0 || strcmp(points[k], "flushed") == 0)
            CHECK_EQ(rc, 0); /* every process does one task */
        world_close(&w);
    }
}

WORLD_MAIN()
