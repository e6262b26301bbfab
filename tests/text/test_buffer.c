/* SPDX-License-Identifier: MIT
 *
 * Growing buffers, JSON strings written to and read from them, complete writes, error messages.
 */
#include <fcntl.h>
#include <pthread.h>

#include "base/failure.h"
#include "base/file/write.h"
#include "base/text/buffer.h"
#include "base/text/json.h"
#include "base/text/json_write.h"
#include "cli/common.h"

/* --- JSON ---------------------------------------------------------------------- */

static void check_json(const char *bytes, size_t size, const char *json)
{
    struct gd__buffer b = { 0 }, back = { 0 };
    gd__json_put_string(&b, bytes, size);
    CHECK_EQ(b.size, strlen(json));
    if (memcmp(b.data, json, b.size) != 0)
        FAIL("%.*s, not %s", (int)b.size, b.data, json);
    CHECK(gd__json_read_string(&back, b.data, b.size));
    CHECK_EQ(back.size, size);
    CHECK(size == 0 || memcmp(back.data, bytes, size) == 0);
    CHECK(gd__json_valid(b.data, b.size));
    gd__buffer_free(&b);
    gd__buffer_free(&back);
}

#define JSON(bytes, json) check_json(bytes, sizeof(bytes) - 1, json)

TEST(json_strings_are_written_and_read_back)
{
    JSON("", "\"\"");
    JSON("plain text", "\"plain text\"");
    JSON("a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
    JSON("\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\"");
    JSON("\0\1\x1f\x7f", "\"\\u0000\\u0001\\u001f\\u007f\"");
    JSON("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

TEST(invalid_utf8_is_written_and_read_back)
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

/* Python must read the same bytes that we wrote. */
TEST(python_reads_the_same)
{
    enter_directory();
    if (system("python3 -c 1 2>/dev/null") != 0) /* NOLINT */
        SKIP("no Python");
    char every[512];
    uint32_t state = 7;
    for (size_t i = 0; i < sizeof every; i++)
        every[i] = (char)(i < 256 ? i : (state = state * 1664525 + 1013904223) >> 24);
    struct gd__buffer b = { 0 };
    gd__json_put_string(&b, every, sizeof every);
    make_file("bytes", every, sizeof every);
    make_file("json", b.data, b.size);
    gd__buffer_free(&b);
    int status;
    struct gd__buffer said = shell("python3 -c \"import json, os; print(os.fsencode(json.load(open('json', "
                                   "encoding='utf-8'))) == open('bytes', 'rb').read())\" 2>&1",
                                   &status);
    CHECK_STR(said.data, "True\n");
    gd__buffer_free(&said);
}

static const char *decoded(const char *json)
{
    static struct gd__buffer b;
    b.size = 0;
    if (!gd__json_read_string(&b, json, strlen(json)))
        return NULL;
    gd__buffer_add(&b, "", 1);
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
    struct gd__buffer b = { 0 };
    gd__buffer_text(&b, "x");
    CHECK(!gd__json_read_string(&b, "\"abc\\q\"", 7));
    CHECK_EQ(b.size, 1);
    gd__buffer_free(&b);
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
        if (!gd__json_valid(good[i], strlen(good[i])))
            FAIL("%s is not valid", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (gd__json_valid(bad[i], strlen(bad[i])))
            FAIL("%s is valid", bad[i]);
    }
}

TEST(deeply_nested_json)
{
    static char deep[2000000];
    memset(deep, '[', sizeof deep);
    CHECK(!gd__json_valid(deep, sizeof deep));
    memset(deep, '[', 500);
    memset(deep + 500, ']', 500);
    CHECK(gd__json_valid(deep, 1000));
}

/* --- bytes ------------------------------------------------------------------------ */

TEST(a_buffer_remembers_its_failure)
{
    struct gd__buffer b = { 0 };
    gd__buffer_text(&b, "abc");
    gd__buffer_format(&b, "%d", 5);
    CHECK_EQ(b.size, 4);
    CHECK_MEM(b.data, "abc5", 4);
    gd__buffer_add(&b, "x", SIZE_MAX - 2);
    CHECK(b.failed);
    gd__buffer_text(&b, "y");
    CHECK_EQ(b.size, 4);
    gd__buffer_free(&b);
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

/* If a non-blocking pipe is full, the write waits for room. */
TEST(a_write_is_complete)
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
    CHECK_EQ(gd__write_all(fds[1], data, sizeof data), 0);
    close(fds[1]);
    pthread_join(thread, &got);
    CHECK_EQ((size_t)got, sizeof data);
}

TEST(an_error_message_may_contain_the_previous_one)
{
    CHECK_EQ(gd__fail("one %d", 1), -1);
    CHECK_EQ(gd__fail("two: %s", gd__fail_text()), -1);
    CHECK_STR(gd__fail_text(), "two: one 1");
}

TEST_MAIN()
