/* A task message from its delivery to its end: carries out the actions of queue/lease.h, and turns answers into its
 * events. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text/printable.h"
#include "queue/node/internal.h"

enum {
    DAMAGED_SHOWN = 20,
    RECORD_SEEN_MS = 1000, /* after about this time, each replica has a record */
};

/* --- the table of keys --- */

static struct gd__node_message **bucket(struct gd__node *n, const struct gd__queue_key *key)
{
    uint32_t h;
    memcpy(&h, key->hash, sizeof h);
    return &n->buckets[(h ^ key->repeat ^ key->again) % GD__NODE_BUCKETS];
}

static struct gd__node_message *find_message(struct gd__node *n, const struct gd__queue_key *key)
{
    struct gd__node_message *m = *bucket(n, key);
    while (m && !gd__queue_key_same(&m->key, key))
        m = m->next_in_bucket;
    return m;
}

static void forget_key(struct gd__node *n, struct gd__node_message *m)
{
    struct gd__node_message **p = bucket(n, &m->key);
    while (*p && *p != m)
        p = &(*p)->next_in_bucket;
    if (*p)
        *p = m->next_in_bucket;
}

/* --- the end --- */

static void free_entries(struct gd__node_message *m)
{
    for (uint32_t i = 0; i < m->count; i++)
        gd__free(m->entries[i].result);
    gd__free(m->entries);
}

static void uncount(struct gd__node *n, struct gd__node_message *m)
{
    if (m->kept) {
        n->kept_count--;
        n->unanswered -= !m->answered;
        return;
    }
    n->held_count--;
    n->waiting_tasks -= m->count - m->next;
    n->given_tasks -= m->given;
    n->unpublished -= m->record && !m->decided;
    forget_key(n, m);
}

void gd__node_message_free(struct gd__node *n, struct gd__node_message *m)
{
    gd__node_forget_request(n, m->request);
    gd__heap_disarm(&n->timers, &m->timer);
    gd__node_list_remove(&m->held);
    gd__node_list_remove(&m->ready);
    uncount(n, m);
    if (n->alone == m)
        n->alone = NULL;
    n->messages--;
    free_entries(m);
    gd__free(m->record);
    gd__free(m->data);
    gd__free(m);
}

/* Nothing of it has begun, and its marker is not written. */
static bool waits_to_begin(const struct gd__node_message *m)
{
    return (m->state == GD__LEASE_RUNNING || m->state == GD__LEASE_SUSPECTED) && m->next == 0;
}

/* What was asked about its marker is asked once more after that. */
static void look_again(struct gd__node *n, struct gd__node_message *m)
{
    gd__node_list_remove(&m->ready);
    gd__node_forget_request(n, m->request);
    gd__heap_disarm(&n->timers, &m->timer);
    m->request = 0;
    m->blocked = false;
    gd__node_step(n, m, GD__LEASE_AGAIN);
}

static void give_back(struct gd__node *n, struct gd__node_message *m)
{
    if (!m->kept)
        n->effects.tell(n->effects.user, GD__TELL_NAK, m->token, m->nak_delay_ms);
    gd__node_message_free(n, m);
}

/* The message of this record may have been delivered to this node meanwhile, and was looked at before. */
static void end_kept(struct gd__node *n, struct gd__node_message *m)
{
    struct gd__node_message *held = find_message(n, &m->key);
    gd__node_message_free(n, m);
    if (held && waits_to_begin(held))
        look_again(n, held);
}

/* A server that died may have lost the message, and its sequence may be that of another message now. The server compares
 * only sequences, so an old token would acknowledge the other message, which may have no record. A message that is given
 * back by mistake only runs once more. If it is the right one, the next node finds its record and acknowledges it with its
 * own token. It is not delivered at once: the replica that this node reads from may not have the record yet. */
static void acknowledge(struct gd__node *n, struct gd__node_message *m)
{
    if (m->old_token) {
        m->nak_delay_ms = (uint32_t)gd__node_jitter(n, RECORD_SEEN_MS);
        give_back(n, m);
        return;
    }
    if (m->kept) {
        end_kept(n, m);
        return;
    }
    n->effects.tell(n->effects.user, GD__TELL_ACK, m->token, 0);
    gd__node_message_free(n, m);
}

