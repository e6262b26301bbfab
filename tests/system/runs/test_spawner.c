/* Runs on a separate thread: starting, waiting with and without a time limit, ending, listing the processes. */
#include "base/fault.h"
#include "support/test.h"
#include "support/world.h"

enum { LONG_MS = 50000 * TEST_SLOWDOWN }; /* a limit, so that no case waits for ever */

/* A world whose callbacks only count. They run on the thread of the spawner, but the callbacks of struct world must run
 * on the thread of the test. */
struct spawned {
    struct world w; /* must be first: the source casts its argument to struct world */
    struct gd_spawner *s;
    _Atomic unsigned done, failed, cancelled, exits;
    pthread_t thread; /* of the first callback */
    void (*on_done)(struct spawned *s);
};

static void note_thread(struct spawned *s)
{
    if (s->done + s->failed + s->cancelled == 0)
        s->thread = pthread_self();
    CHECK(pthread_equal(s->thread, pthread_self()));
}

static void on_success(void *user, const struct gd_report *r)
{
    (void)r;
    struct spawned *s = user;
    note_thread(s);
    s->done++;
    if (s->on_done)
        s->on_done(s);
}

static void on_error(void *user, const struct gd_report *r)
{
    struct spawned *s = user;
    note_thread(s);
    if (r->failure == GD_FAILURE_CANCELLED)
        s->cancelled++;
    else
        s->failed++;
}

static void on_exit_callback(void *user)
{
    ((struct spawned *)user)->exits++;
}

static void spawned_open(struct spawned *s, unsigned n_gpus)
{
    memset(s, 0, sizeof *s);
    world_open(&s->w, n_gpus);
    struct gd_options *o = &s->w.o;
    o->user = s;
    o->on_success = on_success;
    o->on_error = on_error;
    o->on_timeout = NULL;
    o->on_setup_fail = NULL;
    o->on_cleanup_fail = NULL;
    o->on_worker_exit = NULL;
    o->on_device_out = NULL;
    o->on_output = NULL;
    o->on_exit = on_exit_callback;
}

static void spawned_start(struct spawned *s)
{
    if (s->w.setup.gate || s->w.setup.what) {
        s->w.o.setup_args = &s->w.setup;
        s->w.o.setup_args_size = sizeof s->w.setup;
    }
    CHECK_EQ(gd_spawner_start(&s->s, &s->w.o), 0);
    CHECK(s->s);
}

static void spawned_close(struct spawned *s)
{
    gd_spawner_close(&s->s);
    CHECK(!s->s);
    CHECK_EQ(s->exits, 1);
    world_close(&s->w);
}

static struct gd_stats stats_of(struct spawned *s)
{
    struct gd_stats stats = { .size = sizeof stats };
    CHECK_EQ(gd_spawner_stats(s->s, &stats), 0);
    return stats;
}

/* --- starting and waiting --- */

TEST(a_run_ends_normally)
{
    struct spawned s;
    spawned_open(&s, 2);
    world_add_many(&s.w, 200, (struct world_order){ .what = W_ECHO });
    spawned_start(&s);
    int result = 77;
    CHECK_EQ(gd_spawner_wait(s.s, -1, &result), 0);
    CHECK_EQ(result, 0);
    CHECK_EQ(s.done, 200);
    CHECK_EQ(s.exits, 1);
    CHECK(!pthread_equal(s.thread, pthread_self()));
    spawned_close(&s);
}

TEST(waiting_has_a_limit)
{
    struct spawned s;
    spawned_open(&s, 1);
    world_add(&s.w, (struct world_order){ .what = W_ECHO, .gate = 2 });
    spawned_start(&s);
    int result = 77;
    CHECK_EQ(gd_spawner_wait(s.s, 0, &result), GD_E_BUSY);
    const uint64_t begin = world_now_ms();
    CHECK_EQ(gd_spawner_wait(s.s, 60, &result), GD_E_BUSY);
    CHECK_GE(world_now_ms() - begin, 59); /* the call returns although the run has not ended */
    CHECK_EQ(result, 77);
    CHECK_CONTAINS(gd_error_text(), "60 ms");
    world_gate_open(s.w.page, 2);
    CHECK_EQ(gd_spawner_wait(s.s, LONG_MS, &result), 0);
    CHECK_EQ(result, 0);
    spawned_close(&s);
}

