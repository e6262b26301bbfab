/* Several runs of one dispatcher with the same workers: what is new in each run, what stays, and what happens to the
 * workers between two runs. */
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/directory.h"
#include "support/test.h"
#include "support/world.h"

static void open_warm(struct world *w, unsigned n_gpus)
{
    world_open(w, n_gpus);
    w->o.keep_workers = true;
}

/* Runs n tasks, which must all succeed. */
static void run_some(struct world *w, size_t n)
{
    world_next(w);
    world_add_many(w, n, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_finish(w), 0);
    CHECK_EQ(world_callbacks(w, 'S'), n);
}

static int pidfd_of(const struct world *w, int worker)
{
    const int fd = (int)syscall(SYS_pidfd_open, world_pid(w->page, worker), 0);
    CHECK_GE(fd, 0);
    return fd;
}

static void end_worker(const struct world *w, int worker, int signal)
{
    const int fd = pidfd_of(w, worker);
    CHECK_EQ(kill(world_pid(w->page, worker), signal), 0);
    world_await_end(fd);
    close(fd);
}

/* --- one run after another --- */

TEST(all_runs_use_the_same_processes)
{
    struct world w;
    open_warm(&w, 2);
    world_start(&w);
    run_some(&w, 20);
    world_await(w.page, WC_SETUPS, 2);
    const pid_t first = world_pid(w.page, 0), second = world_pid(w.page, 1);
    for (size_t n = 1; n <= 100; n++) {
        run_some(&w, n);
        CHECK_EQ(w.stats.taken, n);
        CHECK_EQ(w.stats.completed, n);
        CHECK_EQ(w.stats.restarts + w.stats.crashes + w.stats.retried, 0);
        CHECK_EQ(w.workers[0].completed + w.workers[1].completed, n);
        CHECK_EQ(w.stats.between_runs, 1);
    }
    CHECK_EQ(world_pid(w.page, 0), first);
    CHECK_EQ(world_pid(w.page, 1), second);
    CHECK_EQ(world_count(w.page, WC_SETUPS), 2);
    CHECK_EQ(world_count(w.page, WC_CLEANUPS), 0);
    world_end(&w);
    CHECK_EQ(world_count(w.page, WC_CLEANUPS), world_count(w.page, WC_SETUPS));
    world_close(&w);
}

TEST(each_run_is_delivered_in_order)
{
    struct world w;
    open_warm(&w, 3);
    w.o.ordered = true;
    w.o.queue_size = 8;
    world_start(&w);
    for (size_t n = 50; n > 0; n -= 10) {
        run_some(&w, n);
        for (size_t i = 0; i < n; i++)
            CHECK_EQ(w.finals[i].order, i);
    }
    world_end(&w);
    world_close(&w);
}

/* If the memory of a run were not freed, the third run would wait for it for ever. */
TEST(payloads_of_earlier_runs_are_freed)
{
    struct world w;
    open_warm(&w, 2);
    w.o.queue_bytes = 1 << 20;
    world_start(&w);
    for (int run = 0; run < 3; run++) {
        world_next(&w);
        w.in_place = run == 1;
        for (int i = 0; i < 60; i++)
            world_add_sized(&w, (struct world_order){ .what = W_BYTES, .n = 50000 }, 100000);
        CHECK_EQ(world_finish(&w), 0);
        CHECK_EQ(world_callbacks(&w, 'S'), 60);
    }
    world_end(&w);
    world_close(&w);
}

TEST(with_batches_loads_and_tasks_in_flight)
{
    static const char *const ops[] = { "b", "l", "f" };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        struct world w;
        world_ops(ops[i]);
        open_warm(&w, 2);
        w.o.batch_size = i == 0 ? 8 : 1;
        w.o.concurrency = i == 2 ? 8 : 0;
        world_start(&w);
        for (int run = 0; run < 4; run++)
            run_some(&w, 100);
        world_await(w.page, WC_SETUPS, 2);
        run_some(&w, 100);
        CHECK_EQ(world_count(w.page, WC_SETUPS), 2);
        world_end(&w);
        world_close(&w);
    }
    world_ops("");
}

TEST(a_run_without_tasks_only_starts_the_workers)
{
    struct world w;
    open_warm(&w, 2);
    w.setup = (struct world_setup){ .gate = 3 };
    world_start(&w);
    run_some(&w, 0); /* returns although no setup can end */
    world_await(w.page, WC_SETUPS, 2);
    world_gate_open(w.page, 3);
    run_some(&w, 10);
    CHECK_EQ(world_count(w.page, WC_SETUPS), 2);
    world_end(&w);
    world_close(&w);
}

