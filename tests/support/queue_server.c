/* SPDX-License-Identifier: MIT
 *
 * A server of queues in memory: see queue_server.h. Subjects are compared one by one, so keep lists short.
 */
#include "support/queue_server.h"

#include <gpu_dispatch/dispatcher.h>
#include <pthread.h>

#include "support/test.h"

enum { LINKS = 16, STREAMS = 3, ASKS = 32 };

struct message {
    char *subject; /* NULL: it was replaced */
    void *data;
    size_t size;
    uint64_t sequence, time_us;
};

struct stream {
    bool exists;
    uint64_t last_sequence;
    uint64_t replicas_lack; /* how many of the sequences that could be there, from the highest */
    struct message *messages;
    size_t n, room;
};

struct queued {
    struct queued *next;
    struct gd__queue_request request; /* with its own copies */
};

struct fake_link {
    struct gd__queue_link link;
    struct queue_server *server;
    struct gd__queue_listener listener;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct queued *first, **last;
    bool closing;
};

struct queue_server {
    pthread_mutex_t mutex;
    char name[GD__QUEUE_NAME_MOST + 1];
    uint64_t max_payload;
    struct stream streams[STREAMS];
    uint32_t priorities, lease_ms;
    uint64_t now_us, unacknowledged;
    size_t done[ASKS];
    queue_fate_fn *fate;
    void *user;
    struct fake_link *links[LINKS];
};

static struct stream *stream_of(struct queue_server *s, char kind)
{
    const char *at = strchr("trs", kind);
    CHECK(at && *at);
    return &s->streams[at - "trs"];
}

/* The stream that a subject belongs to. */
static struct stream *stream_of_subject(struct queue_server *s, const char *subject)
{
    const size_t before = strlen("gd.") + strlen(s->name) + 1;
    CHECK(strncmp(subject, "gd.", 3) == 0 && strlen(subject) > before + 2 && subject[before - 1] == '.');
    return stream_of(s, subject[before]);
}

static struct message *find(const struct stream *t, const char *subject)
{
    for (size_t i = 0; i < t->n; i++) {
        if (t->messages[i].subject && strcmp(t->messages[i].subject, subject) == 0)
            return &t->messages[i];
    }
    return NULL;
}

/* NATS wildcards: '*' is one token, '>' at the end is one or more. */
static bool matches(const char *filter, const char *subject)
{
    for (;;) {
        if (strcmp(filter, ">") == 0)
            return *subject != '\0';
        const size_t f = strcspn(filter, "."), s = strcspn(subject, ".");
        if (!(f == 1 && *filter == '*') && (f != s || strncmp(filter, subject, f) != 0))
            return false;
        if (filter[f] == '\0' || subject[s] == '\0')
            return filter[f] == subject[s];
        filter += f + 1;
        subject += s + 1;
    }
}

static void *copy(const void *data, size_t size)
{
    void *to = malloc(size + 1);
    CHECK(to);
    if (size > 0)
        memcpy(to, data, size);
    return to;
}

static uint64_t store(const struct queue_server *s, struct stream *t, const char *subject, const void *data,
                      size_t size)
{
    struct message *old = find(t, subject);
    if (old) {
        free(old->subject);
        free(old->data);
        old->subject = NULL;
        old->data = NULL;
    }
    if (t->n == t->room) {
        t->room = t->room ? t->room * 2 : 64;
        t->messages = realloc(t->messages, t->room * sizeof *t->messages);
        CHECK(t->messages);
    }
    t->messages[t->n++] =
        (struct message){ copy(subject, strlen(subject) + 1), copy(data, size), size, ++t->last_sequence, s->now_us };
    return t->last_sequence;
}

static size_t count(const struct stream *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        n += t->messages[i].subject != NULL;
    return n;
}

/* --- requests --- */

static void publish(struct queue_server *s, const struct gd__queue_request *r, struct gd__queue_answer *a)
{
    struct stream *t = stream_of_subject(s, r->subject);
    const struct message *old = find(t, r->subject);
    if (!t->exists) {
        a->kind = GD__ANSWER_NONE;
    } else if (r->size > s->max_payload) {
        a->kind = GD__ANSWER_TOO_LARGE;
    } else if ((r->condition == GD__IF_NONE && old) ||
               (r->condition == GD__IF_LAST && (!old || old->sequence != r->sequence))) {
        a->kind = GD__ANSWER_REFUSED;
    } else {
        CHECK(r->condition != GD__IF_ANY || t == stream_of(s, 's'));
        a->sequence = store(s, t, r->subject, r->data, r->size);
    }
}