TEST(waiting_again_gives_the_same_result)
{
    struct spawned s;
    spawned_open(&s, 1);
    world_add(&s.w, (struct world_order){ .what = W_ECHO });
    spawned_start(&s);
    int result = 77;
    CHECK_EQ(gd_spawner_wait(s.s, -1, NULL), 0);
    CHECK_EQ(gd_spawner_wait(s.s, 0, &result), 0);
    CHECK_EQ(result, 0);
    spawned_close(&s);
}

static void *wait_for_it(void *user)
{
    struct spawned *s = user;
    int result = 77;
    world_count_add(s->w.page, WC_USER, 1);
    CHECK_EQ(gd_spawner_wait(s->s, -1, &result), 0);
    CHECK_EQ(result, GD_E_SHUTDOWN);
    CHECK_CONTAINS(gd_error_text(), "shut down"); /* every thread that waits gets the error message */
    return NULL;
}

TEST(two_threads_may_wait)
{
    struct spawned s;
    pthread_t threads[2];
    spawned_open(&s, 1);
    world_add_many(&s.w, 20, (struct world_order){ .what = W_LOOP });
    spawned_start(&s);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, wait_for_it, &s), 0);
    world_await(s.w.page, WC_USER, 2);
    world_await(s.w.page, WC_ENTERED, 1);
    gd_spawner_terminate(s.s);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    spawned_close(&s);
}

TEST(the_error_of_a_run_comes_with_its_message)
{
    struct spawned s;
    spawned_open(&s, 1);
    s.w.setup = (struct world_setup){ .what = W_ERROR };
    world_add(&s.w, (struct world_order){ .what = W_ECHO });
    spawned_start(&s);
    int result = 0;
    CHECK_EQ(gd_spawner_wait(s.s, -1, &result), 0);
    CHECK_EQ(result, GD_E_SETUP);
    CHECK_CONTAINS(gd_error_text(), "All workers failed during setup: ");
    CHECK_EQ(s.failed, stats_of(&s).taken); /* the run may have ended before the first call of the source */
    spawned_close(&s);
}

/* --- what cannot be started --- */

TEST(bad_options_are_reported_at_the_start)
{
    struct spawned s;
    spawned_open(&s, 1);
    s.w.o.source = NULL;
    s.s = (struct gd_spawner *)&s;
    CHECK_EQ(gd_spawner_start(&s.s, &s.w.o), GD_E_INVALID);
    CHECK(!s.s);
    CHECK_CONTAINS(gd_error_text(), "source");
    CHECK_EQ(gd_spawner_start(&s.s, NULL), GD_E_INVALID);
    CHECK_EQ(gd_spawner_start(NULL, &s.w.o), GD_E_INVALID);
    CHECK_EQ(s.exits, 0);
    world_close(&s.w);
}

TEST(a_null_spawner_does_not_crash)
{
    struct gd_stats stats = { .size = sizeof stats };
    struct gd_spawner *none = NULL;
    CHECK_EQ(gd_spawner_wait(NULL, 0, NULL), GD_E_INVALID);
    CHECK_EQ(gd_spawner_stats(NULL, &stats), GD_E_INVALID);
    CHECK_EQ(gd_spawner_status(NULL, NULL, sizeof(struct gd_worker_stats), 0), GD_E_INVALID);
    gd_spawner_shutdown(NULL);
    gd_spawner_terminate(NULL);
    gd_spawner_close(NULL);
    gd_spawner_close(&none);
}

