/* SPDX-License-Identifier: MIT
 *
 * The web server against a client that may send anything.
 */
#include "http.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "base/failure.h"
#include "base/text/json.h"
#include "web/access/address.h"

static void check_status(const struct served *v, const char *method, const char *path, const char *headers, int status)
{
    struct reply r = ask(v, method, path, headers);
    if (r.status != status)
        FAIL("%s %s [%s]: status %d instead of %d: %s", method, path, headers, r.status, status, r.all);
    CHECK_CONTAINS(r.all, "Content-Security-Policy: default-src 'none'; ");
    CHECK_CONTAINS(r.all, "X-Content-Type-Options: nosniff\r\n");
    CHECK_CONTAINS(r.all, "Referrer-Policy: no-referrer\r\n");
    CHECK_CONTAINS(r.all, "Cache-Control: no-store\r\n");
    CHECK(strstr(r.all, "Access-Control-Allow") == NULL);
    reply_free(&r);
}

/* --- paths ------------------------------------------------------------------------- */

TEST(every_path_has_its_content)
{
    static const struct {
        const char *path, *type, *within;
    } paths[] = {
        { "/", "text/html; charset=utf-8", "<!doctype html>" },
        { "/api/stats", "application/json", "\"completed\":100" },
        { "/api/history", "application/json", "\"samples\":[[" },
        { "/api/queue", "application/json", "null\n" }, /* the run has no queue */
        { "/metrics", "text/plain; version=0.0.4; charset=utf-8",
          "gpu_dispatch_tasks_total{state=\"completed\"} 100\n" },
    };
    struct served v;
    serve(&v, "0", NULL);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        char type[128];
        struct reply r = get(&v, paths[i].path, "");
        snprintf(type, sizeof type, "Content-Type: %s\r\n", paths[i].type);
        CHECK_EQ(r.status, 200);
        CHECK_CONTAINS(r.all, type);
        CHECK_CONTAINS(r.body, paths[i].within);
        reply_free(&r);
        check_status(&v, "GET", paths[i].path, "", 200);
    }
    serve_end(&v);
}

/* A web_queue_fn. */
static void made_up_queue(void *user, struct web_queue *out)
{
    const struct gd_queue_node node = { .host = "n1", .id = "0123", .workers = 8, .note = user };
    out->nodes_known = web_queue_add(out, &node) == 0;
    out->connected = true;
    out->tasks = 5;
}

TEST(the_queue_of_a_run_has_its_nodes)
{
    struct served v = { 0 };
    char note[] = "GPU 3 was lost";
    serve_with(&v, &(struct web_options){ .at = "0", .queue = made_up_queue, .queue_user = note });
    struct reply r = get(&v, "/api/queue", "");
    CHECK_EQ(r.status, 200);
    CHECK_CONTAINS(r.body, "\"tasks\":5,\"records\":0,");
    CHECK_CONTAINS(r.body, "\"note\":\"GPU 3 was lost\"}]}");
    reply_free(&r);
    r = get(&v, "/metrics", "");
    CHECK_CONTAINS(r.body, "gpu_dispatch_tasks_total{state=\"completed\"} 100\n");
    CHECK_CONTAINS(r.body, "\ngpu_dispatch_queue_nodes 1\n");
    reply_free(&r);
    v.auth[0] = '\0';
    check_status(&v, "GET", "/api/queue", "", 401);
    serve_end(&v);
}

TEST(a_head_has_the_headers_and_no_body)
{
    static const char *const paths[] = { "/", "/api/stats", "/api/history", "/metrics", "/api/events" };
    struct served v;
    serve(&v, "0", NULL);
    for (size_t i = 0; i < 5; i++) {
        struct reply r = ask(&v, "HEAD", paths[i], "");
        CHECK_EQ(r.status, 200);
        CHECK_EQ(r.size, 0);
        reply_free(&r);
    }
    CHECK_EQ(web_server_watchers(v.server), 0);
    serve_end(&v);
}

TEST(anything_else_is_not_found)
{
    static const char *const paths[] = { "/x",           "/api",       "/api/",      "/api/stats/",
                                         "//",           "/metrics2",  "/../etc",    "/%2e%2e/etc",
                                         "/favicon.ico", "/API/STATS", "/index.html" };
    struct served v;
    serve(&v, "0", NULL);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        check_status(&v, "GET", paths[i], "", 404);
    serve_end(&v);
}

