/* SPDX-License-Identifier: MIT
 *
 * The model server in real time: see queue_model.h. One lock protects everything. Answers are collected while the lock is
 * held, and delivered without it, so that a listener may ask. */
#include "support/queue_model.h"

#include <pthread.h>

#include "base/clock.h"
#include "queue/messages/node_status.h"
#include "sim/queue/server/server.h"
#include "support/test.h"

enum { CLIENTS = 16, LEASE_MS = 30000, MAX_PAYLOAD = 1 << 20 };

struct delivery_to {
    struct delivery_to *next;
    unsigned client;
    struct gd__queue_answer answer;
    char *text, *subject, *token, *data;
};

struct waiting_request {
    struct waiting_request *next;
    uint64_t id;
};

struct model_link {
    struct gd__queue_link base; /* first */
    struct queue_model *m;
    struct gd__queue_listener listener;
    unsigned client;
    bool is_open;
    struct waiting_request *waits;
};

struct queue_model {
    pthread_mutex_t lock;
    pthread_cond_t news, changed;
    pthread_t thread;
    bool stop, cut, tell_cut, is_mute;
    size_t n_lost; /* requests while the links were cut */
    struct server server;
    struct model_link links[CLIENTS];
    unsigned n_links;
    struct delivery_to *out, **out_end;
    bool delivering;
    uint64_t number;
    uint32_t lease_ms;
    size_t notices; /* that extend a lease */
};

static struct queue_model *last;

/* --- answers --- */

static char *copy_text(const char *text)
{
    return text ? strdup(text) : NULL;
}

static void end_wait(struct model_link *l, uint64_t id)
{
    for (struct waiting_request **w = &l->waits; *w; w = &(*w)->next) {
        if ((*w)->id != id)
            continue;
        struct waiting_request *gone = *w;
        *w = gone->next;
        free(gone);
        return;
    }
}

static void collect(void *user, unsigned client, const struct gd__queue_answer *a)
{
    struct queue_model *m = user;
    struct delivery_to *d = calloc(1, sizeof *d);
    CHECK(d != NULL);
    d->client = client;
    d->answer = *a;
    d->text = copy_text(a->text ? a->text : "");
    d->subject = copy_text(a->subject);
    d->token = copy_text(a->token);
    d->data = a->data ? malloc(a->size + 1) : NULL;
    if (a->data)
        memcpy(d->data, a->data, a->size);
    *m->out_end = d;
    m->out_end = &d->next;
    if (a->kind != GD__ANSWER_ITEM)
        end_wait(&m->links[client], a->id);
    pthread_cond_broadcast(&m->news);
    pthread_cond_broadcast(&m->changed);
}

static uint64_t random_number(void *user)
{
    (void)user;
    static uint64_t n = 1;
    return n = n * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
}

/* Delivers one answer. The lock is released meanwhile. */
static void deliver_one(struct queue_model *m)
{
    struct delivery_to *d = m->out;
    struct model_link *l = &m->links[d->client];
    m->out = d->next;
    if (!m->out)
        m->out_end = &m->out;
    d->answer.text = d->text;
    d->answer.subject = d->subject;
    d->answer.token = d->token;
    d->answer.data = d->data;
    const bool is_open = l->is_open;
    const struct gd__queue_listener listener = l->listener;
    m->delivering = true;
    pthread_mutex_unlock(&m->lock);
    if (is_open)
        listener.answer(listener.user, &d->answer);
    free(d->text);
    free(d->subject);
    free(d->token);
    free(d->data);
    free(d);
    pthread_mutex_lock(&m->lock);
    m->delivering = false;
    pthread_cond_broadcast(&m->changed);
}

static void lose_waiting(struct queue_model *m)
{
    for (unsigned i = 0; i < m->n_links; i++) {
        server_forget_client(&m->server, i);
        while (m->links[i].waits) {
            const struct gd__queue_answer a = { .id = m->links[i].waits->id, .kind = GD__ANSWER_LOST, .text = "" };
            collect(m, i, &a);
        }
    }
}

static void tell_links(struct queue_model *m)
{
    m->tell_cut = false;
    const bool cut = m->cut;
    if (cut)
        lose_waiting(m);
    for (unsigned i = 0; i < m->n_links; i++) {
        const struct gd__queue_listener listener = m->links[i].listener;
        if (!m->links[i].is_open)
            continue;
        m->delivering = true;
        pthread_mutex_unlock(&m->lock);
        listener.connected(listener.user, !cut, cut ? "cut by the test" : "");
        pthread_mutex_lock(&m->lock);
        m->delivering = false;
    }
    pthread_cond_broadcast(&m->changed);
}

