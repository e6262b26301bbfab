/* SPDX-License-Identifier: MIT
 *
 * Huge pages on demand. Neighbouring blocks keep their content. The kernel is asked for an extent only once. A kernel
 * without huge pages causes no problem.
 */
#include "shm/extents.h"

#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fault.h"
#include "shm/layout.h"
#include "support/test.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { PAGE = 4096, EXTENT = 2 << 20, SIZE = 16 * EXTENT };

static struct gd__region region = GD__REGION_NONE;
static struct gd__extents extents;

static unsigned char *at(uint64_t offset)
{
    return (unsigned char *)region.base + offset;
}

static void open_all(size_t size)
{
    CHECK_EQ(gd__region_create(&region, "test", size, size, GD__REGION_WE_WRITE), 0);
    gd__extents_open(&extents, &region);
    extents.slow_ns = UINT32_MAX; /* so that a slow machine does not turn the feature off */
}

static void close_all(void)
{
    gd__extents_close(&extents);
    gd__region_close(&region);
}

/* Returns true if this kernel makes huge pages of shared memory on request. */
static bool kernel_can(void)
{
    struct gd__region r;
    CHECK_EQ(gd__region_create(&r, "probe", EXTENT, EXTENT, GD__REGION_WE_WRITE), 0);
    *(char *)r.base = 1;
    const bool can = madvise(r.base, EXTENT, MADV_COLLAPSE) == 0;
    gd__region_close(&r);
    return can;
}

static uint64_t bytes_used(void)
{
    struct stat status;
    CHECK_EQ(fstat(region.fd, &status), 0);
    return (uint64_t)status.st_blocks * 512;
}

/* Never returns 0, because the library writes 0 to touch a page. */
static unsigned char pattern(uint64_t offset)
{
    return (unsigned char)(offset * 31 >> 3) | 1;
}

static void write_pattern(uint64_t offset, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++)
        at(offset)[i] = pattern(offset + i);
}

static bool has_pattern(const unsigned char *base, uint64_t offset, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++)
        if (base[offset + i] != pattern(offset + i))
            return false;
    return true;
}

TEST(all_extents_of_a_block_are_allocated_at_once)
{
    if (!kernel_can())
        SKIP("no huge pages on demand here");
    open_all(SIZE);
    gd__extents_fill(&extents, EXTENT - PAGE, 2 * EXTENT); /* begins in the first extent and ends in the third */
    CHECK_EQ(bytes_used(), (uint64_t)3 * EXTENT);
    CHECK(!extents.off);
    close_all();
}

TEST(neighbours_of_the_block_are_kept)
{
    open_all(SIZE);
    const uint64_t block = EXTENT + 5 * PAGE, size = EXTENT;
    write_pattern(PAGE, block - PAGE);
    write_pattern(block + size, EXTENT);
    gd__extents_fill(&extents, block, size);
    CHECK(has_pattern(region.base, PAGE, block - PAGE));
    CHECK(has_pattern(region.base, block + size, EXTENT));
    close_all();
}

TEST(a_reader_sees_the_same_memory_before_and_after)
{
    open_all(SIZE);
    struct gd__region reader;
    CHECK_EQ(gd__region_attach(&reader, dup(region.fd), SIZE, 0), 0);
    write_pattern(0, EXTENT / 2);
    CHECK(has_pattern(reader.base, 0, EXTENT / 2));
    gd__extents_fill(&extents, EXTENT / 2, 3 * EXTENT);
    write_pattern(EXTENT / 2, 3 * EXTENT);
    CHECK(has_pattern(reader.base, 0, EXTENT / 2 + 3 * EXTENT));
    gd__region_close(&reader);
    close_all();
}

TEST(an_extent_is_requested_once)
{
    open_all(SIZE);
    CHECK(gd__extents_would_fill(&extents, EXTENT, EXTENT));
    gd__extents_fill(&extents, EXTENT, EXTENT);
    CHECK(!gd__extents_would_fill(&extents, EXTENT, EXTENT));
    CHECK(!gd__extents_would_fill(&extents, EXTENT + EXTENT / 2, EXTENT / 2));
    write_pattern(EXTENT, EXTENT);
    gd__extents_fill(&extents, EXTENT, EXTENT); /* must do nothing; otherwise it would overwrite a byte */
    CHECK(has_pattern(region.base, EXTENT, EXTENT));
    close_all();
}