TEST(only_get_and_head_are_allowed)
{
    static const char *const methods[] = { "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", "FOO" };
    struct served v;
    serve(&v, "0", NULL);
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        struct reply r = ask(&v, methods[i], "/api/stats", "");
        CHECK_EQ(r.status, 405);
        CHECK_CONTAINS(r.all, "Allow: GET, HEAD\r\n");
        reply_free(&r);
    }
    check_status(&v, "POST", "/", "Content-Length: 5\r\n\r\nhello", 405);
    serve_end(&v);
}

TEST(stats_are_json_with_every_figure)
{
    static const char *const figures[] = { "\"total\":1000",
                                           "\"taken\":120",
                                           "\"pending\":7",
                                           "\"running\":2",
                                           "\"completed\":100",
                                           "\"failed\":8",
                                           "\"timeouts\":3",
                                           "\"retried\":5",
                                           "\"skipped\":11",
                                           "\"cancelled\":4",
                                           "\"figures\":{\"passed\":122,\"total\":1000,\"eta\":null,",
                                           "\"rate\":null,\"mean_rate\":5",
                                           "\"status\":\"processing\"",
                                           "\"setup_failures\":",
                                           "\"restarts\":0",
                                           "\"crashes\":0",
                                           "\"source_done\":0",
                                           "\"n_workers\":2",
                                           "\"job\":\"infer.py {}\"",
                                           "\"pid\":4711",
                                           "\"idle\":\"no input\"",
                                           "\"state\":\"busy\"",
                                           "\"current_task\":0",
                                           "\"current_task\":null",
                                           "\"utilization\":40",
                                           "\"power_watts\":70.5",
                                           "\"memory_free\":536870912" };
    struct served v;
    serve(&v, "0", NULL);
    struct reply r = get(&v, "/api/stats", "");
    CHECK(gd__json_valid(r.body, r.size));
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        CHECK_CONTAINS(r.body, figures[i]);
    reply_free(&r);
    r = get(&v, "/api/history", "");
    CHECK(gd__json_valid(r.body, r.size));
    reply_free(&r);
    serve_end(&v);
}

TEST(figures_that_are_not_known_are_null)
{
    struct served v = { .run = made_up_new(1) };
    v.run->devices[0].known = 0;
    serve_with(&v, &(struct web_options){ .at = "0" });
    struct reply r = get(&v, "/api/stats", "");
    CHECK_CONTAINS(r.body, "\"utilization\":null");
    CHECK_CONTAINS(r.body, "\"memory_total\":null");
    reply_free(&r);
    r = get(&v, "/metrics", "");
    CHECK(strstr(r.body, "gpu_dispatch_gpu_power_watts{") == NULL);
    reply_free(&r);
    serve_end(&v);
}

TEST(hostile_texts_are_json_strings)
{
    struct served v = { .run = made_up_new(1) };
    made_up_fail(v.run, 7, "</script>\"\\\n\x01\xff\xe2\x80\xa8", "\xc3(\xf0\x9f\x98\x80\x7f");
    serve_with(&v, &(struct web_options){ .at = "0" });
    struct reply r = get(&v, "/api/stats", "");
    CHECK(gd__json_valid(r.body, r.size));
    CHECK_CONTAINS(r.body, "\"input\":\"</script>\\\"\\\\\\n\\u0001\\udcff");
    CHECK_EQ(strlen(r.body), strcspn(r.body, "\n") + 1);
    reply_free(&r);
    serve_end(&v);
}

/* --- which clients are answered -------------------------------------------------------- */

static struct reply with_host(const struct served *v, const char *host)
{
    char text[512];
    snprintf(text, sizeof text, "GET /api/stats HTTP/1.1\r\n%s%sConnection: close\r\n\r\n", host, v->auth);
    int fd = http_connect(v);
    http_send(fd, text, strlen(text));
    return http_reply(fd);
}