TEST(workers_that_are_still_in_setup_are_stopped_at_the_end)
{
    struct world w;
    open_warm(&w, 2);
    w.setup = (struct world_setup){ .gate = 3 };
    w.o.cancel_grace_ms = 100;
    world_start(&w);
    run_some(&w, 0);
    world_await(w.page, WC_SETUPS, 2);
    world_end(&w);
    CHECK_EQ(world_count(w.page, WC_CLEANUPS), 0);
    world_close(&w);
}

TEST(a_fresh_process_after_some_tasks)
{
    struct world w;
    open_warm(&w, 1);
    w.o.max_tasks_per_worker = 5;
    world_start(&w);
    for (int run = 0; run < 10; run++)
        run_some(&w, 3);
    CHECK_GE(world_count(w.page, WC_SETUPS), 4);
    CHECK_LE(world_count(w.page, WC_SETUPS), 7);
    world_end(&w);
    CHECK_EQ(world_count(w.page, WC_CLEANUPS), world_count(w.page, WC_SETUPS));
    world_close(&w);
}

/* --- the source of a run --- */

struct own_source {
    uint64_t given, n, ended, exits;
    uint64_t worker_of[16];
};

static int give(void *user, struct gd_item *item)
{
    struct own_source *s = user;
    (void)item;
    return s->given < s->n ? (int)(++s->given > 0) : 0;
}

static void note_end(void *user, const struct gd_report *r)
{
    struct own_source *s = user;
    s->worker_of[r->task_id] = (uint64_t)r->worker_id;
    s->ended++;
}

static void note_exit(void *user)
{
    ((struct own_source *)user)->exits++;
}

TEST(each_run_has_its_own_source_user_and_total)
{
    struct world w;
    struct gd_stats stats = { .size = sizeof stats };
    open_warm(&w, 2);
    w.o.placement = GD_PLACE_CHUNKS;
    w.o.source = NULL;
    w.o.on_success = w.o.on_error = note_end;
    w.o.on_exit = note_exit;
    world_start(&w);
    for (uint64_t n = 2; n <= 16; n += 7) {
        struct own_source own = { .n = n };
        struct gd_source source = GD_SOURCE_INIT;
        source.source = give;
        source.user = &own;
        source.total_tasks = n;
        CHECK_EQ(gd_dispatcher_run_source(w.d, &source), 0);
        CHECK_EQ(own.ended, n);
        CHECK_EQ(own.exits, 1);
        CHECK_EQ(gd_dispatcher_stats(w.d, &stats), 0);
        CHECK_EQ(stats.total, n);
        for (uint64_t i = 0; i < n; i++)
            CHECK_EQ(own.worker_of[i], i / ((n + 1) / 2));
    }
    world_end(&w);
    world_close(&w);
}

TEST(a_source_that_fails_keeps_the_workers)
{
    struct world w;
    open_warm(&w, 2);
    world_start(&w);
    w.source_fails_at = 7;
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_finish(&w), GD_E_SOURCE);
    CHECK_EQ(world_callbacks(&w, 'S'), 7);
    w.source_fails_at = 0;
    world_await(w.page, WC_SETUPS, 2);
    run_some(&w, 10);
    CHECK_EQ(world_count(w.page, WC_SETUPS), 2);
    world_end(&w);
    world_close(&w);
}

TEST(no_source)
{
    struct world w;
    struct gd_source source = GD_SOURCE_INIT;
    open_warm(&w, 1);
    w.o.source = NULL;
    world_start(&w);
    CHECK_EQ(gd_dispatcher_run(w.d), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "gd_dispatcher_run_source");
    CHECK_EQ(gd_dispatcher_run_source(w.d, &source), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "gd_source.source");
    CHECK_EQ(gd_dispatcher_run_source(w.d, NULL), GD_E_INVALID);
    source.size = 0;
    CHECK_LT(gd_dispatcher_run_source(w.d, &source), 0);
    CHECK_EQ(w.exits, 0);
    world_end(&w);
    world_close(&w);
}

/* --- the end of a run --- */

static void shut_down(struct world *w, const struct gd_report *r)
{
    if (r->task_id == 3)
        gd_dispatcher_shutdown(w->d);
}

