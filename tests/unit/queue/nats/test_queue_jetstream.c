/* SPDX-License-Identifier: MIT
 *
 * JetStream's language: what is sent for each request, and what each answer of a server means. The answers are those of
 * nats-server 2.15.1, and some that no server should send.
 */
#include "queue/nats/language/jetstream.h"
#include "support/test.h"

static struct gd__js_exchange x;
static struct gd__queue_answer a;

static struct gd__js_message *message(void)
{
    static struct gd__js_message m;
    gd__js_message(&x, &m);
    return &m;
}

static void begin(const struct gd__queue_request *r)
{
    CHECK_EQ(gd__js_begin(&x, "q", r), 0);
}
#define BEGIN(...) begin(&(struct gd__queue_request){ .id = 77, __VA_ARGS__ })

/* Headers as "Name: value\n..." */
static const char *find_header(void *headers, const char *name)
{
    static char value[4][256];
    static unsigned next;
    const size_t size = strlen(name);
    for (const char *at = headers; *at; at += strcspn(at, "\n") + 1)
        if (strncmp(at, name, size) == 0 && strncmp(at + size, ": ", 2) == 0) {
            char *out = value[next++ % 4];
            snprintf(out, sizeof value[0], "%.*s", (int)strcspn(at + size + 2, "\n"), at + size + 2);
            return out;
        }
    return NULL;
}

static enum gd__js_step take_full(const char *subject, const char *reply, const char *headers, const char *data)
{
    static char lines[1024];
    snprintf(lines, sizeof lines, "%s", headers);
    const struct gd__js_incoming in = {
        .subject = subject,
        .reply = reply,
        .data = data,
        .size = strlen(data),
        .to_request = !reply,
        .headers = lines,
        .header = find_header,
    };
    const enum gd__js_step step = gd__js_take(&x, &in, &a);
    if (step == GD__JS_ITEM || step == GD__JS_END)
        CHECK_EQ(a.id, 77);
    return step;
}

static enum gd__js_step take(const char *json)
{
    return take_full("_INBOX.x", NULL, "", json);
}

static enum gd__js_step take_headers(const char *headers, const char *data)
{
    return take_full("_INBOX.x", NULL, headers, data);
}

static void ends_with(enum gd__js_step step, enum gd__queue_answer_kind kind)
{
    CHECK_EQ(step, GD__JS_END);
    CHECK_EQ(a.kind, kind);
}

static void sends(const char *subject, const char *body)
{
    const struct gd__js_message *m = message();
    CHECK_STR(m->subject, subject);
    CHECK_EQ(m->size, strlen(body));
    CHECK_MEM(m->data ? m->data : "", body, m->size);
}

/* ---- requests ---- */

TEST(requests_become_messages)
{
    BEGIN(.ask = GD__ASK_SERVER);
    sends("$JS.API.INFO", "");
    BEGIN(.ask = GD__ASK_STREAM, .stream = GD__QUEUE_RECORD);
    sends("$JS.API.STREAM.INFO.gd_q_r", "");
    BEGIN(.ask = GD__ASK_CONSUMER, .priority = -2);
    sends("$JS.API.CONSUMER.INFO.gd_q_t.priority_-2", "");
    BEGIN(.ask = GD__ASK_PRIORITIES);
    sends("$JS.API.CONSUMER.NAMES.gd_q_t", "{\"offset\":0}");
    BEGIN(.ask = GD__ASK_SUBJECTS, .stream = GD__QUEUE_TASK, .subject = "gd.q.t.*.*.*");
    sends("$JS.API.STREAM.INFO.gd_q_t", "{\"offset\":0,\"subjects_filter\":\"gd.q.t.*.*.*\"}");
    BEGIN(.ask = GD__ASK_LAST, .subject = "gd.q.s.push");
    sends("$JS.API.DIRECT.GET.gd_q_s.gd.q.s.push", "");
    BEGIN(.ask = GD__ASK_LAST, .subject = "gd.q.r.KEY");
    sends("$JS.API.DIRECT.GET.gd_q_r.gd.q.r.KEY", "");
    BEGIN(.ask = GD__ASK_READ, .stream = GD__QUEUE_RECORD, .from = 12, .most = 100);
    sends("$JS.API.DIRECT.GET.gd_q_r", "{\"seq\":12,\"batch\":100,\"next_by_subj\":\">\"}");
    BEGIN(.ask = GD__ASK_READ, .stream = GD__QUEUE_STATE, .most = 1, .most_bytes = 5, .subject = "gd.q.s.node.*");
    sends("$JS.API.DIRECT.GET.gd_q_s", "{\"seq\":1,\"batch\":1,\"max_bytes\":5,\"next_by_subj\":\"gd.q.s.node.*\"}");
    BEGIN(.ask = GD__ASK_LAST, .subject = "gd.q.s.push", .by_leader = true);
    sends("$JS.API.STREAM.MSG.GET.gd_q_s", "{\"last_by_subj\":\"gd.q.s.push\"}");
    BEGIN(.ask = GD__ASK_READ, .stream = GD__QUEUE_TASK, .from = 12, .most = 1, .by_leader = true);
    sends("$JS.API.STREAM.MSG.GET.gd_q_t", "{\"seq\":12,\"next_by_subj\":\">\"}");
    BEGIN(.ask = GD__ASK_PULL, .priority = 3, .most = 7);
    sends("$JS.API.CONSUMER.MSG.NEXT.gd_q_t.priority_3", "{\"batch\":7,\"no_wait\":true}");
    BEGIN(.ask = GD__ASK_PULL, .most = 7, .most_bytes = 9, .wait_ms = 250);
    sends("$JS.API.CONSUMER.MSG.NEXT.gd_q_t.priority_0", "{\"batch\":7,\"expires\":250000000,\"max_bytes\":9}");
    CHECK_EQ(gd__js_heartbeat_ms(&x), 0);
    BEGIN(.ask = GD__ASK_PULL, .most = 1, .wait_ms = 30000);
    sends("$JS.API.CONSUMER.MSG.NEXT.gd_q_t.priority_0",
          "{\"batch\":1,\"expires\":30000000000,\"idle_heartbeat\":5000000000}");
    CHECK_EQ(gd__js_heartbeat_ms(&x), 5000);
}