TEST(only_names_of_this_machine)
{
    static const struct {
        const char *name;
        bool port, good;
    } hosts[] = {
        { "127.0.0.1", true, true },  { "localhost", true, true },       { "LOCALHOST", true, true },
        { "[::1]", true, true },      { "127.0.0.1", false, false },     { "localhost", false, false },
        { "evil.test", true, false }, { "evil.test", false, false },     { "127.0.0.1.evil.test", true, false },
        { "", true, false },          { "localhost.evil", true, false }, { "0.0.0.0", true, false },
        { "127.0.0.2", true, false },
    };
    struct served v;
    serve(&v, "127.0.0.1:0", NULL);
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        char host[256], port[16] = "";
        if (hosts[i].port)
            snprintf(port, sizeof port, ":%u", v.port);
        snprintf(host, sizeof host, "Host: %s%s\r\n", hosts[i].name, port);
        struct reply r = with_host(&v, host);
        if (r.status != (hosts[i].good ? 200 : 403))
            FAIL("%s: %d", host, r.status);
        reply_free(&r);
    }
    serve_end(&v);
}

TEST(another_port_no_host_or_two_are_refused)
{
    struct served v;
    char twice[256], other[64];
    serve(&v, "0", NULL);
    snprintf(twice, sizeof twice, "Host: localhost:%u\r\nHost: localhost:%u\r\n", v.port, v.port);
    snprintf(other, sizeof other, "Host: localhost:%u\r\n", v.port == 1 ? 2 : v.port - 1);
    struct reply r = with_host(&v, twice);
    CHECK_NE(r.status, 200);
    reply_free(&r);
    r = with_host(&v, other);
    CHECK_EQ(r.status, 403);
    reply_free(&r);
    r = with_host(&v, "");
    CHECK_NE(r.status, 200);
    reply_free(&r);
    r = say(&v, "GET /api/stats HTTP/1.0\r\n\r\n");
    CHECK_NE(r.status, 200);
    reply_free(&r);
    serve_end(&v);
}

TEST(an_origin_must_be_that_of_the_page)
{
    static const char *const bad[] = {
        "null", "http://evil.test", "https://evil.test", "http://127.0.0.1", "file://", "http://localhost:1", ""
    };
    struct served v;
    char header[128];
    serve(&v, "0", NULL);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(header, sizeof header, "Origin: %s\r\n", bad[i]);
        check_status(&v, "GET", "/api/stats", header, 403);
    }
    snprintf(header, sizeof header, "Origin: http://127.0.0.1:%u\r\n", v.port);
    check_status(&v, "GET", "/api/stats", header, 200);
    char two[256];
    snprintf(two, sizeof two, "%sOrigin: http://evil.test\r\n", header);
    check_status(&v, "GET", "/api/stats", two, 403);
    serve_end(&v);
}

/* The token is needed on the loopback address too, because every user of this machine can reach that address. */
TEST(everything_but_the_page_needs_the_token)
{
    static const char *const paths[] = { "/api/stats", "/api/events", "/api/history",
                                         "/metrics",   "/nothing",    "/favicon.ico" };
    struct served v;
    serve(&v, "127.0.0.1:0", NULL);
    v.auth[0] = '\0';
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        check_status(&v, "GET", paths[i], "", 401);
        check_status(&v, "HEAD", paths[i], "", 401);
    }
    struct reply r = get(&v, "/", "");
    CHECK_EQ(r.status, 200);
    CHECK(strstr(r.body, "infer.py") == NULL);
    reply_free(&r);
    r = get(&v, "/api/stats", "");
    CHECK_CONTAINS(r.all, "WWW-Authenticate: Bearer\r\n");
    CHECK_CONTAINS(r.body, "a token is needed");
    CHECK(strstr(r.all, "completed") == NULL);
    reply_free(&r);
    CHECK_EQ(web_server_watchers(v.server), 0);
    serve_end(&v);
}

TEST(only_the_right_token_in_the_right_place)
{
    static const char *const wrong[] = {
        "Authorization: Bearer a-good.token~12\r\n",
        "Authorization: Bearer a-good.token~124\r\n",
        "Authorization: Bearer b-good.token~123\r\n",
        "Authorization: Bearer a-good.token~1234\r\n",
        "Authorization: Bearer A-GOOD.TOKEN~123\r\n",
        "Authorization: Bearer \r\n",
        "Authorization: Bearer\r\n",
        "Authorization: a-good.token~123\r\n",
        "Authorization: Basic a-good.token~123\r\n",
        "Cookie: token=a-good.token~123\r\n",
        "X-Token: a-good.token~123\r\n",
        "Referer: http://127.0.0.1/#token=a-good.token~123\r\n",
    };
    struct served v;
    serve(&v, "0", "a-good.token~123");
    CHECK_CONTAINS(web_server_link(v.server), "/#token=a-good.token~123");
    CHECK(strstr(web_server_url(v.server), "token") == NULL);
    v.auth[0] = '\0';
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        check_status(&v, "GET", "/api/stats", wrong[i], 401);
    check_status(&v, "GET", "/api/stats?token=a-good.token~123", "", 401);
    check_status(&v, "GET", "/metrics?token=a-good.token~123", "", 401);
    check_status(&v, "GET", "/api/stats", "Authorization: Bearer a-good.token~123\r\n", 200);
    check_status(&v, "GET", "/api/stats", "authorization: bearer a-good.token~123\r\n", 200);
    check_status(&v, "GET", "/nothing", "Authorization: Bearer a-good.token~123\r\n", 404);
    serve_end(&v);
}

