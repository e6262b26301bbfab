/* SPDX-License-Identifier: MIT
 *
 * Times as a server writes them.
 */
#include <time.h>

#include "queue/nats/timestamp.h"
#include "support/test.h"

static uint64_t time_of(const char *text)
{
    return gd__js_time_us(text, strlen(text));
}

TEST(times_of_a_server)
{
    CHECK_EQ(time_of("1970-01-01T00:00:00Z"), 0);
    CHECK_EQ(time_of("1970-01-01T00:00:00.000001Z"), 1);
    CHECK_EQ(time_of("1970-01-01T00:00:01.5Z"), 1500000);
    CHECK_EQ(time_of("2026-11-16T19:03:07.123456789Z"), UINT64_C(1794855787123456));
    CHECK_EQ(time_of("2026-11-16T19:03:07Z"), UINT64_C(1794855787000000));
    CHECK_EQ(time_of("9999-12-31T23:59:59.999999Z"), UINT64_C(253402300799999999));
}

/* Every day of some centuries, as the C library computes it. */
TEST(every_day_is_that_of_the_calendar)
{
    for (time_t t = 0; t < (time_t)86400 * 366 * 450; t += 86400) {
        char text[64];
        struct tm tm;
        CHECK(gmtime_r(&t, &tm) && strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm) > 0);
        if (time_of(text) != (uint64_t)t * 1000000)
            FAIL("%s", text);
    }
}

TEST(other_texts_are_not_times)
{
    static const char *const bad[] = {
        "",
        "Z",
        "2026-11-16T19:03:07",
        "2026-11-16T19:03:07X",
        "2026-11-16T19:03:07.Z",
        "2026-11-16T19:03:07.1234567890Z",
        "2026-11-16T19:03:07.12x4Z",
        "2026-11-16T19:03:07+01:00",
        "2026-11-16 19:03:07Z",
        "2026-13-16T19:03:07Z",
        "2026-00-16T19:03:07Z",
        "2026-11-32T19:03:07Z",
        "2026-11-00T19:03:07Z",
        "2026-11-16T24:03:07Z",
        "2026-11-16T19:60:07Z",
        "2026-11-16T19:03:61Z",
        "1969-11-16T19:03:07Z",
        "202x-11-16T19:03:07Z",
        "2026/11-16T19:03:07Z",
        "2026-11/16T19:03:07Z",
        "2026-11-16T19.03:07Z",
        "2026-11-16T19:03.07Z",
        "2026-11-16T19:03:07X",
        "2026-11-16T19:03:07.Z",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (time_of(bad[i]) != 0)
            FAIL("accepted: %s", bad[i]);
}

TEST_MAIN()
