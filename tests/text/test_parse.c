/* SPDX-License-Identifier: MIT
 *
 * Durations, sizes and numbers: how they are read from a command line, and how they are printed.
 */

#include "base/failure.h"
#include "base/text/figures.h"
#include "base/text/parse.h"
#include "support/test.h"

static unsigned duration(const char *text)
{
    unsigned ms = 77;
    return gd__parse_duration(text, &ms) < 0 ? 4242 : ms;
}

TEST(durations)
{
    CHECK_EQ(duration("30"), 30000);
    CHECK_EQ(duration("30s"), 30000);
    CHECK_EQ(duration("5m"), 300000);
    CHECK_EQ(duration("1.5h"), 5400000);
    CHECK_EQ(duration("2d"), 172800000);
    CHECK_EQ(duration("1m30s"), 90000);
    CHECK_EQ(duration("1m30"), 90000);
    CHECK_EQ(duration("1d12h"), 129600000);
    CHECK_EQ(duration("10M"), 600000);
    CHECK_EQ(duration("0"), 0);
    CHECK_EQ(duration("0.5"), 500);
    CHECK_EQ(duration(".1"), 100);
    CHECK_EQ(duration("0.3"), 300);
    CHECK_EQ(duration("1.001"), 1001);
    CHECK_EQ(duration("500ms"), 500);
    CHECK_EQ(duration("1m2s3MS"), 62003);
}

TEST(small_values_do_not_become_0)
{
    CHECK_EQ(duration("0.0001"), 1);
    CHECK_EQ(duration("0.00000000001s"), 1);
    CHECK_EQ(duration("0.0011"), 2);
}

TEST(invalid_durations)
{
    static const char *const bad[] = { "",    "s",  "-1", "+1",  "1x",   "1w",   "500mss", "ms", "1e1",
                                       "5 m", " 5", "5 ", "nan", "0x10", "1..2", ".",      "m5", "inf" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        unsigned ms;
        if (gd__parse_duration(bad[i], &ms) == 0)
            FAIL("\"%s\" was read as %u ms", bad[i], ms);
        CHECK_CONTAINS(gd__fail_text(), "is not a duration");
    }
    CHECK_EQ(duration("50d"), 4242);
    CHECK_CONTAINS(gd__fail_text(), "too long");
    CHECK_EQ(duration("99999999999999999999999999999d"), 4242);
}

static uint64_t size_of(const char *text)
{
    uint64_t bytes = 77;
    return gd__parse_size(text, &bytes) < 0 ? 4242 : bytes;
}

TEST(sizes)
{
    CHECK_EQ(size_of("512"), 512);
    CHECK_EQ(size_of("512B"), 512);
    CHECK_EQ(size_of("1k"), 1024);
    CHECK_EQ(size_of("512M"), 512ull << 20);
    CHECK_EQ(size_of("8G"), 8ull << 30);
    CHECK_EQ(size_of("8GiB"), 8ull << 30);
    CHECK_EQ(size_of("8 gib"), 8ull << 30);
    CHECK_EQ(size_of("8GB"), 8000000000ull);
    CHECK_EQ(size_of("1.5T"), 3ull << 39);
    CHECK_EQ(size_of("0"), 0);
}

TEST(invalid_sizes)
{
    static const char *const bad[] = { "", "G", "-1", "8X", "8GG", "8Gi", "8G ", "1e3", "16E", "99999999999999E" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (size_of(bad[i]) != 4242)
            FAIL("\"%s\" was read as a size", bad[i]);
    }
    CHECK_CONTAINS(gd__fail_text(), "too large");
}

