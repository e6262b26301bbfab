/* A callback may take longer than any time limit. The library does not count this time against a worker, and no report
 * changes. */
#include <sched.h>
#include <time.h>

#include "support/test.h"
#include "support/world.h"

enum { LIMIT_MS = WORLD_PATIENCE_MS, LONG_MS = LIMIT_MS + 500 };

/* Sleeps, as a slow callback of the user. This delay is what the cases test. */
static void take_ms(int ms)
{
    struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };
    while (nanosleep(&t, &t) < 0)
        ;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void be_slow_while_tasks_come(struct world *w, const struct gd_report *r)
{
    if (r->task_id != 0 && r->task_id != 2) /* task 0: no other task is handed out; task 2: the next tasks are */
        return;
    world_gate_open(w->page, 1);
    take_ms(LONG_MS);
}

/* Tasks that arrive during a callback are handed out after it. They then have their whole time limit. */
TEST(a_task_that_arrives_during_a_callback_has_its_whole_time_limit)
{
    struct world w;
    world_open(&w, 1);
    w.o.task_timeout_ms = LIMIT_MS;
    w.source_gate_at = 1;
    w.on_final = be_slow_while_tasks_come;
    world_add_many(&w, 6, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 6);
    CHECK_EQ(world_callbacks(&w, 'T'), 0);
    CHECK_EQ(w.stats.crashes, 0);
    world_close(&w);
}

TEST(a_task_loaded_during_a_callback_has_its_whole_time_limit)
{
    struct world w;
    world_ops("l");
    world_open(&w, 2);
    w.o.task_timeout_ms = LIMIT_MS;
    w.source_gate_at = 1;
    w.on_final = be_slow_while_tasks_come;
    world_add_many(&w, 6, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 6);
    CHECK_EQ(w.stats.crashes, 0);
    world_close(&w);
}

static int first_alone(void *user, uint64_t task_id, uint64_t weight, unsigned n_workers)
{
    (void)user, (void)weight, (void)n_workers;
    return task_id > 0;
}

struct span {
    uint64_t opened_at, ended_by;
};

/* Waits until the other worker has begun its second task, which means that its first task has ended. */
static void let_the_other_end(struct world *w, const struct gd_report *r)
{
    struct span *span = w->mine;
    if (r->task_id != 0)
        return;
    span->opened_at = now_ns();
    world_gate_open(w->page, 2);
    world_await(w->page, WC_ENTERED, 3);
    span->ended_by = now_ns();
}

static void await_handed(struct world *w, unsigned i, uint64_t n)
{
    struct gd_worker_stats s[2] = { { 0 } };
    do {
        gd_dispatcher_worker_stats(w->d, s, sizeof *s, 2);
        sched_yield();
    } while (s[i].handed < n);
}

TEST(the_times_in_a_report_are_measured_by_the_worker)
{
    struct world w;
    struct span span = { 0, 0 };
    world_open(&w, 2);
    w.o.placement = GD_PLACE_CUSTOM;
    w.o.place = first_alone;
    w.on_final = let_the_other_end;
    w.mine = &span;
    w.o.window = 2;
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 3 });
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_add(&w, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 2);
    await_handed(&w, 1, 2); /* both tasks must be handed out before the callback */
    world_gate_open(w.page, 3);
    CHECK_EQ(world_join(&w), 0);
    CHECK_GE(w.finals[1].end_ns, span.opened_at); /* the task ended during the callback */
    CHECK_LE(w.finals[1].end_ns, span.ended_by);
    CHECK_LT(w.finals[1].start_ns, span.opened_at);
    world_close(&w);
}

WORLD_MAIN()