static void *model_thread(void *arg)
{
    struct queue_model *m = arg;
    pthread_mutex_lock(&m->lock);
    while (!m->stop) {
        const uint64_t due = server_tick(&m->server, gd__now_ns());
        if (m->tell_cut) {
            tell_links(m);
        } else if (m->out) {
            deliver_one(m);
        } else if (due == GD__NEVER) {
            pthread_cond_wait(&m->news, &m->lock);
        } else {
            const struct timespec until = { (time_t)(due / GD__NS_PER_S), (long)(due % GD__NS_PER_S) };
            pthread_cond_timedwait(&m->news, &m->lock, &until);
        }
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* --- links --- */

static int model_ask(struct gd__queue_link *link, const struct gd__queue_request *request)
{
    struct model_link *l = (struct model_link *)link;
    struct queue_model *m = l->m;
    struct waiting_request *w = calloc(1, sizeof *w);
    CHECK(w != NULL);
    pthread_mutex_lock(&m->lock);
    w->id = request->id;
    w->next = l->waits;
    l->waits = w;
    if (m->cut) {
        m->n_lost++;
        const struct gd__queue_answer a = { .id = request->id, .kind = GD__ANSWER_LOST, .text = "" };
        collect(m, l->client, &a);
    } else if (!m->is_mute) {
        server_ask(&m->server, gd__now_ns(), l->client, request);
    }
    pthread_cond_broadcast(&m->news);
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    return 0;
}

static void model_tell(struct gd__queue_link *link, enum gd__queue_notice notice, const char *token, uint32_t delay_ms)
{
    struct queue_model *m = ((struct model_link *)link)->m;
    pthread_mutex_lock(&m->lock);
    if (!m->cut && !m->is_mute) {
        server_tell(&m->server, gd__now_ns(), notice, token, delay_ms);
        m->notices += notice == GD__TELL_WORKING;
    }
    pthread_cond_broadcast(&m->news);
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

static void model_close(struct gd__queue_link *link, uint32_t timeout_ms)
{
    struct model_link *l = (struct model_link *)link;
    struct queue_model *m = l->m;
    (void)timeout_ms;
    pthread_mutex_lock(&m->lock);
    l->is_open = false;
    server_forget_client(&m->server, l->client);
    while (m->delivering)
        pthread_cond_wait(&m->changed, &m->lock);
    while (l->waits)
        end_wait(l, l->waits->id);
    pthread_mutex_unlock(&m->lock);
}

int queue_model_connect(struct gd__queue_link **out, const struct gd_queue_options *queue,
                        const struct gd__queue_listener *listener, const struct gd__queue_patience *patience)
{
    static const struct gd__queue_link_ops ops = { model_ask, model_tell, model_close };
    struct queue_model *m = last;
    (void)queue, (void)patience;
    CHECK(m != NULL);
    pthread_mutex_lock(&m->lock);
    CHECK_LT(m->n_links, CLIENTS);
    struct model_link *l = &m->links[m->n_links];
    *l = (struct model_link){ .base.ops = &ops, .m = m, .listener = *listener, .client = m->n_links, .is_open = true };
    m->n_links++;
    pthread_mutex_unlock(&m->lock);
    *out = &l->base;
    return 0;
}

/* --- the test's side --- */

struct queue_model *queue_model_open(const char *name)
{
    struct queue_model *m = calloc(1, sizeof *m);
    pthread_condattr_t monotonic;
    CHECK(m != NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->news, &monotonic);
    pthread_cond_init(&m->changed, &monotonic);
    m->out_end = &m->out;
    server_open(&m->server, name, &(struct server_effects){ .user = m, .answer = collect, .random = random_number });
    m->server.max_payload = MAX_PAYLOAD;
    m->lease_ms = LEASE_MS;
    m->n_links = 1; /* the test itself */
    CHECK_EQ(pthread_create(&m->thread, NULL, model_thread, m), 0);
    last = m;
    return m;
}

void queue_model_close(struct queue_model **mp)
{
    struct queue_model *m = *mp;
    *mp = NULL;
    pthread_mutex_lock(&m->lock);
    m->stop = true;
    pthread_cond_broadcast(&m->news);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    while (m->out)
        pthread_mutex_lock(&m->lock), deliver_one(m), pthread_mutex_unlock(&m->lock);
    server_close(&m->server);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->news);
    pthread_cond_destroy(&m->changed);
    free(m);
    last = NULL;
}

/* A request of the test itself. Nobody gets its answer. */
static void do_now(struct queue_model *m, const struct gd__queue_request *request)
{
    pthread_mutex_lock(&m->lock);
    server_ask(&m->server, gd__now_ns(), 0, request);
    pthread_cond_broadcast(&m->news);
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

static void create(struct queue_model *m, int priority)
{
    static const enum gd__queue_kind kinds[] = { GD__QUEUE_TASK, GD__QUEUE_RECORD, GD__QUEUE_STATE };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        do_now(m, &(struct gd__queue_request){ .ask = GD__ASK_CREATE_STREAM, .stream = kinds[i], .replicas = 1 });
    do_now(m, &(struct gd__queue_request){
                  .ask = GD__ASK_CREATE_CONSUMER, .priority = priority, .lease_ms = m->lease_ms });
}

void queue_model_lease(struct queue_model *m, uint32_t lease_ms)
{
    m->lease_ms = lease_ms;
}

void queue_model_create(struct queue_model *m)
{
    create(m, 0);
}

static enum gd__queue_kind stream_of(const struct queue_model *m, const char *subject)
{
    return (enum gd__queue_kind)subject[strlen("gd.") + strlen(m->server.name) + 1];
}

void queue_model_put(struct queue_model *m, const char *subject, const void *data, size_t size)
{
    const enum gd__queue_kind stream = stream_of(m, subject);
    do_now(m, &(struct gd__queue_request){ .ask = GD__ASK_PUBLISH,
                                           .stream = stream,
                                           .subject = subject,
                                           .data = data,
                                           .size = size,
                                           .condition = stream == GD__QUEUE_STATE ? GD__IF_ANY : GD__IF_NONE });
}

static struct gd__queue_key publish(struct queue_model *m, int priority, struct gd__queue_writer *w)
{
    char subject[GD__QUEUE_SUBJECT_ROOM];
    struct gd__queue_subject s = { .kind = GD__QUEUE_TASK, .priority = priority };
    CHECK_EQ(gd__queue_message_end(w, &s.key), 0);
    create(m, priority);
    gd__queue_subject_text(subject, m->server.name, &s);
    queue_model_put(m, subject, w->message.data, w->message.size);
    gd__queue_writer_free(w);
    return s.key;
}

struct gd__queue_key queue_model_push_data(struct queue_model *m, int priority, const struct gd__queue_key *key,
                                           const struct gd__queue_data *payload)
{
    struct gd__queue_writer w;
    gd__queue_tasks_begin(&w, MAX_PAYLOAD);
    const struct gd__queue_task t = { .key = *key, .number = m->number++, .payload = *payload };
    CHECK_EQ(gd__queue_tasks_add(&w, &t), 0);
    return publish(m, priority, &w);
}

struct gd__queue_key queue_model_push(struct queue_model *m, int priority, const void *payload, size_t size)
{
    const struct gd__queue_key key = gd__queue_task_key(payload, size, 0);
    return queue_model_push_data(m, priority, &key,
                                 &(struct gd__queue_data){ .form = GD__QUEUE_INLINE, .bytes = { payload, size } });
}

struct gd__queue_key queue_model_push_bundle(struct queue_model *m, const void *payloads, size_t size, unsigned n)
{
    struct gd__queue_writer w;
    gd__queue_tasks_begin(&w, MAX_PAYLOAD);
    for (unsigned i = 0; i < n; i++) {
        const char *payload = (const char *)payloads + i * size;
        const struct gd__queue_task t = { .key = gd__queue_task_key(payload, size, 0),
                                          .number = m->number++,
                                          .payload = { .form = GD__QUEUE_INLINE, .bytes = { payload, size } } };
        CHECK_EQ(gd__queue_tasks_add(&w, &t), 0);
    }
    return publish(m, 0, &w);
}

void queue_model_stop(struct queue_model *m)
{
    pthread_mutex_lock(&m->lock);
    m->is_mute = true;
    for (unsigned i = 0; i < m->n_links; i++)
        server_forget_client(&m->server, i);
    pthread_mutex_unlock(&m->lock);
}

void queue_model_cut(struct queue_model *m, bool is_cut)
{
    pthread_mutex_lock(&m->lock);
    m->cut = is_cut;
    m->tell_cut = true;
    pthread_cond_broadcast(&m->news);
    while (m->tell_cut || m->delivering)
        pthread_cond_wait(&m->changed, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

static size_t count(struct queue_model *m, enum gd__queue_kind stream)
{
    const struct store *s = server_store(&m->server, stream);
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += s->all[i].replaced_ns == GD__NEVER;
    return n;
}

size_t queue_model_count(struct queue_model *m, enum gd__queue_kind stream)
{
    pthread_mutex_lock(&m->lock);
    const size_t n = count(m, stream);
    pthread_mutex_unlock(&m->lock);
    return n;
}

void queue_model_await_lost(struct queue_model *m, size_t wanted)
{
    pthread_mutex_lock(&m->lock);
    while (m->n_lost < wanted)
        pthread_cond_wait(&m->changed, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

void queue_model_await(struct queue_model *m, enum gd__queue_kind stream, size_t wanted)
{
    pthread_mutex_lock(&m->lock);
    while (count(m, stream) < wanted)
        pthread_cond_wait(&m->changed, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

/* Finds the last message that matches the filter. */
static void *find(struct queue_model *m, enum gd__queue_kind stream, const char *filter, size_t *size)
{
    void *copy = NULL;
    pthread_mutex_lock(&m->lock);
    const struct store *s = server_store(&m->server, stream);
    for (size_t i = 0; i < s->n; i++) {
        const struct stored *x = &s->all[i];
        if (x->replaced_ns != GD__NEVER || !store_matches(filter, x->subject))
            continue;
        free(copy);
        copy = malloc(x->size + 1);
        CHECK(copy != NULL);
        memcpy(copy, x->data, x->size);
        ((char *)copy)[x->size] = '\0';
        *size = x->size;
    }
    pthread_mutex_unlock(&m->lock);
    return copy;
}

void *queue_model_find(struct queue_model *m, const char *subject, size_t *size)
{
    return find(m, stream_of(m, subject), subject, size);
}

void *queue_model_find_status(struct queue_model *m, size_t *size)
{
    char filter[GD__QUEUE_SUBJECT_ROOM];
    return find(m, GD__QUEUE_STATE, gd__node_status_filter(filter, m->server.name), size);
}

bool queue_model_record(struct queue_model *m, const struct gd__queue_key *key, struct gd__queue_record *out,
                        void **message)
{
    char subject[GD__QUEUE_SUBJECT_ROOM];
    const struct gd__queue_subject s = { .kind = GD__QUEUE_RECORD, .key = *key };
    struct gd__queue_reader r;
    size_t size = 0;
    *message = queue_model_find(m, gd__queue_subject_text(subject, m->server.name, &s), &size);
    if (!*message)
        return false;
    CHECK_EQ(gd__queue_records_open(&r, *message, size, key), 0);
    CHECK(gd__queue_records_next(&r, out));
    return true;
}

static size_t held(struct queue_model *m)
{
    size_t n = 0;
    const struct store *s = server_store(&m->server, GD__QUEUE_TASK);
    for (size_t i = 0; i < s->n; i++)
        n += s->all[i].delivery == DELIVERY_HELD;
    return n;
}

size_t queue_model_held(struct queue_model *m)
{
    pthread_mutex_lock(&m->lock);
    const size_t n = held(m);
    pthread_mutex_unlock(&m->lock);
    return n;
}

void queue_model_await_held(struct queue_model *m, size_t most)
{
    pthread_mutex_lock(&m->lock);
    while (held(m) > most)
        pthread_cond_wait(&m->changed, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

void queue_model_await_notices(struct queue_model *m, size_t count)
{
    pthread_mutex_lock(&m->lock);
    while (m->notices < count)
        pthread_cond_wait(&m->changed, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

void queue_model_await_delivered(struct queue_model *m, uint64_t least)
{
    pthread_mutex_lock(&m->lock);
    while (m->server.deliveries < least)
        pthread_cond_wait(&m->changed, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

void queue_model_remove_consumers(struct queue_model *m)
{
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < SERVER_PRIORITIES; i++)
        m->server.consumers[i].exists = false;
    pthread_mutex_unlock(&m->lock);
}
