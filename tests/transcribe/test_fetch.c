/* SPDX-License-Identifier: MIT
 *
 * Inputs over HTTP: addresses, what is fetched, and which errors may pass. A server on a thread of this program answers
 * each path in its own way.
 */
#include "apps/transcribe/fetch/fetch.h"
#include "base/failure.h"
#include "transcribe/http_server.h"
#include "transcribe/sounds.h"

enum { LARGE = 3 << 20 };

/* --- the server --- */

static void send_large(int s)
{
    static char part[1 << 16];
    char head[128];
    snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", LARGE);
    send_text(s, head);
    memset(part, 'x', sizeof part);
    for (size_t sent = 0; sent < LARGE; sent += sizeof part)
        send_all(s, part, sizeof part);
}

static void answer(int s, const char *request)
{
    static const struct {
        const char *path, *answer;
    } answers[] = {
        { "/audio/a%20b.wav ", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello" },
        { "/audio/short.wav ", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello" },
        { "/audio/busy.wav ", "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n" },
        { "/audio/secret.wav ", "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n" },
        { "/audio/moved.wav ", "HTTP/1.1 302 There\r\nLocation: /audio/a%20b.wav\r\nContent-Length: 0\r\n\r\n" },
        { "/audio/trick.wav ", "HTTP/1.1 302 There\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n" },
    };
    if (strncmp(request, "GET /audio/large.wav ", 21) == 0) {
        send_large(s);
        return;
    }
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        if (strncmp(request + 4, answers[i].path, strlen(answers[i].path)) == 0) {
            send_text(s, answers[i].answer);
            return;
        }
    }
    send_text(s, "HTTP/1.1 404 Not here\r\nContent-Length: 0\r\n\r\n");
}

static void begin(void)
{
    if (tr_fetch_possible() < 0)
        SKIP(gd__fail_text());
    http_begin();
}

/* --- addresses --- */

static void check_address(const char *from, const char *path, const char *expected)
{
    struct gd__buffer b = { 0 };
    CHECK_EQ(tr_fetch_address(&b, from, path), 0);
    CHECK_STR(b.data, expected);
    gd__buffer_free(&b);
}

TEST(addresses)
{
    check_address("https://h/a", "b.wav", "https://h/a/b.wav");
    check_address("https://h/a//", "//data/b.wav", "https://h/a/data/b.wav");
    check_address("https://h", "a b/\xc3\xa4?#%.wav", "https://h/a%20b/%C3%A4%3F%23%25.wav");
    check_address("https://h", "..a/b../.c", "https://h/..a/b../.c");
}

TEST(paths_that_lead_elsewhere)
{
    static const char *const paths[] = { "", "/", ".", "..", "../a", "a/../b", "a/..", "./a", "a/./b" };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct gd__buffer b = { 0 };
        if (tr_fetch_address(&b, "https://h", paths[i]) == 0)
            FAIL("\"%s\" was accepted: %s", paths[i], b.data);
        gd__buffer_free(&b);
    }
}

TEST(bases)
{
    static const char *const good[] = { "http://h", "HTTPS://h:8080/a/b%20c/", "http://[::1]:80/x" };
    static const char *const bad[] = { "ftp://h/",      "h/a",         "http://",      "https:///a",
                                       "http://h/a?b=", "http://h/#a", "http://h/a b", "http://h/\xc3\xa4" };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK_EQ(tr_fetch_check_base(good[i]), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (tr_fetch_check_base(bad[i]) == 0)
            FAIL("\"%s\" was accepted", bad[i]);
    }
    CHECK_EQ(tr_fetch_check_base("https://me:hunter2@h/a"), -1);
    CHECK_CONTAINS(gd__fail_text(), ".netrc");
    CHECK(!strstr(gd__fail_text(), "hunter2"));
}

/* --- fetching --- */

TEST(a_file)
{
    char got[16];
    begin();
    const int fd = tr_fetch(http_base, "a b.wav", message);
    if (fd < 0)
        FAIL("%s", message);
    CHECK_EQ(pread(fd, got, sizeof got, 0), 5);
    CHECK_MEM(got, "hello", 5);
    close(fd);
}

TEST(a_large_file)
{
    begin();
    const int fd = tr_fetch(http_base, "large.wav", message);
    if (fd < 0)
        FAIL("%s", message);
    CHECK_EQ(lseek(fd, 0, SEEK_END), LARGE);
    close(fd);
}

TEST(a_file_that_was_moved)
{
    begin();
    const int fd = tr_fetch(http_base, "moved.wav", message);
    if (fd < 0)
        FAIL("%s", message);
    CHECK_EQ(lseek(fd, 0, SEEK_END), 5);
    close(fd);
}

static void check_failure(const char *path, int code, const char *words)
{
    const int rc = tr_fetch(http_base, path, message);
    if (rc != code)
        FAIL("%s: %d, not %d (%s)", path, rc, code, message);
    CHECK_CONTAINS(message, words);
}

TEST(failures)
{
    begin();
    check_failure("none.wav", TR_UNFIT, "none.wav is not on the server");
    check_failure("secret.wav", TR_UNFIT, "status 403");
    check_failure("busy.wav", TR_UNREAD, "status 503");
    check_failure("short.wav", TR_UNREAD, "short.wav cannot be fetched: ");
    check_failure("trick.wav", TR_UNFIT, "trick.wav cannot be fetched: ");
    check_failure("a/../b.wav", TR_UNFIT, "\"..\"");
    setenv("TMPDIR", "/nonexistent", 1);
    check_failure("a b.wav", TR_UNREAD, "set TMPDIR");
    unsetenv("TMPDIR");
}

TEST(no_server)
{
    char saved[ADDRESS_ROOM];
    begin();
    memcpy(saved, http_base, sizeof saved);
    snprintf(http_base, sizeof http_base, "http://127.0.0.1:1/");
    check_failure("a.wav", TR_UNREAD, "a.wav cannot be fetched: ");
    memcpy(http_base, saved, sizeof saved);
}

TEST_MAIN()
