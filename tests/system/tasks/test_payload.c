/* Payloads and results of every size. They are complete and belong to their task. */
#include "support/test.h"
#include "support/world.h"

static const size_t sizes[] = {
    0,
    1,
    7,
    8,
    23,
    24,
    25,
    26,
    31,
    32,
    33,
    48,
    63,
    64,
    65,
    127,
    128,
    129,
    1000,
    4095,
    4096,
    4097,
    8191,
    8192,
    32767,
    32768,
    32769,
    65535,
    65536,
    65537,
    (1 << 20) - 1,
    1 << 20,
    (1 << 20) + 1,
    (4 << 20) + 3,
};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static void all_sizes_in(bool in_place)
{
    struct world w;
    world_open(&w, 2);
    w.in_place = in_place;
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < N_SIZES; i++)
            world_add_sized(&w, (struct world_order){ .what = W_ECHO }, sizes[i]);
    CHECK_EQ(world_run(&w), 0); /* the worker and the recorder check every byte */
    CHECK_EQ(world_callbacks(&w, 'S'), 3 * N_SIZES);
    for (size_t i = 0; i < w.n_orders; i++) {
        CHECK_EQ(w.finals[i].answer.input_size, sizes[i % N_SIZES]);
        CHECK(w.finals[i].answer.arena);
    }
    world_close(&w);
}

TEST(payload_sizes)
{
    all_sizes_in(false);
}
TEST(payload_sizes_written_in_place)
{
    all_sizes_in(true);
}

static void all_sizes_out(enum world_what what)
{
    struct world w;
    world_open(&w, 2);
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < N_SIZES; i++)
            world_add(&w, (struct world_order){ .what = (uint16_t)what, .n = sizes[i] });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 3 * N_SIZES);
    world_close(&w);
}

TEST(result_sizes)
{
    all_sizes_out(W_BYTES);
}
TEST(result_sizes_made_shorter)
{
    all_sizes_out(W_IN_PLACE);
}

TEST(result_sizes_in_batches)
{
    struct world w;
    world_open(&w, 2);
    world_ops("bl");
    w.o.batch_size = 6;
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < N_SIZES; i++)
            world_add_sized(&w, (struct world_order){ .what = W_BYTES, .n = sizes[N_SIZES - 1 - i] },
                            sizes[i] < 24 ? 24 : sizes[i]);
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 3 * N_SIZES);
    world_close(&w);
}

TEST(sixty_four_megabytes_each_way)
{
    struct world w;
    world_open(&w, 1);
    for (unsigned i = 0; i < 3; i++)
        world_add_sized(&w, (struct world_order){ .what = W_BYTES, .n = 64u << 20 }, 64u << 20);
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 3);
    world_close(&w);
}

static uint64_t available_mb(void)
{
    unsigned long long kb = 0;
    char line[256];
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu", &kb) == 1)
            break;
    if (f)
        fclose(f);
    return kb / 1024;
}

/* Returns the memory that this process may use, in MB. A container may have a limit below the memory of the machine. */
static uint64_t allowed_mb(void)
{
    static const char *const paths[] = { "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes" };
    unsigned long long bytes = 0, least = UINT64_MAX;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        FILE *f = fopen(paths[i], "re");
        if (f && fscanf(f, "%llu", &bytes) == 1 && bytes < least) /* NOLINT(cert-err34-c) */
            least = bytes;
        if (f)
            fclose(f);
    }
    return least >> 20;
}

TEST_WITHIN(120, one_gigabyte_each_way)
{
    if (available_mb() < 6000 || allowed_mb() < 6000)
        SKIP("less than 6 GB of memory");
    struct world w;
    world_open(&w, 1);
    w.in_place = true;
    world_add_sized(&w, (struct world_order){ .what = W_BYTES, .n = (uint64_t)1 << 30 }, (size_t)1 << 30);
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 1);
    world_close(&w);
}

TEST(a_payload_larger_than_queue_bytes_is_taken_alone)
{
    struct world w;
    world_open(&w, 2);
    w.o.queue_bytes = 10000;
    for (unsigned i = 0; i < 30; i++)
        world_add_sized(&w, (struct world_order){ .what = W_ECHO }, i % 3 == 0 ? 200000 : 3000);
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 30);
    world_close(&w);
}