TEST(a_token_is_made_for_each_run)
{
    static const char *const at[] = { "0", "0.0.0.0:0" };
    for (size_t i = 0; i < 2; i++) {
        struct served v, w;
        serve(&v, at[i], NULL);
        serve(&w, at[i], NULL);
        CHECK_EQ(strlen(v.auth), strlen("Authorization: Bearer \r\n") + 32);
        CHECK(strcmp(v.auth, w.auth) != 0);
        check_status(&v, "GET", "/api/stats", "", 200);
        /* if every host name is accepted, the token decides; but requests from pages of other sites are refused */
        check_status(&v, "GET", "/api/stats", "Origin: http://evil.test\r\n", 403);
        memcpy(w.auth, v.auth, sizeof w.auth);
        check_status(&w, "GET", "/api/stats", "", 401);
        serve_end(&v);
        serve_end(&w);
    }
}

TEST(tokens_that_are_refused)
{
    static const char *const bad[] = { "", "short", "with space", "per%cent%", "an&dand&", "umlaut-\xc3\xa4\xc3\xa4" };
    struct made_up *m = made_up_new(1);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct web_server *s = NULL;
        const struct web_options o = { .at = "0", .token = bad[i], .read = made_up_read, .user = m };
        CHECK_EQ(web_server_open(&s, &o), -1);
        CHECK_CONTAINS(gd__fail_text(), "a token must be 8 to 128 letters");
    }
    free(m);
}

/* --- addresses ----------------------------------------------------------------------------- */

TEST(addresses_as_people_write_them)
{
    static const struct {
        const char *text, *host;
        unsigned port;
        bool loopback, any;
    } good[] = {
        { "8080", "127.0.0.1", 8080, true, false },
        { "127.0.0.1:0", "127.0.0.1", 0, true, false },
        { "localhost:80", "127.0.0.1", 80, true, false },
        { "[::1]:8080", "[::1]", 8080, true, false },
        { "0.0.0.0:65535", "0.0.0.0", 65535, false, true },
        { "[::]:1", "[::]", 1, false, true },
        { "192.168.1.2:90", "192.168.1.2", 90, false, false },
        { "127.9.9.9:90", "127.9.9.9", 90, true, false },
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct web_address a;
        CHECK_EQ(web_address_parse(&a, good[i].text), 0);
        CHECK_STR(a.host, good[i].host);
        CHECK_EQ(a.port, good[i].port);
        CHECK_EQ(a.loopback, good[i].loopback);
        CHECK_EQ(a.any, good[i].any);
    }
}

TEST(invalid_addresses)
{
    static const char *const bad[] = { "",        "x",        "65536",    "-1",          "80x",    ":80",
                                       "host:80", "1.2.3:80", "1.2.3.4:", "[::1]",       "::1:80", "[::1:80",
                                       "[]:80",   "[x]:80",   "::",       "1.2.3.4.5:1", " 80",    "999.1.1.1:80" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct web_address a;
        if (web_address_parse(&a, bad[i]) != -1)
            FAIL("\"%s\" was taken", bad[i]);
        CHECK_CONTAINS(gd__fail_text(), "--http");
    }
    struct web_address a;
    CHECK_EQ(web_address_parse(&a, "::1:80"), -1);
    CHECK_CONTAINS(gd__fail_text(), "[::1]:8080");
}