static void put_message(struct gd__queue_answer *a, const struct message *m)
{
    a->subject = m->subject;
    a->data = m->data;
    a->size = m->size;
    a->sequence = m->sequence;
    a->time_us = m->time_us;
}

/* Whether the replica that answers has the message. */
static bool is_there(const struct stream *t, const struct gd__queue_request *r, const struct message *m)
{
    return r->ask == GD__ASK_SUBJECTS || r->by_leader || m->sequence <= UINT64_MAX - t->replicas_lack;
}

static void read_messages(struct fake_link *l, const struct gd__queue_request *r)
{
    const struct stream *t = stream_of(l->server, (char)r->stream);
    const bool all = r->ask == GD__ASK_SUBJECTS;
    const uint32_t most = r->by_leader ? 1 : r->most;
    uint32_t items = 0;
    size_t bytes = 0;
    for (size_t i = 0; i < t->n && (all || items < most); i++) {
        const struct message *m = &t->messages[i];
        struct gd__queue_answer a = { .id = r->id, .kind = GD__ANSWER_ITEM, .text = "", .token = "" };
        if (!m->subject || m->sequence < r->from || (r->subject && !matches(r->subject, m->subject)) ||
            !is_there(t, r, m))
            continue;
        bytes += m->size;
        if (!all && items > 0 && r->most_bytes > 0 && bytes > r->most_bytes)
            return;
        put_message(&a, m);
        items++;
        l->listener.answer(l->listener.user, &a);
    }
}

static void figures(struct queue_server *s, const struct gd__queue_request *r, struct gd__queue_answer *a)
{
    const struct stream *t = stream_of(s, (char)r->stream);
    a->kind = t->exists ? GD__ANSWER_OK : GD__ANSWER_NONE;
    a->stream.messages = a->stream.subjects = count(t);
    a->stream.last_sequence = t->last_sequence;
    a->stream.first_sequence = 1;
    a->stream.replicas = 1;
    a->time_us = s->now_us;
}

static void last(struct queue_server *s, const struct gd__queue_request *r, struct gd__queue_answer *a)
{
    const struct stream *t = stream_of_subject(s, r->subject);
    const struct message *m = find(t, r->subject);
    if (m && !is_there(t, r, m))
        m = NULL;
    a->kind = m ? GD__ANSWER_OK : GD__ANSWER_NONE;
    if (m)
        put_message(a, m);
}

static void execute(struct fake_link *l, const struct gd__queue_request *r, struct gd__queue_answer *a)
{
    struct queue_server *s = l->server;
    const uint32_t bit = UINT32_C(1) << ((unsigned)(r->priority - GD_PRIORITY_MIN) % 32);
    s->done[r->ask % ASKS]++;
    switch (r->ask) {
    case GD__ASK_SERVER:
        (void)snprintf(a->server.version, sizeof a->server.version, "2.15.1");
        a->server.max_payload = s->max_payload;
        a->server.durable = -1;
        return;
    case GD__ASK_CREATE_STREAM:
        stream_of(s, (char)r->stream)->exists = true;
        return;
    case GD__ASK_CREATE_CONSUMER:
        s->priorities |= bit;
        s->lease_ms = r->lease_ms;
        return;
    case GD__ASK_PRIORITIES:
        a->priorities = s->priorities;
        return;
    case GD__ASK_STREAM:
        figures(s, r, a);
        return;
    case GD__ASK_CONSUMER:
        a->kind = s->priorities & bit ? GD__ANSWER_OK : GD__ANSWER_NONE;
        a->consumer.lease_ms = s->lease_ms;
        a->consumer.unacknowledged = s->unacknowledged;
        return;
    case GD__ASK_SUBJECTS:
    case GD__ASK_READ:
        read_messages(l, r);
        return;
    case GD__ASK_PUBLISH:
        publish(s, r, a);
        return;
    case GD__ASK_LAST:
        last(s, r, a);
        return;
    default:
        FAIL("the server of the test does not know the request %d", (int)r->ask);
    }
}

