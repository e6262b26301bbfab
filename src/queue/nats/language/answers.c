/* Reads the answers of a server with JetStream: see jetstream.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/buffer.h"
#include "base/text/printable.h"
#include "queue/nats/language/jetstream.h"
#include "queue/nats/language/parts.h"
#include "queue/nats/timestamp.h"

#include <gpu_dispatch/dispatcher.h>

/* Codes of JetStream's errors. */
enum {
    CLUSTER_NOT_AVAILABLE = 10008,
    CLUSTER_NOT_LEADER = 10009,
    CONSUMER_NOT_FOUND = 10014,
    NO_RESOURCES = 10023,
    NO_MESSAGE = 10037,
    NO_STORAGE = 10047,
    MESSAGE_TOO_LARGE = 10054,
    STREAM_IN_USE = 10058, /* with another configuration */
    STREAM_NOT_FOUND = 10059,
    WRONG_LAST_SEQUENCE = 10071,
    STORE_FAILED = 10077, /* also: the subject has a message, and the stream keeps it */
    CONSUMER_EXISTS = 10148,
    WRONG_LAST_SEQUENCE_CONSTANT = 10164,
};

/* Codes in status headers, and classes of errors. */
enum {
    HEARTBEAT = 100,
    END_OF_BATCH = 204,
    NOT_AUTHORIZED = 401,
    FORBIDDEN = 403,
    NOT_FOUND = 404,
    TIMED_OUT = 408,
    CONFLICT = 409,
    TOO_MANY_REQUESTS = 429,
    UNAVAILABLE = 503,
};

enum { PAGES_MOST = 65536 };

/* ---- answers ---- */

void gd__js_end(const struct gd__js_exchange *x, enum gd__queue_answer_kind kind, const char *text,
                struct gd__queue_answer *out)
{
    *out = (struct gd__queue_answer){ .id = x->asked.id, .kind = kind, .text = text, .subject = "", .token = "" };
}

static enum gd__js_step ends(const struct gd__js_exchange *x, enum gd__queue_answer_kind kind, const char *text,
                             struct gd__queue_answer *out)
{
    gd__js_end(x, kind, text, out);
    return GD__JS_END;
}

static enum gd__js_step senseless(const struct gd__js_exchange *x, struct gd__queue_answer *out)
{
    return ends(x, GD__ANSWER_FAILED, "the server sent an answer that makes no sense", out);
}

/* Copies a text of the server, made safe to print, to x->text. */
static const char *keep_text(struct gd__js_exchange *x, const char *text, size_t size)
{
    (void)gd__text_line(x->text, sizeof x->text, text, size);
    return x->text;
}

/* ---- numbers and headers ---- */

static const char *header(const struct gd__js_incoming *in, const char *name)
{
    return in->header ? in->header(in->headers, name) : NULL;
}

/* When the server stored the message; 0: not known. */
static uint64_t header_time(const struct gd__js_incoming *in)
{
    const char *value = header(in, "Nats-Time-Stamp");
    return value ? gd__js_time_us(value, strlen(value)) : 0;
}

static bool header_number(const struct gd__js_incoming *in, const char *name, uint64_t *out)
{
    const char *value = header(in, name);
    return value && gd__js_number(value, strlen(value), out);
}

/* Returns the status, or 0 if the message has none. A message with a body is not about a request. */
static unsigned status_of(const struct gd__js_incoming *in)
{
    uint64_t status = 0;
    if (!in->to_request || in->size > 0 || !header_number(in, "Status", &status) || status > UINT16_MAX)
        return 0;
    return (unsigned)status;
}

/* ---- JSON ---- */

/* A number that is left out is 0. */
static bool number_or_zero(const struct gd__json *value, uint64_t *out)
{
    *out = 0;
    return value->kind == GD__JSON_NONE || (value->kind == GD__JSON_NUMBER && gd__json_uint(value, out));
}

static bool number_at(const struct gd__json *object, const char *name, uint64_t *out)
{
    struct gd__json value;
    *out = 0;
    return !gd__json_member(object->at, object->size, name, &value) || number_or_zero(&value, out);
}

/* ---- errors ---- */

