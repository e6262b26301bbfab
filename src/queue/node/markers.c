/* Suspects: messages that were delivered before, and may have killed a node.
 *
 * Most of them are innocent: a node gave them back, or its machine went away. So a suspect is first begun together with
 * other tasks, with a marker that says so. If it comes back once more, it is begun alone: a node has one such suspect at a
 * time, and each of these beginnings is counted. Only a node's death or a lost connection leaves a marker without a record,
 * because whoever gives a suspect back takes the marker back first. The death of a node leaves the marker that was written
 * before the beginning. If only workers have died, and the node cannot run the task any more (it has lost its device), the
 * node counts these deaths in the marker: each of them was the end of an attempt of this task alone, so the task is a
 * suspect that was begun alone.
 *
 *   marker              message of one task                        bundle
 *   none, taken back    begin together with others                 the same
 *   together            begin alone                                split into its tasks, each a suspect that was begun
 *                                                                  together
 *   alone, N times      N and together are crash_limit: "crash"    split into its tasks, as above
 *                       otherwise begin alone: of crash_limit
 *                       attempts, N are used up
 *
 * So a task that kills each node is found after crash_limit + 1 deaths: the first one leaves no marker. With a crash_limit
 * of 1 there is no beginning together with others.
 *
 * Alone means: as the only suspect. Another task that is not suspected yet may kill the node at the same time. So the last
 * beginning, whose death would be a conviction, is exclusive: the node begins nothing else until it has ended and the server
 * has its record. It may take long, or never end, so the node keeps nothing that others could begin: it pulls nothing, and
 * gives back what waits.
 *
 * A node whose connection is lost for longer than the lease lives, but its messages are delivered to others. So a node that
 * runs a suspect alone gives signs of life: it publishes gd.NAME.s.alive.NONCE, with the nonce of its marker, as often as it
 * extends leases. Whoever finds a marker that was begun alone compares the time of the last sign of life (or of the marker)
 * with the clock of the server. If it is not older than a few leases, the message is left to the node that may live.
 * Neither is a beginning counted nor a verdict given. A beginning together with others has no signs of life: there may be
 * thousands of them at a time, and it counts once only.
 */
#include <stdio.h>
#include <string.h>

#include "queue/node/internal.h"

enum {
    TURN_DELAY_MS = 1000,
    TURN_DELAYS = 5,
    SILENT_LEASES = 3, /* a node that gave no sign of life for so long has died */
};

bool gd__node_is_suspect(const struct gd__node_message *m)
{
    return m->flagged || m->resent || m->deliveries > 1;
}

/* --- requests --- */

static char *marker_subject(const struct gd__node *n, const struct gd__node_message *m,
                            char out[GD__QUEUE_SUBJECT_ROOM])
{
    const struct gd__queue_subject s = { .kind = GD__QUEUE_STATE, .key = m->key };
    return gd__queue_subject_text(out, n->name, &s);
}

void gd__node_marker_read(struct gd__node *n, struct gd__node_message *m)
{
    char subject[GD__QUEUE_SUBJECT_ROOM];
    m->question = GD__QUESTION_MARKER;
    struct gd__queue_request q = { .ask = GD__ASK_LAST,
                                   .stream = GD__QUEUE_STATE,
                                   .subject = marker_subject(n, m, subject) };
    gd__node_message_ask(n, m, &q);
}

static void publish(struct gd__node *n, struct gd__node_message *m, const struct gd__queue_marker *marker)
{
    char subject[GD__QUEUE_SUBJECT_ROOM];
    unsigned char bytes[GD__QUEUE_MARKER_SIZE];
    gd__queue_marker_write(bytes, marker);
    struct gd__queue_request q = { .ask = GD__ASK_PUBLISH,
                                   .stream = GD__QUEUE_STATE,
                                   .subject = marker_subject(n, m, subject),
                                   .data = bytes,
                                   .size = sizeof bytes,
                                   .condition = m->marker_sequence ? GD__IF_LAST : GD__IF_NONE,
                                   .sequence = m->marker_sequence };
    gd__node_message_ask(n, m, &q);
}

void gd__node_mark(struct gd__node *n, struct gd__node_message *m)
{
    m->marking = true;
    publish(n, m, &m->marker);
}

/* The nonce of the marker that was there before stays away: that attempt has ended. */
void gd__node_unmark(struct gd__node *n, struct gd__node_message *m)
{
    struct gd__queue_marker before = m->before;
    before.alone = m->crashes > before.alone ? m->crashes : before.alone;
    memset(before.nonce, 0, sizeof before.nonce);
    publish(n, m, &before);
}

/* --- signs of life --- */

static char *life_subject(const struct gd__node *n, const unsigned char nonce[GD__QUEUE_NONCE_SIZE],
                          char out[GD__QUEUE_SUBJECT_ROOM])
{
    char state[sizeof "alive." + 2 * GD__QUEUE_NONCE_SIZE] = "alive.";
    char *to = state + strlen(state);
    for (size_t i = 0; i < GD__QUEUE_NONCE_SIZE; i++)
        to += snprintf(to, 3, "%02x", nonce[i]);
    return gd__queue_state_text(out, n->name, state);
}