TEST(a_port_in_use_or_an_address_of_others)
{
    struct served v;
    struct web_server *s = NULL;
    char at[32];
    serve(&v, "0", NULL);
    snprintf(at, sizeof at, "%u", v.port);
    const struct web_options o = { .at = at, .read = made_up_read, .user = v.run };
    CHECK_EQ(web_server_open(&s, &o), -1);
    CHECK_CONTAINS(gd__fail_text(), "is in use: choose another");
    const struct web_options p = { .at = "192.0.2.1:8080", .read = made_up_read, .user = v.run };
    CHECK_EQ(web_server_open(&s, &p), -1);
    CHECK_CONTAINS(gd__fail_text(), "not an address of this machine");
    serve_end(&v);
}

/* --- events ------------------------------------------------------------------------------------ */

TEST(events_begin_with_the_state_and_go_on)
{
    struct served v;
    serve(&v, "0", NULL);
    struct stream s = watch_events(&v);
    CHECK(stream_until(&s, "event: state\ndata: {"));
    CHECK_CONTAINS(s.text, "Content-Type: text/event-stream\r\n");
    CHECK(stream_until(&s, "event: update\n"));
    made_up_fail(v.run, 77, "in", "it went wrong");
    CHECK(stream_until(&s, "it went wrong"));
    CHECK(stream_until(&s, "[77,0,0,0.5000,0.6000,1,\"error\",0]"));
    CHECK(strstr(s.text, "it went wrong") > strstr(s.text, "event: update"));
    web_server_close(&v.server);
    CHECK(stream_until(&s, "event: end\n"));
    CHECK(!stream_until(&s, "nothing follows"));
    CHECK_CONTAINS(strstr(s.text, "event: end\n"), "\"ended\":true");
    stream_close(&s);
    serve_end(&v);
}

TEST(a_late_client_gets_the_earlier_events)
{
    struct served v = { .run = made_up_new(1) };
    made_up_fail(v.run, 77, "in", "it went wrong");
    serve_with(&v, &(struct web_options){ .at = "0" });
    struct stream s = watch_events(&v);
    CHECK(stream_until(&s, "\"tasks_missed\":0"));
    CHECK(stream_until(&s, "it went wrong"));
    CHECK(stream_until(&s, "[77,0,0,0.5000,0.6000,1,\"error\",0]"));
    CHECK(!strstr(s.text, "event: update") || strstr(s.text, "it went wrong") < strstr(s.text, "event: update"));
    stream_close(&s);
    serve_end(&v);
}

/* The data of each event are one JSON text. */
TEST(each_event_is_whole)
{
    struct served v;
    serve(&v, "0", NULL);
    struct stream s = watch_events_by(&v, "1.0");
    CHECK(stream_until(&s, "event: update\n"));
    web_server_close(&v.server);
    CHECK(!stream_until(&s, "nothing follows"));
    size_t n = 0;
    for (const char *at = strstr(s.text, "data: "); at; at = strstr(at + 6, "data: "), n++) {
        CHECK(gd__json_valid(at + 6, strcspn(at + 6, "\n")));
        CHECK_EQ(strncmp(at + 6 + strcspn(at + 6, "\n"), "\n\n", 2), 0);
    }
    CHECK_GE(n, 3);
    stream_close(&s);
    serve_end(&v);
}