TEST(extents_between_filled_extents_are_filled_too)
{
    if (!kernel_can())
        SKIP("no huge pages on demand here");
    open_all(SIZE);
    gd__extents_fill(&extents, EXTENT, EXTENT);
    gd__extents_fill(&extents, 3 * (uint64_t)EXTENT, EXTENT);
    gd__extents_fill(&extents, 0, 5 * (uint64_t)EXTENT);
    CHECK_EQ(bytes_used(), (uint64_t)5 * EXTENT);
    CHECK(!gd__extents_would_fill(&extents, 0, 5 * (uint64_t)EXTENT));
    CHECK(gd__extents_would_fill(&extents, 0, 6 * (uint64_t)EXTENT));
    close_all();
}

TEST(small_blocks_are_left_alone)
{
    open_all(SIZE);
    CHECK(!gd__extents_would_fill(&extents, 0, GD__FILL_LEAST - 1));
    gd__extents_fill(&extents, 0, GD__FILL_LEAST - 1);
    CHECK_EQ(bytes_used(), 0);
    CHECK(gd__extents_would_fill(&extents, 0, GD__FILL_LEAST));
    close_all();
}

TEST(a_partial_extent_at_the_end_is_left_alone)
{
    open_all(EXTENT + EXTENT / 2);
    CHECK(!gd__extents_would_fill(&extents, EXTENT, EXTENT / 2));
    gd__extents_fill(&extents, EXTENT, EXTENT / 2);
    CHECK_EQ(bytes_used(), 0);
    gd__extents_fill(&extents, EXTENT / 2, EXTENT);
    CHECK_LE(bytes_used(), EXTENT);
    CHECK(!extents.off || !kernel_can());
    close_all();
}

TEST(a_region_smaller_than_an_extent)
{
    open_all(EXTENT - PAGE);
    gd__extents_fill(&extents, 0, EXTENT - PAGE);
    CHECK_EQ(bytes_used(), 0);
    close_all();
}

/* Maps the file so that its extents are not aligned in the address space. Such extents cannot be huge pages. */
static void open_misaligned(size_t size)
{
    const int fd = memfd_create("askew", MFD_CLOEXEC);
    CHECK_EQ(ftruncate(fd, (off_t)size), 0);
    char *room = mmap(NULL, size + 2 * EXTENT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(room != MAP_FAILED);
    room += EXTENT - (uintptr_t)room % EXTENT + PAGE;
    CHECK(mmap(room, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == room);
    region = (struct gd__region){ fd, room, size };
    gd__extents_open(&extents, &region);
}

TEST(a_kernel_that_refuses_is_not_asked_again)
{
    open_misaligned(SIZE);
    gd__extents_fill(&extents, 0, 3 * (uint64_t)EXTENT);
    CHECK(extents.off);
    CHECK(!gd__extents_would_fill(&extents, 4 * (uint64_t)EXTENT, EXTENT));
    const uint64_t before = bytes_used();
    gd__extents_fill(&extents, 4 * (uint64_t)EXTENT, EXTENT);
    CHECK_EQ(bytes_used(), before);
    close_all();
}

TEST(a_kernel_that_is_slow_is_not_asked_again)
{
    if (!kernel_can())
        SKIP("no huge pages on demand here");
    open_all(SIZE);
    extents.slow_ns = 0;
    gd__extents_fill(&extents, 0, SIZE);
    CHECK(extents.off);
    CHECK_LT(bytes_used(), SIZE); /* not even for the rest of this block */
    close_all();
}

TEST(a_block_of_many_steps)
{
    if (!kernel_can())
        SKIP("no huge pages on demand here");
    open_all(SIZE);
    gd__extents_fill(&extents, PAGE, SIZE - PAGE);
    CHECK(!extents.off);
    CHECK_EQ(bytes_used(), SIZE);
    close_all();
}

TEST(without_memory_for_the_map_nothing_is_filled)
{
    open_all(SIZE);
    gd__fault_begin(1);
    gd__extents_fill(&extents, 0, EXTENT);
    gd__fault_begin(0);
    CHECK_EQ(bytes_used(), 0);
    CHECK(gd__extents_would_fill(&extents, 0, EXTENT));
    close_all();
}

TEST(a_zeroed_struct_has_no_extents)
{
    struct gd__extents none = { 0 };
    CHECK(!gd__extents_would_fill(&none, 0, SIZE));
    gd__extents_fill(&none, 0, SIZE);
    gd__extents_close(&none);
}

TEST_MAIN()
