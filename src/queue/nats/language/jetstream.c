/* Writes requests in JetStream's language: see jetstream.h. The answers are read in answers.c. */
#include "queue/nats/language/jetstream.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

/* The defaults of a server, 1000 messages and 512 waiting pulls, are too few for hundreds of nodes. */
#define MAX_ACK_PENDING 65536
#define MAX_WAITING     4096

/* The server tells that it still has a waiting pull. A server that dies, or a leader that changes, is noticed earlier
 * than by the end of a long wait. */
enum { HEARTBEAT_MS = 5000 };

/* A subject becomes a part of JSON texts and of lines of the protocol. */
static bool is_subject(const char *text)
{
    size_t size = 0;
    for (; text[size]; size++)
        if (text[size] <= ' ' || text[size] >= 0x7f || text[size] == '"' || text[size] == '\\')
            return false;
    return size > 0 && size < GD__QUEUE_SUBJECT_ROOM;
}

int gd__js_begin(struct gd__js_exchange *x, const char *name, const struct gd__queue_request *request)
{
    x->name = name;
    x->asked = *request;
    x->asked.subject = NULL;
    x->checks = x->is_reading = false;
    x->items = 0;
    x->pages = x->priorities = 0;
    x->last_sequence = x->offset = x->page_total = x->page_entries = 0;
    x->at = 0;
    x->stored = NULL;
    x->text[0] = x->item[0] = x->subject[0] = '\0';
    if (!request->subject)
        return request->ask == GD__ASK_PUBLISH || request->ask == GD__ASK_LAST
                   ? gd__error(GD_E_INVALID, "a request without a subject")
                   : 0;
    if (!is_subject(request->subject))
        return gd__error(GD_E_INVALID, "not a subject of a queue");
    memcpy(x->subject, request->subject, strlen(request->subject) + 1);
    x->asked.subject = x->subject;
    return 0;
}

void gd__js_free(struct gd__js_exchange *x)
{
    gd__free(x->stored);
    x->stored = NULL;
}

/* The stream of a subject "gd.NAME.t....". */
static enum gd__queue_kind stream_of(const struct gd__js_exchange *x)
{
    const size_t at = strlen("gd.") + strlen(x->name) + 1;
    const char kind = strlen(x->subject) > at ? x->subject[at] : '\0';
    return kind == GD__QUEUE_RECORD || kind == GD__QUEUE_STATE ? (enum gd__queue_kind)kind : GD__QUEUE_TASK;
}

/* ---- messages ---- */

__attribute__((format(printf, 2, 3))) static void put_subject(struct gd__js_message *m, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(m->subject, sizeof m->subject, format, args);
    va_end(args);
}

__attribute__((format(printf, 2, 3))) static void put_body(struct gd__js_message *m, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int size = vsnprintf(m->body, sizeof m->body, format, args);
    va_end(args);
    m->data = m->body;
    m->size = size > 0 ? (size_t)size : 0;
}

static void stream_info(struct gd__js_message *m, const struct gd__js_exchange *x, const char *stream)
{
    put_subject(m, "$JS.API.STREAM.INFO.%s", stream);
    if (x->asked.ask != GD__ASK_SUBJECTS)
        return;
    put_body(m, "{\"offset\":%" PRIu64 ",\"subjects_filter\":\"%s\"}", x->offset,
             x->asked.subject ? x->asked.subject : ">");
}

/* Tasks and records are never replaced; states are. */
static void create_stream(struct gd__js_message *m, const struct gd__js_exchange *x, const char *stream)
{
    char filter[GD__QUEUE_SUBJECT_ROOM];
    const bool replaces = x->asked.stream == GD__QUEUE_STATE;
    put_subject(m, "$JS.API.STREAM.CREATE.%s", stream);
    put_body(m,
             "{\"name\":\"%s\",\"subjects\":[\"%s\"],\"retention\":\"limits\",\"storage\":\"file\","
             "\"max_msgs_per_subject\":1,\"discard\":\"%s\",\"discard_new_per_subject\":%s,\"allow_direct\":true,"
             "\"num_replicas\":%" PRIu32 "}",
             stream, gd__queue_stream_filter(filter, x->name, x->asked.stream), replaces ? "old" : "new",
             replaces ? "false" : "true", x->asked.replicas ? x->asked.replicas : 1);
}

/* With the action "create" a consumer that exists is not changed. */
static void create_consumer(struct gd__js_message *m, const struct gd__js_exchange *x, const char *stream,
                            const char *consumer)
{
    char filter[GD__QUEUE_SUBJECT_ROOM];
    put_subject(m, "$JS.API.CONSUMER.DURABLE.CREATE.%s.%s", stream, consumer);
    put_body(m,
             "{\"stream_name\":\"%s\",\"action\":\"create\",\"config\":{\"durable_name\":\"%s\","
             "\"filter_subject\":\"%s\",\"deliver_policy\":\"all\",\"replay_policy\":\"instant\","
             "\"ack_policy\":\"explicit\",\"ack_wait\":%" PRIu64
             ",\"max_deliver\":-1,\"max_ack_pending\":%d,\"max_waiting\":%d}}",
             stream, consumer, gd__queue_priority_filter(filter, x->name, x->asked.priority),
             x->asked.lease_ms * GD__NS_PER_MS, MAX_ACK_PENDING, MAX_WAITING);
}

static void publish(struct gd__js_message *m, const struct gd__js_exchange *x)
{
    memcpy(m->subject, x->subject, strlen(x->subject) + 1);
    m->data = x->asked.data;
    m->size = x->asked.size;
    if (x->asked.condition == GD__IF_ANY)
        return;
    m->expected = "0";
    if (x->asked.condition == GD__IF_NONE)
        return;
    (void)snprintf(m->expected_text, sizeof m->expected_text, "%" PRIu64, x->asked.sequence);
    m->expected = m->expected_text;
}

