/* Time limits: when a task exceeds its limit, it is asked to stop, and later its process is killed. No task blocks a
 * worker for ever. */
#include <sys/ptrace.h>
#include <sys/resource.h>

#include "support/test.h"
#include "support/world.h"

/* SLACK_MS is the delay that a busy machine may add. The benchmark measures exact delays. These cases check only the
 * order of magnitude, and try again if the machine is too busy. */
enum { SLACK_MS = 150 * TEST_SLOWDOWN, TRIES = 20 };

struct measure {
    uint64_t all_ms;  /* from the beginning of the run to the report */
    uint64_t took_ms; /* duration of the task, measured by its worker */
};

static uint64_t reported_at_ms;

static void note_report(struct world *w, const struct gd_report *r)
{
    (void)w, (void)r;
    reported_at_ms = world_now_ms();
}

/* Runs one task on one worker. A second worker might be paused for a moment and exceed the short time limit. */
static struct measure run_alone(struct world *w)
{
    const uint64_t begin = world_now_ms();
    w->on_final = note_report;
    CHECK_EQ(world_run(w), 0);
    CHECK_EQ(w->n_orders, 1);
    CHECK_EQ(w->finals[0].callback, 'T');
    return (struct measure){ reported_at_ms - begin, (w->finals[0].end_ns - w->finals[0].start_ns) / 1000000 };
}

/* Checks that no task is ended before its limit, and that at least one try ends soon after it. The limit counts from
 * the moment when the worker could have begun. If the worker begins late, it has less time. If it is too late, it does
 * not begin. */
static void check_time(struct measure (*measure)(void), uint64_t timeout_ms, uint64_t grace_ms)
{
    const uint64_t limit_ms = timeout_ms + grace_ms;
    bool in_time = false;
    for (int i = 0; i < TRIES && !in_time; i++) {
        const struct measure m = measure();
        CHECK_GE(m.all_ms, timeout_ms);
        in_time = m.took_ms >= limit_ms && m.took_ms <= limit_ms + SLACK_MS;
    }
    CHECK(in_time);
}

static struct measure a_quarter_of_a_second(void)
{
    struct world w;
    world_open(&w, 1);
    w.o.task_timeout_ms = 250;
    world_add(&w, (struct world_order){ .what = W_POLITE_LOOP });
    const struct measure m = run_alone(&w);
    CHECK_EQ(w.stats.crashes, 0);
    world_close(&w);
    return m;
}

TEST_WITHIN(300, a_task_is_asked_to_stop_after_a_quarter_of_a_second)
{
    check_time(a_quarter_of_a_second, 250, 0);
}

TEST(a_task_that_stops_when_asked_affects_no_other)
{
    struct world w;
    world_open(&w, 1);
    w.o.task_timeout_ms = WORLD_PATIENCE_MS;
    world_add(&w, (struct world_order){ .what = W_POLITE_LOOP });
    world_add(&w, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].callback, 'T');
    CHECK_EQ(w.finals[1].callback, 'S');
    CHECK_EQ(w.stats.timeouts, 1);
    CHECK_EQ(w.stats.crashes, 0); /* the same process continues */
    CHECK_EQ(world_count(w.page, WC_SETUPS), 1);
    CHECK_EQ(world_count(w.page, WC_CANCELLED), 1);
    world_close(&w);
}

TEST(a_task_within_its_time_is_left_alone)
{
    struct world w;
    world_open(&w, 2);
    world_ops("i");
    w.o.task_timeout_ms = 60000;
    world_add_many(&w, 500, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 500);
    CHECK_EQ(world_count(w.page, WC_INTERRUPTS), 0);
    world_close(&w);
}

static struct measure deadline_plus_grace(void)
{
    struct world w;
    world_open(&w, 1);
    w.o.task_timeout_ms = 100;
    w.o.cancel_grace_ms = 200;
    world_add(&w, (struct world_order){ .what = W_LOOP });
    const struct measure m = run_alone(&w);
    CHECK_CONTAINS(w.finals[0].error, "after 0.1 s");
    world_close(&w);
    return m;
}

TEST_WITHIN(300, an_endless_loop_is_killed_at_the_deadline_plus_the_grace_period)
{
    check_time(deadline_plus_grace, 100, 200);
}

