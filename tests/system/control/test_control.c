/* Control of a running job, from threads and from callbacks, in every state of tasks and workers: pause, drain, cancel
 * one task, change the time limit, add and remove workers. */
#include "support/test.h"
#include "support/world.h"

enum { NOTES = 32 };

/* What on_control reported. WC_USER counts the reports. */
static struct {
    unsigned n;
    int code[NOTES];
    char what[NOTES][256];
} notes;

static void note_control(void *user, const char *what, int code)
{
    struct world *w = user;
    CHECK(pthread_equal(w->thread, pthread_self()));
    CHECK_LT(notes.n, NOTES);
    notes.code[notes.n] = code;
    snprintf(notes.what[notes.n++], sizeof notes.what[0], "%s", what);
    world_count_add(w->page, WC_USER, 1);
}

static void open_world(struct world *w, unsigned n_gpus)
{
    memset(&notes, 0, sizeof notes);
    world_open(w, n_gpus);
    w->o.window = 1;
    w->o.on_control = note_control;
}

/* Waits for the report about the request that was made last, which is the n-th, and checks it. */
static void await_note(struct world *w, unsigned n, bool done, const char *part)
{
    world_await(w->page, WC_USER, n);
    CHECK_CONTAINS(notes.what[n - 1], part);
    CHECK_EQ(notes.code[n - 1] == 0, done);
}

static struct gd_stats stats_of(struct world *w)
{
    struct gd_stats s = { .size = sizeof s };
    CHECK_EQ(gd_dispatcher_stats(w->d, &s), 0);
    return s;
}

static void check_cancelled(const struct world *w, size_t id)
{
    CHECK_EQ(w->finals[id].failure, GD_FAILURE_CANCELLED);
    CHECK_EQ(w->finals[id].callback, 'E');
    CHECK_STR(w->finals[id].error, "cancelled on request");
}

/* --- pause --- */

static void open_gate_after_two(struct world *w, const struct gd_report *r)
{
    (void)r;
    if (w->n_finals == 2)
        world_gate_open(w->page, 3);
}

TEST(a_paused_run_starts_nothing)
{
    struct world w;
    open_world(&w, 2);
    w.on_final = open_gate_after_two;
    world_add_many(&w, 2, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_add_many(&w, 48, (struct world_order){ .what = W_ECHO, .gate = 4 });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 2);
    CHECK_EQ(gd_dispatcher_pause(w.d), 0);
    await_note(&w, 1, true, "paused: 2 running tasks go on");
    CHECK_EQ(stats_of(&w).paused, 1);
    world_gate_open(w.page, 2);
    world_gate_wait(w.page, 3);         /* both running tasks have ended, and the run would hand out more now */
    for (unsigned n = 2; n <= 3; n++) { /* the second report comes a round later */
        CHECK_EQ(gd_dispatcher_set_timeout(w.d, 0), 0);
        await_note(&w, n, true, "removed");
    }
    CHECK_EQ(stats_of(&w).running, 0);
    CHECK_EQ(world_count(w.page, WC_ENTERED), 2);
    CHECK_EQ(gd_dispatcher_unpause(w.d), 0);
    world_gate_open(w.page, 4);
    CHECK_EQ(world_join(&w), 0);
    await_note(&w, 4, true, "resumed");
    CHECK_EQ(world_callbacks(&w, 'S'), 50);
    world_close(&w);
}

static void pause_at_ten(struct world *w, const struct gd_report *r)
{
    (void)r;
    if (w->n_finals == 10)
        CHECK_EQ(gd_dispatcher_pause(w->d), 0);
}

static void unpause_at_once(void *user, const char *what, int code)
{
    struct world *w = user;
    note_control(user, what, code);
    if (notes.n == 1)
        CHECK_EQ(gd_dispatcher_unpause(w->d), 0);
}

TEST(a_callback_may_pause_and_resume)
{
    struct world w;
    open_world(&w, 2);
    w.o.window = 0; /* tasks are handed out ahead, and are taken back */
    w.on_final = pause_at_ten;
    w.o.on_control = unpause_at_once;
    world_add_many(&w, 2000, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(notes.n, 2);
    CHECK_CONTAINS(notes.what[0], "paused");
    CHECK_STR(notes.what[1], "resumed");
    CHECK_EQ(world_callbacks(&w, 'S'), 2000);
    world_close(&w);
}

TEST(a_run_can_be_paused_before_it_begins_and_while_workers_set_up)
{
    struct world w;
    open_world(&w, 2);
    w.setup.gate = 2;
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    CHECK_EQ(gd_dispatcher_pause(w.d), 0);
    await_note(&w, 1, true, "paused: 0 running");
    world_gate_open(w.page, 2);
    world_await(w.page, WC_SETUPS, 2);
    CHECK_EQ(gd_dispatcher_pause(w.d), 0);
    await_note(&w, 2, true, "paused already: 0 running");
    CHECK_EQ(world_count(w.page, WC_ENTERED), 0);
    CHECK_EQ(gd_dispatcher_unpause(w.d), 0);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 10);
    world_close(&w);
}

