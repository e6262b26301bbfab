/* SPDX-License-Identifier: MIT
 *
 * The link when servers, connections and answers get lost: each request ends exactly once (answers.c checks that), and
 * the link works again when the server is back.
 */
#include "queue/answers.h"
#include "queue/proxy.h"
#include "queue/server.h"
#include "support/test.h"

#include <gpu_dispatch/error.h>

enum { LONG_MS = 3600000 };

static struct server server;
static struct proxy proxy;
static struct answers answers;

#define ASK(...)  answers_ask(&answers, &(struct gd__queue_request){ __VA_ARGS__ })
#define SEND(...) answers_send(&answers, &(struct gd__queue_request){ __VA_ARGS__ })

static void begin(void)
{
    server_start(&server, NULL);
    answers_open(&answers, server.hosts, "q", NULL);
    answers_make_queue(&answers, 30000, 1);
}

static void begin_with_proxy(void)
{
    server_start(&server, NULL);
    proxy_start(&proxy, server.port);
    answers_open(&answers, proxy.hosts, "q", NULL);
    answers_make_queue(&answers, 30000, 1);
}

static enum gd__queue_answer_kind add(const char *subject)
{
    return answers_publish(&answers, subject, "data", GD__IF_NONE, 0);
}

TEST(a_server_that_dies_and_comes_back)
{
    begin();
    CHECK_EQ(add("gd.q.t.3.a"), GD__ANSWER_OK);
    const uint64_t pull = SEND(.ask = GD__ASK_PULL, .most = 1, .wait_ms = LONG_MS);
    CHECK_EQ(ASK(.ask = GD__ASK_SERVER)->kind, GD__ANSWER_OK);
    server_kill(&server);
    CHECK_EQ(answers_end(&answers, pull)->kind, GD__ANSWER_LOST);
    answers_await(&answers, 1, 0);
    const uint64_t asked_when_down = SEND(.ask = GD__ASK_SERVER, .timeout_ms = LONG_MS);
    CHECK_EQ(ASK(.ask = GD__ASK_SERVER, .timeout_ms = 1)->kind, GD__ANSWER_LOST);
    server_again(&server);
    answers_await(&answers, 1, 1);
    CHECK_EQ(answers_end(&answers, asked_when_down)->kind, GD__ANSWER_LOST);
    const struct answer *e = ASK(.ask = GD__ASK_STREAM, .stream = GD__QUEUE_TASK);
    CHECK_EQ(e->kind, GD__ANSWER_OK);
    CHECK_EQ(e->a.stream.messages, 1);
    answers_close(&answers);
}

TEST(a_server_that_does_not_answer_in_time)
{
    begin();
    server_stop(&server);
    CHECK_EQ(ASK(.ask = GD__ASK_PUBLISH, .subject = "gd.q.t.0.a", .timeout_ms = 50)->kind, GD__ANSWER_LOST);
    CHECK_EQ(ASK(.ask = GD__ASK_PULL, .most = 1, .wait_ms = 20, .timeout_ms = 30)->kind, GD__ANSWER_LOST);
    server_continue(&server);
    CHECK_EQ(add("gd.q.t.0.a"), GD__ANSWER_REFUSED); /* the first one was stored; its answer came too late */
    answers_close(&answers);
}

/* Not because its time is over. */
TEST(a_request_ends_when_the_connection_is_lost)
{
    begin();
    server_stop(&server);
    const uint64_t id = SEND(.ask = GD__ASK_SERVER, .timeout_ms = LONG_MS);
    server_kill(&server);
    CHECK_EQ(answers_end(&answers, id)->kind, GD__ANSWER_LOST);
    answers_close(&answers);
}

/* The pull has ended for the link when its message comes. The message goes back at once, not after the lease. */
TEST(a_task_that_comes_too_late_is_given_back)
{
    begin_with_proxy();
    CHECK_EQ(add("gd.q.t.0.a"), GD__ANSWER_OK);
    proxy_set(&proxy, PROXY_DOWN, PROXY_HOLD);
    const struct answer *e = ASK(.ask = GD__ASK_PULL, .most = 1, .timeout_ms = 50);
    CHECK_EQ(e->kind, GD__ANSWER_LOST);
    proxy_set(&proxy, PROXY_DOWN, PROXY_PASS);
    CHECK_EQ(ASK(.ask = GD__ASK_SERVER)->kind, GD__ANSWER_OK); /* comes after the message */
    e = ASK(.ask = GD__ASK_PULL, .most = 1, .wait_ms = 20000);
    CHECK_EQ(e->kind, GD__ANSWER_OK);
    CHECK_EQ(answers_items(&answers, e->id), 1);
    answers_close(&answers);
}

TEST(a_connection_that_is_cut_and_comes_back)
{
    begin_with_proxy();
    for (unsigned i = 1; i <= 3; i++) {
        const uint64_t pull = SEND(.ask = GD__ASK_PULL, .most = 1, .wait_ms = LONG_MS);
        CHECK_EQ(ASK(.ask = GD__ASK_SERVER)->kind, GD__ANSWER_OK);
        CHECK(proxy_cut(&proxy) > 0);
        CHECK_EQ(answers_end(&answers, pull)->kind, GD__ANSWER_LOST);
        answers_await(&answers, i, i);
        CHECK_EQ(ASK(.ask = GD__ASK_SERVER)->kind, GD__ANSWER_OK);
    }
    answers_close(&answers);
}

TEST(a_link_is_closed_while_requests_wait)
{
    begin();
    for (int i = 0; i < 100; i++)
        SEND(.ask = GD__ASK_PULL, .most = 1, .wait_ms = LONG_MS);
    answers_close(&answers); /* answers.c would notice a call after this: its memory is gone (ASan) */
}