static void read_batch(struct gd__js_message *m, const struct gd__js_exchange *x, const char *stream)
{
    char bytes[40] = "";
    put_subject(m, "$JS.API.DIRECT.GET.%s", stream);
    if (x->asked.most_bytes)
        (void)snprintf(bytes, sizeof bytes, ",\"max_bytes\":%" PRIu32, x->asked.most_bytes);
    put_body(m, "{\"seq\":%" PRIu64 ",\"batch\":%" PRIu32 "%s,\"next_by_subj\":\"%s\"}",
             x->asked.from ? x->asked.from : 1, x->asked.most, bytes, x->asked.subject ? x->asked.subject : ">");
}

/* Only the leader of a stream answers this. */
static void get_message(struct gd__js_message *m, const struct gd__js_exchange *x, const char *stream)
{
    put_subject(m, "$JS.API.STREAM.MSG.GET.%s", stream);
    if (x->asked.ask == GD__ASK_LAST)
        put_body(m, "{\"last_by_subj\":\"%s\"}", x->subject);
    else
        put_body(m, "{\"seq\":%" PRIu64 ",\"next_by_subj\":\"%s\"}", x->asked.from ? x->asked.from : 1,
                 x->asked.subject ? x->asked.subject : ">");
}

static void pull(struct gd__js_message *m, const struct gd__js_exchange *x, const char *stream, const char *consumer)
{
    char bytes[40] = "", wait[96] = ",\"no_wait\":true";
    put_subject(m, "$JS.API.CONSUMER.MSG.NEXT.%s.%s", stream, consumer);
    if (x->asked.most_bytes)
        (void)snprintf(bytes, sizeof bytes, ",\"max_bytes\":%" PRIu32, x->asked.most_bytes);
    if (x->asked.wait_ms)
        (void)snprintf(wait, sizeof wait, ",\"expires\":%" PRIu64, x->asked.wait_ms * GD__NS_PER_MS);
    if (gd__js_heartbeat_ms(x))
        (void)snprintf(wait + strlen(wait), sizeof wait - strlen(wait), ",\"idle_heartbeat\":%" PRIu64,
                       HEARTBEAT_MS * GD__NS_PER_MS);
    put_body(m, "{\"batch\":%" PRIu32 "%s%s}", x->asked.most, wait, bytes);
}

/* A server refuses a heartbeat that is longer than half of the wait. */
uint32_t gd__js_heartbeat_ms(const struct gd__js_exchange *x)
{
    return x->asked.ask == GD__ASK_PULL && x->asked.wait_ms >= 2 * HEARTBEAT_MS ? HEARTBEAT_MS : 0;
}

void gd__js_message(const struct gd__js_exchange *x, struct gd__js_message *m)
{
    char stream[GD__QUEUE_SUBJECT_ROOM], consumer[GD__QUEUE_SUBJECT_ROOM];
    m->expected = NULL;
    m->data = NULL;
    m->size = 0;
    if (x->asked.ask == GD__ASK_PUBLISH) { /* the most frequent request */
        publish(m, x);
        return;
    }
    const bool of_tasks = x->asked.ask == GD__ASK_CREATE_CONSUMER || x->asked.ask == GD__ASK_PRIORITIES ||
                          x->asked.ask == GD__ASK_CONSUMER || x->asked.ask == GD__ASK_PULL;
    gd__queue_stream_text(stream, x->name,
                          of_tasks                       ? GD__QUEUE_TASK
                          : x->asked.ask == GD__ASK_LAST ? stream_of(x)
                                                         : x->asked.stream);
    gd__queue_consumer_text(consumer, x->asked.priority);
    switch (x->asked.ask) {
    case GD__ASK_SERVER:
        put_subject(m, "$JS.API.INFO");
        break;
    case GD__ASK_CREATE_STREAM:
        x->checks ? stream_info(m, x, stream) : create_stream(m, x, stream);
        break;
    case GD__ASK_CREATE_CONSUMER:
        if (!x->checks) {
            create_consumer(m, x, stream, consumer);
            break;
        }
        /* fall through */
    case GD__ASK_CONSUMER:
        put_subject(m, "$JS.API.CONSUMER.INFO.%s.%s", stream, consumer);
        break;
    case GD__ASK_PRIORITIES:
        put_subject(m, "$JS.API.CONSUMER.NAMES.%s", stream);
        put_body(m, "{\"offset\":%" PRIu64 "}", x->offset);
        break;
    case GD__ASK_STREAM:
    case GD__ASK_SUBJECTS:
        stream_info(m, x, stream);
        break;
    case GD__ASK_PUBLISH:
        break;
    case GD__ASK_LAST:
        if (x->asked.by_leader)
            get_message(m, x, stream);
        else
            put_subject(m, "$JS.API.DIRECT.GET.%s.%s", stream, x->subject);
        break;
    case GD__ASK_READ:
        x->asked.by_leader ? get_message(m, x, stream) : read_batch(m, x, stream);
        break;
    case GD__ASK_PULL:
        pull(m, x, stream, consumer);
        break;
    }
}

const char *gd__js_notice(char out[GD__JS_NOTICE_ROOM], enum gd__queue_notice notice, uint32_t delay_ms)
{
    if (notice == GD__TELL_ACK)
        return "+ACK";
    if (notice == GD__TELL_WORKING)
        return "+WPI";
    if (delay_ms == 0)
        return "-NAK";
    (void)snprintf(out, GD__JS_NOTICE_ROOM, "-NAK {\"delay\":%" PRIu64 "}", delay_ms * GD__NS_PER_MS);
    return out;
}
