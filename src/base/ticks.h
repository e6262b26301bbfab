/* The monotonic clock at the price of a counter.
 *
 * Reading CLOCK_MONOTONIC takes about 25 ns, which is a good part of what a short task costs. Where the processor has
 * a counter that runs at one speed whatever it does, most readings can be taken from that: the clock itself is read
 * about once a millisecond, and sets the counter right. A reading never goes back, and is off by no more than the
 * counter strays from the clock in that millisecond. A counter that keeps straying by more than a percent
 * is not used again.
 *
 * For one thread.
 */
#ifndef GD_BASE_TICKS_H
#define GD_BASE_TICKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

struct gd__ticks {
    uint64_t base_ns, base_count; /* a reading of both */
    uint64_t limit;               /* counts after which the clock is read again; 0: always */
    uint64_t ns_per_count;        /* times 2^32; 0: not known yet */
    uint64_t cautious;            /* a little less, so that readings are rather late than in the future */
    uint64_t last_ns;
    unsigned strayed; /* how often in a row */
    bool usable;
};

void gd__ticks_init(struct gd__ticks *t);

/* Reads both; the slow part of gd__ticks_now(). */
uint64_t gd__ticks_read(struct gd__ticks *t);

/* A reading of both, and what follows from it: how fast the counter runs, and whether it is to be believed. */
uint64_t gd__ticks_sync(struct gd__ticks *t, uint64_t count, uint64_t clock_ns);

static inline uint64_t gd__ticks_count(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#else
    return 0;
#endif
}

static inline uint64_t gd__ticks_now(struct gd__ticks *t)
{
    const uint64_t count = gd__ticks_count(), passed = count - t->base_count;
    if (__builtin_expect(passed >= t->limit, 0))
        return gd__ticks_read(t);
    const uint64_t ns = t->base_ns + (passed * t->cautious >> 32);
    t->last_ns = ns > t->last_ns ? ns : t->last_ns;
    return t->last_ns;
}

#endif
