/* SPDX-License-Identifier: MIT
 *
 * A server with one model, for tests of downloads. A case sets in `server` how it behaves, and `thing` is the entry of
 * the table of published models.
 */
#ifndef GD_TESTS_TRANSCRIBE_MODELS_MODEL_SERVER_H
#define GD_TESTS_TRANSCRIBE_MODELS_MODEL_SERVER_H

#include <inttypes.h>

#include "apps/transcribe/download/download.h"
#include "apps/transcribe/fetch/fetch.h"
#include "apps/transcribe/model/model_sums.h"
#include "apps/transcribe/model/sha1.h"
#include "base/failure.h"
#include "support/directory.h"
#include "transcribe/http_server.h"

enum { SIZE = 300001, EVERYTHING = SIZE + 1 };

static struct {
    char content[SIZE];
    const char *tag, *date; /* headers; NULL: none */
    bool no_ranges;         /* always sends the whole file */
    bool careless;          /* ignores If-Range */
    bool slow;              /* sends the beginning of an answer byte by byte */
    bool no_length;         /* ends the answer by closing the connection */
    int status;             /* if not 0: the answer to every request */
    size_t cut;             /* closes the connection after this many bytes of content */
    const char *location;   /* redirects requests that do not begin with this path to it */
    void (*middle)(void);   /* called when half of the content is sent; NULL: not called */
    int requests;
    char request[REQUEST_ROOM]; /* the last one */
} server;

static char sum[TR_SUM_TEXT];
static struct tr_published thing = { "thing", SIZE, sum, NULL, false };
static char *path; /* of the downloaded model */
static int events[8];

/* --- the server --- */

static void send_content(int s, size_t from)
{
    const size_t until = server.cut < SIZE ? server.cut : SIZE, half = from + (SIZE - from) / 2;
    size_t at = from;
    if (server.middle && half < until) {
        send_all(s, server.content + at, half - at);
        server.middle();
        at = half;
    }
    for (size_t i = 0; server.slow && i < 100 && at < until; i++)
        send_all(s, server.content + at++, 1);
    if (at < until)
        send_all(s, server.content + at, until - at);
}

/* Where the content should begin, as the request says. */
static size_t wanted(const char *request)
{
    const char *range = strstr(request, "\r\nRange: bytes="), *condition = strstr(request, "\r\nIf-Range: ");
    const char *now = server.tag ? server.tag : server.date ? server.date : "none";
    if (!range || server.no_ranges)
        return 0;
    if (condition && !server.careless && strncmp(condition + 12, now, strlen(now)) != 0)
        return 0;
    return strtoul(range + 15, NULL, 10);
}

static void send_head(int s, size_t from)
{
    char head[1000];
    int n = snprintf(head, sizeof head, "HTTP/1.1 %s\r\nConnection: close\r\n", from ? "206 Part" : "200 OK");
    if (from)
        n += snprintf(head + n, sizeof head - (size_t)n, "Content-Range: bytes %zu-%d/%d\r\n", from, SIZE - 1, SIZE);
    if (!server.no_length)
        n += snprintf(head + n, sizeof head - (size_t)n, "content-length: %zu\r\n", SIZE - from);
    if (server.tag)
        n += snprintf(head + n, sizeof head - (size_t)n, "ETag: %s\r\n", server.tag);
    if (server.date)
        n += snprintf(head + n, sizeof head - (size_t)n, "Last-Modified: %s\r\n", server.date);
    snprintf(head + n, sizeof head - (size_t)n, "\r\n");
    for (const char *c = head; server.slow && *c; c++)
        send_all(s, c, 1);
    send_text(s, server.slow ? "" : head);
}

static void answer(int s, const char *request)
{
    char head[300];
    server.requests++;
    snprintf(server.request, sizeof server.request, "%s", request);
    if (server.status) {
        snprintf(head, sizeof head, "HTTP/1.1 %d Status\r\nContent-Length: 13\r\n\r\n<h1>Page</h1>", server.status);
        send_text(s, head);
    } else if (server.location && strncmp(request + 4, server.location, strlen(server.location)) != 0) {
        snprintf(head, sizeof head,
                 "HTTP/1.1 302 There\r\nETag: \"other\"\r\nLocation: %s\r\nContent-Length: 9\r\n\r\nelsewhere",
                 server.location);
        send_text(s, head);
    } else {
        const size_t from = wanted(request);
        send_head(s, from);
        send_content(s, from);
    }
}

/* --- what cases need --- */

/* Fills the content, and makes it the published one. */
static void publish(unsigned seed)
{
    struct tr_sha1 sha;
    for (size_t i = 0; i < SIZE; i++)
        server.content[i] = (char)((seed = seed * 1664525u + 1013904223u) >> 24);
    tr_sha1_begin(&sha);
    tr_sha1_add(&sha, server.content, SIZE);
    tr_sha1_end(&sha, sum);
}

static void enter(void)
{
    static const char *const variables[] = { "XDG_CACHE_HOME", "http_proxy",  "https_proxy", "all_proxy", "no_proxy",
                                             "HTTP_PROXY",     "HTTPS_PROXY", "ALL_PROXY",   "NO_PROXY" };
    if (tr_fetch_possible() < 0)
        SKIP(gd__fail_text());
    directory_enter();
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    setenv("HOME", directory_path, 1);
    server.tag = "\"one\"";
    server.cut = EVERYTHING;
    publish(1);
    tr_published_replace(&thing, 1);
    http_begin();
}

static void count(void *user, enum tr_download_event event, uint64_t have, uint64_t total)
{
    (void)user;
    events[event]++;
    CHECK(have <= total);
    CHECK_EQ(total, SIZE);
}

static int download(void)
{
    const struct tr_download d = { .model = &thing, .directory = "models", .base = http_base, .event = count };
    free(path);
    memset(events, 0, sizeof events);
    return tr_download(&d, &path);
}

static void check_exists(const char *name, bool expected)
{
    if ((access(name, F_OK) == 0) != expected)
        FAIL("%s %s", name, expected ? "is missing" : "exists");
}

#define MODEL   "models/ggml-thing.bin"
#define PART    MODEL ".part"
#define VERSION PART ".version"

/* Downloads the model, and checks that it is complete. */
TEST_UNUSED static void succeed(void)
{
    static char got[SIZE + 1];
    if (download() != 0)
        FAIL("%s", gd__fail_text());
    CHECK_STR(path, MODEL);
    const int fd = open(MODEL, O_RDONLY | O_CLOEXEC);
    CHECK_EQ(read(fd, got, sizeof got), SIZE);
    close(fd);
    CHECK(memcmp(got, server.content, SIZE) == 0);
    check_exists(PART, false);
    check_exists(VERSION, false);
}

/* Downloads the model, which fails with this message, and checks how many bytes are kept. */
TEST_UNUSED static void fail(const char *message, size_t kept)
{
    struct stat st;
    CHECK_EQ(download(), -1);
    CHECK_CONTAINS(gd__fail_text(), message);
    CHECK(path == NULL);
    check_exists(MODEL, false);
    check_exists(PART, kept > 0);
    if (kept > 0) {
        CHECK_EQ(stat(PART, &st), 0);
        CHECK_EQ(st.st_size, kept);
        CHECK_CONTAINS(gd__fail_text(), "What has arrived is kept: run the same command again to go on");
    } else {
        check_exists(VERSION, false);
        CHECK(!strstr(gd__fail_text(), "is kept"));
    }
}

#endif
