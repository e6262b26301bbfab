/* The time in which at least one task was in flight: tasks in any order, and more intervals than there is room for. */
#include <string.h>

#include "launch/figures/busy_time.h"
#include "support/test.h"

static struct gd__busy_time t;

static uint64_t add(uint64_t start_ns, uint64_t end_ns)
{
    gd__busy_time_add(&t, start_ns, end_ns);
    return gd__busy_time_ns(&t);
}

TEST(without_tasks_it_is_zero)
{
    CHECK_EQ(gd__busy_time_ns(&t), 0);
    CHECK_EQ(add(5, 5), 0);
    CHECK_EQ(t.n, 0);
}

TEST(tasks_one_after_the_other)
{
    CHECK_EQ(add(10, 20), 10);
    CHECK_EQ(add(20, 25), 15);
    CHECK_EQ(t.n, 1);
    CHECK_EQ(add(30, 40), 25);
    CHECK_EQ(t.n, 2);
}

TEST(tasks_at_the_same_time_count_once)
{
    CHECK_EQ(add(10, 20), 10);
    CHECK_EQ(add(10, 20), 10);
    CHECK_EQ(add(12, 18), 10);
    CHECK_EQ(add(5, 15), 15);
    CHECK_EQ(add(15, 30), 25);
    CHECK_EQ(add(1, 40), 39);
    CHECK_EQ(t.n, 1);
}

TEST(a_long_task_fills_the_pauses_between_short_ones)
{
    CHECK_EQ(add(10, 20), 10);
    CHECK_EQ(add(30, 40), 20);
    CHECK_EQ(add(50, 60), 30);
    CHECK_EQ(add(15, 55), 50);
    CHECK_EQ(t.n, 1);
}

TEST(tasks_in_any_order)
{
    CHECK_EQ(add(50, 60), 10);
    CHECK_EQ(add(10, 20), 20);
    CHECK_EQ(add(30, 40), 30);
    CHECK_EQ(add(20, 30), 40);
    CHECK_EQ(t.n, 2);
    CHECK_EQ(t.spans[0].start_ns, 10);
    CHECK_EQ(t.spans[0].end_ns, 40);
}

TEST(any_number_of_pauses)
{
    for (uint64_t i = 0; i < 100000; i++)
        CHECK_EQ(add(10 * i, 10 * i + 3 + i % 5), 3 * (i + 1) + i / 5 * 10 + (i % 5) * (i % 5 + 1) / 2);
    CHECK(t.n <= GD__BUSY_SPANS);
}

TEST(a_task_over_everything_is_exact_after_any_number_of_pauses)
{
    for (uint64_t i = 1; i < 5000; i++)
        add(10 * i, 10 * i + 3);
    CHECK_EQ(add(7, 60000), 60000 - 7);
    CHECK_EQ(t.n, 1);
}

/* The long pause stays a pause: only short ones are joined. */
TEST(a_task_between_two_bursts)
{
    for (uint64_t i = 0; i < 1000; i++)
        add(10 * i, 10 * i + 9);
    for (uint64_t i = 0; i < 1000; i++)
        add(1000000 + 10 * i, 1000000 + 10 * i + 9);
    const uint64_t before = gd__busy_time_ns(&t);
    CHECK_EQ(before, 18000);
    CHECK_EQ(add(500000, 600000), before + 100000);
}

/* Pauses in a joined span are taken to be spread evenly. */
TEST(a_task_that_begins_inside_a_span_with_pauses)
{
    for (uint64_t i = 0; i < 1000; i++)
        add(100 * i, 100 * i + 50);
    const uint64_t exact = 25000 + 100000; /* half of the first 50000, and all of what follows */
    const uint64_t busy = add(50000, 150000);
    CHECK(busy >= exact - 100 * 50 && busy <= exact + 100 * 50);
}

/* --- random tasks, against a map of every instant --- */

enum { INSTANTS = 4000 };

static unsigned long long seed;

static uint64_t random_below(uint64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % n;
}

static uint64_t in_map(bool map[INSTANTS], uint64_t start, uint64_t end)
{
    uint64_t busy = 0;
    for (uint64_t i = start; i < end; i++)
        map[i] = true;
    for (size_t i = 0; i < INSTANTS; i++)
        busy += map[i];
    return busy;
}

static void check_spans(void)
{
    CHECK(t.n <= GD__BUSY_SPANS);
    for (size_t i = 0; i < t.n; i++) {
        CHECK(t.spans[i].start_ns < t.spans[i].end_ns);
        CHECK(t.spans[i].busy_ns <= t.spans[i].end_ns - t.spans[i].start_ns);
        CHECK(i == 0 || t.spans[i - 1].end_ns < t.spans[i].start_ns);
    }
}

/* With at most as many tasks as spans, the result is exact. */
TEST(random_tasks_that_fit)
{
    for (seed = 1; seed < 2000; seed++) {
        const unsigned long long begun = seed;
        bool map[INSTANTS] = { false };
        memset(&t, 0, sizeof t);
        for (int i = 0; i < GD__BUSY_SPANS; i++) {
            const uint64_t start = random_below(INSTANTS - 200), end = start + random_below(200);
            const uint64_t busy = add(start, end);
            if (busy != in_map(map, start, end))
                FAIL("seed %llu, task %d: %llu", begun, i, (unsigned long long)busy);
            check_spans();
        }
        seed = begun;
    }
}

/* Tasks at up to eight places, in the order in which they end, as a worker with tasks in flight reports them. The pauses are
 * short, and there are far more of them than spans. */
TEST(random_tasks_in_flight)
{
    for (seed = 1; seed < 200; seed++) {
        const unsigned long long begun = seed;
        bool map[INSTANTS] = { false };
        uint64_t now = 0, busy = 0, exact = 0;
        memset(&t, 0, sizeof t);
        while (now < INSTANTS - 20) {
            now += random_below(12);
            const uint64_t length = random_below(random_below(4) == 0 ? 60 : 6);
            const uint64_t start = now > length ? now - length : 0;
            busy = add(start, now);
            exact = in_map(map, start, now);
            check_spans();
        }
        if (busy > exact + exact / 50 || exact > busy + busy / 50)
            FAIL("seed %llu: %llu instead of %llu", begun, (unsigned long long)busy, (unsigned long long)exact);
        seed = begun;
    }
}

TEST_MAIN()