TEST(streams_and_consumers_have_the_settings_of_a_queue)
{
    BEGIN(.ask = GD__ASK_CREATE_STREAM, .stream = GD__QUEUE_TASK, .replicas = 3);
    sends("$JS.API.STREAM.CREATE.gd_q_t",
          "{\"name\":\"gd_q_t\",\"subjects\":[\"gd.q.t.>\"],\"retention\":\"limits\",\"storage\":\"file\","
          "\"max_msgs_per_subject\":1,\"discard\":\"new\",\"discard_new_per_subject\":true,\"allow_direct\":true,"
          "\"num_replicas\":3}");
    BEGIN(.ask = GD__ASK_CREATE_STREAM, .stream = GD__QUEUE_STATE);
    sends("$JS.API.STREAM.CREATE.gd_q_s",
          "{\"name\":\"gd_q_s\",\"subjects\":[\"gd.q.s.>\"],\"retention\":\"limits\",\"storage\":\"file\","
          "\"max_msgs_per_subject\":1,\"discard\":\"old\",\"discard_new_per_subject\":false,\"allow_direct\":true,"
          "\"num_replicas\":1}");
    BEGIN(.ask = GD__ASK_CREATE_CONSUMER, .priority = 1, .lease_ms = 30000);
    sends("$JS.API.CONSUMER.DURABLE.CREATE.gd_q_t.priority_1",
          "{\"stream_name\":\"gd_q_t\",\"action\":\"create\",\"config\":{\"durable_name\":\"priority_1\","
          "\"filter_subject\":\"gd.q.t.1.>\",\"deliver_policy\":\"all\",\"replay_policy\":\"instant\","
          "\"ack_policy\":\"explicit\",\"ack_wait\":30000000000,\"max_deliver\":-1,\"max_ack_pending\":65536,"
          "\"max_waiting\":4096}}");
}

TEST(a_publication_has_a_condition)
{
    BEGIN(.ask = GD__ASK_PUBLISH, .subject = "gd.q.r.k", .data = "body", .size = 4);
    sends("gd.q.r.k", "body");
    CHECK_STR(message()->expected, "0");
    BEGIN(.ask = GD__ASK_PUBLISH, .subject = "gd.q.s.push", .condition = GD__IF_LAST, .sequence = UINT64_MAX);
    CHECK_STR(message()->expected, "18446744073709551615");
    BEGIN(.ask = GD__ASK_PUBLISH, .subject = "gd.q.s.push", .condition = GD__IF_ANY, .sequence = 5);
    CHECK(message()->expected == NULL);
}

TEST(a_text_that_is_no_subject_is_refused)
{
    static const char *const bad[] = { "", "a b", "a\r\nPUB x 0", "a\"b", "a\\b", "\x80", "a\tb" };
    char longest[GD__QUEUE_SUBJECT_ROOM + 1];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(gd__js_begin(&x, "q", &(struct gd__queue_request){ .ask = GD__ASK_LAST, .subject = bad[i] }) < 0);
    memset(longest, 'a', sizeof longest);
    longest[GD__QUEUE_SUBJECT_ROOM] = '\0';
    CHECK(gd__js_begin(&x, "q", &(struct gd__queue_request){ .ask = GD__ASK_LAST, .subject = longest }) < 0);
    longest[GD__QUEUE_SUBJECT_ROOM - 1] = '\0';
    BEGIN(.ask = GD__ASK_LAST, .subject = longest);
    CHECK(strlen(message()->subject) < GD__JS_SUBJECT_ROOM - 1);
    CHECK(gd__js_begin(&x, "q", &(struct gd__queue_request){ .ask = GD__ASK_LAST }) < 0);
    CHECK(gd__js_begin(&x, "q", &(struct gd__queue_request){ .ask = GD__ASK_PUBLISH }) < 0);
}

