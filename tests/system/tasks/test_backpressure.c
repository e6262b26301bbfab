/* Backpressure: the source is at most queue_size tasks and queue_bytes bytes ahead of the run, and the use of memory
 * does not grow. */
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "binding.h"
#include "support/test.h"
#include "support/world.h"

static void held_back(bool in_setup, unsigned workers, size_t queue)
{
    struct world w;
    const uint32_t running = in_setup ? 0 : workers;
    world_open(&w, workers);
    w.o.queue_size = queue;
    if (in_setup)
        w.setup = (struct world_setup){ .gate = 2 };
    world_add_many(&w, 2000, (struct world_order){ .what = W_ECHO, .gate = in_setup ? 0 : 2 });
    world_launch(&w);
    world_await(w.page, in_setup ? WC_SETUPS : WC_ENTERED, workers);
    world_await(w.page, WC_SOURCE, (uint32_t)queue);
    struct gd_stats s = { .size = sizeof s };
    do {
        gd_dispatcher_stats(w.d, &s);
        sched_yield();
    } while (s.taken < queue || s.running < running);
    CHECK_LE(s.pending, queue);
    CHECK_EQ(s.running, running);
    CHECK_LE(world_count(w.page, WC_SOURCE), queue + running); /* the source is not even called */
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 2000);
    world_close(&w);
}

TEST(while_workers_are_in_setup)
{
    held_back(true, 2, 100);
}
TEST(while_workers_are_in_tasks)
{
    held_back(false, 2, 100);
}
TEST(with_a_queue_of_one)
{
    held_back(false, 3, 1);
}

/* The source below counts, at every call, the tasks that it has given and that are not final. There must be at most
 * queue_size such tasks, plus the running ones. */
static _Atomic uint64_t finals_seen;
static uint64_t most_ahead;

static int counting_source(void *user, struct gd_item *item)
{
    struct world *w = user;
    const uint64_t ahead = w->next - atomic_load(&finals_seen);
    most_ahead = ahead > most_ahead ? ahead : most_ahead;
    if (w->next == w->n_orders)
        return 0;
    item->data = &w->orders[w->next];
    item->size = sizeof *w->orders;
    w->next++;
    return 1;
}

static void count_final(struct world *w, const struct gd_report *r)
{
    (void)w, (void)r;
    atomic_fetch_add(&finals_seen, 1);
}

TEST(the_limit_holds_at_every_call_of_the_source)
{
    struct world w;
    world_open(&w, 3);
    w.o.queue_size = 32;
    w.o.source = counting_source;
    w.on_final = count_final;
    world_add_many(&w, 20000, (struct world_order){ .what = W_NOTHING });
    CHECK_EQ(world_run(&w), 0);
    CHECK_LE(most_ahead, 32 + 3);
    world_close(&w);
}

TEST(the_byte_limit)
{
    struct world w;
    world_open(&w, 1);
    w.o.queue_bytes = 100000;
    w.o.window = 1;
    for (unsigned i = 0; i < 100; i++)
        world_add_sized(&w, (struct world_order){ .what = W_ECHO, .gate = 2 }, 30000);
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    struct gd_stats s = { .size = sizeof s };
    do {
        gd_dispatcher_stats(w.d, &s);
        sched_yield();
    } while (s.taken < 3);
    CHECK_EQ(s.taken, 3); /* three payloads of 30,000 bytes fit, four do not */
    CHECK_LE(world_count(w.page, WC_SOURCE), 4);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 100);
    world_close(&w);
}

/* --- a run on hold --- */

static void hold_at_the_first(struct world *w, const struct gd_report *r)
{
    (void)r;
    if (w->n_finals == 1)
        gd__dispatcher_hold(w->d, true);
}

/* Waits until the queue is full and no task runs. Tasks that were handed out before the hold finish normally. */
static uint64_t await_standstill(struct world *w)
{
    struct gd_stats s = { .size = sizeof s };
    do {
        gd_dispatcher_stats(w->d, &s);
        sched_yield();
    } while (s.completed == 0 || s.running > 0 || s.pending < w->o.queue_size);
    return s.completed;
}

static void open_held(struct world *w)
{
    world_open(w, 1);
    w->o.queue_size = 50;
    w->o.window = 1;
    w->on_final = hold_at_the_first;
    world_add_many(w, 1000, (struct world_order){ .what = W_ECHO });
    world_launch(w);
    CHECK_LE(await_standstill(w), 3);
}

