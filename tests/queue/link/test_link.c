/* SPDX-License-Identifier: MIT
 *
 * The link to a real server: each request, its answers, and its end.
 */
#include "queue/answers.h"
#include "queue/client.h"
#include "queue/server.h"
#include "support/test.h"

#define TASK(n)   "gd.q.t.0." n
#define RECORD(n) "gd.q.r." n

static struct server server;
static struct answers answers;

static void begin(void)
{
    server_start(&server, NULL);
    answers_open(&answers, server.hosts, "q", NULL);
}

static void begin_with_queue(void)
{
    begin();
    answers_make_queue(&answers, 30000, 1);
}

#define ASK(...)  answers_ask(&answers, &(struct gd__queue_request){ __VA_ARGS__ })
#define SEND(...) answers_send(&answers, &(struct gd__queue_request){ __VA_ARGS__ })

static enum gd__queue_answer_kind add(const char *subject, const char *data)
{
    return answers_publish(&answers, subject, data, GD__IF_NONE, 0);
}

TEST(a_queue_that_does_not_exist_is_none)
{
    begin();
    CHECK_EQ(ASK(.ask = GD__ASK_STREAM, .stream = GD__QUEUE_TASK)->kind, GD__ANSWER_NONE);
    CHECK_EQ(ASK(.ask = GD__ASK_PRIORITIES)->kind, GD__ANSWER_NONE);
    CHECK_EQ(ASK(.ask = GD__ASK_CONSUMER)->kind, GD__ANSWER_NONE);
    CHECK_EQ(ASK(.ask = GD__ASK_SUBJECTS, .stream = GD__QUEUE_TASK)->kind, GD__ANSWER_NONE);
    answers_close(&answers);
}

TEST(streams_and_consumers_are_created_once)
{
    begin_with_queue();
    answers_make_queue(&answers, 30000, 1);
    CHECK_EQ(ASK(.ask = GD__ASK_CREATE_CONSUMER, .priority = -4, .lease_ms = 1000)->kind, GD__ANSWER_OK);
    CHECK_EQ(ASK(.ask = GD__ASK_CREATE_CONSUMER, .priority = 3, .lease_ms = 1000)->kind, GD__ANSWER_OK);
    const struct answer *e = ASK(.ask = GD__ASK_PRIORITIES);
    CHECK_EQ(e->kind, GD__ANSWER_OK);
    CHECK_EQ(e->a.priorities, 1u << 0 | 1u << 4 | 1u << 7);
    answers_close(&answers);
}

TEST(a_consumer_that_exists_keeps_its_lease)
{
    begin_with_queue();
    CHECK_EQ(ASK(.ask = GD__ASK_CREATE_CONSUMER, .lease_ms = 20000)->kind, GD__ANSWER_OK);
    const struct answer *e = ASK(.ask = GD__ASK_CONSUMER);
    CHECK_EQ(e->kind, GD__ANSWER_OK);
    CHECK_EQ(e->a.consumer.lease_ms, 30000);
    answers_close(&answers);
}

TEST(a_condition_refuses_the_second_message)
{
    begin_with_queue();
    CHECK_EQ(add(TASK("a"), "1"), GD__ANSWER_OK);
    CHECK_EQ(add(TASK("a"), "2"), GD__ANSWER_REFUSED);
    CHECK_EQ(answers_publish(&answers, TASK("a"), "2", GD__IF_ANY, 0), GD__ANSWER_REFUSED);
    CHECK_EQ(add(RECORD("a"), "1"), GD__ANSWER_OK);
    CHECK_EQ(add(RECORD("a"), "2"), GD__ANSWER_REFUSED);
    CHECK_EQ(add("gd.q.s.push", "1"), GD__ANSWER_OK);
    CHECK_EQ(add("gd.q.s.push", "2"), GD__ANSWER_REFUSED);
    CHECK_EQ(answers_publish(&answers, "gd.q.s.push", "3", GD__IF_LAST, 7), GD__ANSWER_REFUSED);
    CHECK_EQ(answers_publish(&answers, "gd.q.s.push", "3", GD__IF_LAST, 1), GD__ANSWER_OK);
    CHECK_EQ(answers_publish(&answers, "gd.q.s.push", "4", GD__IF_ANY, 0), GD__ANSWER_OK);
    const struct answer *e = ASK(.ask = GD__ASK_LAST, .subject = "gd.q.s.push");
    CHECK_EQ(e->kind, GD__ANSWER_OK);
    CHECK_STR(e->data, "4");
    CHECK_STR(e->subject, "gd.q.s.push");
    CHECK_EQ(e->a.sequence, 3);
    CHECK_EQ(ASK(.ask = GD__ASK_LAST, .subject = "gd.q.s.command")->kind, GD__ANSWER_NONE);
    answers_close(&answers);
}

TEST(the_server_is_described)
{
    begin();
    const struct answer *e = ASK(.ask = GD__ASK_SERVER);
    CHECK_EQ(e->kind, GD__ANSWER_OK);
    CHECK_EQ(e->a.server.max_payload, 1 << 20);
    CHECK(e->a.server.version[0] == '2');
    answers_close(&answers);
}

