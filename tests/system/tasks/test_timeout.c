/* Time limits: a task past its limit is asked to stop, then its process is killed. Nothing blocks a worker for ever. */
#include <sys/ptrace.h>
#include <sys/resource.h>

#include "support/test.h"
#include "support/world.h"

/* What a busy machine may add to a deadline. The benchmark measures lateness. Here only the order of magnitude is
 * checked, with more tries if the machine is too busy. */
enum { SLACK_MS = 150 * TEST_SLOWDOWN, TRIES = 20 };

struct measure {
    uint64_t all_ms;  /* from the beginning of the run to the report */
    uint64_t took_ms; /* the task, by its own clock */
};

static uint64_t reported_at_ms;

static void note_report(struct world *w, const struct gd_report *r)
{
    (void)w, (void)r;
    reported_at_ms = world_now_ms();
}

/* A run of one task. There are no other workers: with short limits a healthy worker that stands still for a moment
 * would time out. */
static struct measure run_alone(struct world *w)
{
    const uint64_t begin = world_now_ms();
    w->on_final = note_report;
    CHECK_EQ(world_run(w), 0);
    CHECK_EQ(w->n_orders, 1);
    CHECK_EQ(w->finals[0].callback, 'T');
    return (struct measure){ reported_at_ms - begin, (w->finals[0].end_ns - w->finals[0].start_ns) / 1000000 };
}

/* No task is ended before its limit. At least once, a task that began at once is ended soon after its limit. The limit
 * counts from the moment when the worker could have begun. A worker that begins late has only the rest of the time, and
 * one that is too late does not begin. */
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

TEST_WITHIN(300, a_quarter_of_a_second_is_a_quarter_of_a_second)
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
    CHECK_EQ(w.stats.crashes, 0); /* the same process goes on */
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

TEST_WITHIN(300, while_1_is_killed_at_deadline_plus_grace)
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
    CHECK_EQ(w.finals[0].attempt, 1); /* timeouts are not run again */
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

TEST(without_on_timeout_it_goes_to_on_error)
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

TEST(timeouts_are_not_retried)
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
    world_add(&w, (struct world_order){ .what = W_INTERRUPTED_LOOP }); /* a second call would end this one early */
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

/* The worker is stopped while it has nothing to do. The next task is handed to it and never begun there. */
static void stop_the_idle_worker(struct world *w, const struct gd_report *r)
{
    if (r->task_id == 0) {
        kill((pid_t)w->finals[0].answer.pid, SIGSTOP);
        world_await_state((pid_t)w->finals[0].answer.pid, 'T');
        world_gate_open(w->page, 1);
    }
}

TEST(a_worker_stopped_between_tasks_loses_its_next_task_to_another)
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

TEST(many_stuck_tasks_each_cost_their_own_limit)
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

/* A traced process that is killed stays a zombie, which its parent can't reap until the tracer releases it. So it
 * behaves like a process stuck in the kernel. Holds the first process of worker 0 until gate 2 opens. */
static pid_t hold_worker(struct world *w)
{
    const pid_t tracer = fork();
    if (tracer != 0)
        return tracer;
    const pid_t pid = world_pid(w->page, 0);
    if (ptrace(PTRACE_SEIZE, pid, 0, 0) < 0) {
        world_count_add(w->page, WC_USER, 2); /* not allowed here */
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

TEST(a_process_that_will_not_die_is_set_aside)
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