TEST(notices)
{
    char room[GD__JS_NOTICE_ROOM];
    CHECK_STR(gd__js_notice(room, GD__TELL_ACK, 5), "+ACK");
    CHECK_STR(gd__js_notice(room, GD__TELL_WORKING, 5), "+WPI");
    CHECK_STR(gd__js_notice(room, GD__TELL_NAK, 0), "-NAK");
    CHECK_STR(gd__js_notice(room, GD__TELL_NAK, UINT32_MAX), "-NAK {\"delay\":4294967295000000}");
}

/* ---- errors ---- */

static enum gd__queue_answer_kind kind_of(enum gd__queue_ask ask, const char *error)
{
    char json[512];
    begin(&(struct gd__queue_request){ .ask = ask, .id = 77, .subject = "gd.q.r.k" });
    snprintf(json, sizeof json, "{\"error\":%s}", error);
    CHECK_EQ(take(json), GD__JS_END);
    return a.kind;
}

#define ERROR(code, number, text) "{\"code\":" #code ",\"err_code\":" #number ",\"description\":\"" text "\"}"

TEST(errors_have_a_meaning)
{
    const enum gd__queue_ask p = GD__ASK_PUBLISH;
    CHECK_EQ(kind_of(p, ERROR(400, 10071, "wrong last sequence: 1")), GD__ANSWER_REFUSED);
    CHECK_EQ(kind_of(p, ERROR(400, 10164, "wrong last sequence")), GD__ANSWER_REFUSED);
    CHECK_EQ(kind_of(p, ERROR(503, 10077, "maximum messages per subject exceeded")), GD__ANSWER_REFUSED);
    CHECK_EQ(kind_of(p, ERROR(503, 10077, "no space left on device")), GD__ANSWER_LATER);
    CHECK_STR(a.text, "no space left on device");
    CHECK_EQ(kind_of(p, ERROR(503, 10077, "maximum bytes exceeded")), GD__ANSWER_LATER);
    CHECK_EQ(kind_of(p, ERROR(400, 10054, "message size exceeds maximum allowed")), GD__ANSWER_TOO_LARGE);
    CHECK_EQ(kind_of(p, ERROR(503, 10008, "JetStream system temporarily unavailable")), GD__ANSWER_LATER);
    CHECK_EQ(kind_of(p, ERROR(500, 10047, "insufficient storage resources available")), GD__ANSWER_LATER);
    CHECK_EQ(kind_of(p, ERROR(429, 10167, "too many requests")), GD__ANSWER_LATER);
    CHECK_EQ(kind_of(GD__ASK_STREAM, ERROR(404, 10059, "stream not found")), GD__ANSWER_NONE);
    CHECK_EQ(kind_of(GD__ASK_CONSUMER, ERROR(404, 10014, "consumer not found")), GD__ANSWER_NONE);
    CHECK_EQ(kind_of(GD__ASK_STREAM, ERROR(404, 10037, "no message found")), GD__ANSWER_NONE);
    CHECK_EQ(kind_of(GD__ASK_STREAM, ERROR(403, 1, "forbidden")), GD__ANSWER_DENIED);
    CHECK_EQ(kind_of(GD__ASK_SERVER, ERROR(503, 10076, "JetStream not enabled")), GD__ANSWER_LATER);
    CHECK_EQ(kind_of(GD__ASK_SERVER, ERROR(400, 10039, "JetStream not enabled for account")), GD__ANSWER_FAILED);
    CHECK_STR(a.text, "JetStream not enabled for account");
    CHECK_EQ(kind_of(GD__ASK_SERVER, "{\"code\":500}"), GD__ANSWER_FAILED);
    CHECK_STR(a.text, "error 0");
    CHECK_EQ(kind_of(GD__ASK_SERVER, ERROR(400, 1, "\\u001b[2Jred")), GD__ANSWER_FAILED);
    CHECK_STR(a.text, "\\x1b[2Jred"); /* safe to print */
    CHECK_EQ(kind_of(GD__ASK_SERVER, "\"text\""), GD__ANSWER_FAILED);
    CHECK_EQ(kind_of(GD__ASK_SERVER, "{\"code\":-1}"), GD__ANSWER_FAILED);
}

TEST(nobody_listens)
{
    for (int ask = GD__ASK_SERVER; ask <= GD__ASK_PULL; ask++) {
        begin(
            &(struct gd__queue_request){ .ask = (enum gd__queue_ask)ask, .id = 77, .subject = "gd.q.r.k", .most = 1 });
        ends_with(take_headers("Status: 503\nNats-Subject: x\n", ""), GD__ANSWER_LATER);
    }
}

