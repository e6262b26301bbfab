/* The monotonic clock at the cost of reading a counter.
 *
 * Reading CLOCK_MONOTONIC takes about 25 ns, which is a good part of the cost of a short task. If the processor has a
 * counter that always runs at the same speed, most readings are computed from it. The clock itself is read about once a
 * millisecond, to correct the counter. A reading is never smaller than the one before. Its error is at most the drift
 * of the counter in that millisecond. A counter that repeatedly drifts by more than a percent is not used again.
 *
 * Not thread-safe.
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
    uint64_t base_ns, base_count; /* the last reading of clock and counter */
    uint64_t limit;               /* counts after which the clock is read again; 0: always */
    uint64_t ns_per_count;        /* times 2^32; 0: not known yet */
    uint64_t cautious;            /* a little less than ns_per_count, so that readings are not ahead of the clock */
    uint64_t last_ns;
    unsigned strayed; /* how many times in a row the counter drifted */
    bool usable;
};

void gd__ticks_init(struct gd__ticks *t);

/* Reads clock and counter; the slow part of gd__ticks_now(). */
uint64_t gd__ticks_read(struct gd__ticks *t);

/* Uses a reading of clock and counter to compute how fast the counter runs, and whether it can be trusted. */
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