static void handle(struct fake_link *l, const struct gd__queue_request *r)
{
    static const enum gd__queue_answer_kind kinds[] = { [QUEUE_LOST] = GD__ANSWER_LOST,
                                                        [QUEUE_ANSWER_LOST] = GD__ANSWER_LOST,
                                                        [QUEUE_LATER] = GD__ANSWER_LATER,
                                                        [QUEUE_DENIED] = GD__ANSWER_DENIED,
                                                        [QUEUE_FAILED] = GD__ANSWER_FAILED };
    struct queue_server *s = l->server;
    struct gd__queue_answer a = { .id = r->id, .kind = GD__ANSWER_OK, .text = "", .subject = "", .token = "" };
    pthread_mutex_lock(&s->mutex);
    const enum queue_fate fate = s->fate ? s->fate(s->user, r) : QUEUE_ANSWERED;
    if (fate == QUEUE_ANSWERED || fate == QUEUE_ANSWER_LOST)
        execute(l, r, &a);
    if (fate != QUEUE_ANSWERED)
        a = (struct gd__queue_answer){ .id = r->id, .kind = kinds[fate], .text = "as the test wants", .token = "" };
    l->listener.answer(l->listener.user, &a);
    pthread_mutex_unlock(&s->mutex);
}

/* --- links --- */

static void free_queued(struct queued *q)
{
    free((void *)(uintptr_t)q->request.subject);
    free((void *)(uintptr_t)q->request.data);
    free(q);
}

static void *serve(void *user)
{
    struct fake_link *l = user;
    pthread_mutex_lock(&l->mutex);
    for (;;) {
        while (!l->first && !l->closing)
            pthread_cond_wait(&l->changed, &l->mutex);
        struct queued *q = l->first;
        if (!q || l->closing)
            break;
        l->first = q->next;
        if (!l->first)
            l->last = &l->first;
        pthread_mutex_unlock(&l->mutex);
        handle(l, &q->request);
        free_queued(q);
        pthread_mutex_lock(&l->mutex);
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

static int fake_ask(struct gd__queue_link *link, const struct gd__queue_request *request)
{
    struct fake_link *l = (struct fake_link *)link;
    struct queued *q = copy(&(struct queued){ .request = *request }, sizeof *q);
    q->request.subject = request->subject ? copy(request->subject, strlen(request->subject) + 1) : NULL;
    q->request.data = request->data ? copy(request->data, request->size) : NULL;
    pthread_mutex_lock(&l->mutex);
    *l->last = q;
    l->last = &q->next;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->mutex);
    return 0;
}

static void fake_tell(struct gd__queue_link *link, enum gd__queue_notice notice, const char *token, uint32_t delay_ms)
{
    (void)link;
    (void)notice;
    (void)token;
    (void)delay_ms;
}

static void fake_close(struct gd__queue_link *link, uint32_t timeout_ms)
{
    struct fake_link *l = (struct fake_link *)link;
    struct queue_server *s = l->server;
    (void)timeout_ms;
    pthread_mutex_lock(&l->mutex);
    l->closing = true;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->mutex);
    pthread_join(l->thread, NULL);
    while (l->first) {
        struct queued *q = l->first;
        l->first = q->next;
        free_queued(q);
    }
    pthread_mutex_lock(&s->mutex);
    for (size_t i = 0; i < LINKS; i++) {
        if (s->links[i] == l)
            s->links[i] = NULL;
    }
    pthread_mutex_unlock(&s->mutex);
    free(l);
}

int queue_server_link(void *user, const struct gd__queue_listener *listener, struct gd__queue_link **out)
{
    static const struct gd__queue_link_ops ops = { fake_ask, fake_tell, fake_close };
    struct queue_server *s = user;
    struct fake_link *l = calloc(1, sizeof *l);
    size_t i = 0;
    CHECK(l);
    l->link.ops = &ops;
    l->server = s;
    l->listener = *listener;
    l->last = &l->first;
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->changed, NULL);
    pthread_mutex_lock(&s->mutex);
    while (i < LINKS && s->links[i])
        i++;
    CHECK_LT(i, LINKS);
    s->links[i] = l;
    pthread_mutex_unlock(&s->mutex);
    CHECK_EQ(pthread_create(&l->thread, NULL, serve, l), 0);
    *out = &l->link;
    return 0;
}

/* --- the server --- */

struct queue_server *queue_server_new(const char *name, uint64_t max_payload)
{
    struct queue_server *s = calloc(1, sizeof *s);
    CHECK(s && strlen(name) < sizeof s->name);
    (void)snprintf(s->name, sizeof s->name, "%s", name);
    s->max_payload = max_payload;
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE); /* the function that decides may publish */
    pthread_mutex_init(&s->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return s;
}

