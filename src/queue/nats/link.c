/* A link to a NATS server with JetStream: see link.h. */
#include "queue/nats/link.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text/printable.h"
#include "base/thread.h"
#include "queue/nats/connection.h"
#include "queue/nats/language/jetstream.h"
#include "queue/nats/library.h"
#include "queue/nats/outstanding.h"
#include "queue/nats/sender.h"

enum {
    TIMEOUT_MS = 5000, /* of a request that names none */
    INBOX_ROOM = 64,   /* "_INBOX." and 32 digits and "." */
    REPLY_ROOM = INBOX_ROOM + 24,
    PENDING_BYTES = 1 << 30, /* of messages that wait for the listener; libnats drops the others */
    FIRST_DELAY_MS = 1000,
    LAST_DELAY_MS = 8000,
};

#define CLOSED "the server does not accept this client any more"

struct link {
    struct gd__queue_link base; /* must be the first member */
    const struct gd__nats *n;
    struct gd__queue_listener listener;
    char name[GD__QUEUE_NAME_MOST + 1];
    char inbox[INBOX_ROOM]; /* the beginning of all reply subjects */
    gd__nats_conn *connection;
    gd__nats_sub *subscription;
    struct gd__nats_sender sender;
    struct gd__queue_server_facts facts;
    pthread_t timer;

    pthread_mutex_t calls; /* held while a function of the listener runs; locked before `lock` */
    /* protected by calls: */
    bool is_closing;
    struct gd__nats_spent received;

    pthread_mutex_t lock;   /* protects what follows */
    pthread_cond_t changed; /* for the timer thread */
    pthread_cond_t state;   /* for those that open and close the link */
    struct gd__outstanding outstanding;
    struct gd__outstanding_request *ended; /* the last one; released when the next one ends */
    uint64_t wakes_ns;                     /* when the timer thread looks next */
    uint64_t random;
    bool is_connected, is_stopping;
    bool is_closed;   /* libnats does not try to reconnect any more */
    bool is_complete; /* no message comes any more */
};

static void lock(pthread_mutex_t *m)
{
    pthread_mutex_lock(m);
}

static void unlock(pthread_mutex_t *m)
{
    pthread_mutex_unlock(m);
}

/* ---- sending ---- */

/* Returns a status of libnats. */
static int send_message(struct link *l, uint64_t token, const struct gd__js_message *m)
{
    static const char digits[] = "0123456789abcdef";
    char reply[REPLY_ROOM];
    size_t at = strlen(l->inbox);
    int shift = 0;
    memcpy(reply, l->inbox, at);
    while (shift < 60 && token >> (shift + 4))
        shift += 4;
    for (; shift >= 0; shift -= 4)
        reply[at++] = digits[token >> shift & 15];
    reply[at] = '\0';
    return gd__nats_send(&l->sender, m, reply);
}

/* Moves the deadline, and wakes the timer thread if it would look too late. The caller holds the lock. */
static void set_deadline(struct link *l, struct gd__outstanding_request *r, uint64_t at_ns)
{
    gd__outstanding_move(&l->outstanding, r, at_ns);
    if (at_ns < l->wakes_ns)
        pthread_cond_signal(&l->changed);
}

/* The request could not be sent: the timer thread ends it, because the listener is not called from within ask. */
static void end_soon(struct link *l, uint64_t token, enum gd__queue_answer_kind kind, const char *why)
{
    lock(&l->lock);
    struct gd__outstanding_request *r = gd__outstanding_find(&l->outstanding, token);
    if (r) {
        r->ends = kind;
        r->why = why;
        set_deadline(l, r, 0);
    }
    unlock(&l->lock);
}

static void send_or_end(struct link *l, uint64_t token, const struct gd__js_message *m)
{
    const int s = send_message(l, token, m);
    if (s == GD__NATS_OK)
        return;
    if (s == GD__NATS_MAX_PAYLOAD)
        end_soon(l, token, GD__ANSWER_TOO_LARGE, "");
    else if (s == GD__NATS_NO_MEMORY)
        end_soon(l, token, GD__ANSWER_LATER, "no memory for a message");
    else
        end_soon(l, token, GD__ANSWER_LOST, "");
}

