/* SPDX-License-Identifier: MIT
 *
 * How many tasks travel in one message.
 */
#include "queue/names/subject.h"
#include "queue/push/bundle.h"
#include "support/test.h"

enum { BYTES = 1000000 };

TEST(a_fixed_number_is_kept)
{
    struct gd__bundling b = gd__bundling_fixed(10);
    CHECK_EQ(gd__bundling_next(&b, 9, 0, BYTES, false), 0);
    CHECK_EQ(gd__bundling_next(&b, 10, 0, BYTES, false), 10);
    CHECK_EQ(gd__bundling_next(&b, 25, 0, BYTES, true), 10);
    CHECK_EQ(gd__bundling_next(&b, 5, 0, BYTES, true), 5);
    CHECK_EQ(gd__bundling_next(&b, 0, 0, BYTES, true), 0);
    b = gd__bundling_fixed(1);
    CHECK_EQ(gd__bundling_next(&b, 1, 0, BYTES, false), 1);
    CHECK_EQ(gd__bundling_fixed(0).target, 1);
    CHECK_EQ(gd__bundling_fixed(UINT32_MAX).target, GD__QUEUE_BUNDLE_MOST);
}

TEST(not_more_tasks_than_records_fit_into_a_message)
{
    struct gd__bundling b = gd__bundling_fixed(10000);
    gd__bundling_limit(&b, 20000);
    CHECK_EQ(b.target, 10000);
    gd__bundling_limit(&b, 4000);
    CHECK_EQ(b.target, 4000);
    gd__bundling_limit(&b, 0);
    CHECK_EQ(b.target, 1);
}

TEST(long_tasks_travel_alone)
{
    const struct gd__bundling none = gd__bundling_auto(0, 0), two = gd__bundling_auto(10, 10 * GD__BUNDLE_SHORT_US);
    CHECK_EQ(none.target, 1);
    CHECK_EQ(two.target, 1);
    CHECK_EQ(gd__bundling_next(&none, 1, 0, BYTES, false), 1);
    CHECK_EQ(gd__bundling_next(&two, 3, 0, BYTES, false), 1);
}

TEST(short_tasks_travel_as_ten_seconds_of_work)
{
    CHECK_EQ(gd__bundling_auto(10, 10 * GD__BUNDLE_SHORT_US - 10).target, 5);
    CHECK_EQ(gd__bundling_auto(100, 100 * 10000).target, 1000);
    CHECK_EQ(gd__bundling_auto(100, 0).target, GD__BUNDLE_AUTO_MOST);
    CHECK_EQ(gd__bundling_auto(100, 100 * 1).target, GD__BUNDLE_AUTO_MOST);
}

/* A list of n tasks: they are added one by one, then the list ends. */
TEST(bundles_shrink_at_the_end_of_the_list)
{
    const struct gd__bundling b = gd__bundling_auto(100, 100 * 100000);
    const size_t tasks = 100000;
    size_t waiting = 0, sent = 0, last = SIZE_MAX, messages = 0, n;
    CHECK_EQ(b.target, 100);
    for (size_t i = 0; i < tasks; i++) {
        waiting++;
        while ((n = gd__bundling_next(&b, waiting, 0, BYTES, false)) > 0) {
            CHECK_EQ(n, 100);
            waiting -= n;
            sent += n;
        }
    }
    CHECK_GT(waiting, 1000);
    while (waiting > 0) {
        n = gd__bundling_next(&b, waiting, 0, BYTES, true);
        CHECK(n > 0 && n <= waiting && n <= last);
        last = n;
        waiting -= n;
        sent += n;
        messages++;
    }
    CHECK_EQ(sent, tasks);
    CHECK_EQ(last, 1);
    CHECK_LT(messages, 500);
}

TEST(large_payloads_do_not_wait_for_many_tasks)
{
    const struct gd__bundling b = gd__bundling_auto(100, 100 * 10000);
    CHECK_EQ(gd__bundling_next(&b, 100, (size_t)BYTES * (GD__BUNDLE_KEPT - 1), BYTES, false), 0);
    CHECK_EQ(gd__bundling_next(&b, 100, (size_t)BYTES * (GD__BUNDLE_KEPT + 1), BYTES, false), b.target);
}

TEST_MAIN()
