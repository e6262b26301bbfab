/* The way to the server of a queue: what a client asks, what it tells, and what the server answers.
 *
 * Everything that this program knows about a server goes through a link. There are two kinds: src/queue/nats/ talks to a
 * NATS server with JetStream, and the model server of the tests runs in virtual time. The rest of src/queue/ does not
 * know the difference.
 *
 *   ask    a request. It gets any number of items (READ, PULL, SUBJECTS), and then exactly one answer that ends it. If
 *          the server does not answer in time, the link itself ends the request with GD__ANSWER_LOST.
 *   tell   a notice about a task message that was pulled. It may get lost, and there is no answer.
 *
 * LAST and READ may be answered by any replica of a stream, and a replica may be behind: they may miss the newest
 * messages, and READ always misses the last ones first. STREAM, CONSUMER and SUBJECTS are answered by the leader, and so
 * are LAST and READ with by_leader.
 *
 * A publication is the only request that changes something, and the server takes it only on a condition, so each request
 * may be sent again after GD__ANSWER_LOST.
 *
 * Threads: ask and tell may be called on any thread. The functions of struct gd__queue_listener are called on a thread of
 * the link, one at a time, never from within ask or tell. They must not block for long, and may call ask and tell.
 */
#ifndef GD_QUEUE_LINK_H
#define GD_QUEUE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/names/subject.h"

enum gd__queue_ask {
    GD__ASK_SERVER = 1,      /* what is known about the server: gd__queue_answer.server */
    GD__ASK_CREATE_STREAM,   /* stream, replicas. One that exists already is no error, if its settings are right */
    GD__ASK_CREATE_CONSUMER, /* priority, lease_ms. The same */
    GD__ASK_PRIORITIES,      /* which priorities have a consumer: gd__queue_answer.priorities */
    GD__ASK_STREAM,          /* stream: gd__queue_answer.stream; NONE if the queue does not exist */
    GD__ASK_CONSUMER,        /* priority: gd__queue_answer.consumer */
    GD__ASK_SUBJECTS,        /* stream, filter: an item for each subject that has a message */
    GD__ASK_PUBLISH,         /* subject, data, size, condition */
    GD__ASK_LAST,            /* subject: the message with this subject */
    GD__ASK_READ,            /* stream, filter, from, most, most_bytes: the next messages, in order of sequence */
    GD__ASK_PULL,            /* priority, most, most_bytes, wait_ms: task messages, which this client then holds */
};

/* A condition of a publication. The streams of tasks and records accept one message for each subject. */
enum gd__queue_condition {
    GD__IF_NONE = 0, /* only if there is no message with this subject */
    GD__IF_LAST,     /* only if the message with this subject has the sequence `sequence`; it is replaced */
    GD__IF_ANY,      /* in any case; a message with this subject is replaced. Only in the stream of states */
};

struct gd__queue_request {
    enum gd__queue_ask ask;
    uint64_t id; /* chosen by the caller, returned in each answer */
    enum gd__queue_kind stream;
    int priority;
    const char *subject; /* PUBLISH, LAST: the subject. READ, SUBJECTS: a filter; NULL: all of the stream */
    const void *data;    /* copied */
    size_t size;
    enum gd__queue_condition condition;
    uint64_t sequence;   /* of the condition */
    uint64_t from;       /* READ: the first sequence, from 1 */
    uint32_t most;       /* READ, PULL: how many messages; at least 1 */
    uint32_t most_bytes; /* READ, PULL: how many bytes of messages; 0: no limit */
    bool by_leader;      /* LAST, READ: no message is missing. READ: one message at most, and any size. Costs more */
    uint32_t wait_ms;    /* PULL: how long the server keeps the request if it has no message; 0: it answers at once */
    uint32_t timeout_ms; /* how long the link waits for the answer; counts after wait_ms; 0: 5000 */
    uint32_t lease_ms;   /* CREATE_CONSUMER: after this time without a notice a message is delivered again */
    uint32_t replicas;   /* CREATE_STREAM: 1, 3 or 5 */
};

