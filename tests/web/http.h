/* SPDX-License-Identifier: MIT
 *
 * A small HTTP client that sends exactly the given bytes, and a made-up run for the server.
 *
 *     struct served v;
 *     serve(&v, "0", NULL);                                  // any port, and a random token, which get() sends
 *     struct reply r = get(&v, "/api/stats", "");
 *     CHECK_EQ(r.status, 200);
 *     CHECK_CONTAINS(r.body, "\"completed\":");
 *     reply_free(&r);
 *     web_server_close(&v.server);
 */
#ifndef GD_TESTS_WEB_HTTP_H
#define GD_TESTS_WEB_HTTP_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>

#include "base/failure.h"
#include "support/test.h"
#include "web/server.h"

/* --- a run that a test makes up ------------------------------------------------- */

struct made_up {
    pthread_mutex_t lock;
    struct gd_snapshot s;  /* the result of the next read */
    struct gd_stats stats; /* the statistics of s */
    struct gd_worker_view workers[64];
    struct gd_device_view devices[64];
    struct gd_task_view tasks[1000];
    struct gd_failure_view failures[300];
    unsigned reads;
    /* the result of the last read */
    struct gd_snapshot given;
    struct gd_stats given_stats;
    struct gd_task_view given_tasks[1000];
    struct gd_failure_view given_failures[300];
};

TEST_UNUSED static int made_up_read(void *user, const struct gd_snapshot **out)
{
    struct made_up *m = user;
    pthread_mutex_lock(&m->lock);
    m->reads++;
    m->s.read_ns += 100000000;
    m->given = m->s;
    memcpy(m->given_tasks, m->tasks, m->s.n_tasks * sizeof m->tasks[0]);
    memcpy(m->given_failures, m->failures, m->s.n_failures * sizeof m->failures[0]);
    m->given_stats = m->stats;
    m->given.stats = &m->given_stats;
    m->given.tasks = m->given_tasks;
    m->given.failures = m->given_failures;
    m->s.n_tasks = m->s.n_failures = 0;
    *out = &m->given;
    pthread_mutex_unlock(&m->lock);
    return 0;
}

/* A run with one worker on each GPU. Every second worker is busy. */
TEST_UNUSED static struct made_up *made_up_new(size_t n_gpus)
{
    struct made_up *m = calloc(1, sizeof *m);
    CHECK(m != NULL);
    pthread_mutex_init(&m->lock, NULL);
    m->s = (struct gd_snapshot){ .size = sizeof m->s,
                                 .job = "infer.py {}",
                                 .pid = 4711,
                                 .started = 1.7e9,
                                 .read_ns = 3000000000,
                                 .stats = &m->stats,
                                 .workers = m->workers,
                                 .n_workers = n_gpus,
                                 .devices = m->devices,
                                 .n_devices = n_gpus };
    m->stats = (struct gd_stats){ .size = sizeof m->stats,
                                  .total = 1000,
                                  .taken = 120,
                                  .pending = 7,
                                  .running = 2,
                                  .completed = 100,
                                  .failed = 8,
                                  .timeouts = 3,
                                  .retried = 5,
                                  .start_ns = 1000000000,
                                  .now_ns = 3000000000,
                                  .n_workers = n_gpus,
                                  .skipped = 11,
                                  .cancelled = 4 };
    for (size_t i = 0; i < n_gpus; i++) {
        m->workers[i] = (struct gd_worker_view){ .worker_id = i,
                                                 .gpu_id = (int64_t)i,
                                                 .state = i % 2 ? GD_WORKER_IDLE : GD_WORKER_BUSY,
                                                 .current_task = i % 2 ? UINT64_MAX : i,
                                                 .completed = 50,
                                                 .failed = 2,
                                                 .busy_ns = 1500000000,
                                                 .last_ns = 20000000,
                                                 .idle = i % 2 ? GD_IDLE_NO_INPUT : GD_IDLE_NOT };
        m->devices[i] = (struct gd_device_view){ .gpu_id = (int64_t)i,
                                                 .group = (int64_t)i,
                                                 .vendor = 4,
                                                 .known = 15,
                                                 .memory_total = 1 << 30,
                                                 .memory_free = 1 << 29,
                                                 .utilization = 40,
                                                 .temperature = 50,
                                                 .power_mw = 70500 };
        snprintf(m->devices[i].name, sizeof m->devices[i].name, "GPU \"%zu\" \\ of\nmany", i);
    }
    return m;
}

TEST_UNUSED static void made_up_fail(struct made_up *m, uint64_t task, const char *input, const char *error)
{
    pthread_mutex_lock(&m->lock);
    CHECK(m->s.n_tasks < sizeof m->tasks / sizeof m->tasks[0]);
    CHECK(m->s.n_failures < sizeof m->failures / sizeof m->failures[0]);
    const struct gd_task_view t = { .task_id = task,
                                    .worker_id = 0,
                                    .gpu_id = 0,
                                    .start_ns = 1500000000,
                                    .end_ns = 1600000000,
                                    .attempt = 1,
                                    .failure = GD_FAILURE_ERROR };
    m->tasks[m->s.n_tasks++] = t;
    struct gd_failure_view *f = &m->failures[m->s.n_failures++];
    *f = (struct gd_failure_view){
        .task_id = t.task_id, .start_ns = t.start_ns, .end_ns = t.end_ns, .attempt = t.attempt, .failure = t.failure
    };
    snprintf(f->input, sizeof f->input, "%s", input);
    snprintf(f->error, sizeof f->error, "%s", error);
    m->stats.failed++;
    pthread_mutex_unlock(&m->lock);
}

