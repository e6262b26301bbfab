/* Ordered delivery: callbacks come in source order, whatever happens to the workers, and the buffer for waiting results
 * is limited. */
#include "support/test.h"
#include "support/world.h"

static void check_order(const struct world *w)
{
    for (size_t i = 0; i < w->stats.taken; i++)
        CHECK_EQ(w->finals[i].order, i);
}

TEST(in_source_order_on_several_workers)
{
    struct world w;
    world_open(&w, 4);
    w.o.ordered = true;
    for (unsigned i = 0; i < 3000; i++)
        world_add(&w, (struct world_order){ .what = i % 3 == 0 ? W_BYTES : W_ECHO, .n = i % 1000 });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 3000);
    check_order(&w);
    world_close(&w);
}

/* The first task blocks until all others are done. The results of the others wait, and are then delivered in order. */
TEST(results_wait_for_their_turn)
{
    struct world w;
    world_open(&w, 2);
    w.o.ordered = true;
    w.o.window = 1;
    w.o.queue_size = 100;
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 2 });
    for (unsigned i = 1; i < 60; i++)
        world_add(&w, (struct world_order){ .what = W_BYTES, .n = i * 777 }); /* the recorder checks every byte */
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 60);
    CHECK_EQ(w.n_finals, 0);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    check_order(&w);
    world_close(&w);
}

TEST(without_ordered_results_come_when_they_are_ready)
{
    struct world w;
    world_open(&w, 2);
    w.o.window = 1;
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    world_await_stat(&w, completed, 20);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(w.finals[0].order, 20);
    world_close(&w);
}

TEST(with_retries)
{
    struct world w;
    world_open(&w, 3);
    w.o.ordered = true;
    w.o.retries = 2;
    w.o.retry_delay_ms = 5;
    for (unsigned i = 0; i < 300; i++)
        world_add(&w, (struct world_order){ .what = i % 10 == 4 ? W_ERROR : W_ECHO, .tries = (uint16_t)(i % 4) });
    CHECK_EQ(world_run(&w), 0);
    check_order(&w);
    world_close(&w);
}

static gd_source_fn *next_item;

/* Only tasks that wait at a gate have a time limit. So no other task exceeds it, however busy the machine is. */
static int next_with_limit(void *user, struct gd_item *item)
{
    const struct world *w = user;
    const size_t i = w->next;
    const int some = next_item(user, item);
    if (some == 1 && w->orders[i].gate > 0)
        item->timeout_ms = 100;
    return some;
}

TEST(with_crashes_and_timeouts)
{
    struct world w;
    world_open(&w, 3);
    w.o.ordered = true;
    w.o.restart_delay_ms = 0;
    w.o.cancel_grace_ms = 30;
    next_item = w.o.source;
    w.o.source = next_with_limit;
    for (unsigned i = 0; i < 200; i++)
        world_add(&w, (struct world_order){ .what = i % 50 == 9    ? W_KILL
                                                    : i % 20 == 11 ? W_SEGV
                                                                   : W_ECHO,
                                            .tries = i % 20 == 11,
                                            .gate = i % 100 == 30 ? 2 : 0 }); /* never opened */
    CHECK_EQ(world_run(&w), 0);
    check_order(&w);
    CHECK_EQ(world_callbacks(&w, 'T'), 2);
    CHECK_EQ(world_failures(&w, GD_FAILURE_CRASH), 4);
    world_close(&w);
}

TEST(in_batches)
{
    struct world w;
    world_open(&w, 3);
    world_ops("bl");
    w.o.ordered = true;
    w.o.batch_size = 8;
    world_add_many(&w, 1000, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    check_order(&w);
    world_close(&w);
}

/* While the first task blocks, the run takes at most queue_size tasks plus the running ones. So the buffer is
 * limited. */
TEST(the_buffer_is_limited)
{
    struct world w;
    enum { QUEUE = 20, WORKERS = 2 };
    world_open(&w, WORKERS);
    w.o.ordered = true;
    w.o.window = 1;
    w.o.queue_size = QUEUE;
    world_add(&w, (struct world_order){ .what = W_ECHO, .gate = 2 });
    world_add_many(&w, 500, (struct world_order){ .what = W_ECHO });
    world_launch(&w);
    world_await(w.page, WC_SOURCE, QUEUE);
    struct gd_stats s = { .size = sizeof s };
    do { /* wait until the other worker has done all allowed tasks and only the first task runs */
        gd_dispatcher_stats(w.d, &s);
        sched_yield();
    } while (world_count(w.page, WC_ENTERED) < QUEUE || s.running != 1);
    CHECK_LE(world_count(w.page, WC_SOURCE), QUEUE + WORKERS + 1);
    CHECK_EQ(s.completed, 0);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    check_order(&w);
    CHECK_EQ(world_callbacks(&w, 'S'), 501);
    world_close(&w);
}

TEST(queue_of_one)
{
    struct world w;
    world_open(&w, 3);
    w.o.ordered = true;
    w.o.queue_size = 1;
    world_add_many(&w, 200, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    check_order(&w);
    world_close(&w);
}

WORLD_MAIN()
