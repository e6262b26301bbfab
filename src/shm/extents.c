/* Huge pages for shared memory that is about to be filled.
 *
 * On nearly every machine huge pages are off for shared memory (shmem_enabled is `never`), MADV_HUGEPAGE has no effect,
 * and the pool for MFD_HUGETLB is empty. A direct request for a range does work: MADV_COLLAPSE, since Linux 6.1. The
 * extent must have the same offset from a multiple of 2 MiB in the file and in the address space (see region.c), and it
 * must not be empty. So one byte of it is written first, and the kernel provides the rest as one zeroed piece.
 *
 * Some virtual machines return their free memory to the host (a balloon with free page reporting). There a whole extent
 * is slow, because the host handles a fault for each page. Small pages are faster: they come from memory that was in
 * use a moment ago. We saw 2 to 4 ms for an extent where 512 faults take 1 to 2 ms. So each request is timed, and no
 * more are made if they take longer than the faults would.
 *
 * The extents at the ends of a block may hold other blocks too. The kernel moves those while other processes may be
 * reading them. It does not move pages that a device has pinned.
 */
#include "shm/extents.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <time.h>

#include "base/alloc.h"
#include "shm/layout.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { BITS = 64, STEP = 8, SLOW_NS = 1000000 };

void gd__extents_open(struct gd__extents *e, const struct gd__region *r)
{
    *e = (struct gd__extents){ .region = r, .slow_ns = SLOW_NS };
}

void gd__extents_close(struct gd__extents *e)
{
    gd__free(e->asked);
    *e = (struct gd__extents){ 0 };
}

static bool was_asked(const struct gd__extents *e, uint64_t extent)
{
    return e->asked && (e->asked[extent / BITS] >> (extent % BITS) & 1);
}

struct range {
    uint64_t first, end; /* extents */
};

/* The extents that hold a part of the block; none if it is small. An incomplete extent at the end of the region does
 * not count. */
static struct range extents_of(const struct gd__extents *e, uint64_t offset, uint64_t size)
{
    if (size < GD__FILL_LEAST || e->off || !e->region)
        return (struct range){ 0, 0 };
    const uint64_t end = (offset + size + GD__EXTENT - 1) / GD__EXTENT, whole = e->region->size / GD__EXTENT;
    return (struct range){ offset / GD__EXTENT, end < whole ? end : whole };
}

bool gd__extents_would_fill(const struct gd__extents *e, uint64_t offset, uint64_t size)
{
    const struct range r = extents_of(e, offset, size);
    for (uint64_t i = r.first; i < r.end; i++)
        if (!was_asked(e, i))
            return true;
    return false;
}

/* Processor time of this thread. Time in which other threads have the processor must not count as slowness. */
static uint64_t thread_cpu_ns(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) < 0 ? 0 : (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* After EAGAIN (busy pages), more requests may be made. After another error, such as a lack of contiguous memory, no
 * more are made: the kernel spends a long time looking for such memory. */
static void ask_some(struct gd__extents *e, uint64_t first, uint64_t n)
{
    const uint64_t begun = thread_cpu_ns();
    if (madvise((char *)e->region->base + first * GD__EXTENT, n * GD__EXTENT, MADV_COLLAPSE) < 0 && errno != EAGAIN)
        e->off = true;
    if (thread_cpu_ns() - begun >= n * e->slow_ns)
        e->off = true;
}

/* Asks in steps, so that slowness is noticed before a very large block is done. */
static void ask(struct gd__extents *e, uint64_t first, uint64_t end)
{
    for (uint64_t i = first; i < end && !e->off; i += STEP)
        ask_some(e, i, end - i < STEP ? end - i : STEP);
}

static void make_present(const struct gd__extents *e, uint64_t extent, uint64_t block)
{
    const uint64_t start = extent * GD__EXTENT;
    ((volatile char *)e->region->base)[start > block ? start : block] = 0;
}

static bool make_map(struct gd__extents *e)
{
    if (!e->asked)
        e->asked = gd__calloc(e->region->size / GD__EXTENT / BITS + 1, sizeof *e->asked);
    return e->asked;
}

void gd__extents_fill(struct gd__extents *e, uint64_t offset, uint64_t size)
{
    const struct range r = extents_of(e, offset, size);
    if (r.first >= r.end || !make_map(e))
        return;
    for (uint64_t i = r.first, first; i < r.end && !e->off; i++) {
        for (first = i; i < r.end && !was_asked(e, i); i++) {
            e->asked[i / BITS] |= UINT64_C(1) << (i % BITS);
            make_present(e, i, offset);
        }
        if (i > first)
            ask(e, first, i);
    }
}