void queue_server_free(struct queue_server *s)
{
    for (size_t i = 0; i < STREAMS; i++) {
        for (size_t k = 0; k < s->streams[i].n; k++) {
            free(s->streams[i].messages[k].subject);
            free(s->streams[i].messages[k].data);
        }
        free(s->streams[i].messages);
    }
    free(s);
}

void queue_server_fate(struct queue_server *s, queue_fate_fn *fate, void *user)
{
    pthread_mutex_lock(&s->mutex);
    s->fate = fate;
    s->user = user;
    pthread_mutex_unlock(&s->mutex);
}

void queue_server_connected(struct queue_server *s, bool is_connected, const char *text)
{
    pthread_mutex_lock(&s->mutex);
    for (size_t i = 0; i < LINKS; i++) {
        if (s->links[i])
            s->links[i]->listener.connected(s->links[i]->listener.user, is_connected, text);
    }
    pthread_mutex_unlock(&s->mutex);
}

uint64_t queue_server_put(struct queue_server *s, const char *subject, const void *data, size_t size)
{
    pthread_mutex_lock(&s->mutex);
    struct stream *t = stream_of_subject(s, subject);
    t->exists = true;
    const uint64_t sequence = store(s, t, subject, data, size);
    pthread_mutex_unlock(&s->mutex);
    return sequence;
}

void queue_server_clock(struct queue_server *s, uint64_t now_us)
{
    pthread_mutex_lock(&s->mutex);
    s->now_us = now_us;
    pthread_mutex_unlock(&s->mutex);
}

void queue_server_unacknowledged(struct queue_server *s, uint64_t messages)
{
    pthread_mutex_lock(&s->mutex);
    s->unacknowledged = messages;
    pthread_mutex_unlock(&s->mutex);
}

void queue_server_forget(struct queue_server *s, enum gd__queue_kind stream, uint64_t last_sequence)
{
    pthread_mutex_lock(&s->mutex);
    struct stream *t = stream_of(s, (char)stream);
    for (; t->n > 0 && t->messages[t->n - 1].sequence > last_sequence; t->n--) {
        free(t->messages[t->n - 1].subject);
        free(t->messages[t->n - 1].data);
    }
    t->last_sequence = last_sequence;
    pthread_mutex_unlock(&s->mutex);
}

void queue_server_replicas_have(struct queue_server *s, enum gd__queue_kind stream, uint64_t last_sequence)
{
    pthread_mutex_lock(&s->mutex);
    stream_of(s, (char)stream)->replicas_lack = UINT64_MAX - last_sequence;
    pthread_mutex_unlock(&s->mutex);
}

size_t queue_server_count(struct queue_server *s, enum gd__queue_kind stream)
{
    pthread_mutex_lock(&s->mutex);
    const size_t n = count(stream_of(s, (char)stream));
    pthread_mutex_unlock(&s->mutex);
    return n;
}

size_t queue_server_requests(struct queue_server *s, enum gd__queue_ask ask)
{
    pthread_mutex_lock(&s->mutex);
    const size_t n = s->done[ask % ASKS];
    pthread_mutex_unlock(&s->mutex);
    return n;
}

bool queue_server_has(struct queue_server *s, const char *subject)
{
    pthread_mutex_lock(&s->mutex);
    const bool has = find(stream_of_subject(s, subject), subject) != NULL;
    pthread_mutex_unlock(&s->mutex);
    return has;
}

const char *queue_server_message(struct queue_server *s, enum gd__queue_kind stream, size_t i, const void **data,
                                 size_t *size)
{
    const char *subject = NULL;
    pthread_mutex_lock(&s->mutex);
    const struct stream *t = stream_of(s, (char)stream);
    for (size_t k = 0; k < t->n && !subject; k++) {
        if (!t->messages[k].subject || i-- > 0)
            continue;
        subject = t->messages[k].subject;
        *data = t->messages[k].data;
        *size = t->messages[k].size;
    }
    pthread_mutex_unlock(&s->mutex);
    return subject;
}

uint32_t queue_server_priorities(struct queue_server *s)
{
    pthread_mutex_lock(&s->mutex);
    const uint32_t priorities = s->priorities;
    pthread_mutex_unlock(&s->mutex);
    return priorities;
}
