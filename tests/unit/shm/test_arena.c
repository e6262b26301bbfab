/* SPDX-License-Identifier: MIT
 *
 * The arena, checked against a plain list of the allocated blocks. Blocks do not overlap, are inside the arena and are
 * aligned. When all blocks are freed, the whole arena can be allocated as one block again.
 */
#include "support/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/error.h"
#include "base/fault.h"
#include "shm/arena.h"

enum { PAGE = 4096, KB = 1024, MB = 1024 * 1024 };

static struct gd__arena *arena;

static void open_arena(uint64_t size)
{
    CHECK_EQ(gd__arena_open(&arena, PAGE, size, 4096), 0);
}

static uint64_t get(uint64_t size)
{
    uint64_t offset = gd__arena_alloc(arena, size);
    CHECK(offset != 0);
    return offset;
}

TEST(blocks_are_aligned_and_inside)
{
    open_arena(64 * MB);
    uint64_t sizes[] = { 1, 63, 64, 65, 500, 513, 3000, 4095, 4096, 4097, 10000, 32768, 32769, 100000, MB };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t offset = get(sizes[i]);
        CHECK_EQ(offset % (sizes[i] >= PAGE ? PAGE : 64), 0);
        CHECK_GE(offset, PAGE);
        CHECK_LE(offset + sizes[i], 64 * MB);
    }
}

TEST(freed_memory_is_used_again)
{
    open_arena(64 * MB);
    uint64_t sizes[] = { 1, 64, 100, 4000, 20000, 32768, 50000, 10 * MB };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t offset = get(sizes[i]);
        for (int k = 0; k < 100; k++) {
            gd__arena_free(arena, offset, sizes[i]);
            CHECK_EQ(get(sizes[i]), offset);
        }
    }
}

TEST(low_addresses_are_used_first)
{
    open_arena(64 * MB);
    uint64_t a = get(MB), b = get(MB), c = get(MB);
    CHECK(a < b && b < c);
    gd__arena_free(arena, a, MB);
    gd__arena_free(arena, c, MB);
    CHECK_EQ(get(MB), a);
}

TEST(free_neighbours_are_joined_in_any_order)
{
    int orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
    for (int i = 0; i < 6; i++) {
        open_arena(PAGE + 3 * MB);
        uint64_t block[3] = { get(MB), get(MB), get(MB) };
        CHECK_EQ(gd__arena_alloc(arena, PAGE), 0);
        for (int k = 0; k < 3; k++)
            gd__arena_free(arena, block[orders[i][k]], MB);
        CHECK_EQ(get(3 * MB), PAGE);
        gd__arena_close(&arena);
    }
}

TEST(used_counts_the_allocated_bytes)
{
    open_arena(64 * MB);
    CHECK_EQ(gd__arena_used(arena), 0);
    uint64_t a = get(65), b = get(100001);
    CHECK_EQ(gd__arena_used(arena), 128 + 25 * PAGE);
    gd__arena_free(arena, a, 65);
    gd__arena_free(arena, b, 100001);
    CHECK_EQ(gd__arena_used(arena), 0);
}

TEST(too_large_and_too_full_are_different_errors)
{
    open_arena(8 * MB);
    CHECK_EQ(gd__arena_alloc(arena, 8 * MB), 0); /* one page is not available for blocks */
    CHECK_CONTAINS(gd_error_text(), "in an arena of");
    get(6 * MB);
    CHECK_EQ(gd__arena_alloc(arena, 6 * MB), 0);
    CHECK_CONTAINS(gd_error_text(), "no room for");
    CHECK_EQ(gd__arena_alloc(arena, 0), 0);
    CHECK_EQ(gd__arena_alloc(arena, UINT64_MAX), 0);
    CHECK_EQ(gd__arena_alloc(arena, UINT64_MAX - PAGE), 0);
}

TEST(the_whole_arena_can_be_allocated)
{
    open_arena(4 * MB + PAGE);
    uint64_t offset = get(4 * MB);
    CHECK_EQ(offset, PAGE);
    CHECK_EQ(gd__arena_alloc(arena, 1), 0);
    gd__arena_free(arena, offset, 4 * MB);
    get(1);
}

TEST(an_arena_too_small_for_slabs_still_allocates_small_blocks)
{
    open_arena(9 * PAGE);
    for (int i = 0; i < 8; i++)
        get(100);
    CHECK_EQ(gd__arena_alloc(arena, 100), 0);
}

/* There are a thousand free ranges longer than a slab. None of them contains 128 KiB that begin at a multiple of 128
 * KiB, as a slab needs. */
TEST(a_slab_is_found_without_a_search_through_all_free_ranges)
{
    enum { RUNS = 1000, LONG = 192 * KB, SHORT = 64 * KB };
    static uint64_t runs[RUNS];
    open_arena(512 * MB);
    for (int i = 0; i < RUNS; i++) {
        runs[i] = get(LONG);
        get(SHORT); /* separates the free ranges */
    }
    for (int i = 0; i < RUNS; i++)
        gd__arena_free(arena, runs[i], LONG);
    const uint64_t before = gd__arena_visited(arena);
    CHECK_GT(get(64), runs[RUNS - 1]);
    CHECK_LT(gd__arena_visited(arena) - before, 100);
    CHECK_EQ(get(LONG), runs[0]);
}