TEST(texts_that_make_no_sense_are_failures)
{
    static const char *const bad[] = { "", "{", "[]", "null", "{\"error\":1}", "{} {}", "\x80" };
    for (int ask = GD__ASK_SERVER; ask <= GD__ASK_PUBLISH; ask++)
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            begin(&(struct gd__queue_request){ .ask = (enum gd__queue_ask)ask, .id = 77, .subject = "gd.q.r.k" });
            ends_with(take(bad[i]), GD__ANSWER_FAILED);
        }
    BEGIN(.ask = GD__ASK_PUBLISH, .subject = "gd.q.r.k");
    ends_with(take("{\"stream\":\"gd_q_r\"}"), GD__ANSWER_FAILED);
    BEGIN(.ask = GD__ASK_STREAM);
    ends_with(take("{\"config\":{},\"state\":{}}"), GD__ANSWER_FAILED);
    BEGIN(.ask = GD__ASK_CONSUMER);
    ends_with(take("{\"config\":{\"ack_wait\":\"1\"},\"num_pending\":1}"), GD__ANSWER_FAILED);
}

/* ---- answers in JSON ---- */

TEST(a_publication_is_stored)
{
    BEGIN(.ask = GD__ASK_PUBLISH, .subject = "gd.q.r.k");
    ends_with(take("{\"stream\":\"gd_q_r\",\"seq\":18446744073709551615}"), GD__ANSWER_OK);
    CHECK_EQ(a.sequence, UINT64_MAX);
}

TEST(figures_of_a_stream_and_a_consumer)
{
    BEGIN(.ask = GD__ASK_STREAM, .stream = GD__QUEUE_TASK);
    ends_with(take("{\"config\":{\"num_replicas\":3},\"state\":{\"messages\":5,\"bytes\":510,\"first_seq\":1,"
                   "\"last_seq\":6,\"num_subjects\":4}}"),
              GD__ANSWER_OK);
    CHECK_EQ(a.stream.messages, 5);
    CHECK_EQ(a.stream.bytes, 510);
    CHECK_EQ(a.stream.first_sequence, 1);
    CHECK_EQ(a.stream.last_sequence, 6);
    CHECK_EQ(a.stream.subjects, 4);
    CHECK_EQ(a.stream.replicas, 3);
    BEGIN(.ask = GD__ASK_CONSUMER);
    ends_with(take("{\"config\":{\"ack_wait\":30000000000},\"num_ack_pending\":2,\"num_waiting\":3,\"num_pending\":4}"),
              GD__ANSWER_OK);
    CHECK_EQ(a.consumer.lease_ms, 30000);
    CHECK_EQ(a.consumer.unacknowledged, 2);
    CHECK_EQ(a.consumer.waiting, 3);
    CHECK_EQ(a.consumer.pending, 4);
}

TEST(consumers_are_listed_in_pages)
{
    BEGIN(.ask = GD__ASK_PRIORITIES);
    CHECK_EQ(take("{\"total\":3,\"offset\":0,\"consumers\":[\"priority_0\",\"other\"]}"), GD__JS_SEND);
    sends("$JS.API.CONSUMER.NAMES.gd_q_t", "{\"offset\":2}");
    ends_with(take("{\"total\":3,\"offset\":2,\"consumers\":[\"priority_-4\"]}"), GD__ANSWER_OK);
    CHECK_EQ(a.priorities, 1u << 4 | 1u);
    BEGIN(.ask = GD__ASK_PRIORITIES);
    ends_with(take("{\"total\":9,\"consumers\":null}"), GD__ANSWER_OK); /* a page without names is the last */
    CHECK_EQ(a.priorities, 0);
}

static enum gd__js_step take_again(const char *json)
{
    return take(json);
}

TEST(subjects_are_listed_in_pages)
{
    static const char first[] = "{\"total\":3,\"state\":{\"subjects\":{\"gd.q.t.0.a\":1,\"gd.q.t.0.\\u003e\":1}}}";
    static const char second[] = "{\"total\":3,\"state\":{\"subjects\":{\"gd.q.t.0.c\":1}}}";
    BEGIN(.ask = GD__ASK_SUBJECTS, .stream = GD__QUEUE_TASK);
    CHECK_EQ(take(first), GD__JS_ITEM);
    CHECK_EQ(a.kind, GD__ANSWER_ITEM);
    CHECK_STR(a.subject, "gd.q.t.0.a");
    CHECK_EQ(take_again(first), GD__JS_ITEM);
    CHECK_STR(a.subject, "gd.q.t.0.>");
    CHECK_EQ(take_again(first), GD__JS_SEND);
    sends("$JS.API.STREAM.INFO.gd_q_t", "{\"offset\":2,\"subjects_filter\":\">\"}");
    CHECK_EQ(take(second), GD__JS_ITEM);
    ends_with(take_again(second), GD__ANSWER_OK);
    BEGIN(.ask = GD__ASK_SUBJECTS, .stream = GD__QUEUE_TASK);
    ends_with(take("{\"total\":0,\"state\":{\"messages\":0}}"), GD__ANSWER_OK);
}

