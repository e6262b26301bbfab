/* The counter clock: it stays close to the real clock, never goes back, and is not used any more if it drifts. */
#include "base/ticks.h"
#include "support/test.h"

enum { ENOUGH = 200000 };

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* A clock that has measured the speed of its counter: 2 counts per nanosecond, count 1000 at 5 ms. */
static struct gd__ticks measured_clock(void)
{
    struct gd__ticks t;
    gd__ticks_init(&t);
    t.usable = true;
    t.base_ns = t.last_ns = 5 * GD__NS_PER_MS;
    t.base_count = 1000;
    gd__ticks_sync(&t, 1000 + 2 * GD__NS_PER_MS, 6 * GD__NS_PER_MS);
    return t;
}

TEST(readings_never_go_back_and_stay_close_to_the_clock)
{
    struct gd__ticks t;
    gd__ticks_init(&t);
    uint64_t last = 0, farthest = 0;
    for (int i = 0; i < ENOUGH; i++) {
        const uint64_t before = gd__now_ns(), now = gd__ticks_now(&t), after = gd__now_ns();
        CHECK_GE(now, last);
        last = now;
        const uint64_t off = now < before ? before - now : now > after ? now - after : 0;
        if (off > farthest)
            farthest = off;
    }
    CHECK_LT(farthest, GD__NS_PER_MS);
}

TEST(the_speed_of_the_counter_is_measured)
{
    struct gd__ticks t = measured_clock();
    CHECK(t.usable);
    CHECK(distance(t.ns_per_count, UINT64_C(1) << 31) < 1000);
    CHECK_GT(t.limit, 0u);
    CHECK_EQ(t.base_ns, 6 * GD__NS_PER_MS);
}

TEST(a_short_interval_is_not_used_but_its_start_is_kept)
{
    struct gd__ticks t;
    gd__ticks_init(&t);
    t.usable = true;
    t.base_ns = t.last_ns = GD__NS_PER_MS;
    t.base_count = 0;
    CHECK_EQ(gd__ticks_sync(&t, 20, GD__NS_PER_MS + 10), GD__NS_PER_MS + 10);
    CHECK_EQ(t.limit, 0u);
    CHECK_EQ(t.base_ns, GD__NS_PER_MS);
}

TEST(a_drifting_counter_is_not_used_any_more)
{
    struct gd__ticks t = measured_clock();
    uint64_t end = 6 * GD__NS_PER_MS;
    gd__ticks_sync(&t, t.base_count + 2 * GD__NS_PER_MS * 11 / 10, end += GD__NS_PER_MS); /* ten percent too fast */
    CHECK(t.usable);                                                                      /* one outlier is allowed */
    for (unsigned i = 0; i < 10; i++)                                                     /* fast, slow, fast, ... */
        gd__ticks_sync(&t, t.base_count + 2 * GD__NS_PER_MS * (i % 2 ? 11 : 9) / 10, end += GD__NS_PER_MS);
    CHECK(!t.usable);
    CHECK_EQ(t.limit, 0u);
}

TEST(a_wrong_first_measurement_is_corrected)
{
    struct gd__ticks t = measured_clock();
    uint64_t end = 6 * GD__NS_PER_MS;
    for (unsigned i = 0; i < 10; i++)
        gd__ticks_sync(&t, t.base_count + 3 * GD__NS_PER_MS, end += GD__NS_PER_MS);
    CHECK(t.usable);
    CHECK(distance(t.ns_per_count, (UINT64_C(1) << 32) / 3) < 1000);
}

TEST(a_counter_that_stands_still_is_not_used)
{
    struct gd__ticks t;
    gd__ticks_init(&t);
    t.usable = true;
    t.base_count = 77;
    gd__ticks_sync(&t, 77, t.base_ns + GD__NS_PER_MS);
    CHECK_EQ(t.limit, 0u);
}

TEST(a_clock_behind_the_last_reading_does_not_move_it_back)
{
    struct gd__ticks t = measured_clock();
    t.last_ns = 8 * GD__NS_PER_MS;
    CHECK_EQ(gd__ticks_sync(&t, t.base_count + 2 * GD__NS_PER_MS, 7 * GD__NS_PER_MS), 8 * GD__NS_PER_MS);
}

TEST_MAIN()