static void abort_run(struct world *w, const struct gd_report *r)
{
    if (r->task_id == 3)
        gd_dispatcher_abort(w->d);
}

static void drain(struct world *w, const struct gd_report *r)
{
    if (r->task_id == 3)
        CHECK_EQ(gd_dispatcher_drain(w->d), 0);
}

/* The stop comes when the worker is held at its fifth task and the source has given many more, so some are cancelled. */
struct held_stop {
    void (*stop)(struct world *w, const struct gd_report *r);
    uint32_t given; /* calls of the source to wait for */
};

static void stop_while_held(struct world *w, const struct gd_report *r)
{
    const struct held_stop *held = w->mine;
    if (r->task_id != 3)
        return;
    world_await(w->page, WC_SOURCE, held->given);
    held->stop(w, r);
    world_gate_open(w->page, 2);
}

static void check_reason(struct world *w, void (*stop)(struct world *w, const struct gd_report *r), const char *reason)
{
    struct held_stop held = { stop, world_count(w->page, WC_SOURCE) + 500 };
    unsigned cancelled = 0;
    world_next(w);
    world_add_many(w, 4, (struct world_order){ .what = W_ECHO });
    world_add_many(w, 5000, (struct world_order){ .what = W_ECHO, .gate = 2 });
    w->page->gate[2] = 0;
    w->mine = &held;
    w->on_final = stop_while_held;
    CHECK_EQ(world_finish(w), GD_E_SHUTDOWN);
    for (size_t i = 0; i < w->n_orders; i++) {
        if (w->finals[i].failure != GD_FAILURE_CANCELLED)
            continue;
        CHECK_STR(w->finals[i].error, reason);
        cancelled++;
    }
    CHECK_GT(cancelled, 0);
}

TEST(the_reason_of_a_stop_concerns_only_its_own_run)
{
    struct world w;
    open_warm(&w, 1);
    world_start(&w);
    check_reason(&w, drain, "not done: the run was drained");
    check_reason(&w, abort_run, "not done: the run was aborted");
    check_reason(&w, shut_down, "not done: the run was shut down");
    world_end(&w);
    world_close(&w);
}

TEST(after_a_stop_the_next_run_starts_new_workers)
{
    static void (*const stops[])(struct world * w, const struct gd_report *r) = { shut_down, abort_run, drain };
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        struct world w;
        open_warm(&w, 2);
        w.o.queue_size = 4;
        w.o.stop_grace_ms = 1; /* over when the next run begins */
        world_start(&w);
        run_some(&w, 4);
        for (int again = 0; again < 2; again++) {
            world_next(&w);
            world_add_many(&w, 1000, (struct world_order){ .what = W_ECHO });
            w.on_final = stops[i];
            CHECK_EQ(world_finish(&w), GD_E_SHUTDOWN);
            CHECK_LT(w.stats.taken, 1000);
            w.on_final = NULL;
            run_some(&w, 50);
            CHECK_EQ(w.stats.restarts, 0);
        }
        CHECK_GE(world_count(w.page, WC_SETUPS), 3);
        world_end(&w);
        world_close(&w);
    }
}

TEST(if_no_worker_is_left_there_is_no_further_run)
{
    struct world w;
    open_warm(&w, 2);
    w.setup = (struct world_setup){ .what = W_ERROR };
    world_start(&w);
    world_add_many(&w, 5, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_finish(&w), GD_E_SETUP);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(gd_dispatcher_run(w.d), GD_E_NO_WORKERS);
        CHECK_CONTAINS(gd_error_text(), "open another");
    }
    CHECK_EQ(w.exits, 1);
    world_end(&w);
    world_close(&w);
}

TEST(a_worker_whose_setup_fails_between_two_runs_is_reported)
{
    struct world w;
    open_warm(&w, 2);
    w.setup = (struct world_setup){ .what = W_ERROR, .gate = 3, .workers = 2 };
    world_start(&w);
    run_some(&w, 5);
    world_await(w.page, WC_SETUPS, 2);
    const int fd = pidfd_of(&w, 1);
    world_gate_open(w.page, 3);
    world_await_end(fd);
    close(fd);
    run_some(&w, 5);
    CHECK_EQ(world_events(&w, 's'), 1);
    CHECK_EQ(w.stats.setup_failures, 1);
    CHECK_EQ(w.stats.crashes, 0);
    run_some(&w, 5);
    CHECK_EQ(w.n_events, 0);
    CHECK_EQ(w.stats.setup_failures, 1);
    world_end(&w);
    world_close(&w);
}

