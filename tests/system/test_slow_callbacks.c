/* A callback may take longer than any time limit: that is no worker's fault, and changes no report. */
#include <time.h>

#include "support/test.h"
#include "support/world.h"

enum { SLOWER = TEST_SLOWDOWN > 1 ? 2 : 1, LONG_MS = 600 * SLOWER, LIMIT_MS = 300 * SLOWER };

/* The user's own slowness: what these tests are about. */
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
    if (r->task_id % 2)
        return;
    world_gate_open(w->page, 1);
    take_ms(LONG_MS);
}

/* What came in meanwhile is handed out afterwards, and has its whole time then. */
TEST(a_task_is_not_late_from_the_beginning)
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

TEST(nor_is_one_that_was_loaded_meanwhile)
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

static int as_numbered(void *user, uint64_t task_id, uint64_t weight, unsigned n_workers)
{
    (void)user, (void)weight;
    return (int)(task_id % n_workers);
}

static void let_the_other_end(struct world *w, const struct gd_report *r)
{
    uint64_t *opened_at = w->mine;
    if (r->task_id != 0)
        return;
    take_ms(LONG_MS);
    *opened_at = now_ns();
    world_gate_open(w->page, 2);
    take_ms(LONG_MS);
}

TEST(times_are_those_of_the_worker)
{
    struct world w;
    uint64_t opened_at = 0;
    world_open(&w, 2);
    w.o.placement = GD_PLACE_CUSTOM;
    w.o.place = as_numbered;
    w.on_final = let_the_other_end;
    w.mine = &opened_at;
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 3 });
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 2);
    world_gate_open(w.page, 3);
    CHECK_EQ(world_join(&w), 0);
    CHECK_GE(w.finals[1].end_ns, opened_at); /* it ended in the middle of the callback */
    CHECK_LE(w.finals[1].end_ns, opened_at + LONG_MS * UINT64_C(1000000));
    CHECK_LT(w.finals[1].start_ns, opened_at);
    world_close(&w);
}

WORLD_MAIN()