/* --- requests --- */

int gd__node_reserve(struct gd__node *n)
{
    const size_t wanted = n->messages + 1;
    if (wanted > n->timers.capacity && gd__heap_grow(&n->timers, 2 * wanted + 64) < 0)
        return GD_E_NO_MEMORY;
    n->messages++;
    return 0;
}

void gd__node_retry(struct gd__node *n, struct gd__node_message *m)
{
    if (!n->connected) {
        m->blocked = true;
        return;
    }
    gd__heap_arm(&n->timers, &m->timer, n->now_ns + gd__node_delay_ns(n, m->tries++));
}

void gd__node_message_ask(struct gd__node *n, struct gd__node_message *m, struct gd__queue_request *q)
{
    struct gd__node_request *r = gd__node_ask(n, q, GD__FOR_MESSAGE);
    if (!r) {
        gd__node_retry(n, m);
        return;
    }
    r->message = m;
    m->request = q->id;
}

void gd__node_message_again(struct gd__node *n, struct gd__node_message *m)
{
    m->blocked = false;
    if (m->request == 0)
        gd__node_step(n, m, GD__LEASE_NO_ANSWER);
}

/* --- actions --- */

/* The tasks may be given. */
static void start(struct gd__node *n, struct gd__node_message *m)
{
    if (n->draining)
        gd__node_settle(n, m);
    else
        gd__node_list_append(&n->ready[m->priority - GD_PRIORITY_MIN], &m->ready);
}

static void moves(struct gd__node *n, struct gd__node_message *m, bool won)
{
    gd__node_decide(n, m, won);
    gd__node_move(n, m);
}

static void ack(struct gd__node *n, struct gd__node_message *m, bool won)
{
    gd__node_decide(n, m, won);
    acknowledge(n, m);
}

void gd__node_step(struct gd__node *n, struct gd__node_message *m, enum gd__lease_event event)
{
    switch (gd__lease_step(&m->state, event)) {
    case GD__LEASE_NOTHING:
        break;
    case GD__LEASE_LOOK:
    case GD__LEASE_READ:
        gd__node_record_read(n, m);
        break;
    case GD__LEASE_READ_MARKER:
        gd__node_marker_read(n, m);
        break;
    case GD__LEASE_MARK:
        gd__node_mark(n, m);
        break;
    case GD__LEASE_UNMARK:
        gd__node_unmark(n, m);
        break;
    case GD__LEASE_START:
        start(n, m);
        break;
    case GD__LEASE_PUBLISH:
        gd__node_record_publish(n, m);
        break;
    case GD__LEASE_MOVE:
        gd__node_move(n, m);
        break;
    case GD__LEASE_MOVE_WON:
        moves(n, m, true);
        break;
    case GD__LEASE_MOVE_LOST:
        moves(n, m, false);
        break;
    case GD__LEASE_ACK:
        acknowledge(n, m);
        break;
    case GD__LEASE_ACK_WON:
        ack(n, m, true);
        break;
    case GD__LEASE_ACK_LOST:
        ack(n, m, false);
        break;
    case GD__LEASE_NAK:
        give_back(n, m);
        break;
    case GD__LEASE_LEAVE:
        gd__node_message_free(n, m);
        break;
    }
}

/* --- answers --- */

static void done_answer(struct gd__node *n, struct gd__node_message *m, const struct gd__queue_answer *a)
{
    m->tries = 0;
    switch (m->state) {
    case GD__LEASE_LOOKING:
    case GD__LEASE_COMPARING:
    case GD__LEASE_CONFIRMING:
        if (a->kind == GD__ANSWER_OK)
            gd__node_record_found(n, m, a);
        else
            gd__node_step(n, m,
                          m->state == GD__LEASE_LOOKING && gd__node_is_suspect(m) ? GD__LEASE_SUSPECT
                                                                                  : GD__LEASE_NO_RECORD);
        break;
    case GD__LEASE_SUSPECTED:
        gd__node_marker_found(n, m, a);
        break;
    case GD__LEASE_MARKING:
    case GD__LEASE_UNMARKING:
        m->marker_sequence = a->sequence;
        gd__node_step(n, m, a->kind == GD__ANSWER_OK ? GD__LEASE_MARKER_OK : GD__LEASE_MARKER_LOST);
        break;
    case GD__LEASE_PUBLISHING:
        gd__node_record_published(n, m, a);
        break;
    case GD__LEASE_MOVING:
        gd__node_moved(n, m);
        break;
    default:
        break;
    }
}