TEST(a_killed_task_affects_no_other)
{
    struct world w;
    world_open(&w, 1);
    w.o.task_timeout_ms = WORLD_PATIENCE_MS;
    w.o.cancel_grace_ms = 50;
    world_add(&w, (struct world_order){ .what = W_LOOP });
    world_add_many(&w, 5, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].callback, 'T');
    CHECK_EQ(w.finals[0].failure, GD_FAILURE_TIMEOUT);
    CHECK_EQ(w.finals[0].attempt, 1); /* a timeout is not retried */
    CHECK_EQ(world_callbacks(&w, 'S'), 5);
    CHECK_EQ(w.stats.restarts, 1);
    CHECK_EQ(world_count(w.page, WC_SETUPS), 2);
    for (size_t i = 1; i < w.n_orders; i++)
        CHECK_EQ(w.finals[i].attempt, 1);
    world_close(&w);
}

static struct measure deadline_without_grace(void)
{
    struct world w;
    world_open(&w, 1);
    w.o.task_timeout_ms = 100;
    w.o.cancel_grace_ms = 0;
    world_add(&w, (struct world_order){ .what = W_LOOP });
    const struct measure m = run_alone(&w);
    world_close(&w);
    return m;
}

TEST_WITHIN(300, no_grace_kills_at_the_deadline)
{
    check_time(deadline_without_grace, 100, 0);
}

TEST(without_on_timeout_on_error_is_called)
{
    struct world w;
    world_open(&w, 1);
    w.o.task_timeout_ms = 50;
    w.o.cancel_grace_ms = 0;
    w.o.on_timeout = NULL;
    world_add(&w, (struct world_order){ .what = W_LOOP });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].callback, 'E');
    CHECK_EQ(w.finals[0].failure, GD_FAILURE_TIMEOUT);
    CHECK_EQ(w.stats.timeouts, 1);
    world_close(&w);
}

static void check_retried(int what, unsigned retries)
{
    struct world w;
    world_open(&w, 1);
    w.o.task_timeout_ms = 100;
    w.o.cancel_grace_ms = 1;
    w.o.retries = retries;
    w.o.retry_timeouts = true;
    w.o.retry_delay_ms = 1;
    world_add(&w, (struct world_order){ .what = what });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].callback, 'T');
    CHECK_EQ(w.finals[0].attempt, retries + 1);
    CHECK_EQ(w.stats.timeouts, 1);
    CHECK_EQ(w.stats.retried, retries);
    world_close(&w);
}

TEST(timeouts_are_retried_if_requested)
{
    check_retried(W_POLITE_LOOP, 2);
    check_retried(W_LOOP, 2);
    check_retried(W_LOOP, 0);
}

TEST(timeouts_are_not_retried_by_default)
{
    struct world w;
    world_open(&w, 1);
    w.o.task_timeout_ms = WORLD_PATIENCE_MS;
    w.o.retries = 3;
    w.o.retry_delay_ms = 1;
    world_add(&w, (struct world_order){ .what = W_POLITE_LOOP });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].callback, 'T');
    CHECK_EQ(atomic_load(&w.page->runs[0]), 1);
    world_close(&w);
}

TEST(a_success_after_being_asked_to_stop_is_a_success)
{
    struct world w;
    world_open(&w, 1);
    w.o.task_timeout_ms = WORLD_PATIENCE_MS;
    w.o.cancel_grace_ms = 60000;
    world_ops("i");
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_launch(&w);
    world_await(w.page, WC_INTERRUPTS, 1);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(w.finals[0].callback, 'S');
    world_close(&w);
}

TEST(interrupt_is_called_once_for_a_task)
{
    struct world w;
    world_open(&w, 1);
    w.o.task_timeout_ms = WORLD_PATIENCE_MS;
    w.o.cancel_grace_ms = 60000;
    world_ops("i");
    world_add(&w, (struct world_order){ .what = W_INTERRUPTED_LOOP });
    world_add(&w, (struct world_order){ .what = W_INTERRUPTED_LOOP }); /* a second interrupt would end this */
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].callback, 'T');
    CHECK_EQ(w.finals[1].callback, 'T');
    CHECK_EQ(world_count(w.page, WC_INTERRUPTS), 2);
    CHECK_EQ(world_count(w.page, WC_SETUPS), 1);
    world_close(&w);
}

TEST(a_stopped_worker_is_killed_too)
{
    struct world w;
    world_open(&w, 1);
    w.o.task_timeout_ms = WORLD_PATIENCE_MS;
    w.o.cancel_grace_ms = 50;
    world_add(&w, (struct world_order){ .what = W_STOP });
    world_add(&w, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].callback, 'T');
    CHECK_EQ(w.finals[1].callback, 'S');
    world_close(&w);
}