/* When the request ends if nothing comes from the server. A server that tells from time to time that it has the request
 * is missed earlier. */
static uint64_t deadline_of(const struct gd__outstanding_request *r, uint64_t now_ns)
{
    const uint64_t timeout_ms = r->x.asked.timeout_ms ? r->x.asked.timeout_ms : TIMEOUT_MS;
    const uint64_t beat_ms = gd__js_heartbeat_ms(&r->x);
    if (!r->latest_ns)
        return now_ns + timeout_ms * GD__NS_PER_MS;
    const uint64_t early_ns = beat_ms ? now_ns + (2 * beat_ms + timeout_ms) * GD__NS_PER_MS : r->latest_ns;
    return early_ns < r->latest_ns ? early_ns : r->latest_ns;
}

/* Adds a request to the table. Returns its token, or 0 if there is no memory. The caller holds the lock. */
static uint64_t add_request(struct link *l, const struct gd__queue_request *request, uint64_t now_ns)
{
    const uint64_t timeout_ms = request->timeout_ms ? request->timeout_ms : TIMEOUT_MS;
    struct gd__outstanding_request *r = gd__outstanding_new(&l->outstanding);
    if (!r)
        return 0;
    (void)gd__js_begin(&r->x, l->name, request);
    r->x.asked.data = NULL; /* libnats copies it */
    if (request->ask == GD__ASK_PULL)
        r->latest_ns = now_ns + (request->wait_ms + timeout_ms) * GD__NS_PER_MS;
    r->is_unsent = !l->is_connected;
    gd__outstanding_add(&l->outstanding, r, UINT64_MAX);
    set_deadline(l, r, deadline_of(r, now_ns));
    return r->token;
}

/* The message is written before the lock is taken: other threads wait for the lock. */
static int link_ask(struct gd__queue_link *base, const struct gd__queue_request *request)
{
    struct link *l = (struct link *)base;
    struct gd__js_exchange x;
    struct gd__js_message m;
    const bool is_valid = gd__js_begin(&x, l->name, request) == 0;
    const uint64_t now_ns = gd__now_ns();
    if (is_valid)
        gd__js_message(&x, &m);
    lock(&l->lock);
    const uint64_t token = add_request(l, request, now_ns);
    const bool send = l->is_connected, is_closed = l->is_closed;
    unlock(&l->lock);
    if (!token)
        return gd__error(GD_E_NO_MEMORY, "no memory for a request to the queue");
    if (!is_valid)
        end_soon(l, token, GD__ANSWER_FAILED, "the request has no valid subject");
    else if (is_closed)
        end_soon(l, token, GD__ANSWER_DENIED, CLOSED);
    else if (send)
        send_or_end(l, token, &m);
    return 0;
}

static void tell(struct link *l, enum gd__queue_notice notice, const char *token, uint32_t delay_ms)
{
    char room[GD__JS_NOTICE_ROOM];
    (void)gd__nats_send_notice(&l->sender, token, gd__js_notice(room, notice, delay_ms));
}

static void link_tell(struct gd__queue_link *base, enum gd__queue_notice notice, const char *token, uint32_t delay_ms)
{
    tell((struct link *)base, notice, token, delay_ms);
}

/* ---- ending requests; the caller holds calls ---- */

/* The answer borrows from the request, so the request stays. */
static void finish(struct link *l, struct gd__outstanding_request *r, struct gd__queue_answer *a)
{
    lock(&l->lock);
    if (l->ended)
        gd__outstanding_release(&l->outstanding, l->ended);
    gd__outstanding_remove(&l->outstanding, r);
    l->ended = r;
    unlock(&l->lock);
    if (a->kind == GD__ANSWER_OK && r->x.asked.ask == GD__ASK_SERVER)
        a->server = l->facts;
    l->listener.answer(l->listener.user, a);
}

enum which { ANY, UNSENT, WITH_SUBJECT };