uint64_t gd__node_life_due(const struct gd__node *n)
{
    return n->connected && n->alone && n->alone->state == GD__LEASE_MARKED ? n->life_ns + n->notice_ns : GD__NODE_NEVER;
}

void gd__node_life(struct gd__node *n)
{
    char subject[GD__QUEUE_SUBJECT_ROOM];
    if (n->now_ns < gd__node_life_due(n))
        return;
    struct gd__queue_request q = { .ask = GD__ASK_PUBLISH,
                                   .stream = GD__QUEUE_STATE,
                                   .subject = life_subject(n, n->alone->nonce, subject),
                                   .data = n->alone->nonce,
                                   .size = sizeof n->alone->nonce,
                                   .condition = GD__IF_ANY };
    (void)gd__node_ask(n, &q, GD__FOR_LIFE); /* without memory for it, the next one comes soon */
    n->life_ns = n->now_ns;
}

static void ask_life(struct gd__node *n, struct gd__node_message *m)
{
    char subject[GD__QUEUE_SUBJECT_ROOM];
    struct gd__queue_request q = { .ask = GD__ASK_LAST,
                                   .stream = GD__QUEUE_STATE,
                                   .subject = life_subject(n, m->before.nonce, subject) };
    m->question = GD__QUESTION_LIFE;
    gd__node_message_ask(n, m, &q);
}

static void ask_clock(struct gd__node *n, struct gd__node_message *m)
{
    struct gd__queue_request q = { .ask = GD__ASK_STREAM, .stream = GD__QUEUE_STATE };
    m->question = GD__QUESTION_CLOCK;
    gd__node_message_ask(n, m, &q);
}

/* --- the verdict --- */

static void begin(struct gd__node *n, struct gd__node_message *m)
{
    n->life_ns = m->alone ? n->now_ns : n->life_ns; /* the marker is the first sign */
    m->marker = m->before;
    memcpy(m->marker.nonce, m->nonce, sizeof m->nonce);
    m->marker.alone += m->alone;
    m->marker.together = m->marker.together || !m->alone;
    gd__node_step(n, m, GD__LEASE_TURN);
}

static void leave_to_others(struct gd__node *n, struct gd__node_message *m, uint64_t delay_ms)
{
    m->nak_delay_ms = (uint32_t)gd__node_jitter(n, delay_ms);
    gd__node_step(n, m, GD__LEASE_DRAIN);
}

static void leave_turn_to_others(struct gd__node *n, struct gd__node_message *m)
{
    const unsigned grown = m->deliveries < TURN_DELAYS ? (unsigned)m->deliveries : TURN_DELAYS;
    leave_to_others(n, m, (uint64_t)TURN_DELAY_MS << grown);
}

static struct gd__node_message *take_turn(struct gd__node *n)
{
    struct gd__node_message *m = GD__NODE_OF(n->turns.next, struct gd__node_message, ready);
    gd__node_list_remove(&m->ready);
    return m;
}

bool gd__node_is_exclusive(const struct gd__node *n)
{
    return n->alone && n->alone->exclusive;
}

/* The suspect whose turn it is waits until nothing else runs, if it must. */
static void begin_alone(struct gd__node *n, struct gd__node_message *m)
{
    n->alone = m;
    m->exclusive = (uint64_t)m->before.alone + 1 + m->before.together >= n->crash_limit;
    while (m->exclusive && !gd__node_list_empty(&n->turns))
        leave_turn_to_others(n, take_turn(n));
    if (!m->exclusive || !gd__node_has_begun(n))
        begin(n, m);
}

/* A node has only one suspect that waits for its turn: the others may be begun elsewhere. */
static void wait_for_turn(struct gd__node *n, struct gd__node_message *m)
{
    m->alone = true;
    if (!n->alone)
        begin_alone(n, m);
    else if (gd__node_list_empty(&n->turns) && !gd__node_is_exclusive(n))
        gd__node_list_append(&n->turns, &m->ready);
    else
        leave_turn_to_others(n, m);
}

static void convict(struct gd__node *n, struct gd__node_message *m, enum gd__node_verdict verdict)
{
    char key[GD__QUEUE_KEY_ROOM];
    m->verdict = verdict;
    if (gd__node_record_build(n, m) < 0) {
        leave_to_others(n, m, 1000);
        return;
    }
    gd__queue_key_text(key, &m->key);
    if (verdict == GD__VERDICT_CRASH)
        gd__node_say(n, "task %s is recorded as a crash: a node or a worker has died each time it was begun", key);
    else
        gd__node_say(n, "%s is split into its %u tasks: nodes or workers that began it have died", key,
                     (unsigned)m->count);
    gd__node_step(n, m, GD__LEASE_CONVICTED);
}

static void judge(struct gd__node *n, struct gd__node_message *m)
{
    const struct gd__queue_marker *k = &m->before;
    if (k->alone > 0 && (uint64_t)k->alone + k->together >= n->crash_limit && m->count == 1)
        convict(n, m, GD__VERDICT_CRASH);
    else if (!k->together && k->alone == 0 && n->crash_limit > 1)
        begin(n, m);
    else if (m->count > 1)
        convict(n, m, GD__VERDICT_SPLIT);
    else
        wait_for_turn(n, m);
}

