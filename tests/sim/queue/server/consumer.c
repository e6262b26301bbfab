/* The model server: which client gets which task message, and when again. See server.h. */
#include "sim/queue/server/consumer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static struct server_consumer *consumer_of(struct server *s, int priority)
{
    return priority < GD_PRIORITY_MIN || priority > GD_PRIORITY_MAX ? NULL : &s->consumers[priority - GD_PRIORITY_MIN];
}

static struct server_consumer *consumer_of_message(struct server *s, const struct stored *m)
{
    return &s->consumers[m->priority - GD_PRIORITY_MIN];
}

/* --- alarms --- */

static void set_alarm(struct server *s, uint64_t at_ns, size_t index)
{
    if (s->n_alarms + 2 > s->alarms_room) {
        s->alarms_room = s->alarms_room ? 2 * s->alarms_room : 64;
        s->alarms = realloc(s->alarms, s->alarms_room * sizeof *s->alarms);
        if (!s->alarms)
            abort();
    }
    size_t i = ++s->n_alarms;
    for (; i > 1 && s->alarms[i / 2].at_ns > at_ns; i /= 2)
        s->alarms[i] = s->alarms[i / 2];
    s->alarms[i] = (struct server_alarm){ at_ns, index };
}

static struct server_alarm take_alarm(struct server *s)
{
    const struct server_alarm first = s->alarms[1], moved = s->alarms[s->n_alarms--];
    size_t i = 1;
    for (size_t child; (child = 2 * i) <= s->n_alarms; i = child) {
        if (child < s->n_alarms && s->alarms[child + 1].at_ns < s->alarms[child].at_ns)
            child++;
        if (s->alarms[child].at_ns >= moved.at_ns)
            break;
        s->alarms[i] = s->alarms[child];
    }
    s->alarms[i] = moved;
    return first;
}

/* Notices move due_ns to a later time, so an alarm that is set already is kept. */
static void watch_lease(struct server *s, size_t index)
{
    struct stored *m = &s->tasks.all[index];
    if (m->alarm_ns == 0 || m->due_ns < m->alarm_ns) {
        m->alarm_ns = m->due_ns;
        set_alarm(s, m->due_ns, index);
    }
}

/* --- the queue of what is to be delivered again --- */

static void add_again(struct server_consumer *c, size_t index)
{
    if (c->again_count == c->again_room) {
        const size_t room = c->again_room ? 2 * c->again_room : 16;
        size_t *new = malloc(room * sizeof *new);
        if (!new)
            abort();
        for (size_t i = 0; i < c->again_count; i++)
            new[i] = c->again[(c->again_head + i) % c->again_room];
        free(c->again);
        c->again = new;
        c->again_head = 0;
        c->again_room = room;
    }
    c->again[(c->again_head + c->again_count++) % c->again_room] = index;
}

static void count(struct server_consumer *c, uint8_t delivery, int by)
{
    uint64_t *const counts[] = { [DELIVERY_NEW] = &c->pending,
                                 [DELIVERY_HELD] = &c->held,
                                 [DELIVERY_RETURNED] = &c->returned,
                                 [DELIVERY_ACKED] = NULL };
    if (counts[delivery])
        *counts[delivery] += (uint64_t)by;
}

static void change(struct server *s, size_t index, enum delivery to)
{
    struct stored *m = &s->tasks.all[index];
    struct server_consumer *c = consumer_of_message(s, m);
    count(c, m->delivery, -1);
    m->delivery = to;
    count(c, m->delivery, 1);
    if (to == DELIVERY_RETURNED)
        add_again(c, index);
    const uint64_t out = c->held + c->returned;
    if (out > s->most_unacknowledged)
        s->most_unacknowledged = out;
}

/* The next message to deliver; STORE_NONE: there is none. */
static size_t next_message(struct server *s, struct server_consumer *c)
{
    while (c->again_count > 0) {
        const size_t index = c->again[c->again_head];
        if (index < s->tasks.n && s->tasks.all[index].delivery == DELIVERY_RETURNED)
            return index;
        c->again_head = (c->again_head + 1) % c->again_room;
        c->again_count--;
    }
    if (c->pending == 0 || c->held + c->returned >= s->max_unacknowledged)
        return STORE_NONE;
    for (; c->cursor < s->tasks.n; c->cursor++) {
        const struct stored *m = &s->tasks.all[c->cursor];
        if (consumer_of_message(s, m) == c && m->delivery == DELIVERY_NEW)
            return c->cursor;
    }
    return STORE_NONE;
}