/* --- requests --- */

static void ask_at_exit(void *user)
{
    struct world *w = user;
    w->exits++;
    CHECK_EQ(gd_dispatcher_pause(w->d), 0);
    gd_dispatcher_abort(w->d);
}

TEST(a_request_that_comes_too_late_does_not_concern_the_next_run)
{
    struct world w;
    open_warm(&w, 1);
    w.o.on_exit = ask_at_exit;
    world_start(&w);
    run_some(&w, 3);
    run_some(&w, 3); /* would not end if it were paused */
    CHECK_EQ(world_count(w.page, WC_SETUPS), 1);
    world_end(&w);
    world_close(&w);
}

/* The end of a worker is handled before the request, which must not get lost. */
TEST(a_shutdown_between_two_runs_ends_the_next_one)
{
    for (int dies = 0; dies <= 1; dies++) {
        struct world w;
        open_warm(&w, 1);
        world_start(&w);
        run_some(&w, 3);
        gd_dispatcher_shutdown(w.d);
        if (dies)
            end_worker(&w, 0, SIGKILL);
        world_next(&w);
        world_add_many(&w, 3, (struct world_order){ .what = W_ECHO });
        CHECK_EQ(world_finish(&w), GD_E_SHUTDOWN);
        CHECK_EQ(world_callbacks(&w, 'S'), 0);
        run_some(&w, 3);
        world_end(&w);
        world_close(&w);
    }
}

static void *finish(void *user)
{
    struct world *w = user;
    return (void *)(intptr_t)world_finish(w);
}

static int join(pthread_t thread)
{
    void *rc;
    CHECK_EQ(pthread_join(thread, &rc), 0);
    return (int)(intptr_t)rc;
}

TEST(a_pause_between_two_runs_holds_the_next_one)
{
    struct world w;
    struct gd_stats s = { .size = sizeof s };
    pthread_t thread;
    open_warm(&w, 2);
    world_start(&w);
    run_some(&w, 3);
    CHECK_EQ(gd_dispatcher_pause(w.d), 0);
    world_next(&w);
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(pthread_create(&thread, NULL, finish, &w), 0);
    while (!s.paused || s.pending < 10) {
        CHECK_EQ(gd_dispatcher_stats(w.d, &s), 0);
        sched_yield();
    }
    CHECK_EQ(gd_dispatcher_run(w.d), GD_E_BUSY);
    CHECK_EQ(gd_dispatcher_stop_workers(w.d), GD_E_BUSY);
    CHECK_EQ(world_count(w.page, WC_ENTERED), 3);
    CHECK_EQ(gd_dispatcher_unpause(w.d), 0);
    CHECK_EQ(join(thread), 0);
    CHECK_EQ(world_count(w.page, WC_ENTERED), 13);
    world_end(&w);
    world_close(&w);
}

TEST(added_and_removed_workers_stay_so)
{
    struct world w;
    open_warm(&w, 2);
    w.o.max_workers_per_gpu = 2;
    world_start(&w);
    run_some(&w, 3);
    CHECK_EQ(gd_dispatcher_add_workers(w.d, 0, 1), 0);
    CHECK_EQ(gd_dispatcher_remove_workers(w.d, 1, 1), 0);
    const int gone = pidfd_of(&w, 1);
    run_some(&w, 1);
    world_await_end(gone); /* it may end only after that run */
    close(gone);
    run_some(&w, 20);
    run_some(&w, 20);
    CHECK_EQ(w.workers[1].state, GD_WORKER_OFF);
    CHECK_EQ(w.workers[1].completed, 0);
    CHECK_GT(w.workers[2].state, GD_WORKER_OFF); /* it may still be in setup */
    world_await(w.page, WC_SETUPS, 3);
    world_end(&w);
    world_close(&w);
}

/* --- between two runs --- */