static enum gd__queue_answer_kind kind_of_error(const struct gd__js_exchange *x, uint64_t code, uint64_t number)
{
    switch (number) {
    case WRONG_LAST_SEQUENCE:
    case WRONG_LAST_SEQUENCE_CONSTANT:
        return x->asked.ask == GD__ASK_PUBLISH ? GD__ANSWER_REFUSED : GD__ANSWER_FAILED;
    case STORE_FAILED: /* if the message is not refused, the disk is full or broken, or a limit was reached */
        return x->asked.ask == GD__ASK_PUBLISH && strstr(x->text, "per subject") ? GD__ANSWER_REFUSED
                                                                                 : GD__ANSWER_LATER;
    case STREAM_NOT_FOUND:
    case CONSUMER_NOT_FOUND:
        return GD__ANSWER_NONE;
    case NO_MESSAGE:
        return x->asked.ask == GD__ASK_READ ? GD__ANSWER_OK : GD__ANSWER_NONE;
    case MESSAGE_TOO_LARGE:
        return GD__ANSWER_TOO_LARGE;
    case CLUSTER_NOT_AVAILABLE:
    case CLUSTER_NOT_LEADER:
    case NO_RESOURCES:
    case NO_STORAGE:
        return GD__ANSWER_LATER;
    default:
        break;
    }
    if (code == NOT_AUTHORIZED || code == FORBIDDEN)
        return GD__ANSWER_DENIED;
    return code == UNAVAILABLE || code == TOO_MANY_REQUESTS ? GD__ANSWER_LATER : GD__ANSWER_FAILED;
}

/* {"code":400,"err_code":10071,"description":"wrong last sequence: 1"} */
static enum gd__js_step take_error(struct gd__js_exchange *x, const struct gd__json *error,
                                   struct gd__queue_answer *out)
{
    static const char *const names[] = { "code", "err_code", "description" };
    struct gd__json m[3];
    struct gd__buffer text = { 0 };
    uint64_t code, number;
    if (error->kind != GD__JSON_OBJECT || gd__json_scan_object(error->at, error->size, names, m, 3) < 0 ||
        !number_or_zero(&m[0], &code) || !number_or_zero(&m[1], &number))
        return senseless(x, out);
    const bool has_text = m[2].kind == GD__JSON_STRING && gd__json_read_string(&text, m[2].at, m[2].size);
    keep_text(x, has_text && !text.failed ? text.data : "", has_text && !text.failed ? text.size : 0);
    gd__buffer_free(&text);
    const bool exists = (x->asked.ask == GD__ASK_CREATE_STREAM && number == STREAM_IN_USE) ||
                        (x->asked.ask == GD__ASK_CREATE_CONSUMER && number == CONSUMER_EXISTS);
    if (exists && !x->checks) {
        x->checks = true;
        return GD__JS_SEND;
    }
    if (!*x->text)
        (void)snprintf(x->text, sizeof x->text, "error %" PRIu64, number);
    return ends(x, kind_of_error(x, code, number), x->text, out);
}

/* A status that is about the request, not about a pull. */
static enum gd__js_step take_status(struct gd__js_exchange *x, const struct gd__js_incoming *in, unsigned status,
                                    struct gd__queue_answer *out)
{
    const char *text = header(in, "Description");
    if (status == UNAVAILABLE)
        return ends(x, GD__ANSWER_LATER, "the server has no such stream or consumer, or it has no leader at present",
                    out);
    if (status == NOT_FOUND)
        return ends(x, x->asked.ask == GD__ASK_READ ? GD__ANSWER_OK : GD__ANSWER_NONE, "", out);
    keep_text(x, text ? text : "", text ? strlen(text) : 0);
    return ends(x, status == TIMED_OUT || status == CONFLICT ? GD__ANSWER_LATER : GD__ANSWER_FAILED,
                *x->text ? x->text : "the server refused the request", out);
}

/* ---- answers in JSON ---- */

enum { ERROR, SEQ, STATE, CONFIG, CONSUMERS, TOTAL, PENDING, ACK_PENDING, WAITING, TIME, MESSAGE, MEMBERS };
static const char *const member_names[MEMBERS] = {
    "error",           "seq",         "state", "config",  "consumers", "total", "num_pending",
    "num_ack_pending", "num_waiting", "ts",    "message",
};