enum gd__queue_answer_kind {
    GD__ANSWER_ITEM = 1, /* one of several; the answer that ends the request comes later */
    /* The request has ended: */
    GD__ANSWER_OK,      /* done; for READ, PULL and SUBJECTS: there are no more items */
    GD__ANSWER_NONE,    /* there is no such message, stream or consumer */
    GD__ANSWER_REFUSED, /* the condition of a publication does not hold */
    GD__ANSWER_LATER, /* the server cannot do it now: it has no leader, no quorum, too many requests. Ask again later */
    GD__ANSWER_LOST,  /* no answer in time, or the connection was lost: it may have been done or not */
    GD__ANSWER_DENIED,    /* the credentials do not allow it */
    GD__ANSWER_TOO_LARGE, /* the message is larger than the server accepts */
    GD__ANSWER_FAILED,    /* any other error: text */
};

struct gd__queue_server_facts {
    char version[32];     /* "2.15.1"; "": not known */
    uint64_t max_payload; /* bytes of a message */
    /* Whether acknowledged messages survive a power loss: 1 yes, 0 no, -1 cannot be learned. In a cluster, that of the server
     * that has answered first. */
    int durable;
    char warning[256]; /* about this client's files with secrets; "": none */
};

struct gd__queue_answer {
    uint64_t id;
    enum gd__queue_answer_kind kind;
    const char *text; /* LATER, DENIED, FAILED: what the server said, for the user; else "" */

    /* Items of READ, PULL, SUBJECTS; OK of LAST. Borrowed until the function returns, and as the server sent them:
     * nothing has been checked. */
    const char *subject;
    uint64_t sequence; /* also of OK of PUBLISH: the sequence of the new message */
    const void *data;
    size_t size;
    /* Unix time by the clock of the server: of items of READ and OK of LAST, when the server stored the message; of OK of
     * STREAM, when it answered. 0: not known. */
    uint64_t time_us;
    /* Items of PULL. */
    const char *token;   /* for notices about this message; at most GD__QUEUE_TOKEN_ROOM - 1 bytes */
    uint64_t deliveries; /* how many times it was delivered, 1 the first time; a server that died may have forgotten */
    uint64_t pending; /* how many more messages of this consumer were never delivered. Also in OK of READ: how many more
                            messages match its filter, because a server may send fewer than `most` */

    struct gd__queue_server_facts server;
    uint32_t priorities; /* bit P - GD_PRIORITY_MIN is set: the priority P has a consumer */
    struct {
        uint64_t messages, bytes, first_sequence, last_sequence, subjects;
        uint32_t replicas;
    } stream;
    struct {
        uint64_t pending;        /* messages that were never delivered */
        uint64_t unacknowledged; /* delivered, and neither acknowledged nor given back */
        uint64_t waiting;        /* pulls that wait for messages */
        uint32_t lease_ms;
    } consumer;
};

enum { GD__QUEUE_TOKEN_ROOM = 256 };

enum gd__queue_notice {
    GD__TELL_ACK = 1, /* never deliver the message again */
    GD__TELL_NAK,     /* deliver it again, to anyone, after delay_ms */
    GD__TELL_WORKING, /* this client still holds it: begin the lease anew */
};

struct gd__queue_listener {
    void *user;
    void (*answer)(void *user, const struct gd__queue_answer *a);
    /* The connection was lost (text: why) or is there again. A new link is connected. */
    void (*connected)(void *user, bool is_connected, const char *text);
    /* The link has given up: it will not be connected again (text: why, for example wrong credentials). May be NULL. */
    void (*closed)(void *user, const char *text);
};

struct gd__queue_link;
struct gd__queue_link_ops {
    /* Returns 0, or GD_E_NO_MEMORY if the request was not sent: then there is no answer. */
    int (*ask)(struct gd__queue_link *link, const struct gd__queue_request *request);
    void (*tell)(struct gd__queue_link *link, enum gd__queue_notice notice, const char *token, uint32_t delay_ms);
    /* Sends what is not sent yet, for at most timeout_ms, and releases the link. No function of the listener is called
     * after this. Requests that have no answer get none. Must not be called by a function of the listener. */
    void (*close)(struct gd__queue_link *link, uint32_t timeout_ms);
};

/* The first member of each kind of link. */
struct gd__queue_link {
    const struct gd__queue_link_ops *ops;
};

static inline int gd__link_ask(struct gd__queue_link *link, const struct gd__queue_request *request)
{
    return link->ops->ask(link, request);
}

static inline void gd__link_tell(struct gd__queue_link *link, enum gd__queue_notice notice, const char *token,
                                 uint32_t delay_ms)
{
    link->ops->tell(link, notice, token, delay_ms);
}

#endif