TEST(a_worker_that_dies_between_two_runs_is_replaced)
{
    struct world w;
    open_warm(&w, 2);
    w.o.death_limit = 1; /* a death that counted would be the end of the worker */
    world_start(&w);
    run_some(&w, 0);
    for (int run = 0; run < 4; run++) {
        const pid_t old = world_pid(w.page, 0);
        world_await(w.page, WC_SETUPS, 2 + (uint32_t)run);
        world_await_state(old, 'S');
        end_worker(&w, 0, run % 2 ? SIGTERM : SIGKILL);
        run_some(&w, 6);
        CHECK_EQ(world_events(&w, 'x'), 1);
        CHECK_EQ(w.n_events, 1);
        CHECK_EQ(w.stats.crashes, 1);
        CHECK_EQ(w.stats.restarts, 1);
        CHECK_EQ(w.workers[0].restarts, 1);
        CHECK_EQ(w.stats.retried, 0);
        for (int i = 0; i < 6; i++)
            CHECK_EQ(w.finals[i].attempt, 1);
        world_await(w.page, WC_SETUPS, 3 + (uint32_t)run);
    }
    world_end(&w);
    world_close(&w);
}

TEST(all_workers_may_die_between_two_runs)
{
    struct world w;
    open_warm(&w, 3);
    world_start(&w);
    run_some(&w, 30);
    world_await(w.page, WC_SETUPS, 3);
    for (int i = 0; i < 3; i++)
        end_worker(&w, i, SIGKILL);
    run_some(&w, 30);
    CHECK_EQ(w.stats.crashes, 3);
    world_end(&w);
    world_close(&w);
}

TEST(stop_workers)
{
    struct world w;
    open_warm(&w, 2);
    world_start(&w);
    CHECK_EQ(gd_dispatcher_stop_workers(w.d), 0); /* there are none yet */
    CHECK_EQ(gd_dispatcher_stop_workers(NULL), GD_E_INVALID);
    run_some(&w, 10);
    world_await(w.page, WC_SETUPS, 2);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(gd_dispatcher_stop_workers(w.d), 0);
    CHECK_EQ(world_count(w.page, WC_CLEANUPS), 2);
    CHECK_EQ(gd_dispatcher_worker_stats(w.d, w.workers, sizeof *w.workers, 2), 2);
    CHECK_EQ(w.workers[0].state, GD_WORKER_FINISHED);
    CHECK_EQ(w.workers[0].pid, 0);
    run_some(&w, 10);
    CHECK_EQ(w.stats.restarts, 0);
    world_await(w.page, WC_SETUPS, 4);
    world_end(&w);
    CHECK_EQ(world_count(w.page, WC_CLEANUPS), 4);
    world_close(&w);
}

TEST(a_failed_cleanup_is_reported_by_close)
{
    struct world w;
    open_warm(&w, 2);
    w.setup = (struct world_setup){ .cleanup = W_ERROR };
    world_start(&w);
    run_some(&w, 10);
    w.exits = 0; /* these callbacks come after on_exit */
    world_await(w.page, WC_SETUPS, 2);
    world_end(&w);
    CHECK_EQ(world_events(&w, 'c'), 2);
    world_close(&w);
}

TEST(a_cleanup_that_does_not_end_is_killed)
{
    struct world w;
    open_warm(&w, 1);
    w.setup = (struct world_setup){ .cleanup = W_LOOP };
    w.o.cleanup_grace_ms = 200;
    world_start(&w);
    run_some(&w, 1);
    w.exits = 0;
    world_end(&w);
    CHECK_EQ(world_events(&w, 'c'), 1);
    world_close(&w);
}

TEST(suspended_workers_can_be_stopped)
{
    struct world w;
    open_warm(&w, 1);
    world_start(&w);
    run_some(&w, 1);
    gd_dispatcher_suspend(w.d);
    world_await_state(world_pid(w.page, 0), 'T');
    world_end(&w);
    CHECK_EQ(world_count(w.page, WC_CLEANUPS), 1);
    world_close(&w);
}

/* Text that a worker writes between two runs is read in the next one. */
TEST(output_that_comes_between_two_runs)
{
    struct world w;
    open_warm(&w, 1);
    w.o.output = GD_OUTPUT_CAPTURE;
    world_start(&w);
    world_add(&w, (struct world_order){ .what = W_STDOUT, .n = 3 });
    CHECK_EQ(world_finish(&w), 0);
    run_some(&w, 1);
    CHECK_CONTAINS(w.output, "2");
    world_end(&w);
    world_close(&w);
}

/* --- threads and processes --- */