void gd__node_message_answer(struct gd__node *n, struct gd__node_message *m, const struct gd__queue_answer *a)
{
    gd__node_forget_request(n, a->id);
    m->request = 0;
    n->unanswered -= m->kept && !m->answered;
    m->answered = true;
    switch (a->kind) {
    case GD__ANSWER_OK:
    case GD__ANSWER_NONE:
    case GD__ANSWER_REFUSED:
        done_answer(n, m, a);
        return;
    case GD__ANSWER_TOO_LARGE:
        if (m->state == GD__LEASE_PUBLISHING) {
            done_answer(n, m, a);
            return;
        }
        break;
    case GD__ANSWER_DENIED:
        gd__node_fail(n, a->text);
        break;
    case GD__ANSWER_FAILED:
        gd__node_say_once(n, m->sequence + m->state,
                          "the server could not do what it was asked, and is asked again: %s", a->text ? a->text : "");
        break;
    case GD__ANSWER_LATER:
        if (m->tries >= GD__NODE_SAY_TRIES)
            gd__node_say_once(n, GD__ANSWER_LATER, "the server is not ready for records, and is asked again: %s",
                              a->text ? a->text : "");
        break;
    default:
        break;
    }
    gd__node_retry(n, m);
}

/* --- draining --- */

void gd__node_message_drain(struct gd__node *n, struct gd__node_message *m)
{
    m->nak_delay_ms = 0;
    if (m->state != GD__LEASE_RUNNING && m->state != GD__LEASE_MARKED) {
        gd__node_step(n, m, GD__LEASE_DRAIN);
        return;
    }
    gd__node_list_remove(&m->ready);
    gd__node_settle(n, m);
}

/* --- arrival --- */

static uint64_t text_number(const char *s)
{
    unsigned char hash[GD__HASH_SIZE];
    uint64_t number;
    gd__key_hash(s, strlen(s), hash);
    memcpy(&number, hash, sizeof number);
    return number;
}

/* A message that this node cannot read is left to others, who may be newer. */
static void leave(struct gd__node *n, const struct gd__queue_answer *a, const struct gd__queue_key *key,
                  const char *why)
{
    char shown[128];
    const char *subject = a->subject ? a->subject : "";
    (void)gd__text_line(shown, sizeof shown, subject, strlen(subject));
    if (n->damaged < DAMAGED_SHOWN)
        gd__node_say_once(n, text_number(subject), "a message is left in the queue: %s: %s", shown, why);
    else if (n->damaged == DAMAGED_SHOWN)
        gd__node_say(n, "more such messages are left in the queue");
    n->damaged++;
    const struct gd__node_unread m = { .stream = GD__QUEUE_TASK,
                                       .subject = subject,
                                       .stored_sequence = a->sequence,
                                       .key = key,
                                       .sequence = a->sequence,
                                       .token = a->token,
                                       .why = why };
    gd__node_unreadable_leave(n, &m);
}

/* The message was delivered to this node before, and the lease ran out, or another node gave it back: only the newest token
 * counts. */
static void arrive_again(struct gd__node *n, struct gd__node_message *m, const struct gd__queue_answer *a)
{
    if (m->sequence != a->sequence) {
        n->effects.tell(n->effects.user, GD__TELL_NAK, a->token, n->lease_ms);
        return;
    }
    memcpy(m->token, a->token, strlen(a->token) + 1);
    m->old_token = !n->connected;
    m->noticed_ns = n->now_ns;
    gd__node_list_remove(&m->held);
    gd__node_list_append(&n->held, &m->held);
    if (a->deliveries > m->deliveries) /* it is a suspect: another node may have had it, and died */
        m->deliveries = a->deliveries;
    if (waits_to_begin(m))
        look_again(n, m);
    if (m->state != GD__LEASE_RUNNING && m->state != GD__LEASE_MARKED)
        m->arrived_ns = n->now_ns;
}