TEST(payloads_larger_than_arena_bytes_in_total)
{
    struct world w;
    world_open(&w, 2);
    w.o.arena_bytes = 1 << 20;
    for (unsigned i = 0; i < 40; i++)
        world_add_sized(&w, (struct world_order){ .what = W_ECHO }, 300000);
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 40);
    world_close(&w);
}

/* A source that allocates more than it gives, and sometimes allocates twice for one item. */

static int fickle_source(void *user, struct gd_item *item)
{
    struct world *w = user;
    unsigned *given = w->mine;
    if (*given == w->n_orders)
        return 0;
    const size_t i = (*given)++, size = w->sizes[i];
    if (i % 3 == 0 && !gd_item_alloc(item, 5000)) /* the next allocation replaces this one */
        return 0;
    unsigned char *to = gd_item_alloc(item, size + 1000);
    if (!to)
        return 0;
    memset(to, 0xee, size + 1000);
    memcpy(to, &w->orders[i], sizeof *w->orders);
    item->size = sizeof *w->orders; /* a size that fits in a slot of the ring */
    w->sizes[i] = item->size;
    return 1;
}

TEST(an_item_may_be_made_shorter)
{
    struct world w;
    unsigned given = 0;
    world_open(&w, 1);
    w.mine = &given;
    w.o.source = fickle_source;
    w.o.queue_bytes = 20000;
    for (unsigned i = 0; i < 100; i++)
        world_add_sized(&w, (struct world_order){ .what = W_ECHO }, 4000);
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 100);
    world_close(&w);
}

TEST(a_large_payload_survives_crashes)
{
    struct world w;
    world_open(&w, 2);
    for (unsigned i = 0; i < 20; i++)
        world_add_sized(&w, (struct world_order){ .what = i % 4 == 0 ? W_SEGV : W_ECHO, .tries = 1 }, 100000 + i);
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 20);
    world_close(&w);
}

TEST(large_results_of_a_worker_that_dies_later_are_complete)
{
    struct world w;
    world_open(&w, 2);
    w.o.crash_limit = 1;
    w.o.restart_delay_ms = 0;
    for (unsigned i = 0; i < 60; i++)
        world_add(&w, (struct world_order){ .what = i % 10 == 9 ? W_KILL : W_BYTES, .n = 200000 + i });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 54);
    world_close(&w);
}

TEST(a_result_that_is_too_large_is_an_error)
{
    struct world w;
    world_open(&w, 1);
    world_add(&w, (struct world_order){ .what = W_BYTES, .n = UINT64_C(1) << 40 });
    world_add(&w, (struct world_order){ .what = W_BYTES, .n = UINT64_MAX - 100 });
    world_add(&w, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(w.finals[0].failure, GD_FAILURE_ERROR);
    CHECK_CONTAINS(w.finals[0].error, "no room");
    CHECK_EQ(w.finals[1].failure, GD_FAILURE_ERROR);
    CHECK_EQ(w.finals[2].callback, 'S');
    CHECK_EQ(w.stats.crashes, 0);
    world_close(&w);
}

static uint64_t most_shared_kb;

static void note_shared_memory(struct world *w, const struct gd_report *r)
{
    (void)w, (void)r;
    unsigned long long kb = 0;
    char line[256];
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "RssShmem: %llu", &kb) == 1)
            break;
    if (f)
        fclose(f);
    most_shared_kb = kb > most_shared_kb ? kb : most_shared_kb;
}

TEST(the_memory_of_payloads_and_results_is_used_again)
{
    struct world w;
    world_open(&w, 1);
    w.o.queue_size = 8;
    w.on_final = note_shared_memory;
    for (unsigned i = 0; i < 300; i++)
        world_add_sized(&w, (struct world_order){ .what = W_BYTES, .n = 1 << 20 }, 1 << 20);
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 300);
    CHECK_LE(most_shared_kb, 150 * 1024); /* although payloads and results have 600 MB in total */
    world_close(&w);
}

WORLD_MAIN()