static uint64_t json_time(const struct gd__json *value)
{
    return value->kind == GD__JSON_STRING ? gd__js_time_us(value->at + 1, value->size - 2) : 0; /* without the quotes */
}

static enum gd__js_step take_stream(struct gd__js_exchange *x, const struct gd__json *m, struct gd__queue_answer *out)
{
    static const char *const names[] = { "messages", "bytes", "first_seq", "last_seq", "num_subjects" };
    struct gd__json s[5];
    uint64_t replicas;
    (void)ends(x, GD__ANSWER_OK, "", out);
    if (m[STATE].kind != GD__JSON_OBJECT || m[CONFIG].kind != GD__JSON_OBJECT ||
        gd__json_scan_object(m[STATE].at, m[STATE].size, names, s, 5) < 0 || s[0].kind != GD__JSON_NUMBER ||
        !number_or_zero(&s[0], &out->stream.messages) || !number_or_zero(&s[1], &out->stream.bytes) ||
        !number_or_zero(&s[2], &out->stream.first_sequence) || !number_or_zero(&s[3], &out->stream.last_sequence) ||
        !number_or_zero(&s[4], &out->stream.subjects) || !number_at(&m[CONFIG], "num_replicas", &replicas))
        return senseless(x, out);
    out->stream.replicas = replicas > UINT32_MAX ? UINT32_MAX : (uint32_t)replicas;
    out->time_us = json_time(&m[TIME]);
    return GD__JS_END;
}

static enum gd__js_step take_consumer(struct gd__js_exchange *x, const struct gd__json *m, struct gd__queue_answer *out)
{
    uint64_t lease_ns;
    (void)ends(x, GD__ANSWER_OK, "", out);
    if (m[CONFIG].kind != GD__JSON_OBJECT || m[PENDING].kind != GD__JSON_NUMBER ||
        !number_or_zero(&m[PENDING], &out->consumer.pending) ||
        !number_or_zero(&m[ACK_PENDING], &out->consumer.unacknowledged) ||
        !number_or_zero(&m[WAITING], &out->consumer.waiting) || !number_at(&m[CONFIG], "ack_wait", &lease_ns))
        return senseless(x, out);
    const uint64_t lease_ms = lease_ns / 1000000;
    out->consumer.lease_ms = lease_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)lease_ms;
    return GD__JS_END;
}

static enum gd__js_step take_created(struct gd__js_exchange *x, const struct gd__json *m, struct gd__queue_answer *out)
{
    if (m[CONFIG].kind != GD__JSON_OBJECT)
        return senseless(x, out);
    if (x->asked.ask == GD__ASK_CREATE_STREAM ? gd__js_stream_fits(x, &m[CONFIG]) : gd__js_consumer_fits(x, &m[CONFIG]))
        return ends(x, GD__ANSWER_OK, "", out);
    return ends(x, GD__ANSWER_FAILED, x->text, out);
}

static uint32_t priority_bit(const char *consumer)
{
    char name[GD__QUEUE_SUBJECT_ROOM];
    for (int p = GD_PRIORITY_MIN; p <= GD_PRIORITY_MAX; p++)
        if (strcmp(gd__queue_consumer_text(name, p), consumer) == 0)
            return UINT32_C(1) << (p - GD_PRIORITY_MIN);
    return 0;
}

/* Adds the consumers of a page. Returns how many names it has. */
static uint64_t add_consumers(struct gd__js_exchange *x, const struct gd__json *list)
{
    struct gd__buffer names = { 0 };
    uint64_t n = 0;
    if (list->kind == GD__JSON_ARRAY && gd__json_read_list(&names, list->at, list->size)) {
        gd__buffer_add(&names, "", 1);
        for (size_t at = 0; !names.failed && at < names.size; at += strlen(names.data + at) + 1, n++)
            x->priorities |= priority_bit(names.data + at);
    }
    gd__buffer_free(&names);
    return n;
}

/* Whether there is another page after one with n entries. */
static bool has_next_page(struct gd__js_exchange *x, uint64_t total, uint64_t n)
{
    x->offset += n;
    return n > 0 && x->offset < total && ++x->pages < PAGES_MOST;
}

