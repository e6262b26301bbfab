/* SPDX-License-Identifier: MIT
 *
 * How many tasks remain and the total, even if the list of inputs changed between two runs.
 */
#include "view/remaining.h"

#include "support/test.h"

#define STANDS(expected_left, expected_all, expected_gone, ...)         \
    do {                                                                \
        const struct gd_journal_summary s = { .size = 0, __VA_ARGS__ }; \
        struct view_remaining out;                                      \
        view_remaining_of(&out, &s);                                    \
        CHECK_EQ(out.left, expected_left);                              \
        CHECK_EQ(out.all, expected_all);                                \
        CHECK_EQ(out.gone, expected_gone);                              \
    } while (0)

TEST(one_run)
{
    STANDS(0, 0, 0, .runs = 0);
    STANDS(6, 10, 0, .total = 10, .done = 3, .failed = 1, .run_done = 3, .run_failed = 1);
    STANDS(0, 10, 0, .total = 10, .done = 9, .failed = 1, .run_done = 9, .run_failed = 1, .end = "finished");
}

TEST(a_total_that_is_not_known)
{
    const struct gd_journal_summary s = { .size = 0, .done = 4, .run_done = 4 };
    struct view_remaining out;
    view_remaining_of(&out, &s);
    CHECK(!out.has_left);
    CHECK_EQ(out.left, 0);
    CHECK_EQ(out.all, 4);
}

TEST(a_resumed_run)
{
    /* 100 of 200 tasks were done before this run, and 20 in this run */
    STANDS(80, 200, 0, .total = 200, .done = 120, .skipped = 100, .run_done = 20);
    STANDS(80, 200, 0, .total = 200, .done = 120, .skipped = 100, .run_done = 20, .end = "interrupted");
}

TEST(a_list_that_grew_and_lost_lines)
{
    /* 100 tasks of another list were done before; none of them is among these 50 */
    STANDS(40, 150, 0, .total = 50, .done = 110, .run_done = 10);
    STANDS(0, 150, 100, .total = 50, .done = 150, .run_done = 50, .end = "finished");
    /* 3 tasks failed before and are not among these 2 */
    STANDS(0, 5, 3, .total = 2, .done = 2, .failed = 3, .skipped = 2, .end = "finished");
}

TEST(failed_tasks_that_are_run_again_are_not_counted_twice)
{
    STANDS(15, 100, 0, .total = 100, .done = 85, .failed = 15, .skipped = 80, .run_done = 5);
}

TEST_MAIN()