/* --- pulls --- */

static struct server_pull *pull_at(struct server_consumer *c, size_t i)
{
    return &c->pulls[(c->pulls_head + i) % c->pulls_room];
}

static void add_pull(struct server *s, struct server_consumer *c, const struct server_pull *pull)
{
    if (c->pulls_count == c->pulls_room) {
        const size_t room = c->pulls_room ? 2 * c->pulls_room : 16;
        struct server_pull *new = malloc(room * sizeof *new);
        if (!new)
            abort();
        for (size_t i = 0; i < c->pulls_count; i++)
            new[i] = *pull_at(c, i);
        free(c->pulls);
        c->pulls = new;
        c->pulls_head = 0;
        c->pulls_room = room;
    }
    c->pulls_count++;
    *pull_at(c, c->pulls_count - 1) = *pull;
    if (c->pulls_count > s->most_waiting)
        s->most_waiting = c->pulls_count;
}

static struct server_pull take_pull(struct server_consumer *c)
{
    const struct server_pull first = *pull_at(c, 0);
    c->pulls_head = (c->pulls_head + 1) % c->pulls_room;
    c->pulls_count--;
    return first;
}

static void end_pull(struct server *s, const struct server_pull *pull)
{
    server_answer(s, pull->client, &(struct gd__queue_answer){ .id = pull->id }, GD__ANSWER_OK);
}

static void deliver(struct server *s, uint64_t now, struct server_consumer *c, size_t index, struct server_pull *pull)
{
    struct stored *m = &s->tasks.all[index];
    char token[GD__QUEUE_TOKEN_ROOM];
    change(s, index, DELIVERY_HELD);
    m->deliveries++;
    m->put_off = false;
    m->delivered_ns = now;
    if (m->first_ns == 0)
        m->first_ns = now;
    m->due_ns = now + c->lease_ms * GD__NS_PER_MS;
    m->holder = pull->client;
    watch_lease(s, index);
    s->deliveries++;
    s->redeliveries += m->deliveries > 1;
    pull->want--;
    pull->bytes -= m->size;
    m->delivery_identity = ++s->identities;
    snprintf(token, sizeof token, "%llu.%u.%llu.%llu", (unsigned long long)m->sequence, m->deliveries,
             (unsigned long long)m->identity, (unsigned long long)m->delivery_identity);
    struct gd__queue_answer a = { .id = pull->id,
                                  .subject = m->subject,
                                  .sequence = m->sequence,
                                  .data = m->data,
                                  .size = m->size,
                                  .token = token,
                                  .deliveries = m->deliveries,
                                  .pending = c->pending };
    server_answer(s, pull->client, &a, GD__ANSWER_ITEM);
}

/* Delivers what can be delivered. A pull that wants more goes to the end of the line. */
static void serve(struct server *s, uint64_t now, struct server_consumer *c)
{
    while (c->pulls_count > 0) {
        if (pull_at(c, 0)->end_ns <= now) {
            const struct server_pull over = take_pull(c);
            end_pull(s, &over);
            continue;
        }
        const size_t index = next_message(s, c);
        if (index == STORE_NONE)
            return;
        struct server_pull pull = take_pull(c);
        if (s->tasks.all[index].size > pull.bytes) {
            end_pull(s, &pull);
            continue;
        }
        deliver(s, now, c, index, &pull);
        if (pull.want > 0)
            add_pull(s, c, &pull);
        else
            end_pull(s, &pull);
    }
}

static void end_old_pulls(struct server *s, uint64_t now, struct server_consumer *c)
{
    size_t kept = 0;
    const size_t n = c->pulls_count;
    for (size_t i = 0; i < n; i++) {
        const struct server_pull *p = pull_at(c, i);
        if (p->end_ns <= now)
            end_pull(s, p);
        else if (kept++ != i)
            *pull_at(c, kept - 1) = *p;
    }
    c->pulls_count = kept;
}