/* A process that has just been started is killed when its thread ends: see worker/main.c. That is not a failed setup. */
TEST(the_thread_of_the_first_run_ends)
{
    for (int i = 0; i < 20; i++) {
        struct world w;
        pthread_t thread;
        open_warm(&w, 2);
        w.o.setup_attempts = 1;
        world_start(&w);
        world_add_many(&w, (size_t)(i % 3), (struct world_order){ .what = W_ECHO });
        CHECK_EQ(pthread_create(&thread, NULL, finish, &w), 0);
        CHECK_EQ(join(thread), 0);
        run_some(&w, 10);
        world_next(&w);
        CHECK_EQ(pthread_create(&thread, NULL, finish, &w), 0);
        CHECK_EQ(join(thread), 0);
        world_end(&w);
        world_close(&w);
    }
}

/* Runs a dispatcher in a child process, which then waits between two runs, together with a fork of its own. */
TEST(workers_end_if_the_dispatcher_is_killed_between_two_runs)
{
    struct world w;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    open_warm(&w, 2);
    const pid_t parent = fork();
    CHECK_GE(parent, 0);
    if (parent == 0) {
        world_start(&w);
        run_some(&w, 4);
        const pid_t idle = fork();
        if (idle > 0) {
            atomic_store(&w.page->grandchild, (uint32_t)idle);
            world_count_add(w.page, WC_USER, 1);
        }
        for (;;)
            pause();
    }
    world_await(w.page, WC_USER, 1);
    const int workers[] = { pidfd_of(&w, 0), pidfd_of(&w, 1) };
    CHECK_EQ(kill(parent, SIGKILL), 0);
    CHECK_EQ(waitpid(parent, NULL, 0), parent);
    for (int i = 0; i < 2; i++) {
        world_await_end(workers[i]);
        close(workers[i]);
    }
    const pid_t idle = (pid_t)atomic_load(&w.page->grandchild);
    CHECK_EQ(kill(idle, SIGKILL), 0); /* it was still there */
    while (waitpid(-1, NULL, 0) > 0)
        ;
    world_close(&w);
}

TEST(a_fork_cannot_use_the_workers)
{
    struct world w;
    open_warm(&w, 2);
    world_start(&w);
    run_some(&w, 10);
    world_await(w.page, WC_SETUPS, 2);
    const pid_t fork_of_us = fork();
    CHECK_GE(fork_of_us, 0);
    if (fork_of_us == 0) {
        const bool refused = gd_dispatcher_run(w.d) == GD_E_INVALID && gd_dispatcher_stop_workers(w.d) == 0;
        gd_dispatcher_close(&w.d);
        _exit(refused && !w.d ? 0 : 1);
    }
    int status = -1;
    CHECK_EQ(waitpid(fork_of_us, &status, 0), fork_of_us);
    CHECK_EQ(status, 0);
    run_some(&w, 10);
    CHECK_EQ(w.stats.crashes, 0);
    CHECK_EQ(world_count(w.page, WC_SETUPS), 2);
    world_end(&w);
    world_close(&w);
}

/* --- observers --- */

TEST(between_two_runs_a_job_is_idle_and_listed)
{
    struct world w;
    struct gd_observer *o;
    const struct gd_snapshot *s;
    char jobs[600];
    directory_enter();
    snprintf(jobs, sizeof jobs, "%s/jobs", directory_path);
    setenv("GPU_DISPATCH_JOBS", jobs, 1);
    open_warm(&w, 1);
    w.o.job = "warm";
    world_start(&w);
    CHECK_EQ(gd_observer_open(&o, "warm"), 0);
    for (uint64_t n = 20; n > 10; n -= 5) {
        run_some(&w, n);
        CHECK_EQ(gd_observer_read(o, &s), 0);
        CHECK(!s->ended);
        CHECK(!s->stale);
        CHECK_EQ(s->stats->between_runs, 1);
        CHECK_EQ(s->stats->completed, n);
        CHECK_EQ(s->n_tasks + s->tasks_missed, n);
        CHECK_EQ(gd_snapshot_worker(s, 0)->idle, GD_IDLE_NO_INPUT);
        CHECK_EQ(gd_snapshot_worker(s, 0)->state, GD_WORKER_IDLE);
        CHECK_EQ(gd_jobs_list(NULL, sizeof(struct gd_job), 0), 1);
    }
    gd_observer_close(&o);
    world_end(&w);
    CHECK_EQ(gd_jobs_list(NULL, sizeof(struct gd_job), 0), 0);
    world_close(&w);
}

WORLD_MAIN()