/* During the start, every call that can fail is made to fail once. */
TEST(every_failing_call_is_reported_at_the_start)
{
    struct spawned s;
    spawned_open(&s, 1);
    unsigned long nth = 1;
    for (;; nth++) {
        gd__fault_begin(nth);
        const int rc = gd_spawner_start(&s.s, &s.w.o);
        const bool failed = gd__fault_count() >= nth && rc < 0;
        gd__fault_begin(0);
        if (!failed)
            break;
        CHECK(rc == GD_E_NO_MEMORY || rc == GD_E_SYSTEM);
        CHECK(!s.s);
    }
    CHECK_GT(nth, 4);
    CHECK_EQ(gd_spawner_wait(s.s, -1, NULL), 0);
    spawned_close(&s);
}

/* --- ending --- */

TEST(shutdown_lets_running_tasks_finish)
{
    struct spawned s;
    spawned_open(&s, 2);
    s.w.o.window = 1;
    world_add_many(&s.w, 50, (struct world_order){ .what = W_ECHO, .gate = 2 });
    spawned_start(&s);
    world_await(s.w.page, WC_ENTERED, 2);
    gd_spawner_shutdown(s.s);
    world_gate_open(s.w.page, 2);
    int result = 0;
    CHECK_EQ(gd_spawner_wait(s.s, LONG_MS, &result), 0);
    CHECK_EQ(result, GD_E_SHUTDOWN);
    CHECK_GE(s.done, 2);
    CHECK_EQ(s.done + s.cancelled, stats_of(&s).taken);
    spawned_close(&s);
}

TEST(terminate_waits_for_nothing)
{
    struct spawned s;
    spawned_open(&s, 2);
    s.w.o.stop_grace_ms = 60000;
    world_add_many(&s.w, 10, (struct world_order){ .what = W_LOOP });
    spawned_start(&s);
    world_await(s.w.page, WC_ENTERED, 2);
    gd_spawner_terminate(s.s);
    int result = 0;
    CHECK_EQ(gd_spawner_wait(s.s, LONG_MS, &result), 0);
    CHECK_EQ(result, GD_E_SHUTDOWN);
    CHECK_EQ(s.cancelled, stats_of(&s).taken);
    CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1); /* no process is left */
    CHECK_EQ(errno, ECHILD);
    spawned_close(&s);
}

TEST(terminated_right_after_the_start)
{
    for (int i = 0; i < 10; i++) {
        struct spawned s;
        spawned_open(&s, 2);
        world_add_many(&s.w, 10, (struct world_order){ .what = W_LOOP });
        spawned_start(&s);
        gd_spawner_terminate(s.s);
        int result = 0;
        CHECK_EQ(gd_spawner_wait(s.s, LONG_MS, &result), 0);
        CHECK_EQ(result, GD_E_SHUTDOWN);
        CHECK_EQ(s.cancelled, stats_of(&s).taken);
        spawned_close(&s);
    }
}

TEST(closing_a_run_terminates_it)
{
    struct spawned s;
    spawned_open(&s, 2);
    s.w.o.stop_grace_ms = 60000;
    world_add_many(&s.w, 10, (struct world_order){ .what = W_LOOP });
    spawned_start(&s);
    world_await(s.w.page, WC_ENTERED, 2);
    gd_spawner_close(&s.s);
    CHECK_EQ(s.exits, 1);
    CHECK_GE(s.cancelled, 2);
    CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
    spawned_close(&s);
}

TEST(closing_right_after_the_start)
{
    struct spawned s;
    spawned_open(&s, 1);
    world_add_many(&s.w, 10, (struct world_order){ .what = W_ECHO });
    spawned_start(&s);
    gd_spawner_close(&s.s);
    spawned_close(&s);
}

/* --- from a callback --- */

static void misuse(struct spawned *s)
{
    if (s->done != 1)
        return;
    struct gd_spawner *same = s->s;
    CHECK_EQ(gd_spawner_wait(s->s, -1, NULL), GD_E_BUSY);
    CHECK_EQ(stats_of(s).completed, 1);
    gd_spawner_close(&same); /* in a callback this only ends the run */
    CHECK(same == s->s);
}