static bool is_meant(const struct gd__outstanding_request *r, enum which which, const char *subject)
{
    struct gd__js_message m;
    if (which != WITH_SUBJECT)
        return which == ANY || r->is_unsent;
    gd__js_message(&r->x, &m);
    return strcmp(m.subject, subject) == 0;
}

/* Ends all requests of a kind. A function of the listener may ask again: that request is not meant. */
static void finish_all(struct link *l, enum which which, const char *subject, enum gd__queue_answer_kind kind,
                       const char *why)
{
    lock(&l->lock);
    const uint64_t last = l->outstanding.generation;
    for (size_t i = 0; i < l->outstanding.n_slots; i++) {
        struct gd__outstanding_request *r = l->outstanding.slots[i];
        struct gd__queue_answer a;
        if (!r || gd__outstanding_number(r) > last || !is_meant(r, which, subject))
            continue;
        unlock(&l->lock);
        gd__js_end(&r->x, kind, why, &a);
        finish(l, r, &a);
        lock(&l->lock);
    }
    unlock(&l->lock);
}

/* Ends what is due. */
static void finish_due(struct link *l)
{
    const uint64_t now_ns = gd__now_ns();
    for (;;) {
        struct gd__queue_answer a;
        lock(&l->lock);
        struct gd__outstanding_request *r = gd__outstanding_first(&l->outstanding);
        const bool is_due = r && r->timer.at_ns <= now_ns;
        unlock(&l->lock);
        if (!is_due)
            return;
        gd__js_end(&r->x, r->ends, r->why, &a);
        finish(l, r, &a);
    }
}

static void wait_until(struct link *l, uint64_t at_ns)
{
    l->wakes_ns = at_ns;
    if (at_ns == UINT64_MAX) {
        pthread_cond_wait(&l->changed, &l->lock);
    } else {
        const struct timespec at = { (time_t)(at_ns / GD__NS_PER_S), (long)(at_ns % GD__NS_PER_S) };
        pthread_cond_timedwait(&l->changed, &l->lock, &at);
    }
    l->wakes_ns = 0;
}

static void *run_timer(void *arg)
{
    struct link *l = arg;
    gd__nats_sender_own_thread();
    lock(&l->lock);
    while (!l->is_stopping) {
        const struct gd__outstanding_request *r = gd__outstanding_first(&l->outstanding);
        const uint64_t at_ns = r ? r->timer.at_ns : UINT64_MAX;
        if (at_ns > gd__now_ns()) {
            wait_until(l, at_ns);
            continue;
        }
        unlock(&l->lock);
        lock(&l->calls);
        if (!l->is_closing)
            finish_due(l);
        unlock(&l->calls);
        lock(&l->lock);
    }
    unlock(&l->lock);
    return NULL;
}

/* ---- messages; the caller holds calls ---- */

struct headers {
    const struct gd__nats *n;
    gd__nats_msg *message;
};

/* The last value: anyone who may publish can store a message with headers that look like those of the server, and the
 * server puts its own after them. */
static const char *get_header(void *headers, const char *name)
{
    const struct headers *h = headers;
    const char **values = NULL, *value = NULL;
    int n = 0;
    if (h->n->header_values(h->message, name, &values, &n) == GD__NATS_OK && n > 0)
        value = values[n - 1];
    free((void *)values); /* libnats has allocated the list for us */
    return value;
}

static void send_next(struct link *l, struct gd__outstanding_request *r)
{
    struct gd__js_message m;
    gd__js_message(&r->x, &m);
    lock(&l->lock);
    set_deadline(l, r, deadline_of(r, gd__now_ns()));
    unlock(&l->lock);
    send_or_end(l, r->token, &m);
}