TEST(a_paused_run_can_be_shut_down)
{
    struct world w;
    open_world(&w, 2);
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 2);
    CHECK_EQ(gd_dispatcher_pause(w.d), 0);
    await_note(&w, 1, true, "paused");
    gd_dispatcher_shutdown(w.d);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    CHECK_EQ(world_callbacks(&w, 'S'), 2);
    world_close(&w);
}

/* --- drain --- */

TEST(a_drained_run_waits_for_its_running_tasks_without_a_time_limit)
{
    struct world w;
    open_world(&w, 2);
    w.o.stop_grace_ms = 0; /* a shutdown would end them at once */
    world_add_many(&w, 50, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 2);
    world_await_stat(&w, taken, 50);
    CHECK_EQ(gd_dispatcher_drain(w.d), 0);
    await_note(&w, 1, true, "draining: the run ends after 2 running tasks");
    CHECK_EQ(stats_of(&w).draining, 1);
    CHECK_EQ(gd_dispatcher_pause(w.d), 0); /* the report about this request comes at least a round later */
    await_note(&w, 2, false, "the run is ending");
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    CHECK_EQ(world_callbacks(&w, 'S'), 2);
    CHECK_EQ(world_failures(&w, GD_FAILURE_CANCELLED), 48);
    CHECK_STR(w.finals[49].error, "not done: the run was drained");
    CHECK_EQ(w.stats.crashes, 0);
    CHECK_EQ(world_count(w.page, WC_CLEANUPS), 2);
    world_close(&w);
}

TEST(a_shutdown_limits_the_time_of_a_drain)
{
    struct world w;
    open_world(&w, 1);
    w.o.stop_grace_ms = 1;
    world_add_many(&w, 5, (struct world_order){ .what = W_LOOP });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    CHECK_EQ(gd_dispatcher_drain(w.d), 0);
    await_note(&w, 1, true, "draining");
    gd_dispatcher_shutdown(w.d);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    CHECK_EQ(world_failures(&w, GD_FAILURE_CANCELLED), w.stats.taken);
    world_close(&w);
}

/* --- cancel one task --- */

TEST(a_waiting_task_ends_at_once_when_it_is_cancelled)
{
    struct world w;
    open_world(&w, 1);
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    world_await_stat(&w, taken, 10);
    CHECK_EQ(gd_dispatcher_cancel_task(w.d, 5), 0);
    await_note(&w, 1, true, "task 5 cancelled before it began");
    CHECK_EQ(stats_of(&w).cancelled, 1);
    CHECK_EQ(gd_dispatcher_cancel_task(w.d, 5), 0);
    await_note(&w, 2, false, "task 5 not cancelled: it has ended");
    CHECK_EQ(gd_dispatcher_cancel_task(w.d, 999), 0);
    await_note(&w, 3, false, "was not read from the source yet");
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    check_cancelled(&w, 5);
    CHECK_EQ(atomic_load(&w.page->runs[5]), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 9);
    world_close(&w);
}