/* ---- settings of what exists ---- */

#define STREAM(more)                                                                                               \
    "{\"config\":{\"name\":\"gd_q_t\",\"subjects\":[\"gd.q.t.\\u003e\"],\"retention\":\"limits\",\"max_msgs\":-1," \
    "\"max_age\":0,\"max_msgs_per_subject\":1,\"discard\":\"new\",\"storage\":\"file\",\"num_replicas\":3,"        \
    "\"discard_new_per_subject\":true,\"allow_direct\":true,\"sealed\":false" more "}}"

TEST(a_stream_that_exists_is_checked)
{
    BEGIN(.ask = GD__ASK_CREATE_STREAM, .stream = GD__QUEUE_TASK);
    CHECK_EQ(take("{\"error\":" ERROR(400, 10058, "stream name already in use") "}"), GD__JS_SEND);
    sends("$JS.API.STREAM.INFO.gd_q_t", "");
    ends_with(take(STREAM("")), GD__ANSWER_OK); /* another number of replicas is the user's choice */
    BEGIN(.ask = GD__ASK_CREATE_STREAM, .stream = GD__QUEUE_TASK);
    ends_with(take(STREAM(",\"persist_mode\":\"async\"")), GD__ANSWER_FAILED);
    CHECK_CONTAINS(a.text, "persist_mode");
    BEGIN(.ask = GD__ASK_CREATE_STREAM, .stream = GD__QUEUE_RECORD);
    ends_with(take(STREAM("")), GD__ANSWER_FAILED);
    CHECK_CONTAINS(a.text, "subjects");
    BEGIN(.ask = GD__ASK_CREATE_STREAM, .stream = GD__QUEUE_STATE);
    ends_with(take(STREAM("")), GD__ANSWER_FAILED);
    CHECK_CONTAINS(a.text, "\"discard\" must be old");
    BEGIN(.ask = GD__ASK_CREATE_STREAM, .stream = GD__QUEUE_TASK);
    ends_with(take("{\"config\":{}}"), GD__ANSWER_FAILED);
    CHECK_CONTAINS(a.text, "retention");
}

#define CONSUMER(more)                                                                                       \
    "{\"config\":{\"ack_policy\":\"explicit\",\"deliver_policy\":\"all\",\"ack_wait\":1,\"max_deliver\":-1," \
    "\"filter_subject\":\"gd.q.t.0.\\u003e\"" more "}}"

TEST(a_consumer_that_exists_is_checked)
{
    BEGIN(.ask = GD__ASK_CREATE_CONSUMER, .lease_ms = 5);
    CHECK_EQ(take("{\"error\":" ERROR(400, 10148, "consumer already exists") "}"), GD__JS_SEND);
    sends("$JS.API.CONSUMER.INFO.gd_q_t.priority_0", "");
    ends_with(take(CONSUMER("")), GD__ANSWER_OK);
    BEGIN(.ask = GD__ASK_CREATE_CONSUMER, .lease_ms = 5);
    ends_with(take(CONSUMER(",\"deliver_subject\":\"x\"")), GD__ANSWER_FAILED);
    BEGIN(.ask = GD__ASK_CREATE_CONSUMER, .priority = 1, .lease_ms = 5);
    ends_with(take(CONSUMER("")), GD__ANSWER_FAILED);
    CHECK_CONTAINS(a.text, "filter_subject");
    /* An answer that says "exists" for ever does not make the link ask for ever. */
    BEGIN(.ask = GD__ASK_CREATE_CONSUMER, .lease_ms = 5);
    CHECK_EQ(take("{\"error\":" ERROR(400, 10148, "consumer already exists") "}"), GD__JS_SEND);
    ends_with(take("{\"error\":" ERROR(400, 10148, "consumer already exists") "}"), GD__ANSWER_FAILED);
}

/* ---- stored messages ---- */

TEST(the_last_message_of_a_subject)
{
    BEGIN(.ask = GD__ASK_LAST, .subject = "gd.q.r.k");
    ends_with(take_headers("Nats-Stream: gd_q_r\nNats-Subject: gd.q.r.k\nNats-Sequence: 4\n", "data"), GD__ANSWER_OK);
    CHECK_EQ(a.sequence, 4);
    CHECK_EQ(a.size, 4);
    CHECK_STR(a.subject, "gd.q.r.k");
    BEGIN(.ask = GD__ASK_LAST, .subject = "gd.q.r.k");
    ends_with(take_headers("Status: 404\nDescription: Message Not Found\n", ""), GD__ANSWER_NONE);
    BEGIN(.ask = GD__ASK_LAST, .subject = "gd.q.r.k");
    ends_with(take_headers("Nats-Subject: gd.q.r.other\nNats-Sequence: 4\n", "data"), GD__ANSWER_FAILED);
    BEGIN(.ask = GD__ASK_LAST, .subject = "gd.q.r.k"); /* a stored message may have a header Status */
    ends_with(take_headers("Status: 404\nNats-Subject: gd.q.r.k\nNats-Sequence: 4\n", ""), GD__ANSWER_OK);
}