/* Closing does not wait for clients that do not read. It takes less time than the limit for idle connections (15 s). */
TEST(closing_does_not_wait_for_clients)
{
    struct served v;
    struct timespec from, to;
    serve(&v, "0", NULL);
    struct stream s[20];
    int idle[20];
    for (size_t i = 0; i < 20; i++) {
        s[i] = watch_events(&v); /* only the beginning is read */
        idle[i] = http_connect(&v);
    }
    for (size_t i = 0; i < 20; i++) /* a client that connects only now gets the end in its first event */
        CHECK(stream_until(&s[i], "event: state\n"));
    clock_gettime(CLOCK_MONOTONIC, &from);
    web_server_close(&v.server);
    clock_gettime(CLOCK_MONOTONIC, &to);
    CHECK_LT((to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000, 10000);
    for (size_t i = 0; i < 20; i++) {
        CHECK(stream_until(&s[i], "event: end\n")); /* the event is already in the socket */
        stream_close(&s[i]);
        close(idle[i]);
    }
    serve_end(&v);
}

/* A client that does not read is dropped when its socket is full. Others are served meanwhile. */
TEST_WITHIN(120, a_client_that_does_not_read_is_dropped)
{
    struct served v = { .run = made_up_new(64) };
    serve_with(&v, &(struct web_options){ .at = "0", .idle_s = 1 });
    int small = 4096;
    char text[256];
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)v.port) };
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    snprintf(text, sizeof text, "GET /api/events HTTP/1.1\r\nHost: localhost:%u\r\n%s\r\n", v.port, v.auth);
    http_send(fd, text, strlen(text));
    struct stream reads = watch_events_by(&v, "1.0");
    while (web_server_watchers(v.server) < 2)
        sched_yield();
    for (uint64_t i = 0; web_server_watchers(v.server) > 1; i++) {
        char error[500], last[32];
        memset(error, 'x', sizeof error);
        error[480] = '\0';
        for (size_t k = 1; k < 200; k++)
            made_up_fail(v.run, i, "in", error);
        snprintf(last, sizeof last, "end of %llu;", (unsigned long long)i);
        made_up_fail(v.run, i, "in", last); /* a client that gets this failure has got all of them */
        free(reads.text);
        reads = (struct stream){ .fd = reads.fd, .text = calloc(1, 1) };
        CHECK(stream_until(&reads, last));
    }
    close(fd);
    stream_close(&reads);
    serve_end(&v);
}

TEST(without_clients_the_run_is_read_once_a_second)
{
    struct served v;
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    serve(&v, "0", NULL);
    unsigned reads = 0;
    while (reads < 3) { /* the first read is at the start, then there is one per second */
        pthread_mutex_lock(&v.run->lock);
        reads = v.run->reads;
        pthread_mutex_unlock(&v.run->lock);
        sched_yield();
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    CHECK_GE((to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000, 1900);
    serve_end(&v);
}

/* --- many clients, slow clients, bad requests ------------------------------------------------------ */

static void need_descriptors(rlim_t n)
{
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur >= n)
        return;
    limit.rlim_cur = n;
    if (limit.rlim_max < n || setrlimit(RLIMIT_NOFILE, &limit) < 0)
        SKIP("too few descriptors are allowed");
}

TEST(five_hundred_in_turn)
{
    struct served v;
    serve(&v, "0", NULL);
    for (int i = 0; i < 500; i++) {
        struct stream s = watch_events(&v);
        CHECK(stream_until(&s, "event: state\n"));
        stream_close(&s);
    }
    check_status(&v, "GET", "/api/stats", "", 200);
    serve_end(&v);
}

TEST(two_hundred_at_once)
{
    struct served v;
    need_descriptors(2000); /* a quarter is for connections, and two thirds of that for clients with the token */
    serve(&v, "0", NULL);
    static struct stream s[200];
    for (size_t i = 0; i < 200; i++)
        s[i] = watch_events(&v);
    for (size_t i = 0; i < 200; i++)
        CHECK(stream_until(&s[i], "event: update\n"));
    CHECK_EQ(web_server_watchers(v.server), 200);
    check_status(&v, "GET", "/api/stats", "", 200);
    web_server_close(&v.server);
    for (size_t i = 0; i < 200; i++) {
        CHECK(stream_until(&s[i], "event: end\n"));
        stream_close(&s[i]);
    }
    serve_end(&v);
}

/* If clients open more and more connections, the server refuses them and leaves the run its descriptors. */
TEST(more_clients_than_the_server_accepts)
{
    struct served v;
    need_descriptors(800);
    v = (struct served){ 0 };
    serve_with(&v, &(struct web_options){ .at = "0", .idle_s = 1 });
    int fds[400];
    for (size_t i = 0; i < 400; i++)
        fds[i] = http_connect(&v);
    size_t open_now = 0;
    for (int fd = 0; fd < 2000; fd++)
        open_now += fcntl(fd, F_GETFD) >= 0;
    CHECK_LE(open_now, 400 + 400 + 32);
    for (size_t i = 0; i < 400; i++)
        close(fds[i]);
    struct reply r = get_patiently(&v, "/api/stats"); /* until the server has noticed that the others are gone */
    CHECK_EQ(r.status, 200);
    reply_free(&r);
    serve_end(&v);
}

/* Connects clients that begin a request and never end it. */
static void begin_requests(const struct served *v, int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fds[i] = http_connect(v);
        http_send(fds[i], "GET / HTTP/1.1\r\nX-Slow: ", 24);
    }
}