TEST(a_run_on_hold_hands_out_no_task)
{
    struct world w;
    open_held(&w);
    gd__dispatcher_hold(w.d, false);
    CHECK_EQ(world_join(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 1000);
    world_close(&w);
}

TEST(a_run_on_hold_can_be_shut_down)
{
    struct world w;
    open_held(&w);
    gd_dispatcher_shutdown(w.d);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    CHECK_LE(world_callbacks(&w, 'S'), 3);
    world_close(&w);
}

TEST(shutdown_while_the_source_waits_for_bytes)
{
    struct world w;
    world_open(&w, 1);
    w.o.queue_bytes = 100000;
    w.in_place = true;
    for (unsigned i = 0; i < 100; i++)
        world_add_sized(&w, (struct world_order){ .what = W_ECHO, .gate = 2 }, 30000);
    world_launch(&w);
    world_await(w.page, WC_ENTERED, 1);
    world_await(w.page, WC_SOURCE, 4);
    gd_dispatcher_shutdown(w.d);
    world_gate_open(w.page, 2);
    CHECK_EQ(world_join(&w), GD_E_SHUTDOWN);
    world_close(&w);
}

/* --- a million items --- */

static uint64_t resident_kb(void)
{
    unsigned long long kb = 0;
    char line[256];
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %llu", &kb) == 1)
            break;
    if (f)
        fclose(f);
    return kb;
}

struct flow {
    uint64_t given, done, total, rss_early, rss_late;
    unsigned char bytes[200];
};

static int flow_source(void *user, struct gd_item *item)
{
    struct flow *f = user;
    if (f->given == f->total)
        return 0;
    f->given++;
    item->data = f->bytes;
    item->size = sizeof f->bytes;
    return 1;
}

static void flow_done(void *user, const struct gd_report *r)
{
    struct flow *f = user;
    (void)r;
    f->done++;
    if (f->done == f->total / 10)
        f->rss_early = resident_kb();
    if (f->done == f->total)
        f->rss_late = resident_kb();
}

TEST_WITHIN(120, a_million_items_in_constant_memory)
{
    struct world w;
    struct flow f = { .total = 1000000 / (TEST_SLOWDOWN * TEST_SLOWDOWN) };
    const struct world_order order = { .what = W_BYTES, .n = 100 };
    world_open(&w, 2);
    memcpy(f.bytes, &order, sizeof order);
    extern void world__pattern_fill(unsigned char *bytes, size_t from, size_t to, uint64_t tag);
    world__pattern_fill(f.bytes, sizeof order, sizeof f.bytes, order.tag);
    w.o.user = &f;
    w.o.source = flow_source;
    w.o.on_success = flow_done;
    w.o.on_error = w.o.on_timeout = NULL;
    w.o.on_setup_fail = w.o.on_cleanup_fail = NULL;
    w.o.on_worker_exit = NULL;
    w.o.on_exit = NULL;
    CHECK_EQ(gd_run(&w.o), 0);
    CHECK_EQ(f.done, f.total);
    CHECK_LE(f.rss_late, f.rss_early + 4096);
    if (TEST_SLOWDOWN == 1)
        CHECK_LE(f.rss_late, 64 * 1024);
    world_close(&w);
}

static long peak_mib(void)
{
    struct rusage u;
    CHECK_EQ(getrusage(RUSAGE_SELF, &u), 0);
    return u.ru_maxrss / 1024;
}

TEST(an_unused_large_queue_uses_no_memory)
{
    struct world w;
    if (TEST_SLOWDOWN > 1)
        SKIP("a sanitizer uses memory for every allocation");
    if (getenv("MALLOC_PERTURB_")) { /* with this setting the C library writes to all memory that it allocates */
        unsetenv("MALLOC_PERTURB_");
        execl("/proc/self/exe", "again", "an_unused_large_queue_uses_no_memory", (char *)NULL);
    }
    world_open(&w, 2);
    w.o.queue_size = 10 * 1000 * 1000; /* about 100 bytes per task */
    world_add_many(&w, 100, (struct world_order){ .what = W_ECHO });
    const long before = peak_mib();
    CHECK_EQ(world_run(&w), 0);
    CHECK_LT(peak_mib() - before, 50);
    CHECK_EQ(world_callbacks(&w, 'S'), 100);
    world_close(&w);
}

WORLD_MAIN()
