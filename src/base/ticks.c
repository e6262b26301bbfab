/* The clock that reads a counter: see ticks.h. The counter is used only if the processor reports that it is invariant,
 * and only as long as it agrees with the clock. */
#include "base/ticks.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define SYNC_NS  GD__NS_PER_MS
#define LEARN_NS (500 * GD__NS_PER_US) /* a shorter interval is too inexact to measure the speed */
#define FASTEST  (UINT64_C(1) << 32)   /* one nanosecond a count: slower counters are not worth it */
enum { CAUTION = 1024, STRAYED_MOST = 5, CLOSE_COUNTS = 500 };
#define MOST_PASSED (UINT64_C(1) << 31) /* so that the product in gd__ticks_now() fits */

static bool is_invariant(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d = 0;
    return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & (1u << 8));
#else
    return false;
#endif
}

/* This thread may lose the processor between the two readings. Then the two readings do not match, and both are
 * repeated. */
static bool read_both(uint64_t *count, uint64_t *clock_ns)
{
    for (int tries = 0; tries < 3; tries++) {
        *count = gd__ticks_count();
        *clock_ns = gd__now_ns();
        if (gd__ticks_count() - *count < CLOSE_COUNTS)
            return true;
    }
    return false;
}

void gd__ticks_init(struct gd__ticks *t)
{
    memset(t, 0, sizeof *t);
    t->usable = is_invariant();
    read_both(&t->base_count, &t->base_ns);
    t->last_ns = t->base_ns;
}

/* Whether a newly measured speed is within a percent of the last one. */
static bool agrees(const struct gd__ticks *t, uint64_t ns_per_count)
{
    const uint64_t a = t->ns_per_count, b = ns_per_count;
    return a == 0 || (a > b ? a - b : b - a) < a / 100;
}

uint64_t gd__ticks_read(struct gd__ticks *t)
{
    uint64_t count = 0, clock_ns = 0;
    if (read_both(&count, &clock_ns))
        return gd__ticks_sync(t, count, clock_ns);
    return t->last_ns = clock_ns > t->last_ns ? clock_ns : t->last_ns;
}

/* Uses the speed just measured. If it differs from the last one, one of the two may be wrong by accident. After several
 * differences in a row the counter is not used any more. */
static void set_speed(struct gd__ticks *t, uint64_t speed)
{
    const bool possible = speed > 0 && speed <= FASTEST;
    t->strayed = agrees(t, speed) ? 0 : t->strayed + 1;
    t->usable = possible && t->strayed < STRAYED_MOST;
    t->ns_per_count = speed;
    t->cautious = speed - speed / CAUTION;
}

uint64_t gd__ticks_sync(struct gd__ticks *t, uint64_t count, uint64_t clock_ns)
{
    const uint64_t passed_ns = clock_ns - t->base_ns, passed = count - t->base_count;
    const bool is_long_enough =
        passed_ns >= LEARN_NS && passed_ns < 4 * GD__NS_PER_S && passed > 0 && passed < UINT64_C(1) << 40;
    t->last_ns = clock_ns > t->last_ns ? clock_ns : t->last_ns;
    if (!t->usable)
        return t->last_ns;
    if (is_long_enough)
        set_speed(t, (uint64_t)(((unsigned __int128)passed_ns << 32) / passed));
    const bool known = t->usable && t->ns_per_count > 0;
    const uint64_t limit = known ? (SYNC_NS << 32) / t->ns_per_count : 0;
    t->limit = limit < MOST_PASSED ? limit : MOST_PASSED;
    if (!t->usable)
        t->limit = 0;
    if (known || !t->usable || passed_ns >= LEARN_NS) { /* otherwise wait for a longer interval */
        t->base_ns = clock_ns;
        t->base_count = count;
    }
    return t->last_ns;
}