#define LEADERS(subject, sequence, more)                                               \
    "{\"type\":\"x\",\"message\":{\"subject\":\"" subject "\",\"seq\":" #sequence more \
    ",\"time\":\"1970-01-01T00:00:02Z\"}}"

static void read_last(const char *json, enum gd__queue_answer_kind kind)
{
    gd__js_free(&x);
    BEGIN(.ask = GD__ASK_LAST, .subject = "gd.q.s.push", .by_leader = true);
    ends_with(take(json), kind);
}

/* What base64 stands for: the data of the last message. NULL: it is refused. */
static void decodes(const char *base64, const char *data)
{
    char json[256];
    snprintf(json, sizeof json, LEADERS("gd.q.s.push", 3, ",\"data\":\"%s\""), base64);
    read_last(json, data ? GD__ANSWER_OK : GD__ANSWER_FAILED);
    if (data) {
        CHECK_EQ(a.size, strlen(data));
        CHECK_MEM(a.size ? a.data : "", data, a.size);
    }
}

TEST(the_leader_sends_a_message_as_json)
{
    read_last(LEADERS("gd.q.s.push", 3, ",\"hdrs\":\"TkFUUw==\",\"data\":\"aGVsbG8/Pj7//g==\""), GD__ANSWER_OK);
    CHECK_EQ(a.sequence, 3);
    CHECK_EQ(a.time_us, 2000000);
    CHECK_STR(a.subject, "gd.q.s.push");
    CHECK_EQ(a.size, 10);
    CHECK_MEM(a.data, "hello?>>\xff\xfe", 10);
    read_last(LEADERS("gd.q.s.push", 3, ""), GD__ANSWER_OK); /* without data */
    CHECK_EQ(a.size, 0);
    read_last("{\"error\":" ERROR(404, 10037, "no message found") "}", GD__ANSWER_NONE);
    read_last(LEADERS("gd.q.s.other", 3, ""), GD__ANSWER_FAILED);
    read_last(LEADERS("gd.q.s.push", -3, ""), GD__ANSWER_FAILED);
    read_last(LEADERS("gd.q.s.push", 3, ",\"data\":7"), GD__ANSWER_FAILED);
    read_last("{\"message\":{}}", GD__ANSWER_FAILED);
    read_last("{}", GD__ANSWER_FAILED);
    decodes("", "");
    decodes("YQ==", "a");
    decodes("YWI=", "ab");
    decodes("YWJj", "abc");
    decodes("YWJjZA==", "abcd");
    decodes("YWJ", NULL);
    decodes("Y===", NULL);
    decodes("YW=j", NULL);
    decodes("YW J", NULL);
    gd__js_free(&x);
}

TEST(the_leader_is_asked_for_the_next_message)
{
    static const char json[] = LEADERS("gd.q.t.0.k", 7, ",\"data\":\"YWJj\"");
    BEGIN(.ask = GD__ASK_READ, .stream = GD__QUEUE_TASK, .from = 5, .most = 1, .by_leader = true);
    CHECK_EQ(take(json), GD__JS_ITEM);
    CHECK_EQ(a.kind, GD__ANSWER_ITEM);
    CHECK_EQ(a.sequence, 7);
    CHECK_STR(a.subject, "gd.q.t.0.k");
    CHECK_MEM(a.data, "abc", 3);
    ends_with(take(json), GD__ANSWER_OK);
    gd__js_free(&x);
    BEGIN(.ask = GD__ASK_READ, .stream = GD__QUEUE_TASK, .from = 5, .most = 1, .by_leader = true);
    ends_with(take("{\"error\":" ERROR(404, 10037, "no message found") "}"), GD__ANSWER_OK);
    BEGIN(.ask = GD__ASK_READ, .stream = GD__QUEUE_TASK, .from = 8, .most = 1, .by_leader = true);
    ends_with(take(json), GD__ANSWER_FAILED); /* before the first sequence */
    gd__js_free(&x);
}

static enum gd__js_step take_stored(unsigned sequence, unsigned before, unsigned pending)
{
    char headers[256];
    snprintf(headers, sizeof headers,
             "Nats-Subject: gd.q.r.k%u\nNats-Sequence: %u\nNats-Num-Pending: %u\nNats-Last-Sequence: %u\n", sequence,
             sequence, pending, before);
    return take_headers(headers, "data");
}