TEST(empty_slabs_do_not_prevent_a_large_block)
{
    open_arena(PAGE + 4 * MB);
    for (uint64_t size = 64; size <= 32 * KB; size += 640)
        gd__arena_free(arena, get(size), size); /* leaves one empty slab in each class */
    CHECK_EQ(get(4 * MB), PAGE);
}

TEST(an_arena_needs_a_page)
{
    CHECK_EQ(gd__arena_open(&arena, PAGE, PAGE, 1), GD_E_INVALID);
    CHECK_EQ(gd__arena_open(&arena, PAGE, 2 * PAGE - 1, 1), GD_E_INVALID);
    CHECK(arena == NULL);
    CHECK_EQ(gd__arena_open(&arena, 0, 2 * PAGE, 1), 0);
    CHECK_EQ(get(1), PAGE); /* offset 0 means failure, so no block begins there */
    gd__arena_close(&arena);
    gd__arena_close(&arena);
}

/* ---- random use, compared with a model ---- */

enum { BLOCKS = 1000 };
static struct {
    uint64_t offset, size;
} out[BLOCKS];
static unsigned char *owner; /* for each 64 bytes: 1 if a block uses them */

static void mark(uint64_t offset, uint64_t size, unsigned char from, unsigned char to)
{
    for (uint64_t line = offset / 64; line <= (offset + size - 1) / 64; line++) {
        CHECK_EQ(owner[line], from);
        owner[line] = to;
    }
}

static uint64_t random_size(void)
{
    uint64_t limits[] = { 64, 600, 5000, 40000, 300000 };
    return 1 + (uint64_t)rand() % limits[rand() % 5];
}

static void random_step(uint64_t end)
{
    int i = rand() % BLOCKS;
    if (out[i].offset) {
        mark(out[i].offset, out[i].size, 1, 0);
        gd__arena_free(arena, out[i].offset, out[i].size);
        out[i].offset = 0;
        return;
    }
    out[i].size = random_size();
    out[i].offset = gd__arena_alloc(arena, out[i].size);
    if (!out[i].offset)
        return;
    CHECK(out[i].offset >= PAGE && out[i].offset + out[i].size <= end);
    mark(out[i].offset, out[i].size, 0, 1);
}

static void random_use(unsigned seed, uint64_t end, int steps)
{
    srand(seed);
    owner = calloc(end / 64 + 1, 1);
    open_arena(end);
    for (int step = 0; step < steps; step++)
        random_step(end);
    for (int i = 0; i < BLOCKS; i++) {
        if (out[i].offset)
            gd__arena_free(arena, out[i].offset, out[i].size);
        out[i].offset = 0;
    }
    CHECK_EQ(gd__arena_used(arena), 0);
    CHECK_EQ(get(end - PAGE), PAGE);
    gd__arena_close(&arena);
    free(owner);
}

TEST(random_use_with_room)
{
    for (unsigned seed = 1; seed <= 5; seed++)
        random_use(seed, 256 * MB, 50000);
}

TEST(random_use_when_nearly_full)
{
    for (unsigned seed = 1; seed <= 10; seed++)
        random_use(seed, 10 * MB, 50000);
}

/* ---- blocks freed by another thread ---- */

enum { PASSED = 200000, RING = 1024 };
static struct {
    uint64_t offset, size;
} passed[RING];
static _Atomic uint64_t passed_tail, passed_head;

static void *free_them(void *arg)
{
    (void)arg;
    for (uint64_t i = 0; i < PASSED; i++) {
        while (atomic_load_explicit(&passed_tail, memory_order_acquire) == i)
            sched_yield();
        gd__arena_free_later(arena, passed[i % RING].offset, passed[i % RING].size);
        atomic_store_explicit(&passed_head, i + 1, memory_order_release);
    }
    return NULL;
}

TEST(another_thread_may_free)
{
    pthread_t thread;
    CHECK_EQ(gd__arena_open(&arena, PAGE, 64 * MB, RING), 0);
    CHECK_EQ(pthread_create(&thread, NULL, free_them, NULL), 0);
    for (uint64_t i = 0; i < PASSED; i++) {
        while (i - atomic_load_explicit(&passed_head, memory_order_acquire) >= RING)
            sched_yield();
        uint64_t size = 1 + i % 50 * 997;
        passed[i % RING].offset = get(size);
        passed[i % RING].size = size;
        atomic_store_explicit(&passed_tail, i + 1, memory_order_release);
    }
    pthread_join(thread, NULL);
    get(1); /* also processes the blocks that the thread freed */
    CHECK_EQ(gd__arena_used(arena), 64);
    gd__arena_close(&arena);
}

#ifdef GD_TEST_HOOKS
TEST(any_allocation_may_fail)
{
    for (unsigned long n = 1; n < 40; n++) {
        gd__fault_begin(n);
        if (gd__arena_open(&arena, PAGE, 64 * MB, 16) < 0)
            continue;
        uint64_t got[60] = { 0 };
        for (uint64_t i = 0; i < 60; i++)
            got[i] = gd__arena_alloc(arena, 1 + i * 1000);
        for (uint64_t i = 0; i < 60; i++) {
            if (got[i])
                gd__arena_free(arena, got[i], 1 + i * 1000);
        }
        CHECK_EQ(gd__arena_used(arena), 0);
        gd__fault_begin(0);
        CHECK_EQ(get(64 * MB - PAGE), PAGE);
        gd__arena_close(&arena);
    }
}
#endif

TEST_MAIN()