static enum gd__js_step take_consumers(struct gd__js_exchange *x, const struct gd__json *m,
                                       struct gd__queue_answer *out)
{
    uint64_t total;
    if (!number_or_zero(&m[TOTAL], &total))
        return senseless(x, out);
    if (has_next_page(x, total, add_consumers(x, &m[CONSUMERS])))
        return GD__JS_SEND;
    (void)ends(x, GD__ANSWER_OK, "", out);
    out->priorities = x->priorities;
    return GD__JS_END;
}

static enum gd__js_step take_published(struct gd__js_exchange *x, const struct gd__json *m,
                                       struct gd__queue_answer *out)
{
    (void)ends(x, GD__ANSWER_OK, "", out);
    return number_or_zero(&m[SEQ], &out->sequence) && out->sequence > 0 ? GD__JS_END : senseless(x, out);
}

/* ---- lists of subjects ---- */

static enum gd__js_step next_subject(struct gd__js_exchange *x, struct gd__queue_answer *out)
{
    struct gd__json name, value;
    while (x->subjects.kind == GD__JSON_OBJECT && gd__json_next_member(&x->subjects, &x->at, &name, &value)) {
        x->page_entries++;
        if (name.size >= sizeof x->item)
            continue; /* longer than any subject of a queue */
        x->item[gd__json_decode(&name, x->item)] = '\0';
        gd__js_end(x, GD__ANSWER_ITEM, "", out);
        out->subject = x->item;
        return GD__JS_ITEM;
    }
    x->is_reading = false;
    return has_next_page(x, x->page_total, x->page_entries) ? GD__JS_SEND : ends(x, GD__ANSWER_OK, "", out);
}

static enum gd__js_step take_subjects(struct gd__js_exchange *x, const struct gd__json *m, struct gd__queue_answer *out)
{
    x->subjects = (struct gd__json){ "", 0, GD__JSON_NONE };
    if (m[STATE].kind != GD__JSON_OBJECT || !number_or_zero(&m[TOTAL], &x->page_total))
        return senseless(x, out);
    (void)gd__json_member(m[STATE].at, m[STATE].size, "subjects", &x->subjects);
    x->is_reading = true;
    x->at = 0;
    x->page_entries = 0;
    return next_subject(x, out);
}

/* ---- a message of the leader ---- */

static int base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Decodes base64 into `to`, which has room for size / 4 * 3 bytes. Returns false if the text is anything else. */
static bool read_base64(unsigned char *to, size_t *n, const char *text, size_t size)
{
    size_t digits = size;
    uint32_t bits = 0;
    *n = 0;
    while (digits > 0 && size - digits < 2 && text[digits - 1] == '=')
        digits--;
    for (size_t i = 0; i < digits; i++) {
        const int digit = base64_digit(text[i]);
        if (digit < 0)
            return false;
        bits = bits << 6 | (uint32_t)digit;
        if (i % 4 > 0)
            to[(*n)++] = (unsigned char)(bits >> (6 - 2 * (i % 4)));
    }
    return size % 4 == 0;
}

/* Decodes the data of a message into x. A message without data has no such member. */
static enum gd__js_step take_data(struct gd__js_exchange *x, const struct gd__json *data, enum gd__js_step step,
                                  struct gd__queue_answer *out)
{
    gd__js_free(x);
    if (data->kind == GD__JSON_NONE)
        return step;
    if (data->kind != GD__JSON_STRING)
        return senseless(x, out);
    x->stored = gd__calloc(1, data->size);
    if (!x->stored)
        return ends(x, GD__ANSWER_LATER, "no memory for a message", out);
    out->data = x->stored;
    return read_base64(x->stored, &out->size, data->at + 1, data->size - 2) ? step : senseless(x, out);
}