static void set_nonce(struct gd__node *n, struct gd__node_message *m)
{
    const uint64_t parts[2] = { n->effects.random(n->effects.user), n->effects.random(n->effects.user) };
    _Static_assert(sizeof parts == GD__QUEUE_NONCE_SIZE, "a nonce is two numbers");
    memcpy(m->nonce, parts, sizeof parts);
}

static void read_tasks(struct gd__node_message *m, struct gd__queue_reader *r)
{
    for (uint32_t i = 0; i < m->count; i++) {
        struct gd__node_task *t = &m->entries[i].task;
        t->message = m;
        t->index = i;
        t->of = m->count;
        t->priority = m->priority;
        (void)gd__queue_tasks_next(r, &t->task);
    }
}

static struct gd__node_message *new_message(struct gd__node *n, const struct gd__queue_answer *a, uint32_t count)
{
    struct gd__node_message *m = gd__calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->data = gd__memdup(a->data, a->size);
    m->entries = gd__calloc(count, sizeof *m->entries);
    m->count = count;
    if (m->data && m->entries && gd__node_reserve(n) == 0)
        return m;
    gd__free(m->data);
    gd__free(m->entries);
    gd__free(m);
    return NULL;
}

static void hold(struct gd__node *n, struct gd__node_message *m, const struct gd__queue_answer *a,
                 const struct gd__queue_subject *s)
{
    m->key = s->key;
    m->priority = s->priority;
    m->sequence = a->sequence;
    m->deliveries = a->deliveries;
    m->resent = s->resend > 0;
    m->arrived_ns = m->noticed_ns = n->now_ns;
    memcpy(m->token, a->token, strlen(a->token) + 1);
    m->old_token = !n->connected;
    set_nonce(n, m);
    m->next_in_bucket = *bucket(n, &m->key);
    *bucket(n, &m->key) = m;
    gd__node_list_append(&n->held, &m->held);
    n->held_count++;
    n->waiting_tasks += m->count;
    n->bundle_tasks += (n->bundle_tasks > 0 ? 0.25 : 1) * (m->count - n->bundle_tasks);
}

static void take(struct gd__node *n, const struct gd__queue_answer *a, const struct gd__queue_subject *s)
{
    struct gd__queue_reader r;
    if (gd__queue_tasks_open(&r, a->data, a->size, &s->key) < 0) {
        leave(n, a, &s->key, gd_error_text());
        return;
    }
    if (r.items > gd__queue_bundle_most(n->max_payload, GD__QUEUE_RECORD_LEAST)) {
        leave(n, a, &s->key, "the records of its tasks would not fit into a message: raise max_payload of the server");
        return;
    }
    struct gd__node_message *m = new_message(n, a, r.items);
    if (!m) {
        gd__node_say(n, "no memory for a message of the queue: it is given back");
        n->effects.tell(n->effects.user, GD__TELL_NAK, a->token, (uint32_t)gd__node_jitter(n, 1000));
        return;
    }
    (void)gd__queue_tasks_open(&r, m->data, a->size, NULL); /* the tasks point into the copy */
    m->flagged = r.suspect;
    hold(n, m, a, s);
    read_tasks(m, &r);
    gd__node_step(n, m, GD__LEASE_BEGIN);
}

void gd__node_arrive(struct gd__node *n, const struct gd__queue_answer *a)
{
    struct gd__queue_subject s;
    if (!a->token || strlen(a->token) >= GD__QUEUE_TOKEN_ROOM)
        return;
    if (n->draining || n->finished) {
        n->effects.tell(n->effects.user, GD__TELL_NAK, a->token, 0);
        return;
    }
    if (gd__queue_subject_parse(&s, n->name, a->subject ? a->subject : "") < 0 || s.kind != GD__QUEUE_TASK) {
        leave(n, a, NULL, "its subject is not that of a task of this version of gpu_dispatch");
        return;
    }
    struct gd__node_message *held = find_message(n, &s.key);
    if (held)
        arrive_again(n, held, a);
    else
        take(n, a, &s);
}