TEST(a_batch_is_read)
{
    BEGIN(.ask = GD__ASK_READ, .stream = GD__QUEUE_RECORD, .from = 3, .most = 2);
    CHECK_EQ(take_stored(4, 0, 9), GD__JS_ITEM);
    CHECK_EQ(a.sequence, 4);
    CHECK_STR(a.subject, "gd.q.r.k4");
    CHECK_EQ(take_stored(4, 0, 9), GD__JS_ALIVE);
    CHECK_EQ(take_stored(7, 4, 8), GD__JS_ITEM);
    CHECK_EQ(take_stored(7, 4, 8), GD__JS_ALIVE);
    ends_with(take_headers("Status: 204\nDescription: EOB\nNats-Num-Pending: 8\nNats-Last-Sequence: 7\n", ""),
              GD__ANSWER_OK);
    CHECK_EQ(a.pending, 8);
    BEGIN(.ask = GD__ASK_READ, .stream = GD__QUEUE_RECORD, .from = 3, .most = 2);
    ends_with(take_headers("Status: 404\n", ""), GD__ANSWER_OK);
}

TEST(a_batch_with_a_gap_is_lost)
{
    BEGIN(.ask = GD__ASK_READ, .stream = GD__QUEUE_RECORD, .from = 1, .most = 9);
    CHECK_EQ(take_stored(1, 0, 9), GD__JS_ITEM);
    CHECK_EQ(take_stored(1, 0, 9), GD__JS_ALIVE);
    ends_with(take_stored(3, 2, 8), GD__ANSWER_LOST);
    BEGIN(.ask = GD__ASK_READ, .stream = GD__QUEUE_RECORD, .from = 1, .most = 9);
    CHECK_EQ(take_stored(1, 0, 9), GD__JS_ITEM);
    CHECK_EQ(take_stored(1, 0, 9), GD__JS_ALIVE);
    ends_with(take_headers("Status: 204\nNats-Num-Pending: 8\nNats-Last-Sequence: 2\n", ""), GD__ANSWER_LOST);
}

TEST(a_batch_that_makes_no_sense_fails)
{
    BEGIN(.ask = GD__ASK_READ, .stream = GD__QUEUE_RECORD, .from = 5, .most = 9);
    ends_with(take_stored(4, 0, 9), GD__ANSWER_FAILED); /* before the first sequence */
    BEGIN(.ask = GD__ASK_READ, .stream = GD__QUEUE_RECORD, .from = 1, .most = 9);
    CHECK_EQ(take_stored(6, 0, 9), GD__JS_ITEM);
    CHECK_EQ(take_stored(6, 0, 9), GD__JS_ALIVE);
    ends_with(take_stored(6, 6, 9), GD__ANSWER_FAILED); /* the same again */
    BEGIN(.ask = GD__ASK_READ, .stream = GD__QUEUE_RECORD, .from = 1, .most = 1);
    CHECK_EQ(take_stored(6, 0, 9), GD__JS_ITEM);
    CHECK_EQ(take_stored(6, 0, 9), GD__JS_ALIVE);
    ends_with(take_stored(7, 6, 9), GD__ANSWER_FAILED); /* more than were asked for */
}

/* ---- pulls ---- */

#define ACK "$JS.ACK.gd_q_t.priority_0.1.12.3.1794854046051401445.4"

static enum gd__js_step take_task(const char *reply)
{
    return take_full("gd.q.t.0.k", reply, GD__JS_EXPECTED ": 0\n", "data");
}

TEST(tasks_are_pulled)
{
    BEGIN(.ask = GD__ASK_PULL, .most = 2);
    CHECK_EQ(take_task(ACK), GD__JS_ITEM);
    CHECK_STR(a.subject, "gd.q.t.0.k");
    CHECK_STR(a.token, ACK);
    CHECK_EQ(a.sequence, 12);
    CHECK_EQ(a.deliveries, 1);
    CHECK_EQ(a.pending, 4);
    CHECK_EQ(take_task(ACK), GD__JS_ALIVE);
    CHECK_EQ(take_task(ACK), GD__JS_ITEM);
    ends_with(take_task(ACK), GD__ANSWER_OK);
}

static enum gd__queue_answer_kind pull_status(unsigned items, const char *status)
{
    BEGIN(.ask = GD__ASK_PULL, .most = 9);
    for (unsigned i = 0; i < items; i++) {
        CHECK_EQ(take_task(ACK), GD__JS_ITEM);
        CHECK_EQ(take_task(ACK), GD__JS_ALIVE);
    }
    CHECK_EQ(take_headers(status, ""), GD__JS_END);
    return a.kind;
}