/* --- a server of the made-up run --------------------------------------------------- */

struct served {
    struct made_up *run;
    struct web_server *server;
    unsigned port;
    char auth[192]; /* the header line with the token; "": no token is sent */
};

TEST_UNUSED static void serve_with(struct served *v, const struct web_options *o)
{
    struct web_options with = *o;
    v->run = v->run ? v->run : made_up_new(2);
    with.read = made_up_read;
    with.user = v->run;
    if (web_server_open(&v->server, &with) < 0)
        FAIL("%s", gd__fail_text());
    const char *colon = strrchr(web_server_url(v->server), ':');
    v->port = (unsigned)atoi(colon + 1);
    CHECK_GT(v->port, 0);
    const char *token = strstr(web_server_link(v->server), "#token=");
    CHECK(token != NULL);
    snprintf(v->auth, sizeof v->auth, "Authorization: Bearer %s\r\n", token + strlen("#token="));
}

TEST_UNUSED static void serve(struct served *v, const char *at, const char *token)
{
    *v = (struct served){ 0 };
    serve_with(v, &(struct web_options){ .at = at, .token = token });
}

TEST_UNUSED static void serve_end(struct served *v)
{
    web_server_close(&v->server);
    pthread_mutex_destroy(&v->run->lock);
    free(v->run);
}

/* --- the client ---------------------------------------------------------------------- */

struct reply {
    int status; /* 0: the server closed the connection without an answer */
    char *all;  /* headers and body */
    char *body;
    size_t size; /* of the body as sent */
};

TEST_UNUSED static int http_connect(const struct served *v)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)v->port) };
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) < 0)
        FAIL("connect: %s", strerror(errno));
    return fd;
}

TEST_UNUSED static void http_send(int fd, const void *data, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t n = send(fd, (const char *)data + at, size - at, MSG_NOSIGNAL);
        if (n < 0)
            return; /* the server has closed the connection; its answer can still be read */
        at += (size_t)n;
    }
}

/* Reads everything until the server closes the connection. */
TEST_UNUSED static struct reply http_reply(int fd)
{
    struct reply r = { .all = calloc(1, 1) };
    size_t size = 0;
    CHECK(r.all != NULL);
    for (;;) {
        char block[16384];
        ssize_t n = recv(fd, block, sizeof block, 0);
        if (n <= 0)
            break;
        char *larger = realloc(r.all, size + (size_t)n + 1);
        CHECK(larger != NULL);
        r.all = larger;
        memcpy(r.all + size, block, (size_t)n);
        size += (size_t)n;
        r.all[size] = '\0';
    }
    close(fd);
    int status = 0;
    if (sscanf(r.all, "HTTP/1.%*d %d", &status) == 1) /* NOLINT(cert-err34-c) */
        r.status = status;
    r.body = strstr(r.all, "\r\n\r\n");
    r.body = r.body ? r.body + 4 : r.all + size;
    r.size = size - (size_t)(r.body - r.all);
    return r;
}

TEST_UNUSED static void reply_free(struct reply *r)
{
    free(r->all);
}

TEST_UNUSED static struct reply say(const struct served *v, const char *text)
{
    int fd = http_connect(v);
    http_send(fd, text, strlen(text));
    shutdown(fd, SHUT_WR);
    return http_reply(fd);
}

/* A request with the right Host and token, and these header lines, each with its \r\n. */
TEST_UNUSED static struct reply ask(const struct served *v, const char *method, const char *path, const char *headers)
{
    char text[4096];
    snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nConnection: close\r\n%s%s\r\n", method, path,
             v->port, v->auth, headers);
    int fd = http_connect(v);
    http_send(fd, text, strlen(text));
    return http_reply(fd);
}

TEST_UNUSED static struct reply get(const struct served *v, const char *path, const char *headers)
{
    return ask(v, "GET", path, headers);
}

/* Repeats the request until it is answered. If the server is full, or has waited too long for a client on a busy
 * machine, it closes the connection without an answer. */
TEST_UNUSED static struct reply get_patiently(const struct served *v, const char *path)
{
    for (;;) {
        struct reply r = get(v, path, "");
        if (r.status != 0)
            return r;
        reply_free(&r);
        sched_yield();
    }
}

/* A stream of events. stream_until() reads until the text has come, and keeps everything that was read. It returns
 * false if the stream ended before. */
struct stream {
    int fd;
    char *text;
    size_t size;
};

/* version: 1.1, or 1.0 for a stream that is not split into chunks. */
TEST_UNUSED static struct stream watch_events_by(const struct served *v, const char *version)
{
    char text[512];
    struct stream s = { .fd = http_connect(v), .text = calloc(1, 1) };
    snprintf(text, sizeof text, "GET /api/events HTTP/%s\r\nHost: localhost:%u\r\n%s\r\n", version, v->port, v->auth);
    http_send(s.fd, text, strlen(text));
    return s;
}

TEST_UNUSED static struct stream watch_events(const struct served *v)
{
    return watch_events_by(v, "1.1");
}

TEST_UNUSED static bool stream_until(struct stream *s, const char *wanted)
{
    while (!strstr(s->text, wanted)) {
        char block[16384];
        ssize_t n = recv(s->fd, block, sizeof block, 0);
        if (n <= 0)
            return false;
        s->text = realloc(s->text, s->size + (size_t)n + 1);
        CHECK(s->text != NULL);
        memcpy(s->text + s->size, block, (size_t)n);
        s->size += (size_t)n;
        s->text[s->size] = '\0';
    }
    return true;
}

TEST_UNUSED static void stream_close(struct stream *s)
{
    close(s->fd);
    free(s->text);
}

#endif