static void read_message(struct link *l, struct gd__outstanding_request *r, const struct gd__js_incoming *in)
{
    struct gd__queue_answer a;
    for (;;) {
        switch (gd__js_take(&r->x, in, &a)) {
        case GD__JS_IGNORE:
            return;
        case GD__JS_ALIVE:
            lock(&l->lock);
            set_deadline(l, r, deadline_of(r, gd__now_ns()));
            unlock(&l->lock);
            return;
        case GD__JS_ITEM:
            l->listener.answer(l->listener.user, &a);
            break;
        case GD__JS_END:
            finish(l, r, &a);
            return;
        case GD__JS_SEND:
            send_next(l, r);
            return;
        }
    }
}

static bool read_token(const char *text, uint64_t *token)
{
    char *end;
    if (!*text || strspn(text, "0123456789abcdef") != strlen(text) || strlen(text) > 2 * sizeof *token)
        return false;
    *token = strtoull(text, &end, 16);
    return true;
}

static void take_message(struct link *l, gd__nats_msg *message)
{
    const size_t prefix = strlen(l->inbox);
    struct gd__outstanding_request *r = NULL;
    struct gd__js_ack ack;
    uint64_t token;
    const int size = l->n->message_size(message);
    struct headers headers = { l->n, message };
    struct gd__js_incoming in = {
        .subject = l->n->message_subject(message),
        .reply = l->n->message_reply(message),
        .data = l->n->message_data(message),
        .size = size > 0 ? (size_t)size : 0,
        .headers = &headers,
        .header = get_header,
    };
    in.to_request = strncmp(in.subject, l->inbox, prefix) == 0;
    const bool is_task = !in.to_request && in.reply && gd__js_ack_parse(&ack, l->name, in.reply);
    lock(&l->lock);
    if (in.to_request && read_token(in.subject + prefix, &token))
        r = gd__outstanding_find(&l->outstanding, token);
    else if (is_task)
        r = gd__outstanding_pull(&l->outstanding, ack.priority);
    unlock(&l->lock);
    if (r)
        read_message(l, r, &in);
    else if (is_task)
        tell(l, GD__TELL_NAK, in.reply, 0);
}

static void on_message(gd__nats_conn *c, gd__nats_sub *s, gd__nats_msg *message, void *user)
{
    struct link *l = user;
    (void)c, (void)s;
    gd__nats_sender_own_thread();
    struct gd__nats_spent full;
    lock(&l->calls);
    if (!l->is_closing)
        take_message(l, message);
    gd__nats_spent_add(&l->received, message, (size_t)l->n->message_size(message), &full);
    unlock(&l->calls);
    gd__nats_spent_destroy(&full, l->n);
}

static void on_complete(void *user)
{
    struct link *l = user;
    lock(&l->lock);
    l->is_complete = true;
    pthread_cond_broadcast(&l->state);
    unlock(&l->lock);
}

/* ---- the connection ---- */

static void set_connected(struct link *l, bool is_connected)
{
    lock(&l->lock);
    l->is_connected = is_connected;
    unlock(&l->lock);
}

/* The last error of the connection, safe to print. */
static const char *connection_error(struct link *l, gd__nats_conn *c, char *out, size_t room)
{
    const char *text = NULL;
    (void)l->n->connection_error(c, &text);
    (void)gd__text_line(out, room, text ? text : "", text ? strlen(text) : 0);
    return out;
}

static void on_lost(gd__nats_conn *c, void *user)
{
    struct link *l = user;
    char text[GD__JS_TEXT_ROOM];
    set_connected(l, false);
    lock(&l->calls);
    if (!l->is_closing) {
        l->listener.connected(l->listener.user, false, connection_error(l, c, text, sizeof text));
        finish_all(l, ANY, "", GD__ANSWER_LOST, "");
    }
    unlock(&l->calls);
}

static void on_back(gd__nats_conn *c, void *user)
{
    struct link *l = user;
    (void)c;
    set_connected(l, true);
    lock(&l->calls);
    if (!l->is_closing) {
        l->facts.max_payload = (uint64_t)l->n->max_payload(l->connection);
        l->listener.connected(l->listener.user, true, "");
        finish_all(l, UNSENT, "", GD__ANSWER_LOST, "");
    }
    unlock(&l->calls);
}

