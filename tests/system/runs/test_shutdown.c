/* Shutting down a run: from a callback, from another thread, immediately, and while a source or a setup blocks. */
#include "support/test.h"
#include "support/world.h"

/* Limit for runs that must end without waiting. A run that waits takes twice as long, or never ends. A shorter limit
 * could fail on a busy machine. */
enum { SOON_MS = 30000 };

static void shut_down_at_ten(struct world *w, const struct gd_report *r)
{
    (void)r;
    if (w->n_finals == 10)
        gd_dispatcher_shutdown(w->d);
}

TEST(from_a_callback)
{
    struct world w;
    world_open(&w, 2);
    w.o.queue_size = 16;
    w.on_final = shut_down_at_ten;
    world_add_many(&w, 10000, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), GD_E_SHUTDOWN);
    CHECK_LT(w.stats.taken, 5000);
    CHECK_GE(world_callbacks(&w, 'S'), 10);
    CHECK_EQ(world_callbacks(&w, 'S') + world_failures(&w, GD_FAILURE_CANCELLED), w.stats.taken);
    CHECK_EQ(world_count(w.page, WC_CLEANUPS), world_count(w.page, WC_SETUPS));
    CHECK_EQ(w.n_events, 0);
    world_close(&w);
}

TEST(running_tasks_may_finish)
{
    struct world w;
    world_open(&w, 2);
    w.o.window = 1;
    world_add_many(&w, 50, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 2);
    world_await_stat(&w, taken, 50);
    gd_dispatcher_shutdown(w.d);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    CHECK_GE(world_callbacks(&w, 'S'), 2);
    CHECK_EQ(world_failures(&w, GD_FAILURE_CANCELLED), w.stats.taken - world_callbacks(&w, 'S'));
    CHECK_STR(w.finals[49].error, "not done: the run was shut down");
    CHECK_EQ(world_count(w.page, WC_CLEANUPS), 2);
    world_close(&w);
}

static int to_the_second(void *user, uint64_t task_id, uint64_t weight, unsigned n_workers)
{
    (void)user, (void)task_id, (void)weight, (void)n_workers;
    return 1;
}

TEST(running_tasks_that_do_not_finish_are_ended_after_the_grace)
{
    struct world w;
    world_open(&w, 2);
    w.o.stop_grace_ms = 200;
    world_add_many(&w, 10, (struct world_order){ .what = W_LOOP });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 2);
    const uint64_t begin = world_now_ms();
    gd_dispatcher_shutdown(w.d);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    CHECK_GE(world_now_ms() - begin, 150); /* the clock was read a little before */
    CHECK_LE(world_now_ms() - begin, SOON_MS);
    CHECK_EQ(world_failures(&w, GD_FAILURE_CANCELLED), w.stats.taken);
    world_close(&w);
}

TEST(cleanup_has_its_own_time_after_the_grace_for_tasks)
{
    struct world w;
    world_open(&w, 2);
    w.o.stop_grace_ms = 100;
    w.setup = (struct world_setup){ .cleanup_gate = 5, .workers = 1 }; /* only worker 0, which gets no task */
    w.o.placement = GD_PLACE_CUSTOM;
    w.o.place = to_the_second;
    world_add_many(&w, 5, (struct world_order){ .what = W_LOOP });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    gd_dispatcher_shutdown(w.d);
    world_await(w.page, WC_CLEANUPS, 1);
    const pid_t stuck = (pid_t)atomic_load(&w.page->pid[1]);
    while (kill(stuck, 0) == 0) /* wait until the worker with the endless task is killed and reaped */
        sched_yield();
    world_gate_open(w.page, 5);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    CHECK_EQ(w.n_events, 0); /* no failed cleanup is reported */
    world_close(&w);
}

