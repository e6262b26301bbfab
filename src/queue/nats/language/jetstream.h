/* JetStream's language: what a request to a queue's server looks like as a message, and what the messages of the server
 * mean. No function here sends anything or reads a clock, and everything from the server is checked.
 *
 *   SERVER           $JS.API.INFO                                 JSON
 *   CREATE_STREAM    $JS.API.STREAM.CREATE.STREAM                 JSON; then STREAM.INFO if its settings are others
 *   CREATE_CONSUMER  $JS.API.CONSUMER.DURABLE.CREATE.STREAM.NAME  JSON; then CONSUMER.INFO likewise
 *   PRIORITIES       $JS.API.CONSUMER.NAMES.STREAM                JSON, in pages
 *   STREAM           $JS.API.STREAM.INFO.STREAM                   JSON
 *   SUBJECTS         $JS.API.STREAM.INFO.STREAM                   JSON, in pages
 *   CONSUMER         $JS.API.CONSUMER.INFO.STREAM.NAME            JSON
 *   PUBLISH          the subject itself                           JSON
 *   LAST             $JS.API.DIRECT.GET.STREAM.SUBJECT            the message, with headers
 *   READ             $JS.API.DIRECT.GET.STREAM                    messages with headers, then status 204
 *   both, by_leader  $JS.API.STREAM.MSG.GET.STREAM                JSON with the message in it
 *   PULL             $JS.API.CONSUMER.MSG.NEXT.STREAM.NAME        messages with their own subject and a reply subject
 *                                                                 $JS.ACK..., then a status, unless all have come
 *
 * An answer without a body that has a status header (404, 408, 409, 503, ...) is about the request itself. 503 means that
 * nobody listens to the subject: there is no such stream or consumer, or it has no leader at present.
 */
#ifndef GD_QUEUE_NATS_LANGUAGE_JETSTREAM_H
#define GD_QUEUE_NATS_LANGUAGE_JETSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/json.h"
#include "queue/link.h"

enum {
    GD__JS_SUBJECT_ROOM = 2 * GD__QUEUE_SUBJECT_ROOM + 64,
    GD__JS_BODY_ROOM = 1024,
    GD__JS_TEXT_ROOM = 512,
};

/* A request on its way: what was asked, and how far it is. */
struct gd__js_exchange {
    const char *name; /* the queue; borrowed */
    struct gd__queue_request asked;
    char subject[GD__QUEUE_SUBJECT_ROOM]; /* what asked.subject points to, unless that is NULL */
    bool checks;                          /* CREATE_...: the settings of what exists already were asked for */

    uint32_t items;         /* READ, PULL: that have come */
    uint64_t last_sequence; /* READ: of the last item */
    uint64_t offset;        /* SUBJECTS, PRIORITIES: of the next page */
    uint32_t pages, priorities;
    /* While one message is being read: */
    bool is_reading;
    size_t at;                /* SUBJECTS: the place in the list */
    struct gd__json subjects; /* SUBJECTS: the list */
    uint64_t page_total, page_entries;
    char text[GD__JS_TEXT_ROOM];       /* of the last answer */
    char item[GD__QUEUE_SUBJECT_ROOM]; /* SUBJECTS, by_leader: the subject of the last item */
    void *stored;                      /* by_leader: the data of the message */
};

/* A message to the server. */
struct gd__js_message {
    char subject[GD__JS_SUBJECT_ROOM];
    const char *expected; /* the value of the header GD__JS_EXPECTED; NULL: no header */
    const void *data;     /* borrowed */
    size_t size;
    char expected_text[24];
    char body[GD__JS_BODY_ROOM]; /* what data points to, unless it is the data of a publication */
};
#define GD__JS_EXPECTED "Nats-Expected-Last-Subject-Sequence"

/* A message from the server. */
struct gd__js_incoming {
    const char *subject;
    const char *reply; /* NULL: none */
    const void *data;
    size_t size;
    bool to_request; /* its subject is the reply subject of the request; otherwise it is a task message */
    void *headers;
    const char *(*header)(void *headers, const char *name); /* returns the value, or NULL */
};

/* Begins an exchange. name must stay valid. Returns 0, or GD_E_INVALID if the subject is too long or has characters that
 * do not belong in a subject. */
int gd__js_begin(struct gd__js_exchange *x, const char *name, const struct gd__queue_request *request);
/* Releases what the answers have allocated. */
void gd__js_free(struct gd__js_exchange *x);

/* Writes the message that is to be sent now. */
void gd__js_message(const struct gd__js_exchange *x, struct gd__js_message *out);

enum gd__js_step {
    GD__JS_IGNORE = 0, /* the message says nothing: wait for the next */
    GD__JS_ALIVE,      /* the server still has the request: wait for the next */
    GD__JS_ITEM,       /* *out is an item: call again with the same message */
    GD__JS_END,        /* *out ends the request */
    GD__JS_SEND,       /* send the next message, which gd__js_message() writes */
};

/* How often the server tells that it still has a request that waits; 0: it does not. */
uint32_t gd__js_heartbeat_ms(const struct gd__js_exchange *x);

/* Reads a message that belongs to this request. *out borrows from the message and from x. */
enum gd__js_step gd__js_take(struct gd__js_exchange *x, const struct gd__js_incoming *in, struct gd__queue_answer *out);

/* Sets *out to an answer that ends the request, of a kind that the link chooses. */
void gd__js_end(const struct gd__js_exchange *x, enum gd__queue_answer_kind kind, const char *text,
                struct gd__queue_answer *out);

/* What the reply subject of a task message says:
 *   $JS.ACK.STREAM.CONSUMER.DELIVERIES.SEQUENCE.CONSUMER_SEQUENCE.TIME.PENDING
 *   $JS.ACK.DOMAIN.ACCOUNT.STREAM.CONSUMER.DELIVERIES.SEQUENCE.CONSUMER_SEQUENCE.TIME.PENDING[.RANDOM] */
struct gd__js_ack {
    int priority;
    uint64_t deliveries, sequence, pending;
};
/* Returns false if it is anything else, or of another queue. */
bool gd__js_ack_parse(struct gd__js_ack *out, const char *name, const char *reply);

/* The text of a notice: "+ACK", "-NAK", "+WPI". Returns out. */
enum { GD__JS_NOTICE_ROOM = 48 };
const char *gd__js_notice(char out[GD__JS_NOTICE_ROOM], enum gd__queue_notice notice, uint32_t delay_ms);

#endif