static void pull(struct server *s, uint64_t now, unsigned client, const struct gd__queue_request *r)
{
    struct server_consumer *c = consumer_of(s, r->priority);
    struct gd__queue_answer a = { .id = r->id };
    if (!c || !c->exists) {
        server_answer(s, client, &a, GD__ANSWER_NONE);
        return;
    }
    if (c->pulls_count >= s->max_waiting) {
        a.text = "exceeded MaxWaiting";
        server_answer(s, client, &a, GD__ANSWER_LATER);
        return;
    }
    struct server_pull p = { .client = client,
                             .id = r->id,
                             .end_ns = now + r->wait_ms * GD__NS_PER_MS,
                             .want = r->most,
                             .bytes = r->most_bytes ? r->most_bytes : UINT64_MAX };
    if (r->wait_ms == 0) {
        /* At once, and only if it is this client's turn. */
        while (p.want > 0 && c->pulls_count == 0) {
            const size_t index = next_message(s, c);
            if (index == STORE_NONE || s->tasks.all[index].size > p.bytes)
                break;
            deliver(s, now, c, index, &p);
        }
        end_pull(s, &p);
        return;
    }
    add_pull(s, c, &p);
    set_alarm(s, p.end_ns, STORE_NONE);
    serve(s, now, c);
}

void server_forget_client(struct server *s, unsigned client)
{
    for (int i = 0; i < SERVER_PRIORITIES; i++) {
        struct server_consumer *c = &s->consumers[i];
        for (size_t n = c->pulls_count; n > 0; n--) {
            const struct server_pull p = take_pull(c);
            if (p.client != client)
                add_pull(s, c, &p);
        }
    }
}

/* --- requests and notices --- */

void consumer_new_message(struct server *s, size_t index)
{
    struct stored *m = &s->tasks.all[index];
    struct gd__queue_subject parsed;
    if (gd__queue_subject_parse(&parsed, s->name, m->subject) != 0)
        abort(); /* only tests publish here */
    m->priority = (int8_t)parsed.priority;
    m->identity = ++s->identities;
    count(consumer_of_message(s, m), m->delivery, 1);
}

static void create(struct server *s, unsigned client, const struct gd__queue_request *r)
{
    struct server_consumer *c = consumer_of(s, r->priority);
    if (c && !c->exists) {
        c->exists = true;
        c->lease_ms = r->lease_ms;
    }
    server_answer(s, client, &(struct gd__queue_answer){ .id = r->id }, c ? GD__ANSWER_OK : GD__ANSWER_FAILED);
}

static void figures(struct server *s, unsigned client, const struct gd__queue_request *r)
{
    struct gd__queue_answer a = { .id = r->id };
    const struct server_consumer *c = consumer_of(s, r->priority);
    if (c && c->exists) {
        a.consumer.pending = c->pending;
        a.consumer.unacknowledged = c->held + c->returned;
        a.consumer.waiting = c->pulls_count;
        a.consumer.lease_ms = c->lease_ms;
    }
    server_answer(s, client, &a, c && c->exists ? GD__ANSWER_OK : GD__ANSWER_NONE);
}

void consumer_ask(struct server *s, uint64_t now, unsigned client, const struct gd__queue_request *r)
{
    struct gd__queue_answer a = { .id = r->id };
    switch (r->ask) {
    case GD__ASK_CREATE_CONSUMER:
        create(s, client, r);
        break;
    case GD__ASK_CONSUMER:
        figures(s, client, r);
        break;
    case GD__ASK_PULL:
        pull(s, now, client, r);
        break;
    default:
        for (int i = 0; i < SERVER_PRIORITIES; i++)
            a.priorities |= (uint32_t)s->consumers[i].exists << i;
        server_answer(s, client, &a, s->tasks.exists ? GD__ANSWER_OK : GD__ANSWER_NONE);
    }
}

struct server_token server_token(const char *text)
{
    uint64_t numbers[4] = { 0 };
    char *at = (char *)(uintptr_t)text;
    for (int i = 0; i < 4; i++) {
        numbers[i] = strtoull(at, &at, 10);
        at += *at == '.';
    }
    return (struct server_token){ numbers[0], (uint32_t)numbers[1], numbers[2], numbers[3] };
}