/* {"message":{"subject":"gd.q.s.push","seq":3,"hdrs":"...","data":"aGVsbG8=","time":"2026-11-16T19:03:07.1Z"}} */
static enum gd__js_step take_message(struct gd__js_exchange *x, const struct gd__json *message,
                                     struct gd__queue_answer *out)
{
    static const char *const names[] = { "subject", "seq", "data", "time" };
    const bool is_item = x->asked.ask == GD__ASK_READ;
    struct gd__json m[4];
    gd__js_end(x, is_item ? GD__ANSWER_ITEM : GD__ANSWER_OK, "", out);
    if (message->kind != GD__JSON_OBJECT || gd__json_scan_object(message->at, message->size, names, m, 4) < 0 ||
        m[0].kind != GD__JSON_STRING || m[0].size >= sizeof x->item || m[1].kind != GD__JSON_NUMBER ||
        !gd__json_uint(&m[1], &out->sequence))
        return senseless(x, out);
    x->item[gd__json_decode(&m[0], x->item)] = '\0';
    if (is_item ? out->sequence < x->asked.from : strcmp(x->item, x->subject) != 0)
        return senseless(x, out);
    out->subject = x->item;
    out->time_us = json_time(&m[3]);
    const enum gd__js_step step = take_data(x, &m[2], is_item ? GD__JS_ITEM : GD__JS_END, out);
    x->is_reading = step == GD__JS_ITEM;
    return step;
}

static enum gd__js_step take_json(struct gd__js_exchange *x, const struct gd__js_incoming *in,
                                  struct gd__queue_answer *out)
{
    struct gd__json m[MEMBERS];
    if (x->is_reading)
        return x->asked.ask == GD__ASK_READ ? ends(x, GD__ANSWER_OK, "", out) : next_subject(x, out);
    if (gd__json_scan_object(in->size ? in->data : "", in->size, member_names, m, MEMBERS) < 0)
        return senseless(x, out);
    if (m[ERROR].kind != GD__JSON_NONE)
        return take_error(x, &m[ERROR], out);
    switch (x->asked.ask) {
    case GD__ASK_CREATE_STREAM:
    case GD__ASK_CREATE_CONSUMER:
        return take_created(x, m, out);
    case GD__ASK_PRIORITIES:
        return take_consumers(x, m, out);
    case GD__ASK_STREAM:
        return take_stream(x, m, out);
    case GD__ASK_CONSUMER:
        return take_consumer(x, m, out);
    case GD__ASK_SUBJECTS:
        return take_subjects(x, m, out);
    case GD__ASK_PUBLISH:
        return take_published(x, m, out);
    case GD__ASK_LAST:
    case GD__ASK_READ:
        return take_message(x, &m[MESSAGE], out);
    default:
        return ends(x, GD__ANSWER_OK, "", out);
    }
}

/* ---- messages that are stored ---- */

static enum gd__js_step take_last(struct gd__js_exchange *x, const struct gd__js_incoming *in,
                                  struct gd__queue_answer *out)
{
    const char *subject = header(in, "Nats-Subject");
    (void)ends(x, GD__ANSWER_OK, "", out);
    if (!subject || strcmp(subject, x->subject) != 0 || !header_number(in, "Nats-Sequence", &out->sequence))
        return senseless(x, out);
    out->subject = x->subject;
    out->data = in->data;
    out->size = in->size;
    out->time_us = header_time(in);
    return GD__JS_END;
}

/* Each message of a batch names the sequence of the message before it, and the end names the last one. So a message that
 * was lost on the way is noticed. */
static bool follows(const struct gd__js_exchange *x, const struct gd__js_incoming *in)
{
    uint64_t before;
    return header_number(in, "Nats-Last-Sequence", &before) && before == x->last_sequence;
}

static enum gd__js_step end_of_batch(struct gd__js_exchange *x, const struct gd__js_incoming *in,
                                     struct gd__queue_answer *out)
{
    (void)ends(x, GD__ANSWER_OK, "", out);
    if (!follows(x, in))
        return ends(x, GD__ANSWER_LOST, "", out);
    return header_number(in, "Nats-Num-Pending", &out->pending) ? GD__JS_END : senseless(x, out);
}

