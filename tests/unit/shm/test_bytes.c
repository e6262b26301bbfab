/* SPDX-License-Identifier: MIT
 *
 * The memory of results: it is allocated, bound to records, and released in the order of the records.
 */
#include "support/test.h"

#include "base/error.h"
#include "base/fault.h"
#include "shm/bytes.h"

enum { PAGE = 4096, MB = 1024 * 1024 };

static struct gd__bytes *bytes;

static void open_bytes(uint64_t end)
{
    CHECK_EQ(gd__bytes_open(&bytes, PAGE, end), 0);
}

static uint64_t get(uint64_t size)
{
    uint64_t offset = gd__bytes_alloc(bytes, size);
    CHECK(offset != 0);
    CHECK_EQ(offset % 64, 0);
    return offset;
}

TEST(memory_is_free_again_after_the_release)
{
    open_bytes(PAGE + MB);
    uint64_t offset = get(MB);
    gd__bytes_bind(bytes, offset, 5);
    gd__bytes_release(bytes, 5); /* records below 5 do not use this memory */
    CHECK_EQ(gd__bytes_alloc(bytes, MB), 0);
    CHECK_CONTAINS(gd_error_text(), "no room for");
    gd__bytes_release(bytes, 6);
    CHECK_EQ(get(MB), offset);
    gd__bytes_close(&bytes);
}

TEST(dropped_memory_is_free_again_at_once)
{
    open_bytes(PAGE + MB);
    for (int i = 0; i < 100; i++)
        gd__bytes_drop(bytes, get(MB));
    gd__bytes_close(&bytes);
}

TEST(binding_and_dropping_in_any_order)
{
    open_bytes(64 * MB);
    uint64_t block[6];
    for (int i = 0; i < 6; i++)
        block[i] = get(100000);
    int order[6] = { 3, 0, 5, 1, 4, 2 };
    for (int i = 0; i < 6; i++) {
        if (i % 2)
            gd__bytes_drop(bytes, block[order[i]]);
        else
            gd__bytes_bind(bytes, block[order[i]], (uint64_t)i);
    }
    gd__bytes_release(bytes, 100);
    CHECK_EQ(get(63 * MB), PAGE); /* all memory is free */
    gd__bytes_close(&bytes);
}

TEST(memory_that_was_used_is_used_again)
{
    open_bytes((uint64_t)1 << 40);
    uint64_t highest = 0;
    for (uint64_t record = 0; record < 10000; record++) {
        uint64_t offset = get(1 + record * 7919 % 100000);
        highest = offset > highest ? offset : highest;
        gd__bytes_bind(bytes, offset, record);
        gd__bytes_release(bytes, record >= 8 ? record - 8 : 0);
    }
    CHECK_LT(highest, 16 * MB);
    gd__bytes_close(&bytes);
}

TEST(larger_than_the_region_is_an_error)
{
    open_bytes(PAGE + MB);
    CHECK_EQ(gd__bytes_alloc(bytes, 2 * MB), 0);
    CHECK_EQ(gd__bytes_alloc(bytes, UINT64_MAX), 0);
    get(MB);
    gd__bytes_close(&bytes);
}

TEST(a_large_block_fits_beside_small_blocks_in_use)
{
    open_bytes(64 * MB);
    for (uint64_t record = 0; record < 1000; record++)
        gd__bytes_bind(bytes, get(3000), record);
    gd__bytes_release(bytes, 500);
    get(50 * MB);
    gd__bytes_close(&bytes);
}

/* The test's own list of the blocks in use. */
enum { OUT = 4096 };
static struct {
    uint64_t offset, size;
} out[OUT];

TEST(random_use_never_overlaps)
{
    open_bytes(32 * MB);
    srand(3);
    unsigned char *memory = calloc(32, MB);
    uint64_t released = 0;
    for (uint64_t record = 0; record < 100000; record++) {
        while (record - released >= (uint64_t)(1 + rand() % 200)) {
            uint64_t offset = out[released % OUT].offset, size = out[released % OUT].size;
            CHECK_EQ(memory[offset], (unsigned char)released);
            CHECK_EQ(memory[offset + size - 1], (unsigned char)released);
            released++;
        }
        gd__bytes_release(bytes, released);
        uint64_t size = 1 + (uint64_t)rand() % (rand() % 10 ? 2000 : 100000), spare = get(size), offset = get(size);
        memset(memory + spare, 0, size);
        gd__bytes_drop(bytes, spare);
        memset(memory + offset, (unsigned char)record, size);
        gd__bytes_bind(bytes, offset, record);
        out[record % OUT].offset = offset;
        out[record % OUT].size = size;
    }
    free(memory);
    gd__bytes_close(&bytes);
}

TEST(closing_with_blocks_in_use_and_closing_twice_are_allowed)
{
    open_bytes(PAGE + MB);
    gd__bytes_bind(bytes, get(10), 0);
    get(20);
    gd__bytes_close(&bytes);
    gd__bytes_close(&bytes);
}

#ifdef GD_TEST_HOOKS
TEST(any_allocation_may_fail)
{
    int failures = 0;
    for (unsigned long n = 1; n < 30; n++) {
        gd__fault_begin(n);
        if (gd__bytes_open(&bytes, PAGE, 64 * MB) < 0) {
            failures++;
            continue;
        }
        for (uint64_t record = 0; record < 100; record++) {
            uint64_t offset = gd__bytes_alloc(bytes, 100 * (record + 1));
            failures += offset == 0;
            if (offset)
                gd__bytes_bind(bytes, offset, record);
        }
        gd__fault_begin(0);
        gd__bytes_release(bytes, 100);
        get(63 * MB);
        gd__bytes_close(&bytes);
    }
    CHECK_GT(failures, 5);
}
#endif

TEST_MAIN()