TEST(abort_waits_for_nothing)
{
    struct world w;
    world_open(&w, 2);
    w.o.stop_grace_ms = 60000;
    world_add_many(&w, 10, (struct world_order){ .what = W_LOOP });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 2);
    const uint64_t begin = world_now_ms();
    gd_dispatcher_abort(w.d);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    CHECK_LE(world_now_ms() - begin, SOON_MS);
    CHECK_EQ(world_failures(&w, GD_FAILURE_CANCELLED), w.stats.taken);
    CHECK_STR(w.finals[0].error, "not done: the run was aborted"); /* it was running */
    CHECK_EQ(world_count(w.page, WC_CLEANUPS), 0);
    world_close(&w);
}

TEST(abort_after_shutdown)
{
    struct world w;
    world_open(&w, 1);
    w.o.stop_grace_ms = 60000;
    world_add_many(&w, 3, (struct world_order){ .what = W_LOOP });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    gd_dispatcher_shutdown(w.d);
    gd_dispatcher_shutdown(w.d);
    gd_dispatcher_abort(w.d);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    world_close(&w);
}

TEST(while_setup_blocks)
{
    struct world w;
    world_open(&w, 2);
    w.o.cancel_grace_ms = 100;
    w.setup = (struct world_setup){ .gate = 5 }; /* never opened */
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    world_await(w.page, WC_SETUPS, 2);
    const uint64_t begin = world_now_ms();
    gd_dispatcher_shutdown(w.d);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    CHECK_LE(world_now_ms() - begin, SOON_MS);
    CHECK_EQ(world_failures(&w, GD_FAILURE_CANCELLED), w.stats.taken);
    world_close(&w);
}

TEST(while_cleanup_blocks)
{
    struct world w;
    world_open(&w, 2);
    w.o.cleanup_grace_ms = WORLD_PATIENCE_MS; /* also applies to the other worker, which ends in time */
    w.setup = (struct world_setup){ .cleanup_gate = 5, .workers = 1 };
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    const uint64_t begin = world_now_ms();
    CHECK_EQ(world_run(&w), 0); /* cleanup also has this limit if the run is not shut down */
    CHECK_LE(world_now_ms() - begin, SOON_MS);
    CHECK_EQ(world_callbacks(&w, 'S'), 10);
    CHECK_EQ(w.n_events, 1);
    CHECK_EQ(world_event(&w, 'c')->worker_id, 0);
    CHECK_CONTAINS(world_event(&w, 'c')->text, "killed");
    world_close(&w);
}

TEST(a_shutdown_after_the_last_task_changes_nothing)
{
    struct world w;
    world_open(&w, 2);
    w.setup = (struct world_setup){ .cleanup_gate = 5 };
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    world_await(w.page, WC_CLEANUPS, 1); /* all tasks are done */
    gd_dispatcher_shutdown(w.d);
    world_gate_open(w.page, 5);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 10);
    world_close(&w);
}

TEST(before_the_run)
{
    struct world w;
    world_open(&w, 2);
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    world_start(&w);
    gd_dispatcher_shutdown(w.d);
    CHECK_EQ(world_finish(&w), GD_E_SHUTDOWN);
    CHECK_EQ(world_callbacks(&w, 'S'), 0);
    gd_dispatcher_close(&w.d);
    world_close(&w);
}

TEST(after_the_run)
{
    struct world w;
    world_open(&w, 1);
    world_add(&w, (struct world_order){ .what = W_ECHO });
    world_start(&w);
    CHECK_EQ(world_finish(&w), 0);
    gd_dispatcher_shutdown(w.d);
    gd_dispatcher_abort(w.d);
    gd_dispatcher_close(&w.d);
    world_close(&w);
}

static void shut_down_on_event(struct world *w, const struct world_event *e)
{
    (void)e;
    gd_dispatcher_shutdown(w->d);
}

TEST(while_a_worker_is_being_replaced)
{
    struct world w;
    world_open(&w, 1);
    w.on_event = shut_down_on_event; /* on_worker_exit */
    world_add(&w, (struct world_order){ .what = W_KILL });
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), GD_E_SHUTDOWN);
    world_close(&w);
}