/* A marker that cannot be read counts as a beginning together with others, and will be replaced. */
static struct gd__queue_marker read_marker(const struct gd__queue_answer *a)
{
    struct gd__queue_marker marker;
    if (gd__queue_marker_read(&marker, a->data, a->size) < 0)
        marker.together = true;
    return marker;
}

/* A marker that was taken back has no nonce. */
static bool has_owner(const struct gd__queue_marker *marker)
{
    static const unsigned char none[GD__QUEUE_NONCE_SIZE];
    return memcmp(marker->nonce, none, sizeof none) != 0;
}

/* Another node has begun the message since this node read the marker. So it was delivered again, and one of the two nodes
 * is late, but neither has died. */
static bool is_overtaken(const struct gd__node_message *m, const struct gd__queue_marker *found)
{
    return m->marking && has_owner(found) && memcmp(found->nonce, m->before.nonce, sizeof found->nonce) != 0;
}

/* If this node got its answers so late, the lease may have run out, and the marker may be that of a node which has the
 * message now and lives. Neither a verdict nor a beginning that is counted may follow from it. */
static bool is_late(const struct gd__node *n, const struct gd__node_message *m, const struct gd__queue_marker *found)
{
    return (found->together || found->alone > 0) && n->now_ns - m->arrived_ns > (uint64_t)n->lease_ms * GD__NODE_MS / 2;
}

static void life_found(struct gd__node *n, struct gd__node_message *m, const struct gd__queue_answer *a)
{
    if (a->kind == GD__ANSWER_OK && a->time_us > m->life_us)
        m->life_us = a->time_us;
    ask_clock(n, m);
}

/* How long the node that wrote the marker was silent. While this node had no connection either, perhaps nobody had one:
 * that time does not count. */
static uint64_t silence_us(const struct gd__node *n, const struct gd__node_message *m, uint64_t clock_us)
{
    const uint64_t silent = clock_us > m->life_us ? clock_us - m->life_us : 0;
    const uint64_t connected = (n->now_ns - n->connected_since_ns) / 1000;
    return silent < connected ? silent : connected;
}

static void clock_found(struct gd__node *n, struct gd__node_message *m, const struct gd__queue_answer *a)
{
    const uint64_t silent_us = silence_us(n, m, a->time_us);
    const uint64_t most_us = (uint64_t)SILENT_LEASES * n->lease_ms * 1000;
    if (is_late(n, m, &m->before)) {
        leave_to_others(n, m, n->lease_ms);
    } else if (a->time_us > 0 && silent_us < most_us) {
        m->nak_delay_ms = (uint32_t)((most_us - silent_us) / 1000 + gd__node_jitter(n, TURN_DELAY_MS));
        gd__node_step(n, m, GD__LEASE_DRAIN);
    } else {
        judge(n, m);
    }
}

static void marker_found(struct gd__node *n, struct gd__node_message *m, const struct gd__queue_answer *a)
{
    struct gd__queue_marker found = { 0 };
    m->marker_sequence = 0;
    if (a->kind == GD__ANSWER_OK) {
        found = read_marker(a);
        m->marker_sequence = a->sequence;
    }
    if (m->marking && memcmp(found.nonce, m->nonce, sizeof m->nonce) == 0) {
        gd__node_step(n, m, GD__LEASE_MARKER_OK);
        return;
    }
    const bool others = is_overtaken(m, &found) || is_late(n, m, &found);
    if (n->alone == m)
        n->alone = NULL;
    m->alone = m->marking = m->exclusive = false;
    if (others) {
        leave_to_others(n, m, n->lease_ms);
        return;
    }
    m->before = found;
    m->before.together = found.together || m->flagged;
    m->life_us = a->time_us;
    if (found.alone > 0 && has_owner(&found) && m->life_us > 0)
        ask_life(n, m);
    else
        judge(n, m);
}

void gd__node_marker_found(struct gd__node *n, struct gd__node_message *m, const struct gd__queue_answer *a)
{
    switch (m->question) {
    case GD__QUESTION_MARKER:
        marker_found(n, m, a);
        break;
    case GD__QUESTION_LIFE:
        life_found(n, m, a);
        break;
    case GD__QUESTION_CLOCK:
        clock_found(n, m, a);
        break;
    }
}

static bool waits_for_others(const struct gd__node *n)
{
    return n->alone && n->alone->exclusive && n->alone->state == GD__LEASE_SUSPECTED && n->alone->request == 0 &&
           !gd__timer_armed(&n->alone->timer) && !n->alone->blocked;
}

/* A suspect cannot be begun without the server. Until it is there again, the node goes on with its other tasks. */
void gd__node_turns(struct gd__node *n)
{
    if (n->draining || !n->connected)
        return;
    if (waits_for_others(n) && !gd__node_has_begun(n))
        begin(n, n->alone);
    if (!n->alone && !gd__node_list_empty(&n->turns))
        begin_alone(n, take_turn(n));
}