static void on_closed(gd__nats_conn *c, void *user)
{
    struct link *l = user;
    char text[GD__JS_TEXT_ROOM];
    lock(&l->calls);
    if (!l->is_closing) {
        l->listener.connected(l->listener.user, false, connection_error(l, c, text, sizeof text));
        finish_all(l, ANY, "", GD__ANSWER_DENIED, CLOSED);
        if (l->listener.closed)
            l->listener.closed(l->listener.user, text);
    }
    unlock(&l->calls);
    lock(&l->lock);
    l->is_closed = true;
    pthread_cond_broadcast(&l->state);
    unlock(&l->lock);
}

/* The part of a message of the server that is in quotes: a subject. Returns false if there is none. */
static bool quoted(const char *text, char out[GD__JS_SUBJECT_ROOM])
{
    const char *from = strchr(text, '"'), *to = from ? strchr(from + 1, '"') : NULL;
    if (!to || to - from > GD__JS_SUBJECT_ROOM)
        return false;
    memcpy(out, from + 1, (size_t)(to - from) - 1);
    out[to - from - 1] = '\0';
    return true;
}

/* The server does not answer a request that the credentials do not allow. It sends a message with the subject. If it is
 * the subject for answers, no answer comes to any request. Without acknowledgements a node cannot work either. */
static void on_error(gd__nats_conn *c, gd__nats_sub *s, int status, void *user)
{
    struct link *l = user;
    char text[GD__JS_TEXT_ROOM], subject[GD__JS_SUBJECT_ROOM];
    (void)s;
    if (status != GD__NATS_NOT_PERMITTED)
        return;
    lock(&l->calls);
    if (!l->is_closing && quoted(connection_error(l, c, text, sizeof text), subject)) {
        const bool is_inbox = strncmp(subject, l->inbox, strlen(l->inbox)) == 0;
        const bool is_ack = strncmp(subject, "$JS.ACK.", strlen("$JS.ACK.")) == 0;
        finish_all(l, is_inbox || is_ack ? ANY : WITH_SUBJECT, subject, GD__ANSWER_DENIED, text);
    }
    unlock(&l->calls);
}

/* xorshift: only to spread attempts over time. */
static uint64_t next_random(struct link *l)
{
    lock(&l->lock);
    l->random ^= l->random << 13;
    l->random ^= l->random >> 7;
    l->random ^= l->random << 17;
    const uint64_t x = l->random;
    unlock(&l->lock);
    return x;
}

static int64_t delay(gd__nats_conn *c, int attempts, void *user)
{
    struct link *l = user;
    (void)c;
    int64_t most = FIRST_DELAY_MS;
    for (int i = 1; i < attempts && most < LAST_DELAY_MS; i++)
        most *= 2;
    return 1 + (int64_t)(next_random(l) % (uint64_t)most);
}

/* ---- opening and closing ---- */

static void link_destroy(struct link *l)
{
    if (l->ended)
        gd__outstanding_release(&l->outstanding, l->ended);
    gd__outstanding_destroy(&l->outstanding);
    gd__nats_sender_destroy(&l->sender);
    pthread_cond_destroy(&l->state);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    pthread_mutex_destroy(&l->calls);
    gd__free(l);
}

/* Ends the connection, and waits until libnats calls nothing any more. */
static void disconnect(struct link *l)
{
    lock(&l->calls);
    l->is_closing = true;
    unlock(&l->calls);
    if (l->subscription)
        l->n->subscription_destroy(l->subscription);
    l->n->close(l->connection);
    lock(&l->lock);
    while (!l->is_closed || (l->subscription && !l->is_complete))
        pthread_cond_wait(&l->state, &l->lock);
    unlock(&l->lock);
    gd__nats_spent_destroy(&l->received, l->n);
    l->n->destroy(l->connection);
}

static void stop(struct link *l)
{
    lock(&l->lock);
    l->is_stopping = true;
    pthread_cond_signal(&l->changed);
    unlock(&l->lock);
    pthread_join(l->timer, NULL);
    disconnect(l);
    link_destroy(l);
}

