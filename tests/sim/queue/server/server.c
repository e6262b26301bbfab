/* The model server: requests about streams. See server.h; consumers are in consumer.c. */
#include "sim/queue/server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sim/queue/server/consumer.h"

void server_open(struct server *s, const char *name, const struct server_effects *effects)
{
    *s = (struct server){
        .effects = *effects, .max_unacknowledged = 65536, .max_waiting = 4096, .max_payload = 1 << 20
    };
    snprintf(s->name, sizeof s->name, "%s", name);
}

void server_close(struct server *s)
{
    store_free(&s->tasks);
    store_free(&s->records);
    store_free(&s->states);
    for (int i = 0; i < SERVER_PRIORITIES; i++) {
        free(s->consumers[i].again);
        free(s->consumers[i].pulls);
    }
    free(s->alarms);
}

struct store *server_store(struct server *s, enum gd__queue_kind kind)
{
    return kind == GD__QUEUE_TASK ? &s->tasks : kind == GD__QUEUE_RECORD ? &s->records : &s->states;
}

void server_answer(struct server *s, unsigned client, struct gd__queue_answer *a, enum gd__queue_answer_kind kind)
{
    a->kind = kind;
    if (!a->text)
        a->text = "";
    s->effects.answer(s->effects.user, client, a);
}

/* The stream of a subject, by its third word: gd.NAME.t.… */
static struct store *store_of_subject(struct server *s, const char *subject)
{
    const size_t length = strlen(s->name);
    if (strncmp(subject, "gd.", 3) != 0 || strncmp(subject + 3, s->name, length) != 0 || subject[3 + length] != '.')
        return NULL;
    const char kind = subject[4 + length];
    return kind && strchr("trs", kind) ? server_store(s, (enum gd__queue_kind)kind) : NULL;
}

static void fill_message(struct gd__queue_answer *a, const struct stored *m)
{
    a->subject = m->subject;
    a->sequence = m->sequence;
    a->data = m->data;
    a->size = m->size;
    a->time_us = m->stored_ns / GD__NS_PER_US;
}

static void publish(struct server *s, uint64_t now, unsigned client, const struct gd__queue_request *r)
{
    struct gd__queue_answer a = { .id = r->id };
    struct store *store = store_of_subject(s, r->subject);
    if (!store || !store->exists) {
        server_answer(s, client, &a, GD__ANSWER_NONE);
        return;
    }
    if (r->size > s->max_payload) {
        server_answer(s, client, &a, GD__ANSWER_TOO_LARGE);
        return;
    }
    const size_t old = store_find(store, r->subject);
    const bool taken = old != STORE_NONE;
    const bool fits = r->condition == GD__IF_ANY    ? true
                      : r->condition == GD__IF_NONE ? !taken
                                                    : taken && store->all[old].sequence == r->sequence;
    if (!fits || (taken && store != &s->states)) {
        server_answer(s, client, &a, GD__ANSWER_REFUSED);
        return;
    }
    const size_t new = store_add(store, now, r->subject, r->data, r->size);
    a.sequence = store->all[new].sequence;
    store->all[new].publisher = client + 1;
    if (store == &s->tasks)
        consumer_new_message(s, new);
    server_answer(s, client, &a, GD__ANSWER_OK);
}

static void last(struct server *s, unsigned client, const struct gd__queue_request *r)
{
    struct gd__queue_answer a = { .id = r->id };
    const struct store *store = store_of_subject(s, r->subject);
    const size_t found = store ? store_find(store, r->subject) : STORE_NONE;
    if (found != STORE_NONE)
        fill_message(&a, &store->all[found]);
    server_answer(s, client, &a, found != STORE_NONE ? GD__ANSWER_OK : GD__ANSWER_NONE);
}

/* READ and SUBJECTS. */
static void list(struct server *s, unsigned client, const struct gd__queue_request *r)
{
    struct gd__queue_answer a = { .id = r->id };
    const struct store *store = server_store(s, r->stream);
    if (!store->exists) {
        server_answer(s, client, &a, GD__ANSWER_NONE);
        return;
    }
    const bool whole = r->ask == GD__ASK_READ;
    uint64_t bytes = 0;
    uint32_t n = 0;
    for (size_t i = whole ? store_from(store, r->from) : 0; i < store->n; i++) {
        const struct stored *m = &store->all[i];
        if (m->replaced_ns != GD__NEVER || (r->subject && !store_matches(r->subject, m->subject)))
            continue;
        if (whole && (n == r->most || (n > 0 && r->most_bytes && bytes + m->size > r->most_bytes)))
            break;
        struct gd__queue_answer item = { .id = r->id };
        fill_message(&item, m);
        if (!whole)
            item.data = NULL, item.size = 0, item.sequence = 0;
        server_answer(s, client, &item, GD__ANSWER_ITEM);
        bytes += m->size;
        n++;
    }
    server_answer(s, client, &a, GD__ANSWER_OK);
}

static void stream_figures(struct server *s, uint64_t now, unsigned client, const struct gd__queue_request *r)
{
    struct gd__queue_answer a = { .id = r->id };
    const struct store *store = server_store(s, r->stream);
    if (!store->exists) {
        server_answer(s, client, &a, GD__ANSWER_NONE);
        return;
    }
    a.stream.messages = a.stream.subjects = store->messages;
    a.stream.bytes = store->bytes;
    a.stream.first_sequence = store->n > 0 ? store->all[0].sequence : 0;
    a.stream.last_sequence = store->last_sequence;
    a.stream.replicas = store->replicas;
    a.time_us = now / GD__NS_PER_US;
    server_answer(s, client, &a, GD__ANSWER_OK);
}

static void create_stream(struct server *s, unsigned client, const struct gd__queue_request *r)
{
    struct store *store = server_store(s, r->stream);
    store->exists = true;
    store->replicas = r->replicas ? r->replicas : 1;
    server_answer(s, client, &(struct gd__queue_answer){ .id = r->id }, GD__ANSWER_OK);
}

static void server_facts(struct server *s, unsigned client, const struct gd__queue_request *r)
{
    struct gd__queue_answer a = { .id = r->id, .server = { .version = "2.15.1", .durable = -1 } };
    a.server.max_payload = s->max_payload;
    server_answer(s, client, &a, GD__ANSWER_OK);
}

void server_ask(struct server *s, uint64_t now, unsigned client, const struct gd__queue_request *r)
{
    switch (r->ask) {
    case GD__ASK_SERVER:
        server_facts(s, client, r);
        break;
    case GD__ASK_CREATE_STREAM:
        create_stream(s, client, r);
        break;
    case GD__ASK_STREAM:
        stream_figures(s, now, client, r);
        break;
    case GD__ASK_SUBJECTS:
    case GD__ASK_READ:
        list(s, client, r);
        break;
    case GD__ASK_PUBLISH:
        publish(s, now, client, r);
        break;
    case GD__ASK_LAST:
        last(s, client, r);
        break;
    case GD__ASK_CREATE_CONSUMER:
    case GD__ASK_PRIORITIES:
    case GD__ASK_CONSUMER:
    case GD__ASK_PULL:
        consumer_ask(s, now, client, r);
        break;
    }
}

void server_die(struct server *s, uint64_t now, const struct server_loss *loss)
{
    store_cut(&s->tasks, now - loss->tasks_ns);
    store_cut(&s->records, now - loss->records_ns);
    store_cut(&s->states, now - loss->states_ns);
    consumer_die(s, now, loss);
}