TEST(a_callback_can_end_its_run_but_not_wait_for_it)
{
    struct spawned s;
    spawned_open(&s, 1);
    s.w.o.window = 1;
    s.on_done = misuse;
    world_add(&s.w, (struct world_order){ .what = W_ECHO });
    world_add_many(&s.w, 10, (struct world_order){ .what = W_LOOP });
    spawned_start(&s);
    int result = 0;
    CHECK_EQ(gd_spawner_wait(s.s, LONG_MS, &result), 0);
    CHECK_EQ(result, GD_E_SHUTDOWN);
    CHECK_EQ(s.done, 1);
    spawned_close(&s);
}

/* --- status --- */

/* In a callback the figures are current. Elsewhere they may be a few milliseconds old. */
static void look_inside(struct spawned *s)
{
    struct gd_worker_stats w[2];
    CHECK_EQ(gd_spawner_status(s->s, w, sizeof *w, 2), 2);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(w[i].pid, world_pid(s->w.page, i));
        CHECK(w[i].state == GD_WORKER_BUSY || w[i].state == GD_WORKER_IDLE);
    }
}

TEST(status_before_during_and_after)
{
    struct spawned s;
    struct gd_worker_stats w[4];
    spawned_open(&s, 2);
    s.w.setup = (struct world_setup){ .gate = 3 };
    world_add_many(&s.w, 2, (struct world_order){ .what = W_ECHO, .gate = 2 });
    s.w.o.window = 1;
    s.on_done = look_inside;
    spawned_start(&s);
    CHECK_EQ(gd_spawner_status(s.s, w, sizeof *w, 4), 2);
    CHECK_EQ(w[1].gpu_id, 1);
    CHECK(w[0].state == GD_WORKER_OFF || w[0].state == GD_WORKER_STARTING);
    CHECK_EQ(stats_of(&s).completed, 0);

    world_await(s.w.page, WC_SETUPS, 2);
    world_gate_open(s.w.page, 3);
    world_await(s.w.page, WC_ENTERED, 2);
    CHECK_EQ(gd_spawner_status(s.s, w, sizeof *w, 1), 2);
    CHECK_EQ(w[0].worker_id, 0);
    CHECK_EQ(gd_spawner_status(s.s, NULL, sizeof *w, 0), 2);
    CHECK_EQ(stats_of(&s).n_workers, 2);

    world_gate_open(s.w.page, 2);
    CHECK_EQ(gd_spawner_wait(s.s, -1, NULL), 0);
    CHECK_EQ(gd_spawner_status(s.s, w, sizeof *w, 4), 2);
    CHECK_EQ(w[0].state, GD_WORKER_FINISHED);
    CHECK_EQ(w[1].state, GD_WORKER_FINISHED);
    CHECK_EQ(w[0].completed + w[1].completed, 2);
    CHECK_EQ(stats_of(&s).completed, 2);
    CHECK_EQ(stats_of(&s).running, 0);
    CHECK_EQ(stats_of(&s).source_done, 1);
    spawned_close(&s);
}

/* --- several --- */

TEST(two_runs_at_once)
{
    struct spawned a, b;
    spawned_open(&a, 1);
    world_add_many(&a.w, 50, (struct world_order){ .what = W_ECHO });
    world_add(&a.w, (struct world_order){ .what = W_ECHO, .gate = 2 });
    spawned_start(&a);
    world_await(a.w.page, WC_ENTERED, 51);
    spawned_open(&b, 2); /* the workers of this run use another page */
    world_add_many(&b.w, 50, (struct world_order){ .what = W_ECHO });
    spawned_start(&b);
    CHECK_EQ(gd_spawner_wait(b.s, LONG_MS, NULL), 0);
    CHECK_EQ(b.done, 50);
    CHECK_EQ(gd_spawner_wait(a.s, 0, NULL), GD_E_BUSY);
    world_gate_open(a.w.page, 2);
    CHECK_EQ(gd_spawner_wait(a.s, LONG_MS, NULL), 0);
    CHECK_EQ(a.done, 51);
    spawned_close(&b);
    spawned_close(&a);
}

WORLD_MAIN()
