/* SPDX-License-Identifier: MIT
 *
 * Copies of every size and alignment are complete, and change nothing around them.
 */
#include "shm/copy.h"

#include <stdlib.h>
#include <string.h>

#include "support/test.h"

enum { EDGE = 256, LARGE = GD__COPY_PAST_CACHE };

static unsigned char *from, *to;

static void make(size_t size)
{
    from = malloc(size + 2 * EDGE);
    to = malloc(size + 2 * EDGE);
    CHECK(from && to);
    uint32_t random = 1;
    for (size_t i = 0; i < size + 2 * EDGE; i++) {
        random = random * 1664525 + 1013904223;
        from[i] = (unsigned char)(random >> 24);
    }
}

static void drop(void)
{
    free(from);
    free(to);
}

static bool all_are(const unsigned char *p, size_t n, unsigned char value)
{
    while (n > 0 && p[n - 1] == value)
        n--;
    return n == 0;
}

static void check_copy(size_t from_skew, size_t to_skew, size_t size)
{
    memset(to, 0xa5, size + 2 * EDGE);
    gd__copy_out(to + EDGE / 2 + to_skew, from + from_skew, size);
    CHECK(memcmp(to + EDGE / 2 + to_skew, from + from_skew, size) == 0);
    CHECK(all_are(to, EDGE / 2 + to_skew, 0xa5));
    CHECK(all_are(to + EDGE / 2 + to_skew + size, EDGE + EDGE / 2 - to_skew, 0xa5));
}

TEST(small_copies)
{
    make(1000);
    for (size_t size = 0; size < 200; size++)
        check_copy(size % 7, size % 13, size);
    drop();
}

TEST(large_copies_of_any_length)
{
    make(LARGE + EDGE);
    for (size_t more = 0; more < 130; more += 13)
        check_copy(0, 0, LARGE + more);
    drop();
}

TEST(large_copies_at_any_alignment)
{
    static const size_t skews[] = { 0, 1, 15, 16, 17, 32, 63 };
    enum { N = sizeof skews / sizeof *skews };
    make(LARGE + EDGE);
    for (size_t i = 0; i < N; i++)
        check_copy(skews[i], skews[(i * 3 + 1) % N], LARGE + i);
    drop();
}

TEST(sizes_just_below_and_above_the_threshold)
{
    make(LARGE + EDGE);
    check_copy(3, 5, LARGE - 1);
    check_copy(3, 5, LARGE);
    check_copy(3, 5, LARGE + 1);
    drop();
}

TEST_MAIN()