TEST(while_a_worker_waits_for_its_restart)
{
    struct world w;
    world_open(&w, 1);
    w.o.restart_delay_ms = 60000; /* limited to 1 s by the library; applies from the second restart in a row */
    w.o.crash_limit = w.o.death_limit = 1000000; /* so that the worker is restarted again and again */
    world_add(&w, (struct world_order){ .what = W_KILL });
    world_launch(&w);
    struct gd_worker_stats s;
    do {
        gd_dispatcher_worker_stats(w.d, &s, sizeof s, 1);
        sched_yield();
    } while (s.state != GD_WORKER_RESTING);
    gd_dispatcher_shutdown(w.d);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    CHECK_EQ(world_failures(&w, GD_FAILURE_CANCELLED) + world_failures(&w, GD_FAILURE_CRASH), 1);
    world_close(&w);
}

TEST(while_a_retry_waits)
{
    struct world w;
    world_open(&w, 1);
    w.o.retries = 5;
    w.o.retry_delay_ms = 60000;
    world_add(&w, (struct world_order){ .what = W_ERROR });
    world_launch(&w);
    world_await_stat(&w, retried, 1);
    gd_dispatcher_shutdown(w.d);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    CHECK_EQ(world_failures(&w, GD_FAILURE_CANCELLED), 1);
    world_close(&w);
}

/* After the first hundred tasks, all others wait until they are cancelled. So the run cannot end before it is shut
 * down. */
TEST(an_ordered_run)
{
    struct world w;
    world_open(&w, 2);
    w.o.ordered = true;
    w.o.stop_grace_ms = 1;
    w.on_final = shut_down_at_ten;
    world_add_many(&w, 100, (struct world_order){ .what = W_ECHO });
    world_add_many(&w, 900, (struct world_order){ .what = W_POLITE_LOOP });
    CHECK_EQ(world_run(&w), GD_E_SHUTDOWN);
    for (size_t i = 0; i < w.stats.taken; i++)
        CHECK_EQ(w.finals[i].order, i);
    CHECK_GE(world_callbacks(&w, 'S'), 10);
    CHECK_LE(world_callbacks(&w, 'S'), 100);
    CHECK_EQ(world_callbacks(&w, 'S') + world_failures(&w, GD_FAILURE_CANCELLED), w.stats.taken);
    world_close(&w);
}

/* --- sources that block --- */

static void open_source_gate(void *user)
{
    struct world *w = user;
    world_count_add(w->page, WC_USER, 1);
    world_gate_open(w->page, 1);
}

TEST(source_cancel_frees_a_blocked_source)
{
    struct world w;
    world_open(&w, 1);
    w.o.stop_grace_ms = 60000;
    w.o.source_cancel = open_source_gate;
    w.source_gate_at = 3;
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    world_await(w.page, WC_SOURCE, 4);
    const uint64_t begin = world_now_ms();
    gd_dispatcher_shutdown(w.d);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    CHECK_LE(world_now_ms() - begin, SOON_MS);
    CHECK_EQ(world_count(w.page, WC_USER), 1);
    CHECK_GE(w.stats.taken, 3);
    CHECK_LE(w.stats.taken, 4);
    world_close(&w);
}

/* Waits until the thread of the source has ended. This process then has only one thread. */
static void await_end_of_source_thread(void)
{
    for (unsigned n = 2; n > 1; sched_yield()) {
        char name[64];
        FILE *f = fopen("/proc/self/stat", "re");
        CHECK(f);
        CHECK_EQ(
            fscanf(f, "%*d (%63[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %u", name, &n),
            2);
        fclose(f);
    }
}

/* The source returns after the end of the run. Its task is dropped. The memory that the source uses must still
 * exist. */
