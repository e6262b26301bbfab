/* SPDX-License-Identifier: MIT
 *
 * A link and its answers: see answers.h.
 */
#include "queue/answers.h"

#include <gpu_dispatch/error.h>

#include "support/test.h"

static const struct answer *find_end(const struct answers *a, uint64_t id)
{
    for (const struct answer *e = a->first; e; e = e->next)
        if (e->id == id && e->kind != GD__ANSWER_ITEM)
            return e;
    return NULL;
}

static void begin_call(struct answers *a)
{
    CHECK(!__atomic_exchange_n(&a->is_calling, true, __ATOMIC_SEQ_CST));
}

static void end_call(struct answers *a)
{
    __atomic_store_n(&a->is_calling, false, __ATOMIC_SEQ_CST);
}

static void take_answer(void *user, const struct gd__queue_answer *in)
{
    struct answers *a = user;
    struct answer *e = calloc(1, sizeof *e);
    begin_call(a);
    CHECK(e);
    e->id = in->id;
    e->kind = in->kind;
    e->a = *in;
    e->size = in->size;
    snprintf(e->text, sizeof e->text, "%s", in->text);
    snprintf(e->subject, sizeof e->subject, "%s", in->subject);
    snprintf(e->token, sizeof e->token, "%s", in->token);
    if (in->size > 0)
        memcpy(e->data, in->data, in->size < sizeof e->data ? in->size : sizeof e->data - 1);
    pthread_mutex_lock(&a->lock);
    CHECK(!find_end(a, e->id));
    *a->last = e;
    a->last = &e->next;
    pthread_cond_broadcast(&a->changed);
    void (*then)(struct answers *, const struct gd__queue_answer *) = a->then;
    pthread_mutex_unlock(&a->lock);
    if (then)
        then(a, in);
    end_call(a);
}

static void take_state(void *user, bool is_connected, const char *text)
{
    struct answers *a = user;
    begin_call(a);
    pthread_mutex_lock(&a->lock);
    a->connected += is_connected;
    a->disconnected += !is_connected;
    if (!is_connected)
        snprintf(a->why, sizeof a->why, "%s", text);
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    end_call(a);
}

static void release(struct answers *a)
{
    for (struct answer *e = a->first, *next; e; e = next) {
        next = e->next;
        free(e);
    }
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
}

int answers_try(struct answers *a, const char *address, const struct gd__nats_options *o)
{
    static const struct gd__nats_options none;
    struct gd__queue_address parsed;
    *a = (struct answers){ 0 };
    a->last = &a->first;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    CHECK_EQ(gd__queue_address_parse(&parsed, address), 0);
    snprintf(a->name, sizeof a->name, "%s", parsed.name);
    const struct gd__queue_listener listener = { .user = a, .answer = take_answer, .connected = take_state };
    const int rc = gd__nats_open(&a->link, &parsed, o ? o : &none, &listener);
    if (rc < 0)
        release(a);
    return rc;
}

void answers_open(struct answers *a, const char *hosts, const char *name, const struct gd__nats_options *o)
{
    char address[1024];
    snprintf(address, sizeof address, "nats://%s/%s", hosts, name);
    if (answers_try(a, address, o) < 0)
        FAIL("%s", gd_error_text());
}

void answers_close(struct answers *a)
{
    a->link->ops->close(a->link, 2000);
    release(a);
}

uint64_t answers_send(struct answers *a, const struct gd__queue_request *request)
{
    struct gd__queue_request r = *request;
    r.id = __atomic_add_fetch(&a->next_id, 1, __ATOMIC_SEQ_CST);
    CHECK_EQ(gd__link_ask(a->link, &r), 0);
    return r.id;
}

const struct answer *answers_end(struct answers *a, uint64_t id)
{
    const struct answer *e;
    pthread_mutex_lock(&a->lock);
    while (!(e = find_end(a, id)))
        pthread_cond_wait(&a->changed, &a->lock);
    pthread_mutex_unlock(&a->lock);
    return e;
}

const struct answer *answers_ask(struct answers *a, const struct gd__queue_request *request)
{
    return answers_end(a, answers_send(a, request));
}

const struct answer *answers_item(struct answers *a, uint64_t id, unsigned n)
{
    const struct answer *e;
    pthread_mutex_lock(&a->lock);
    for (e = a->first; e; e = e->next)
        if (e->id == id && e->kind == GD__ANSWER_ITEM && n-- == 0)
            break;
    pthread_mutex_unlock(&a->lock);
    return e;
}

unsigned answers_items(struct answers *a, uint64_t id)
{
    unsigned n = 0;
    while (answers_item(a, id, n))
        n++;
    return n;
}

void answers_await(struct answers *a, unsigned disconnected, unsigned connected)
{
    pthread_mutex_lock(&a->lock);
    while (a->disconnected < disconnected || a->connected < connected)
        pthread_cond_wait(&a->changed, &a->lock);
    pthread_mutex_unlock(&a->lock);
}

void answers_make_queue(struct answers *a, uint32_t lease_ms, uint32_t replicas)
{
    static const enum gd__queue_kind kinds[] = { GD__QUEUE_TASK, GD__QUEUE_RECORD, GD__QUEUE_STATE };
    for (unsigned i = 0; i < 3; i++) {
        const struct answer *e = answers_ask(
            a, &(struct gd__queue_request){ .ask = GD__ASK_CREATE_STREAM, .stream = kinds[i], .replicas = replicas });
        if (e->kind != GD__ANSWER_OK)
            FAIL("stream %c: %s", kinds[i], e->text);
    }
    const struct answer *e =
        answers_ask(a, &(struct gd__queue_request){ .ask = GD__ASK_CREATE_CONSUMER, .lease_ms = lease_ms });
    if (e->kind != GD__ANSWER_OK)
        FAIL("consumer: %s", e->text);
}

enum gd__queue_answer_kind answers_publish(struct answers *a, const char *subject, const char *data,
                                           enum gd__queue_condition condition, uint64_t sequence)
{
    return answers_ask(a, &(struct gd__queue_request){ .ask = GD__ASK_PUBLISH,
                                                       .subject = subject,
                                                       .data = data,
                                                       .size = strlen(data),
                                                       .condition = condition,
                                                       .sequence = sequence })
        ->kind;
}