TEST(a_running_task_is_asked_to_stop_when_it_is_cancelled)
{
    struct world w;
    open_world(&w, 1);
    world_add(&w, (struct world_order){ .what = W_POLITE_LOOP });
    world_add_many(&w, 5, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    CHECK_EQ(gd_dispatcher_cancel_task(w.d, 0), 0);
    CHECK_EQ(world_join(&w), 0);
    await_note(&w, 1, true, "task 0 asked to stop");
    check_cancelled(&w, 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 5);
    CHECK_EQ(w.stats.timeouts, 0);
    CHECK_EQ(w.stats.crashes, 0);
    CHECK_EQ(world_count(w.page, WC_SETUPS), 1);
    CHECK_EQ(world_count(w.page, WC_CANCELLED), 1);
    world_close(&w);
}

TEST(a_cancelled_task_that_does_not_stop_is_killed)
{
    struct world w;
    open_world(&w, 1);
    w.o.cancel_grace_ms = 20;
    w.o.retries = 5;
    world_add(&w, (struct world_order){ .what = W_LOOP });
    world_add_many(&w, 5, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    CHECK_EQ(gd_dispatcher_cancel_task(w.d, 0), 0);
    CHECK_EQ(world_join(&w), 0);
    check_cancelled(&w, 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 5);
    CHECK_EQ(atomic_load(&w.page->runs[0]), 1);
    CHECK_CONTAINS(world_event(&w, 'x')->text, "did not stop when it was cancelled");
    world_close(&w);
}

TEST(a_result_that_comes_after_the_cancel_is_reported)
{
    struct world w;
    open_world(&w, 1);
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    CHECK_EQ(gd_dispatcher_cancel_task(w.d, 0), 0);
    await_note(&w, 1, true, "asked to stop");
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(w.finals[0].callback, 'S');
    world_close(&w);
}

static void cancel_the_first(struct world *w, const struct gd_report *r)
{
    if (r->task_id == 1)
        CHECK_EQ(gd_dispatcher_cancel_task(w->d, 0), 0);
}

TEST(a_task_that_waits_for_its_retry_can_be_cancelled)
{
    struct world w;
    open_world(&w, 1);
    w.o.retries = 3;
    w.o.retry_delay_ms = WORLD_ENDLESS_MS;
    w.on_final = cancel_the_first; /* the worker had finished the first try of task 0 before task 1 */
    world_add(&w, (struct world_order){ .what = W_ERROR });
    world_add(&w, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    check_cancelled(&w, 0);
    CHECK_EQ(w.finals[0].attempt, 1);
    world_close(&w);
}

TEST(the_other_tasks_of_a_cancelled_batch_run_again)
{
    struct world w;
    open_world(&w, 1);
    world_ops("b");
    w.o.window = 0;
    w.o.batch_size = 4;
    w.o.batch_wait_us = 3600u * 1000 * 1000;
    w.o.cancel_grace_ms = 20;
    world_add(&w, (struct world_order){ .what = W_LOOP, .tries = 1 });
    world_add_many(&w, 3, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    world_await(w.page, WC_BATCHES, 1);
    CHECK_EQ(gd_dispatcher_cancel_task(w.d, 2), 0);
    CHECK_EQ(world_join(&w), 0);
    check_cancelled(&w, 2);
    CHECK_EQ(world_callbacks(&w, 'S'), 3);
    CHECK_EQ(w.stats.failed, 1); /* nobody else is charged */
    world_close(&w);
}

TEST(in_an_ordered_run_a_cancelled_task_waits_for_its_turn)
{
    struct world w;
    open_world(&w, 2);
    w.o.ordered = true;
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_add(&w, (struct world_order){ .what = W_ECHO });
    world_add_many(&w, 8, (struct world_order){ .what = W_ECHO, .gate = 3 });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 3); /* 0 and 2 run, 1 is done */
    world_await_stat(&w, taken, 10);
    CHECK_EQ(gd_dispatcher_cancel_task(w.d, 1), 0);
    await_note(&w, 1, false, "task 1 not cancelled: it is done");
    CHECK_EQ(gd_dispatcher_cancel_task(w.d, 7), 0);
    await_note(&w, 2, true, "task 7 cancelled before it began");
    world_gate_open(w.page, 2);
    world_gate_open(w.page, 3);
    CHECK_EQ(world_join(&w), 0);
    check_cancelled(&w, 7);
    CHECK_EQ(w.finals[7].order, 7);
    CHECK_EQ(world_callbacks(&w, 'S'), 9);
    world_close(&w);
}

/* --- the time limit --- */

TEST(a_new_time_limit_counts_for_running_tasks)
{
    struct world w;
    open_world(&w, 1);
    world_add(&w, (struct world_order){ .what = W_POLITE_LOOP });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    CHECK_EQ(gd_dispatcher_set_timeout(w.d, 1), 0);
    await_note(&w, 1, true, "time limit of a task set to 0.001 s");
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(w.finals[0].callback, 'T');
    CHECK_CONTAINS(w.finals[0].error, "0.001 s");
    CHECK_EQ(w.stats.task_timeout_ms, 1);
    world_close(&w);
}

TEST(a_time_limit_can_be_removed)
{
    struct world w;
    open_world(&w, 1);
    w.o.task_timeout_ms = WORLD_ENDLESS_MS;
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    CHECK_EQ(gd_dispatcher_set_timeout(w.d, 0), 0);
    await_note(&w, 1, true, "removed");
    CHECK_EQ(stats_of(&w).task_timeout_ms, 0);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(w.finals[0].callback, 'S');
    world_close(&w);
}

/* --- workers --- */

TEST(a_removed_worker_finishes_its_task_and_gets_no_other)
{
    struct world w;
    open_world(&w, 2);
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 2);
    CHECK_EQ(gd_dispatcher_remove_workers(w.d, 1, 1), 0);
    await_note(&w, 1, true, "1 worker removed from GPU 1");
    CHECK_EQ(gd_dispatcher_remove_workers(w.d, 0, 1), 0);
    await_note(&w, 2, false, "the last worker of a run cannot be removed");
    CHECK_EQ(gd_dispatcher_remove_workers(w.d, 1, 1), 0);
    await_note(&w, 3, false, "no worker of it is left");
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 20);
    CHECK_EQ(w.workers[1].completed, 1);
    CHECK(w.workers[1].state == GD_WORKER_OFF || w.workers[1].state == GD_WORKER_FINISHED); /* if the run ended first */
    CHECK_EQ(world_count(w.page, WC_CLEANUPS), 2);
    CHECK_EQ(w.n_events, 0);
    world_close(&w);
}

TEST(workers_are_added_up_to_the_most_that_were_reserved)
{
    struct world w;
    open_world(&w, 1);
    w.o.max_workers_per_gpu = 3;
    world_add_many(&w, 6, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    CHECK_EQ(gd_dispatcher_add_workers(w.d, 0, 2), 0);
    await_note(&w, 1, true, "2 workers added to GPU 0");
    CHECK_EQ(gd_dispatcher_add_workers(w.d, 0, 1), 0);
    await_note(&w, 2, false, "0 of 1 workers added to GPU 0: no place for another worker: see max_workers_per_gpu");
    world_await(w.page, WC_ENTERED, 3); /* all three have a task at the same time */
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 6);
    CHECK_EQ(w.stats.n_workers, 3);
    CHECK_EQ(w.stats.restarts, 0);
    world_close(&w);
}

TEST(a_removed_worker_can_be_added_again)
{
    struct world w;
    open_world(&w, 2);
    world_add_many(&w, 2, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO, .gate = 3 });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 2);
    CHECK_EQ(gd_dispatcher_remove_workers(w.d, 1, 1), 0);
    await_note(&w, 1, true, "removed");
    world_gate_open(w.page, 2);
    world_await(w.page, WC_CLEANUPS, 1); /* worker 1 has left, or is about to */
    CHECK_EQ(gd_dispatcher_add_workers(w.d, 1, 1), 0);
    await_note(&w, 2, true, "1 worker added to GPU 1");
    world_await(w.page, WC_ENTERED, 4); /* two tasks behind gate 3 run at the same time */
    world_gate_open(w.page, 3);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 22);
    CHECK_EQ(world_count(w.page, WC_SETUPS), 3);
    world_close(&w);
}