TEST(numbers)
{
    uint64_t n = 0;
    CHECK_EQ(gd__parse_number("-j", "7", 1, 10, &n), 0);
    CHECK_EQ(n, 7);
    CHECK_EQ(gd__parse_number("-j", "10", 1, 10, &n), 0);
    CHECK_EQ(gd__parse_number("-j", "11", 1, 10, &n), -1);
    CHECK_STR(gd__fail_text(), "-j takes a whole number from 1 to 10, not \"11\"");
    CHECK_EQ(gd__parse_number("-j", "0", 1, UINT64_MAX, &n), -1);
    CHECK_STR(gd__fail_text(), "-j takes a whole number from 1 up, not \"0\"");
    static const char *const bad[] = { "", "-1", "+1", " 1", "1 ", "1x", "0x1", "18446744073709551616" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_EQ(gd__parse_number("-j", bad[i], 0, UINT64_MAX, &n), -1);
}

TEST(percentages)
{
    unsigned p = 0;
    CHECK_EQ(gd__parse_percent("20%", &p), 0);
    CHECK_EQ(p, 20);
    CHECK_EQ(gd__parse_percent("100%", &p), 0);
    CHECK_EQ(p, 100);
    static const char *const bad[] = { "20", "%", "0%", "101%", "1.5%", "-1%", "20%%", "4294967297%" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_EQ(gd__parse_percent(bad[i], &p), -1);
}

TEST(edit_distances)
{
    CHECK_EQ(gd__edit_distance("", ""), 0);
    CHECK_EQ(gd__edit_distance("abc", "abc"), 0);
    CHECK_EQ(gd__edit_distance("", "abc"), 3);
    CHECK_EQ(gd__edit_distance("abc", ""), 3);
    CHECK_EQ(gd__edit_distance("abc", "abd"), 1);
    CHECK_EQ(gd__edit_distance("abc", "ac"), 1);
    CHECK_EQ(gd__edit_distance("ac", "abc"), 1);
    CHECK_EQ(gd__edit_distance("abcd", "abdc"), 1);
    CHECK_EQ(gd__edit_distance("kitten", "sitting"), 3);
    char longer[200];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    CHECK_EQ(gd__edit_distance(longer, "a"), sizeof longer - 1);
}

TEST(nearest_words)
{
    static const char *const words[] = { "--timeout", "--retries", "--results", "--tag", "--jobs", "-k", "-j" };
    size_t n = sizeof words / sizeof *words;
    CHECK_STR(gd__nearest_word("--timout", words, n), "--timeout");
    CHECK_STR(gd__nearest_word("--retires", words, n), "--retries");
    CHECK_STR(gd__nearest_word("--result", words, n), "--results");
    CHECK_STR(gd__nearest_word("--tga", words, n), "--tag");
    CHECK_STR(gd__nearest_word("--something-else", words, n), NULL);
    CHECK_STR(gd__nearest_word("", words, n), NULL);
    CHECK_STR(gd__nearest_word("-K", words, n), "-k");
}

static const char *shown(double seconds)
{
    static char text[32];
    return gd__text_duration(text, sizeof text, seconds);
}

TEST(printed_durations)
{
    CHECK_STR(shown(0), "0.0s");
    CHECK_STR(shown(0.52), "0.5s");
    CHECK_STR(shown(9.94), "9.9s");
    CHECK_STR(shown(9.96), "10s");
    CHECK_STR(shown(59.4), "59s");
    CHECK_STR(shown(59.6), "1m00s");
    CHECK_STR(shown(185), "3m05s");
    CHECK_STR(shown(7620), "2h07m");
    CHECK_STR(shown(86400 * 4 + 3600 * 3), "4d03h");
    CHECK_STR(shown(-5), "0.0s");
}

TEST(printed_sizes)
{
    char text[32];
    CHECK_STR(gd__text_size(text, sizeof text, 0), "0 B");
    CHECK_STR(gd__text_size(text, sizeof text, 512), "512 B");
    CHECK_STR(gd__text_size(text, sizeof text, 1536), "1.5 KiB");
    CHECK_STR(gd__text_size(text, sizeof text, 40ull << 20), "40 MiB");
    CHECK_STR(gd__text_size(text, sizeof text, UINT64_MAX), "16 EiB");
}

TEST_MAIN()