TEST(a_pull_ends_with_a_status)
{
    CHECK_EQ(pull_status(0, "Status: 404\nDescription: No Messages\n"), GD__ANSWER_OK);
    CHECK_EQ(pull_status(1, "Status: 408\nDescription: Request Timeout\n"), GD__ANSWER_OK);
    CHECK_EQ(pull_status(0, "Status: 409\nDescription: Message Size Exceeds MaxBytes\n"), GD__ANSWER_TOO_LARGE);
    CHECK_EQ(pull_status(1, "Status: 409\nDescription: Message Size Exceeds MaxBytes\n"), GD__ANSWER_OK);
    CHECK_EQ(pull_status(1, "Status: 409\nDescription: Batch Completed\n"), GD__ANSWER_OK);
    CHECK_EQ(pull_status(1, "Status: 409\nDescription: Consumer Deleted\n"), GD__ANSWER_NONE);
    CHECK_EQ(pull_status(1, "Status: 409\nDescription: Leadership Change\n"), GD__ANSWER_LATER);
    CHECK_STR(a.text, "Leadership Change");
    CHECK_EQ(pull_status(1, "Status: 409\nDescription: Exceeded MaxWaiting\n"), GD__ANSWER_LATER);
    CHECK_EQ(pull_status(1, "Status: 409\nDescription: Exceeded MaxAckPending\n"), GD__ANSWER_LATER);
    CHECK_EQ(pull_status(1, "Status: 409\nDescription: Server Shutdown\n"), GD__ANSWER_LATER);
    CHECK_EQ(pull_status(1, "Status: 409\nDescription: Consumer is push based\n"), GD__ANSWER_FAILED);
    CHECK_EQ(pull_status(1, "Status: 409\nDescription: Exceeded MaxRequestBatch of 1\n"), GD__ANSWER_FAILED);
    CHECK_EQ(pull_status(1, "Status: 409\n"), GD__ANSWER_LATER);
    CHECK_EQ(pull_status(1, "Status: 400\nDescription: Bad Request\n"), GD__ANSWER_FAILED);
    CHECK_EQ(pull_status(1, "Status: 503\n"), GD__ANSWER_LATER);
    BEGIN(.ask = GD__ASK_PULL, .most = 9);
    CHECK_EQ(take_headers("Status: 100\nDescription: Idle Heartbeat\n", ""), GD__JS_ALIVE);
}

TEST(messages_that_are_not_tasks_are_ignored)
{
    char longest[GD__QUEUE_TOKEN_ROOM + 64];
    BEGIN(.ask = GD__ASK_PULL, .most = 9);
    CHECK_EQ(take_task("$JS.ACK.gd_q_t.priority_1.1.12.3.17.4"), GD__JS_IGNORE); /* another consumer */
    CHECK_EQ(take_task("reply"), GD__JS_IGNORE);
    CHECK_EQ(take_headers("", "data"), GD__JS_IGNORE);
    /* A token is stored in a buffer of fixed size. */
    snprintf(longest, sizeof longest, "$JS.ACK.%0*d.ACC.gd_q_t.priority_0.1.12.3.17.4", GD__QUEUE_TOKEN_ROOM, 1);
    CHECK_EQ(take_task(longest), GD__JS_IGNORE);
    BEGIN(.ask = GD__ASK_SERVER);
    CHECK_EQ(take_task(ACK), GD__JS_IGNORE);
}

TEST(reply_subjects_of_tasks)
{
    static const char *const good[] = {
        ACK,
        "$JS.ACK._.ACCOUNT.gd_q_t.priority_0.1.12.3.1794854046051401445.4",
        "$JS.ACK.hub.ACCOUNT.gd_q_t.priority_0.1.12.3.1794854046051401445.4.a1b2",
    };
    static const char *const bad[] = {
        "",
        "$JS.ACK.gd_q_t.priority_0.1.12.3.17",
        "$JS.ACK.gd_q_t.priority_0.1.12.3.17.4.5",
        "$JS.ACK.gd_other_t.priority_0.1.12.3.17.4",
        "$JS.ACK.gd_q_r.priority_0.1.12.3.17.4",
        "$JS.ACK.gd_q_t.priority_4.1.12.3.17.4",
        "$JS.ACK.gd_q_t.priority_00.1.12.3.17.4",
        "$JS.ACK.gd_q_t.priority_0.-1.12.3.17.4",
        "$JS.ACK.gd_q_t.priority_0.1.18446744073709551616.3.17.4",
        "$JS.ACK.gd_q_t.priority_0.1..3.17.4",
        "$JS.NAK.gd_q_t.priority_0.1.12.3.17.4",
        "$JS.ACK.gd_q_t.priority_0.1.12.3.17.4 x",
        "$JS.ACK.*.ACCOUNT.gd_q_t.priority_0.1.12.3.17.4",
        "$JS.ACK.a.b.gd_q_t.priority_0.1.12.3.17.4.c.d",
        "$JS.ACK.gd_q_t.priority_0.1.12.3.17.4.",
    };
    struct gd__js_ack ack;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        CHECK(gd__js_ack_parse(&ack, "q", good[i]));
        CHECK_EQ(ack.priority, 0);
        CHECK_EQ(ack.deliveries, 1);
        CHECK_EQ(ack.sequence, 12);
        CHECK_EQ(ack.pending, 4);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (gd__js_ack_parse(&ack, "q", bad[i]))
            FAIL("%s is accepted", bad[i]);
    CHECK(gd__js_ack_parse(&ack, "q", "$JS.ACK.gd_q_t.priority_-4.2.12.3.17.4"));
    CHECK_EQ(ack.priority, -4);
}

TEST_MAIN()