TEST(a_message_that_is_too_large_is_refused)
{
    static char large[(1 << 20) + 1];
    begin_with_queue();
    CHECK_EQ(
        ASK(.ask = GD__ASK_PUBLISH, .subject = TASK("a"), .data = large, .size = sizeof large, .timeout_ms = 3600000)
            ->kind,
        GD__ANSWER_TOO_LARGE);
    CHECK_EQ(add(TASK("a"), ""), GD__ANSWER_OK);
    answers_close(&answers);
}

TEST(streams_are_counted_and_listed)
{
    begin_with_queue();
    char subject[64];
    for (int i = 0; i < 20; i++) {
        snprintf(subject, sizeof subject, TASK("k%d"), i);
        CHECK_EQ(add(subject, "data"), GD__ANSWER_OK);
    }
    const struct answer *e = ASK(.ask = GD__ASK_STREAM, .stream = GD__QUEUE_TASK);
    CHECK_EQ(e->kind, GD__ANSWER_OK);
    CHECK_EQ(e->a.stream.messages, 20);
    CHECK_EQ(e->a.stream.subjects, 20);
    CHECK_EQ(e->a.stream.first_sequence, 1);
    CHECK_EQ(e->a.stream.last_sequence, 20);
    CHECK_EQ(e->a.stream.replicas, 1);
    e = ASK(.ask = GD__ASK_SUBJECTS, .stream = GD__QUEUE_TASK);
    CHECK_EQ(e->kind, GD__ANSWER_OK);
    CHECK_EQ(answers_items(&answers, e->id), 20);
    e = ASK(.ask = GD__ASK_SUBJECTS, .stream = GD__QUEUE_TASK, .subject = TASK("k7"));
    CHECK_EQ(answers_items(&answers, e->id), 1);
    CHECK_STR(answers_item(&answers, e->id, 0)->subject, TASK("k7"));
    e = ASK(.ask = GD__ASK_SUBJECTS, .stream = GD__QUEUE_RECORD);
    CHECK_EQ(e->kind, GD__ANSWER_OK);
    CHECK_EQ(answers_items(&answers, e->id), 0);
    answers_close(&answers);
}

TEST(a_stream_is_read_in_parts)
{
    begin_with_queue();
    char subject[64];
    for (int i = 1; i <= 25; i++) {
        snprintf(subject, sizeof subject, i % 5 ? RECORD("k%d") : RECORD("five.k%d"), i);
        CHECK_EQ(add(subject, subject), GD__ANSWER_OK);
    }
    const struct answer *e = ASK(.ask = GD__ASK_READ, .stream = GD__QUEUE_RECORD, .from = 1, .most = 10);
    CHECK_EQ(e->kind, GD__ANSWER_OK);
    CHECK_EQ(answers_items(&answers, e->id), 10);
    CHECK_EQ(e->a.pending, 15);
    for (unsigned i = 0; i < 10; i++) {
        const struct answer *item = answers_item(&answers, e->id, i);
        CHECK_EQ(item->a.sequence, i + 1);
        CHECK_STR(item->data, item->subject);
    }
    e = ASK(.ask = GD__ASK_READ, .stream = GD__QUEUE_RECORD, .from = 21, .most = 10);
    CHECK_EQ(answers_items(&answers, e->id), 5);
    CHECK_EQ(e->a.pending, 0);
    e = ASK(.ask = GD__ASK_READ, .stream = GD__QUEUE_RECORD, .from = 26, .most = 10);
    CHECK_EQ(e->kind, GD__ANSWER_OK);
    CHECK_EQ(answers_items(&answers, e->id), 0);
    e = ASK(.ask = GD__ASK_READ, .stream = GD__QUEUE_RECORD, .from = 6, .most = 10, .subject = RECORD("five.>"));
    CHECK_EQ(answers_items(&answers, e->id), 4);
    CHECK_EQ(answers_item(&answers, e->id, 0)->a.sequence, 10);
    e = ASK(.ask = GD__ASK_READ, .stream = GD__QUEUE_RECORD, .from = 1, .most = 10, .most_bytes = 1);
    CHECK_EQ(answers_items(&answers, e->id), 1);
    CHECK_EQ(e->a.pending, 24);
    answers_close(&answers);
}