static void source_that_outlives_the_run(bool in_place)
{
    struct world w;
    world_open(&w, 1);
    w.o.stop_grace_ms = 200;
    w.source_gate_at = 3;
    w.source_left = true;
    w.in_place = in_place;
    for (unsigned i = 0; i < 10; i++)
        world_add_sized(&w, (struct world_order){ .what = W_ECHO }, 1000);
    world_launch(&w);
    world_await(w.page, WC_SOURCE, 4);
    const uint64_t begin = world_now_ms();
    gd_dispatcher_shutdown(w.d);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    CHECK_LE(world_now_ms() - begin, SOON_MS);
    CHECK_EQ(w.stats.taken, 3);
    CHECK(w.d == NULL);
    world_gate_open(w.page, 1);
    await_end_of_source_thread();
    world_close(&w);
}

TEST(a_source_that_does_not_return_is_abandoned)
{
    source_that_outlives_the_run(false);
}
TEST(a_source_that_does_not_return_and_then_allocates)
{
    source_that_outlives_the_run(true);
}

TEST(abort_while_the_source_blocks)
{
    struct world w;
    world_open(&w, 1);
    w.o.stop_grace_ms = 60000;
    w.source_gate_at = 1;
    w.source_left = true;
    world_add_many(&w, 10, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    world_await(w.page, WC_SOURCE, 2);
    const uint64_t begin = world_now_ms();
    gd_dispatcher_abort(w.d);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    CHECK_LE(world_now_ms() - begin, SOON_MS);
    world_gate_open(w.page, 1);
    await_end_of_source_thread();
    world_close(&w);
}

static void *shut_down_in_a_loop(void *arg)
{
    struct world *w = arg;
    for (unsigned i = 0; i < 1000; i++)
        gd_dispatcher_shutdown(w->d);
    return NULL;
}

/* The last task waits, so the run cannot end before it is shut down. */
TEST(from_many_threads_at_once)
{
    struct world w;
    pthread_t threads[4];
    world_open(&w, 2);
    world_add_many(&w, 100000, (struct world_order){ .what = W_NOTHING });
    world_add(&w, (struct world_order){ .what = W_NOTHING, .gate = 2 });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, shut_down_in_a_loop, &w), 0);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    world_close(&w);
}

/* --- from other callbacks --- */

static int source_that_shuts_down(void *user, struct gd_item *item)
{
    struct world *w = user;
    if (w->next == 20)
        gd_dispatcher_shutdown(w->d);
    item->data = &w->orders[w->next];
    item->size = sizeof *w->orders;
    return w->next++ < w->n_orders;
}

TEST(from_the_source)
{
    struct world w;
    world_open(&w, 2);
    w.o.source = source_that_shuts_down;
    w.o.queue_size = 8;
    world_add_many(&w, 5000, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), GD_E_SHUTDOWN);
    CHECK_LT(w.stats.taken, 5000);
    world_close(&w);
}

TEST(from_on_setup_fail)
{
    struct world w;
    world_open(&w, 2);
    w.on_event = shut_down_on_event;
    w.setup = (struct world_setup){ .what = W_ERROR, .workers = 1 };
    w.source_gate_at = 1;
    w.o.source_cancel = open_source_gate;
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), GD_E_SHUTDOWN);
    CHECK_EQ(world_events(&w, 's'), 1);
    world_close(&w);
}

static void shut_down_at_start(struct world *w, uint64_t task_id, int worker_id)
{
    (void)worker_id;
    if (task_id == 0)
        gd_dispatcher_abort(w->d);
}

TEST(abort_from_on_task_start)
{
    struct world w;
    world_open(&w, 2);
    w.o.on_task_start = world_on_task_start;
    w.on_started = shut_down_at_start;
    world_add(&w, (struct world_order){ .what = W_LOOP });
    world_add_many(&w, 20, (struct world_order){ .what = W_LOOP });
    CHECK_EQ(world_run(&w), GD_E_SHUTDOWN);
    CHECK_EQ(world_failures(&w, GD_FAILURE_CANCELLED), w.stats.taken);
    world_close(&w);
}

WORLD_MAIN()