TEST(a_link_is_closed_while_the_server_is_down)
{
    begin();
    server_kill(&server);
    answers_await(&answers, 1, 0);
    SEND(.ask = GD__ASK_SERVER, .timeout_ms = LONG_MS);
    answers_close(&answers);
}

/* ---- three servers ---- */

/* Asks until the server answers with something else than "later" and "lost". */
static const struct answer *ask_until_answered(const struct gd__queue_request *r)
{
    for (;;) {
        const struct answer *e = answers_ask(&answers, r);
        if (e->kind != GD__ANSWER_LATER && e->kind != GD__ANSWER_LOST)
            return e;
    }
}

TEST_WITHIN(120, a_cluster_loses_its_leader)
{
    struct server servers[CLUSTER_SERVERS];
    const struct gd__queue_request publish = { .ask = GD__ASK_PUBLISH, .subject = "gd.q.r.a", .timeout_ms = 500 };
    const struct gd__queue_request last = { .ask = GD__ASK_LAST, .subject = "gd.q.r.a", .timeout_ms = 500 };
    const struct gd__queue_request stream = { .ask = GD__ASK_STREAM, .stream = GD__QUEUE_RECORD, .timeout_ms = 500 };
    cluster_start(servers, NULL);
    answers_open(&answers, cluster_hosts(servers), "q", NULL);
    answers_make_queue(&answers, 30000, 3);
    const enum gd__queue_answer_kind first = ask_until_answered(&publish)->kind;
    CHECK(first == GD__ANSWER_OK || first == GD__ANSWER_REFUSED); /* refused: the answer to an earlier one was lost */
    struct server *leader = cluster_leader(servers);
    CHECK(leader);
    server_kill(leader);
    CHECK_EQ(ask_until_answered(&publish)->kind, GD__ANSWER_REFUSED);
    while (ask_until_answered(&last)->kind != GD__ANSWER_OK) /* a replica that is behind may answer */
        ;
    const struct answer *e = ask_until_answered(&stream);
    CHECK_EQ(e->kind, GD__ANSWER_OK);
    CHECK_EQ(e->a.stream.messages, 1);
    CHECK_EQ(e->a.stream.replicas, 3);
    answers_close(&answers);
}

/* ---- requests from within the listener ---- */

enum { CHAIN = 2000 };

static void ask_next(struct answers *a, const struct gd__queue_answer *answer)
{
    if (answer->kind == GD__ANSWER_OK && answer->id < CHAIN)
        answers_send(a, &(struct gd__queue_request){ .ask = GD__ASK_LAST, .subject = "gd.q.r.none" });
    if (answer->kind == GD__ANSWER_NONE && answer->id < CHAIN)
        answers_send(a, &(struct gd__queue_request){ .ask = GD__ASK_SERVER });
}

TEST(the_listener_asks)
{
    begin();
    pthread_mutex_lock(&answers.lock);
    answers.next_id = 100;
    answers.then = ask_next;
    pthread_mutex_unlock(&answers.lock);
    SEND(.ask = GD__ASK_SERVER);
    answers_end(&answers, CHAIN);
    answers_close(&answers);
}

/* ---- many threads and many cuts ---- */

enum { THREADS = 4, EACH = 500, CUTS = 4 };

static void *ask_many(void *arg)
{
    uint64_t ids[EACH];
    char subject[64];
    for (int i = 0; i < EACH; i++) {
        snprintf(subject, sizeof subject, "gd.q.t.0.%p-%d", arg, i % 50);
        ids[i] = SEND(.ask = i % 3 == 0   ? GD__ASK_PUBLISH
                             : i % 3 == 1 ? GD__ASK_LAST
                                          : GD__ASK_SERVER,
                      .subject = subject, .data = "x", .size = 1, .timeout_ms = 10000);
        if (i % 25 == 24)
            (void)answers_end(&answers, ids[i - 20]);
    }
    for (int i = 0; i < EACH; i++)
        (void)answers_end(&answers, ids[i]);
    return NULL;
}

TEST_WITHIN(300, each_request_ends_once_whatever_is_cut)
{
    pthread_t threads[THREADS];
    char names[THREADS];
    begin_with_proxy();
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, ask_many, &names[i]), 0);
    for (unsigned i = 1; i <= CUTS; i++) {
        proxy_cut(&proxy);
        answers_await(&answers, i, i);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(ASK(.ask = GD__ASK_SERVER)->kind, GD__ANSWER_OK);
    answers_close(&answers);
}

/* ---- a server that does not accept the client any more ---- */

TEST_WITHIN(120, credentials_that_are_not_accepted_any_more)
{
    char path[SERVER_PATH + 16], command[3 * SERVER_PATH];
    server_start(&server, &(struct server_options){ .user = "joe", .password = "secret-word" });
    answers_open(&answers, server.hosts, "q", &(struct gd__nats_options){ .user = "joe", .password = "secret-word" });
    server_kill(&server);
    snprintf(path, sizeof path, "%s/config", server.dir);
    snprintf(command, sizeof command, "sed -i s/secret-word/other/ %s", path);
    CHECK_EQ(system(command), 0);
    server_again(&server);
    answers_await(&answers, 2, 0); /* lost, and then given up */
    const struct answer *e = ASK(.ask = GD__ASK_SERVER, .timeout_ms = LONG_MS);
    CHECK_EQ(e->kind, GD__ANSWER_DENIED);
    CHECK(!strstr(answers.why, "secret-word"));
    answers_close(&answers);
}

TEST_MAIN()
