/* SPDX-License-Identifier: MIT
 *
 * Durations, sizes, nearest words, JSON strings, whole writes.
 */
#include <fcntl.h>
#include <pthread.h>

#include "cli/text.h"
#include "common.h"

static unsigned duration(const char *text)
{
    unsigned ms = 77;
    return cli_parse_duration(text, &ms) < 0 ? 4242 : ms;
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

TEST(what_is_not_0_does_not_become_0)
{
    CHECK_EQ(duration("0.0001"), 1);
    CHECK_EQ(duration("0.00000000001s"), 1);
    CHECK_EQ(duration("0.0011"), 2);
}

TEST(no_durations)
{
    static const char *const bad[] = { "",    "s",  "-1", "+1",  "1x",   "1w",   "500mss", "ms", "1e1",
                                       "5 m", " 5", "5 ", "nan", "0x10", "1..2", ".",      "m5", "inf" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        unsigned ms;
        if (cli_parse_duration(bad[i], &ms) == 0)
            FAIL("\"%s\" was taken for %u ms", bad[i], ms);
        CHECK_CONTAINS(cli_error_text(), "is no duration");
    }
    CHECK_EQ(duration("50d"), 4242);
    CHECK_CONTAINS(cli_error_text(), "too long");
    CHECK_EQ(duration("99999999999999999999999999999d"), 4242);
}

static uint64_t size_of(const char *text)
{
    uint64_t bytes = 77;
    return cli_parse_size(text, &bytes) < 0 ? 4242 : bytes;
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

TEST(no_sizes)
{
    static const char *const bad[] = { "", "G", "-1", "8X", "8GG", "8Gi", "8G ", "1e3", "16E", "99999999999999E" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (size_of(bad[i]) != 4242)
            FAIL("\"%s\" was taken for a size", bad[i]);
    }
    CHECK_CONTAINS(cli_error_text(), "too large");
}

TEST(numbers)
{
    uint64_t n = 0;
    CHECK_EQ(cli_parse_number("-j", "7", 1, 10, &n), 0);
    CHECK_EQ(n, 7);
    CHECK_EQ(cli_parse_number("-j", "10", 1, 10, &n), 0);
    CHECK_EQ(cli_parse_number("-j", "11", 1, 10, &n), -1);
    CHECK_STR(cli_error_text(), "-j takes a whole number from 1 to 10, not \"11\"");
    CHECK_EQ(cli_parse_number("-j", "0", 1, UINT64_MAX, &n), -1);
    CHECK_STR(cli_error_text(), "-j takes a whole number from 1 up, not \"0\"");
    static const char *const bad[] = { "", "-1", "+1", " 1", "1 ", "1x", "0x1", "18446744073709551616" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_EQ(cli_parse_number("-j", bad[i], 0, UINT64_MAX, &n), -1);
}

TEST(percentages)
{
    unsigned p = 0;
    CHECK_EQ(cli_parse_percent("20%", &p), 0);
    CHECK_EQ(p, 20);
    CHECK_EQ(cli_parse_percent("100%", &p), 0);
    CHECK_EQ(p, 100);
    static const char *const bad[] = { "20", "%", "0%", "101%", "1.5%", "-1%", "20%%", "4294967297%" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_EQ(cli_parse_percent(bad[i], &p), -1);
}

TEST(edit_distances)
{
    CHECK_EQ(cli_edit_distance("", ""), 0);
    CHECK_EQ(cli_edit_distance("abc", "abc"), 0);
    CHECK_EQ(cli_edit_distance("", "abc"), 3);
    CHECK_EQ(cli_edit_distance("abc", ""), 3);
    CHECK_EQ(cli_edit_distance("abc", "abd"), 1);
    CHECK_EQ(cli_edit_distance("abc", "ac"), 1);
    CHECK_EQ(cli_edit_distance("ac", "abc"), 1);
    CHECK_EQ(cli_edit_distance("abcd", "abdc"), 1);
    CHECK_EQ(cli_edit_distance("kitten", "sitting"), 3);
    char longer[200];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    CHECK_EQ(cli_edit_distance(longer, "a"), sizeof longer - 1);
}

TEST(nearest_words)
{
    static const char *const words[] = { "--timeout", "--retries", "--results", "--tag", "--jobs", "-k", "-j" };
    size_t n = sizeof words / sizeof *words;
    CHECK_STR(cli_nearest("--timout", words, n), "--timeout");
    CHECK_STR(cli_nearest("--retires", words, n), "--retries");
    CHECK_STR(cli_nearest("--result", words, n), "--results");
    CHECK_STR(cli_nearest("--tga", words, n), "--tag");
    CHECK_STR(cli_nearest("--something-else", words, n), NULL);
    CHECK_STR(cli_nearest("", words, n), NULL);
    CHECK_STR(cli_nearest("-K", words, n), "-k");
}

static const char *shown(double seconds)
{
    static char text[32];
    return cli_show_duration(text, sizeof text, seconds);
}

TEST(durations_for_people)
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

TEST(sizes_for_people)
{
    char text[32];
    CHECK_STR(cli_show_size(text, sizeof text, 0), "0 B");
    CHECK_STR(cli_show_size(text, sizeof text, 512), "512 B");
    CHECK_STR(cli_show_size(text, sizeof text, 1536), "1.5 KiB");
    CHECK_STR(cli_show_size(text, sizeof text, 40ull << 20), "40 MiB");
    CHECK_STR(cli_show_size(text, sizeof text, UINT64_MAX), "16 EiB");
}

/* --- JSON ---------------------------------------------------------------------- */

static void check_json(const char *bytes, size_t size, const char *json)
{
    struct cli_bytes b = { 0 }, back = { 0 };
    cli_json_string(&b, bytes, size);
    CHECK_EQ(b.size, strlen(json));
    if (memcmp(b.data, json, b.size) != 0)
        FAIL("%.*s, not %s", (int)b.size, b.data, json);
    CHECK(cli_json_decode(&back, b.data, b.size));
    CHECK_EQ(back.size, size);
    CHECK(size == 0 || memcmp(back.data, bytes, size) == 0);
    CHECK(cli_json_valid(b.data, b.size));
    cli_bytes_free(&b);
    cli_bytes_free(&back);
}

#define JSON(bytes, json) check_json(bytes, sizeof(bytes) - 1, json)

TEST(json_strings_there_and_back)
{
    JSON("", "\"\"");
    JSON("plain text", "\"plain text\"");
    JSON("a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
    JSON("\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\"");
    JSON("\0\1\x1f\x7f", "\"\\u0000\\u0001\\u001f\\u007f\"");
    JSON("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

TEST(bytes_that_are_no_utf8_there_and_back)
{
    JSON("a\xff"
         "b",
         "\"a\\udcffb\"");
    JSON("\x80", "\"\\udc80\"");
    JSON("\xc3", "\"\\udcc3\"");
    JSON("\xc3\xc3\xa9", "\"\\udcc3\xc3\xa9\"");
    JSON("\xc0\xaf", "\"\\udcc0\\udcaf\"");            /* overlong */
    JSON("\xe0\x80\xaf", "\"\\udce0\\udc80\\udcaf\""); /* overlong */
    JSON("\xed\xb2\x80", "\"\\udced\\udcb2\\udc80\""); /* a surrogate */
    JSON("\xf4\x90\x80\x80", "\"\\udcf4\\udc90\\udc80\\udc80\"");
    JSON("\xf0\x9f\x98", "\"\\udcf0\\udc9f\\udc98\""); /* cut off */
}

/* All bytes through Python's eyes: what it reads is what we wrote. */
TEST(python_reads_the_same)
{
    enter_folder();
    if (system("python3 -c 1 2>/dev/null") != 0) /* NOLINT */
        SKIP("no Python");
    char every[512];
    uint32_t state = 7;
    for (size_t i = 0; i < sizeof every; i++)
        every[i] = (char)(i < 256 ? i : (state = state * 1664525 + 1013904223) >> 24);
    struct cli_bytes b = { 0 };
    cli_json_string(&b, every, sizeof every);
    make_file("bytes", every, sizeof every);
    make_file("json", b.data, b.size);
    cli_bytes_free(&b);
    int status;
    struct cli_bytes said = shell("python3 -c \"import json, os; print(os.fsencode(json.load(open('json', "
                                  "encoding='utf-8'))) == open('bytes', 'rb').read())\" 2>&1",
                                  &status);
    CHECK_STR(said.data, "True\n");
    cli_bytes_free(&said);
}

static const char *decoded(const char *json)
{
    static struct cli_bytes b;
    b.size = 0;
    if (!cli_json_decode(&b, json, strlen(json)))
        return NULL;
    cli_bytes_add(&b, "", 1);
    return b.data;
}

TEST(decoding)
{
    CHECK_STR(decoded(" \"a\" \n"), "a");
    CHECK_STR(decoded("\"\\u00e9\\u00E9\\/\""), "\xc3\xa9\xc3\xa9/");
    CHECK_STR(decoded("\"\\ud83d\\ude00\""), "\xf0\x9f\x98\x80");
    CHECK_STR(decoded("\"\\ud83dx\""), "\xef\xbf\xbdx");
    CHECK_STR(decoded("\"\\udc7f\""), "\xef\xbf\xbd");
    CHECK_STR(decoded("\"\\u20ac\""), "\xe2\x82\xac");
    static const char *const bad[] = {
        "",          "a",           "\"a",      "\"a\"b",           "5",    "{\"a\":1}", "\"\\x\"",
        "\"\\u12\"", "\"\\u12g4\"", "\"a\nb\"", "\"\\ud83d\\u12\"", "null", "\"\\"
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (decoded(bad[i]))
            FAIL("%s was decoded", bad[i]);
    }
}

TEST(a_failed_decoding_adds_nothing)
{
    struct cli_bytes b = { 0 };
    cli_bytes_text(&b, "x");
    CHECK(!cli_json_decode(&b, "\"abc\\q\"", 7));
    CHECK_EQ(b.size, 1);
    cli_bytes_free(&b);
}

TEST(valid_json)
{
    static const char *const good[] = { "1",      "-0.5e+10",
                                        "0",      "null",
                                        " true ", "[]",
                                        "{}",     "[1, [2], {\"a\" : null}]",
                                        "\"x\"",  "{\"a\":1,\"b\":[{}]}",
                                        "1E5" };
    static const char *const bad[] = { "",     " ",     "01",    "1.",      ".5",       "+1",         "nul",
                                       "[1,]", "[1 2]", "{a:1}", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "[",
                                       "]",    "1 2",   "\"a",   "-",       "1e",       "tru",        "{\"a\":1" };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (!cli_json_valid(good[i], strlen(good[i])))
            FAIL("%s is not valid", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (cli_json_valid(bad[i], strlen(bad[i])))
            FAIL("%s is valid", bad[i]);
    }
}

TEST(json_without_end_in_depth)
{
    static char deep[2000000];
    memset(deep, '[', sizeof deep);
    CHECK(!cli_json_valid(deep, sizeof deep));
    memset(deep, '[', 500);
    memset(deep + 500, ']', 500);
    CHECK(cli_json_valid(deep, 1000));
}

/* --- bytes ------------------------------------------------------------------------ */

TEST(a_buffer_remembers_its_failure)
{
    struct cli_bytes b = { 0 };
    cli_bytes_text(&b, "abc");
    cli_bytes_format(&b, "%d", 5);
    CHECK_EQ(b.size, 4);
    CHECK_MEM(b.data, "abc5", 4);
    cli_bytes_add(&b, "x", SIZE_MAX - 2);
    CHECK(b.failed);
    cli_bytes_text(&b, "y");
    CHECK_EQ(b.size, 4);
    cli_bytes_free(&b);
    CHECK(!b.failed);
}

static void *read_slowly(void *arg)
{
    int fd = *(int *)arg;
    static char all[3 << 20];
    size_t got = 0;
    ssize_t n;
    while ((n = read(fd, all + got, 1000)) > 0)
        got += (size_t)n;
    for (size_t i = 0; i < got; i++)
        CHECK_EQ((unsigned char)all[i], i % 251);
    return (void *)got;
}

/* A pipe that is non-blocking and full is waited for. */
TEST(a_write_is_whole)
{
    int fds[2];
    pthread_t thread;
    void *got;
    CHECK_EQ(pipe2(fds, O_CLOEXEC), 0);
    CHECK_EQ(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
    static char data[2 << 20];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i % 251);
    CHECK_EQ(pthread_create(&thread, NULL, read_slowly, &fds[0]), 0);
    CHECK_EQ(cli_write_all(fds[1], data, sizeof data), 0);
    close(fds[1]);
    pthread_join(thread, &got);
    CHECK_EQ((size_t)got, sizeof data);
}

TEST(error_words_may_quote_themselves)
{
    CHECK_EQ(cli_error("one %d", 1), -1);
    CHECK_EQ(cli_error("two: %s", cli_error_text()), -1);
    CHECK_STR(cli_error_text(), "two: one 1");
}

TEST_MAIN()