/* Stops the worker while it has no task. The next task is handed to it, and it never begins that task. */
static void stop_the_idle_worker(struct world *w, const struct gd_report *r)
{
    if (r->task_id == 0) {
        kill((pid_t)w->finals[0].answer.pid, SIGSTOP);
        world_await_state((pid_t)w->finals[0].answer.pid, 'T');
        world_gate_open(w->page, 1);
    }
}

TEST(the_next_task_of_a_worker_stopped_between_tasks_runs_on_its_replacement)
{
    struct world w;
    world_open(&w, 1);
    w.o.task_timeout_ms = WORLD_PATIENCE_MS;
    w.o.cancel_grace_ms = 50;
    w.source_gate_at = 1;
    w.on_final = stop_the_idle_worker;
    world_add_many(&w, 3, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 3);
    CHECK_EQ(w.stats.restarts, 1);
    world_close(&w);
}

TEST(every_stuck_task_times_out)
{
    struct world w;
    world_open(&w, 4);
    w.o.task_timeout_ms = WORLD_PATIENCE_MS;
    w.o.cancel_grace_ms = 20;
    for (unsigned i = 0; i < 40; i++)
        world_add(&w, (struct world_order){ .what = W_ECHO, .gate = i % 5 == 0 ? 2 : 0 }); /* never opened */
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'T'), 8);
    CHECK_EQ(world_callbacks(&w, 'S'), 32);
    CHECK_EQ(w.stats.timeouts, 8);
    world_close(&w);
}

TEST(a_stuck_load_is_ended_too)
{
    struct world w;
    world_open(&w, 1);
    world_ops("l");
    w.o.task_timeout_ms = WORLD_PATIENCE_MS;
    w.o.cancel_grace_ms = 50;
    world_add(&w, (struct world_order){ .what = W_LOAD_LOOP });
    world_add_many(&w, 5, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 5);
    CHECK_NE(w.finals[0].callback, 'S');
    world_close(&w);
}

/* Traces the first process of worker 0 until gate 2 opens. If a traced process is killed, its parent can't reap it
 * until the tracer releases it. So it behaves like a process that is stuck in the kernel. */
static pid_t hold_worker(struct world *w)
{
    const pid_t tracer = fork();
    if (tracer != 0)
        return tracer;
    const pid_t pid = world_pid(w->page, 0);
    if (ptrace(PTRACE_SEIZE, pid, 0, 0) < 0) {
        world_count_add(w->page, WC_USER, 2); /* tracing is not allowed */
        _exit(0);
    }
    world_count_add(w->page, WC_USER, 1);
    world_gate_wait(w->page, 2);
    _exit(0);
}

static uint64_t cpu_ms(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 +
           (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
}

TEST(a_process_that_cannot_be_killed_is_abandoned)
{
    struct world w;
    world_open(&w, 2);
    w.o.task_timeout_ms = WORLD_PATIENCE_MS;
    w.o.cancel_grace_ms = 0;
    w.source_gate_at = 0;
    w.setup = (struct world_setup){ .gate = 3 };
    world_add(&w, (struct world_order){ .what = W_LOOP, .gate = 0 });
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    w.o.gpu_ids = w.gpus;
    const pid_t tracer = hold_worker(&w);
    w.leaves_children = 1;
    w.o.placement = GD_PLACE_CHUNKS; /* task 0 goes to worker 0 */
    w.o.total_tasks = w.n_orders;
    world_launch(&w);
    world_await(w.page, WC_USER, 1);
    if (world_count(w.page, WC_USER) > 1) {
        world_gate_open(w.page, 3);
        world_join(&w);
        SKIP("ptrace is not allowed here");
    }
    const uint64_t cpu = cpu_ms();
    world_gate_open(w.page, 3);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 10);
    CHECK_EQ(w.finals[0].callback, 'T');
    CHECK_EQ(w.workers[0].state, GD_WORKER_LOST);
    CHECK_EQ(world_events(&w, 'X'), 1);
    CHECK_CONTAINS(world_event(&w, 'X')->text, "does not end");
    CHECK_LT(cpu_ms() - cpu, 1500); /* the run waited for the process and did not spin */
    world_gate_open(w.page, 2);
    CHECK_EQ(waitpid(tracer, NULL, 0), tracer);
    while (waitpid(-1, NULL, 0) > 0)
        ;
    world_close(&w);
}

WORLD_MAIN()