TEST(a_worker_can_be_removed_while_it_sets_up)
{
    struct world w;
    open_world(&w, 2);
    w.setup.gate = 2;
    w.setup.workers = 1u << 1; /* worker 1 never gets past its gate */
    w.o.cancel_grace_ms = 20;
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO, .gate = 3 });
    world_launch(&w);
    (void)world_pid(w.page, 1);
    world_await(w.page, WC_ENTERED, 1);
    CHECK_EQ(gd_dispatcher_remove_workers(w.d, 1, 1), 0);
    await_note(&w, 1, true, "1 worker removed from GPU 1");
    world_gate_open(w.page, 3);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 20);
    CHECK_EQ(w.workers[1].completed, 0);
    world_close(&w);
}

TEST(a_removed_worker_that_dies_is_not_replaced)
{
    struct world w;
    open_world(&w, 2);
    world_add_many(&w, 2, (struct world_order){ .what = W_KILL, .tries = 1, .gate = 2 });
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 2);
    CHECK_EQ(gd_dispatcher_remove_workers(w.d, 1, 1), 0);
    await_note(&w, 1, true, "removed");
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 12); /* the task of the removed worker was run again by the other one */
    CHECK_EQ(world_count(w.page, WC_SETUPS), 3);
    CHECK_EQ(w.workers[1].completed, 0);
    world_close(&w);
}

/* --- wrong requests --- */

TEST(requests_that_make_no_sense_are_refused_at_once)
{
    struct world w;
    open_world(&w, 1);
    world_add(&w, (struct world_order){ .what = W_ECHO });
    world_start(&w);
    CHECK_EQ(gd_dispatcher_add_workers(w.d, 7, 1), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "GPU 7 is not a device of this run");
    CHECK_EQ(gd_dispatcher_remove_workers(w.d, 0, 0), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "at least 1");
    CHECK_EQ(gd_dispatcher_pause(NULL), GD_E_INVALID);
    CHECK_EQ(world_finish(&w), 0);
    CHECK_EQ(gd_dispatcher_pause(w.d), 0); /* too late: it has no effect */
    gd_dispatcher_close(&w.d);
    CHECK_EQ(notes.n, 0);
    world_close(&w);
}

TEST(fewer_reserved_than_started_workers_are_refused)
{
    struct world w;
    open_world(&w, 1);
    struct gd_dispatcher *d;
    w.o.workers_per_gpu = 3;
    w.o.max_workers_per_gpu = 2;
    CHECK_EQ(gd_dispatcher_open(&d, &w.o), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "max_workers_per_gpu is 2, but workers_per_gpu is 3");
    world_close(&w);
}

WORLD_MAIN()