/* There are more clients than the server has room for. Each sends a byte now and then, so that it is not idle. */
TEST_WITHIN(120, slow_strangers_shut_no_client_out)
{
    enum { SLOW = 600 };
    static int fds[SLOW];
    struct served v = { 0 };
    need_descriptors(2600);
    serve_with(&v, &(struct web_options){ .at = "0", .idle_s = 3600, .request_ms = 3600000 });
    struct stream before = watch_events(&v);
    CHECK(stream_until(&before, "event: state\n"));
    for (size_t begun = 0; begun < SLOW; begun += 100) {
        begin_requests(&v, fds + begun, 100);
        for (size_t i = 0; i < begun; i++)
            http_send(fds[i], "y", 1);
        struct reply r = get(&v, "/api/stats", "");
        CHECK_EQ(r.status, 200);
        reply_free(&r);
    }
    struct stream after = watch_events(&v);
    CHECK(stream_until(&after, "event: state\n"));
    before.size = 0;
    before.text[0] = '\0';
    CHECK(stream_until(&before, "event: update\n"));
    for (size_t i = 0; i < SLOW; i++)
        close(fds[i]);
    stream_close(&before);
    stream_close(&after);
    serve_end(&v);
}

/* The limit for idle connections, which every byte resets, is an hour here. */
TEST(a_request_must_be_complete_in_time)
{
    static const char *const begun[] = { "", "GET", "GET / HTTP/1.1\r\nX: ",
                                         "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc" };
    struct served v = { 0 };
    serve_with(&v, &(struct web_options){ .at = "0", .idle_s = 3600, .request_ms = 100 });
    for (size_t i = 0; i < sizeof begun / sizeof begun[0]; i++) {
        int fd = http_connect(&v);
        http_send(fd, begun[i], strlen(begun[i]));
        struct reply r = http_reply(fd);
        CHECK_EQ(r.status, 0);
        reply_free(&r);
    }
    serve_end(&v);
}

TEST(invalid_requests)
{
    static const char *const texts[] = {
        "\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "\x16\x03\x01\x02\x01\x01",
        "GET / HTTP/1.1\r\nHost\r\n\r\n",
        "GET / HTTP/1.1\r\n: x\r\n\r\n",
        "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        "GET /?token=%zz%%% HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
    };
    struct served v;
    v = (struct served){ 0 };
    serve_with(&v, &(struct web_options){ .at = "0", .idle_s = 1 }); /* so that incomplete requests end soon */
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct reply r = say(&v, texts[i]);
        if (r.status == 200)
            FAIL("\"%s\" was answered", texts[i]);
        reply_free(&r);
    }
    /* an endless header, and random bytes from a seed */
    int fd = http_connect(&v);
    char block[4096];
    memset(block, 'a', sizeof block);
    http_send(fd, "GET / HTTP/1.1\r\nX: ", 19);
    for (int i = 0; i < 64; i++)
        http_send(fd, block, sizeof block);
    struct reply r = http_reply(fd);
    CHECK_NE(r.status, 200);
    reply_free(&r);
    unsigned seed = 12345;
    for (int i = 0; i < 200; i++) {
        for (size_t k = 0; k < 300; k++)
            block[k] = (char)(seed = seed * 1103515245u + 12345u, seed >> 16);
        fd = http_connect(&v);
        http_send(fd, block, 300);
        close(fd);
    }
    r = get_patiently(&v, "/api/stats");
    CHECK_EQ(r.status, 200);
    reply_free(&r);
    serve_end(&v);
}

TEST(two_requests_on_one_connection)
{
    struct served v;
    char text[1024];
    serve(&v, "0", NULL);
    snprintf(text, sizeof text,
             "GET /metrics HTTP/1.1\r\nHost: localhost:%u\r\n%sContent-Length: 3\r\n\r\nxyz"
             "GET /api/history HTTP/1.1\r\nHost: localhost:%u\r\n%sConnection: close\r\n\r\n",
             v.port, v.auth, v.port, v.auth);
    int fd = http_connect(&v);
    http_send(fd, text, strlen(text));
    struct reply r = http_reply(fd);
    CHECK_CONTAINS(r.all, "gpu_dispatch_tasks_total");
    CHECK_CONTAINS(r.all, "\"samples\":[");
    reply_free(&r);
    serve_end(&v);
}

TEST_MAIN()