static enum gd__js_step take_batch(struct gd__js_exchange *x, const struct gd__js_incoming *in,
                                   struct gd__queue_answer *out)
{
    const char *subject = header(in, "Nats-Subject");
    uint64_t sequence;
    if (x->is_reading) {
        x->is_reading = false;
        return GD__JS_ALIVE;
    }
    if (!subject || !header_number(in, "Nats-Sequence", &sequence) || sequence <= x->last_sequence ||
        sequence < x->asked.from || x->items == x->asked.most)
        return senseless(x, out);
    if (!follows(x, in))
        return ends(x, GD__ANSWER_LOST, "", out);
    x->last_sequence = sequence;
    x->items++;
    x->is_reading = true;
    gd__js_end(x, GD__ANSWER_ITEM, "", out);
    out->subject = subject;
    out->sequence = sequence;
    out->data = in->data;
    out->size = in->size;
    out->time_us = header_time(in);
    (void)header_number(in, "Nats-Num-Pending", &out->pending);
    return GD__JS_ITEM;
}

static enum gd__js_step take_direct(struct gd__js_exchange *x, const struct gd__js_incoming *in,
                                    struct gd__queue_answer *out)
{
    const unsigned status = header(in, "Nats-Sequence") ? 0 : status_of(in);
    if (status == END_OF_BATCH && x->asked.ask == GD__ASK_READ)
        return end_of_batch(x, in, out);
    if (status)
        return take_status(x, in, status, out);
    return x->asked.ask == GD__ASK_READ ? take_batch(x, in, out) : take_last(x, in, out);
}

/* ---- pulls ---- */

/* The texts are those of the server. */
static enum gd__queue_answer_kind kind_of_conflict(const struct gd__js_exchange *x, const char *text)
{
    if (strcasestr(text, "message size exceeds"))
        return x->items ? GD__ANSWER_OK : GD__ANSWER_TOO_LARGE;
    if (strcasestr(text, "batch completed"))
        return GD__ANSWER_OK;
    if (strcasestr(text, "deleted"))
        return GD__ANSWER_NONE;
    if (strcasestr(text, "push based") || strcasestr(text, "maxrequest"))
        return GD__ANSWER_FAILED;
    return GD__ANSWER_LATER; /* too many pulls wait, too much is unacknowledged, another leader, a server that stops */
}

static enum gd__js_step end_of_pull(struct gd__js_exchange *x, const struct gd__js_incoming *in, unsigned status,
                                    struct gd__queue_answer *out)
{
    const char *text = header(in, "Description");
    if (status == HEARTBEAT)
        return GD__JS_ALIVE;
    if (status == NOT_FOUND || status == TIMED_OUT)
        return ends(x, GD__ANSWER_OK, "", out);
    if (status != CONFLICT)
        return take_status(x, in, status, out);
    keep_text(x, text ? text : "", text ? strlen(text) : 0);
    return ends(x, kind_of_conflict(x, x->text), x->text, out);
}

static enum gd__js_step take_pulled(struct gd__js_exchange *x, const struct gd__js_incoming *in,
                                    struct gd__queue_answer *out)
{
    struct gd__js_ack ack;
    const unsigned status = status_of(in);
    if (x->is_reading) {
        x->is_reading = false;
        return x->items < x->asked.most ? GD__JS_ALIVE : ends(x, GD__ANSWER_OK, "", out);
    }
    if (status)
        return end_of_pull(x, in, status, out);
    if (!in->reply || strlen(in->reply) >= GD__QUEUE_TOKEN_ROOM || !gd__js_ack_parse(&ack, x->name, in->reply) ||
        ack.priority != x->asked.priority)
        return GD__JS_IGNORE;
    x->items++;
    x->is_reading = true;
    gd__js_end(x, GD__ANSWER_ITEM, "", out);
    out->subject = in->subject;
    out->sequence = ack.sequence;
    out->data = in->data;
    out->size = in->size;
    out->token = in->reply;
    out->deliveries = ack.deliveries;
    out->pending = ack.pending;
    return GD__JS_ITEM;
}

enum gd__js_step gd__js_take(struct gd__js_exchange *x, const struct gd__js_incoming *in, struct gd__queue_answer *out)
{
    if (x->asked.ask == GD__ASK_PULL)
        return take_pulled(x, in, out);
    if (!in->to_request)
        return GD__JS_IGNORE;
    if ((x->asked.ask == GD__ASK_LAST || x->asked.ask == GD__ASK_READ) && !x->asked.by_leader)
        return take_direct(x, in, out);
    const unsigned status = x->is_reading ? 0 : status_of(in);
    return status ? take_status(x, in, status, out) : take_json(x, in, out);
}