/* Anyone who may publish can store a message with headers that look like those of the server. */
TEST(a_message_with_headers_like_those_of_the_server)
{
    struct client c;
    begin_with_queue();
    client_open(&c, server.port);
    client_publish(&c, RECORD("a"), NULL,
                   "Nats-Sequence: 99\r\nNats-Subject: gd.q.r.other\r\nNats-Last-Sequence: 7\r\nNats-Num-Pending: 5\r\n"
                   "Status: 404\r\n",
                   "one", 3);
    (void)client_ask(&c, "$JS.API.INFO", ""); /* the message has arrived */
    CHECK_EQ(add(RECORD("b"), "two"), GD__ANSWER_OK);
    const struct answer *e = ASK(.ask = GD__ASK_READ, .stream = GD__QUEUE_RECORD, .from = 1, .most = 10);
    CHECK_EQ(e->kind, GD__ANSWER_OK);
    CHECK_EQ(answers_items(&answers, e->id), 2);
    CHECK_STR(answers_item(&answers, e->id, 0)->subject, RECORD("a"));
    CHECK_EQ(answers_item(&answers, e->id, 0)->a.sequence, 1);
    e = ASK(.ask = GD__ASK_LAST, .subject = RECORD("a"));
    CHECK_EQ(e->kind, GD__ANSWER_OK);
    CHECK_EQ(e->a.sequence, 1);
    client_close(&c);
    answers_close(&answers);
}

TEST(tasks_are_pulled_and_acknowledged)
{
    begin_with_queue();
    CHECK_EQ(add(TASK("a"), "one"), GD__ANSWER_OK);
    CHECK_EQ(add(TASK("b"), "two"), GD__ANSWER_OK);
    CHECK_EQ(add(TASK("c"), "three"), GD__ANSWER_OK);
    const struct answer *e = ASK(.ask = GD__ASK_PULL, .most = 2);
    CHECK_EQ(e->kind, GD__ANSWER_OK);
    CHECK_EQ(answers_items(&answers, e->id), 2);
    const struct answer *one = answers_item(&answers, e->id, 0), *two = answers_item(&answers, e->id, 1);
    CHECK_STR(one->subject, TASK("a"));
    CHECK_STR(one->data, "one");
    CHECK_EQ(one->a.deliveries, 1);
    CHECK_EQ(one->a.pending, 2);
    gd__link_tell(answers.link, GD__TELL_ACK, one->token, 0);
    gd__link_tell(answers.link, GD__TELL_NAK, two->token, 0);
    e = ASK(.ask = GD__ASK_PULL, .most = 2, .wait_ms = 30000);
    CHECK_EQ(e->kind, GD__ANSWER_OK);
    CHECK_EQ(answers_items(&answers, e->id), 2);
    for (unsigned i = 0; i < 2; i++) {
        const struct answer *item = answers_item(&answers, e->id, i);
        CHECK_EQ(item->a.deliveries, strcmp(item->data, "two") == 0 ? 2 : 1);
        gd__link_tell(answers.link, GD__TELL_WORKING, item->token, 0);
        gd__link_tell(answers.link, GD__TELL_ACK, item->token, 0);
    }
    e = ASK(.ask = GD__ASK_PULL, .most = 2);
    CHECK_EQ(e->kind, GD__ANSWER_OK);
    CHECK_EQ(answers_items(&answers, e->id), 0);
    e = ASK(.ask = GD__ASK_CONSUMER);
    CHECK_EQ(e->a.consumer.pending, 0);
    CHECK_EQ(e->a.consumer.unacknowledged, 0);
    answers_close(&answers);
}

TEST(a_pull_that_finds_less_ends)
{
    begin_with_queue();
    CHECK_EQ(add(TASK("a"), "one"), GD__ANSWER_OK);
    const struct answer *e = ASK(.ask = GD__ASK_PULL, .most = 5);
    CHECK_EQ(e->kind, GD__ANSWER_OK);
    CHECK_EQ(answers_items(&answers, e->id), 1);
    CHECK_EQ(add(TASK("b"), "two"), GD__ANSWER_OK);
    e = ASK(.ask = GD__ASK_PULL, .most = 5, .wait_ms = 100);
    CHECK_EQ(e->kind, GD__ANSWER_OK);
    CHECK_EQ(answers_items(&answers, e->id), 1);
    answers_close(&answers);
}

TEST(a_pull_waits_for_a_task)
{
    begin_with_queue();
    const uint64_t id = SEND(.ask = GD__ASK_PULL, .most = 1, .wait_ms = 60000);
    CHECK_EQ(add(TASK("a"), "one"), GD__ANSWER_OK);
    CHECK_EQ(answers_end(&answers, id)->kind, GD__ANSWER_OK);
    CHECK_EQ(answers_items(&answers, id), 1);
    answers_close(&answers);
}

TEST(several_pulls_wait)
{
    enum { PULLS = 8 };
    uint64_t ids[PULLS];
    char subject[64];
    unsigned items = 0;
    begin_with_queue();
    for (unsigned i = 0; i < PULLS; i++)
        ids[i] = SEND(.ask = GD__ASK_PULL, .most = 2, .wait_ms = 60000);
    for (unsigned i = 0; i < 2 * PULLS; i++) {
        snprintf(subject, sizeof subject, TASK("k%u"), i);
        CHECK_EQ(add(subject, "x"), GD__ANSWER_OK);
    }
    for (unsigned i = 0; i < PULLS; i++) {
        CHECK_EQ(answers_end(&answers, ids[i])->kind, GD__ANSWER_OK);
        items += answers_items(&answers, ids[i]);
    }
    CHECK_EQ(items, 2 * PULLS);
    answers_close(&answers);
}

TEST_MAIN()