static void link_close(struct gd__queue_link *base, uint32_t timeout_ms)
{
    struct link *l = (struct link *)base;
    if (timeout_ms > 0)
        (void)l->n->flush(l->connection, timeout_ms);
    stop(l);
}

static struct link *link_new(const struct gd__nats *n, const struct gd__queue_address *a,
                             const struct gd__queue_listener *listener)
{
    static const struct gd__queue_link_ops ops = { .ask = link_ask, .tell = link_tell, .close = link_close };
    struct link *l = gd__calloc(1, sizeof *l);
    pthread_mutexattr_t adaptive;
    pthread_condattr_t attributes;
    uint64_t inbox[2];
    if (!l)
        return NULL;
    l->base.ops = &ops;
    l->n = n;
    l->listener = *listener;
    l->is_connected = true;
    gd__nats_sender_init(&l->sender, n);
    memcpy(l->name, a->name, sizeof l->name);
    pthread_mutex_init(&l->calls, NULL);
    pthread_mutexattr_init(&adaptive); /* the lock is held for less time than a thread needs to sleep */
    pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&l->lock, &adaptive);
    pthread_mutexattr_destroy(&adaptive);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&l->changed, &attributes);
    pthread_cond_init(&l->state, NULL);
    pthread_condattr_destroy(&attributes);
    if (getrandom(inbox, sizeof inbox, 0) != sizeof inbox || getrandom(&l->random, sizeof l->random, 0) < 0) {
        link_destroy(l);
        return NULL;
    }
    l->random |= 1;
    (void)snprintf(l->inbox, sizeof l->inbox, "_INBOX.%016" PRIx64 "%016" PRIx64 ".", inbox[0], inbox[1]);
    return l;
}

static int subscribe(struct link *l)
{
    char subject[REPLY_ROOM];
    sigset_t before;
    (void)snprintf(subject, sizeof subject, "%s*", l->inbox);
    gd__signals_block(&before);
    int s = l->n->subscribe(&l->subscription, l->connection, subject, on_message, l);
    gd__signals_restore(&before);
    s = s ? s : l->n->on_complete(l->subscription, on_complete, l);
    s = s ? s : l->n->pending_limits(l->subscription, -1, PENDING_BYTES);
    return s ? gd__error(GD_E_FAILED, "cannot listen for the answers of the server: %s", l->n->status_text(s)) : 0;
}

/* Returns 0, or a negative code: then the link is gone. */
static int begin(struct link *l)
{
    int rc = subscribe(l);
    const int failed = rc ? 0 : gd__thread_start(&l->timer, "gd-queue", run_timer, l);
    if (failed) {
        errno = failed;
        rc = gd__error_errno("cannot start a thread for the queue");
    }
    if (rc < 0) {
        disconnect(l);
        link_destroy(l);
    }
    return rc;
}

int gd__nats_link_open(struct gd__queue_link **out, const struct gd__queue_address *a, const struct gd__nats_options *o,
                       uint32_t timeout_ms, const struct gd__queue_listener *listener)
{
    const struct gd__nats *n = gd__nats_library();
    if (!n)
        return GD_E_UNSUPPORTED;
    struct link *l = link_new(n, a, listener);
    if (!l)
        return gd__error_errno("cannot connect to the queue");
    const struct gd__nats_events events = {
        .lost = on_lost, .back = on_back, .closed = on_closed, .error = on_error, .delay = delay, .user = l
    };
    const struct gd__nats_dial dial = { .address = a, .options = o, .events = &events, .timeout_ms = timeout_ms };
    int rc = gd__nats_connect(&l->connection, n, &dial, &l->facts);
    if (rc < 0) {
        link_destroy(l);
        return rc;
    }
    l->sender.connection = l->connection;
    rc = begin(l);
    if (rc == 0)
        *out = &l->base;
    return rc;
}

void gd__nats_link_listen(struct gd__queue_link *base, const struct gd__queue_listener *listener)
{
    struct link *l = (struct link *)base;
    lock(&l->calls);
    l->listener = *listener;
    unlock(&l->calls);
}