void server_tell(struct server *s, uint64_t now, enum gd__queue_notice notice, const char *token, uint32_t delay_ms)
{
    const struct server_token named = server_token(token);
    const uint32_t delivery = named.delivery;
    const size_t index = store_from(&s->tasks, named.sequence);
    if (index == s->tasks.n || s->tasks.all[index].sequence != named.sequence)
        return;
    struct stored *m = &s->tasks.all[index];
    if (m->delivery != DELIVERY_HELD && m->delivery != DELIVERY_RETURNED)
        return;
    switch (notice) {
    case GD__TELL_ACK:
        m->acked_ns = now;
        change(s, index, DELIVERY_ACKED);
        break;
    case GD__TELL_NAK:
        if (m->delivery != DELIVERY_HELD || (delivery != m->deliveries && !s->stale_naks))
            break;
        if (delivery != m->deliveries && s->effects.expired)
            s->effects.expired(s->effects.user, m);
        m->due_ns = now + delay_ms * GD__NS_PER_MS;
        m->put_off = true;
        if (delay_ms == 0)
            change(s, index, DELIVERY_RETURNED);
        else
            watch_lease(s, index);
        break;
    case GD__TELL_WORKING:
        if (m->delivery == DELIVERY_HELD) {
            m->due_ns = now + consumer_of_message(s, m)->lease_ms * GD__NS_PER_MS;
            watch_lease(s, index);
        }
        break;
    }
}

static void look_at_lease(struct server *s, uint64_t now, const struct server_alarm *alarm)
{
    if (alarm->index >= s->tasks.n)
        return;
    struct stored *m = &s->tasks.all[alarm->index];
    if (m->alarm_ns != alarm->at_ns)
        return; /* another alarm is set */
    m->alarm_ns = 0;
    if (m->delivery != DELIVERY_HELD)
        return;
    if (m->due_ns > now) {
        watch_lease(s, alarm->index);
        return;
    }
    if (s->effects.expired && !m->put_off)
        s->effects.expired(s->effects.user, m);
    change(s, alarm->index, DELIVERY_RETURNED);
}

uint64_t server_tick(struct server *s, uint64_t now)
{
    bool pulls_end = false;
    while (s->n_alarms > 0 && s->alarms[1].at_ns <= now) {
        const struct server_alarm alarm = take_alarm(s);
        if (alarm.index == STORE_NONE)
            pulls_end = true;
        else
            look_at_lease(s, now, &alarm);
    }
    for (int i = 0; i < SERVER_PRIORITIES; i++) {
        if (pulls_end)
            end_old_pulls(s, now, &s->consumers[i]);
        serve(s, now, &s->consumers[i]);
    }
    return s->n_alarms > 0 ? s->alarms[1].at_ns : GD__NEVER;
}

/* --- death --- */

/* What the disk says of a message's delivery. */
static enum delivery remembered(const struct stored *m, uint64_t known_ns)
{
    if (m->first_ns == 0 || m->first_ns > known_ns)
        return DELIVERY_NEW;
    if (m->delivery == DELIVERY_ACKED && m->acked_ns <= known_ns)
        return DELIVERY_ACKED;
    return m->delivery == DELIVERY_RETURNED ? DELIVERY_RETURNED : DELIVERY_HELD;
}

void consumer_die(struct server *s, uint64_t now, const struct server_loss *loss)
{
    for (int i = 0; i < SERVER_PRIORITIES; i++) {
        struct server_consumer *c = &s->consumers[i];
        c->pulls_count = c->again_count = 0;
        c->cursor = 0;
        c->pending = c->held = c->returned = 0;
    }
    s->n_alarms = 0;
    for (size_t i = 0; i < s->tasks.n; i++) {
        struct stored *m = &s->tasks.all[i];
        m->delivery = (uint8_t)remembered(m, now - loss->deliveries_ns);
        if (m->delivery == DELIVERY_NEW)
            m->first_ns = m->delivered_ns = 0;
        if (loss->counts || m->delivery == DELIVERY_NEW)
            m->deliveries = 0;
        m->alarm_ns = 0;
        count(consumer_of_message(s, m), m->delivery, 1);
        if (m->delivery == DELIVERY_HELD) {
            m->due_ns = now + consumer_of_message(s, m)->lease_ms * GD__NS_PER_MS;
            watch_lease(s, i);
        } else if (m->delivery == DELIVERY_RETURNED) {
            add_again(consumer_of_message(s, m), i);
        }
    }
}
