/* Is the queue done? Asked by a node that has nothing to do.
 *
 *   1. the consumers: somebody still works, or messages are left: look again later. This is all that most checks ask.
 *   2. the lock of a push, then the priorities, because a push may have added one, then the consumers again. Nobody can be
 *      in the middle of splitting a bundle after this, unless a new push begins.
 *   3. the number of records, then the number of task messages, in this order: if they are equal, each task had a record
 *      when the records were counted. Messages that were sent again count once.
 *
 * Messages that this node cannot read stay unacknowledged. If there are no others, the lists of all keys are compared, and
 * the node ends with an error if each of the others has a record.
 *
 * Nodes wait longer after each check, up to a few seconds, and not all equally long.
 */
#include "queue/node/internal.h"

enum { FIRST_MS = 20, DOUBLED = 8, MOST_MS = 5000 };

static int below(const struct gd__node *n, int priority)
{
    do {
        priority--;
    } while (priority >= GD_PRIORITY_MIN && !(n->priorities >> (priority - GD_PRIORITY_MIN) & 1));
    return priority;
}

static bool is_idle(const struct gd__node *n)
{
    return n->connected && !n->draining && !n->finished && n->held_count == 0 && n->kept_count == 0 &&
           gd__node_all_dry(n);
}

void gd__node_check_later(struct gd__node *n)
{
    struct gd__node_completion *c = &n->completion;
    const unsigned doubled = c->rounds < DOUBLED ? c->rounds++ : DOUBLED;
    uint64_t delay_ms = (uint64_t)FIRST_MS << doubled;
    delay_ms = delay_ms < MOST_MS ? delay_ms : MOST_MS;
    gd__node_forget_request(n, c->request);
    gd__node_repair_free(n);
    c->request = 0;
    c->step = GD__CHECK_NOTHING;
    c->at_ns = n->now_ns + gd__node_jitter(n, delay_ms * GD__NODE_MS);
}

void gd__node_check_ask(struct gd__node *n, struct gd__queue_request *q, enum gd__node_check step)
{
    n->completion.step = step;
    const struct gd__node_request *r = gd__node_ask(n, q, GD__FOR_CHECK);
    if (r)
        n->completion.request = q->id;
    else
        gd__node_check_later(n);
}

static void ask_consumer(struct gd__node *n, int priority, enum gd__node_check step)
{
    struct gd__queue_request q = { .ask = GD__ASK_CONSUMER, .priority = priority };
    n->completion.priority = priority;
    gd__node_check_ask(n, &q, step);
}

static void nobody_works(struct gd__node *n);

/* All consumers, the highest priority first. */
static void ask_consumers(struct gd__node *n, enum gd__node_check step)
{
    n->completion.step = step;
    n->completion.unacknowledged = 0;
    if (n->priorities != 0)
        ask_consumer(n, below(n, GD_PRIORITY_MAX + 1), step);
    else
        nobody_works(n);
}

static void ask_stream(struct gd__node *n, enum gd__queue_kind stream, enum gd__node_check step)
{
    struct gd__queue_request q = { .ask = GD__ASK_STREAM, .stream = stream };
    gd__node_check_ask(n, &q, step);
}

static void ask_push(struct gd__node *n)
{
    char subject[GD__QUEUE_SUBJECT_ROOM];
    struct gd__queue_request q = { .ask = GD__ASK_LAST,
                                   .stream = GD__QUEUE_STATE,
                                   .subject = gd__queue_state_text(subject, n->name, "push"),
                                   .by_leader = true };
    gd__node_check_ask(n, &q, GD__CHECK_PUSH);
}

static void ask_resends(struct gd__node *n)
{
    char filter[GD__QUEUE_SUBJECT_ROOM];
    struct gd__queue_request q = { .ask = GD__ASK_SUBJECTS,
                                   .stream = GD__QUEUE_TASK,
                                   .subject = gd__queue_resend_filter(filter, n->name) };
    n->completion.resends = 0;
    gd__node_check_ask(n, &q, GD__CHECK_RESENDS);
}

/* --- when --- */

/* The first check comes soon after the last task, so that a node leaves quickly. */
static void begin_idle(struct gd__node *n)
{
    struct gd__node_completion *c = &n->completion;
    c->rounds = 0;
    c->quiet_since_ns = GD__NODE_NEVER;
    c->at_ns = n->now_ns + gd__node_jitter(n, FIRST_MS * GD__NODE_MS);
}

/* A repair goes on although this node gets the first of the messages that it has sent again. Otherwise each round would
 * send one message, and the next round begins only after a lease. */
static bool is_repairing(const struct gd__node *n)
{
    const enum gd__node_check s = n->completion.step;
    return (s == GD__CHECK_RECORD || s == GD__CHECK_READ || s == GD__CHECK_RESEND) && n->connected && !n->draining &&
           !n->finished;
}

void gd__node_complete(struct gd__node *n)
{
    struct gd__node_completion *c = &n->completion;
    if (is_repairing(n))
        return;
    if (!is_idle(n)) {
        if (c->step != GD__CHECK_NOTHING)
            gd__node_check_later(n);
        c->at_ns = GD__NODE_NEVER;
        return;
    }
    if (c->at_ns == GD__NODE_NEVER)
        begin_idle(n);
    if (c->step == GD__CHECK_NOTHING && n->now_ns >= c->at_ns)
        ask_consumers(n, GD__CHECK_BUSY);
}

uint64_t gd__node_complete_due(const struct gd__node *n)
{
    return is_idle(n) && n->completion.step == GD__CHECK_NOTHING ? n->completion.at_ns : GD__NODE_NEVER;
}

void gd__node_done(struct gd__node *n)
{
    if (n->stay)
        gd__node_check_later(n);
    else if (n->completion.unacknowledged > 0)
        gd__node_unreadable_end(n, n->completion.unacknowledged);
    else
        gd__node_finish(n, GD__NODE_DONE, "");
}

void gd__node_check_counts(struct gd__node *n)
{
    if (n->completion.push_open)
        gd__node_check_later(n);
    else
        gd__node_done(n);
}

void gd__node_check_quiet(struct gd__node *n)
{
    ask_consumers(n, GD__CHECK_STILL_QUIET);
}

/* --- answers --- */

/* The last priority was asked, and nobody works. */
static void nobody_works(struct gd__node *n)
{
    struct gd__node_completion *c = &n->completion;
    if (c->step == GD__CHECK_CONSUMERS) {
        ask_stream(n, GD__QUEUE_RECORD, GD__CHECK_RECORDS);
        return;
    }
    if (c->step == GD__CHECK_STILL_QUIET) {
        gd__node_repair_send(n);
        return;
    }
    if (c->quiet_since_ns == GD__NODE_NEVER) {
        c->quiet_since_ns = n->now_ns;
        c->patience_ns = (uint64_t)n->lease_ms * GD__NODE_MS + gd__node_jitter(n, (uint64_t)n->lease_ms * GD__NODE_MS);
    }
    ask_push(n);
}

static void consumer_answer(struct gd__node *n, const struct gd__queue_answer *a)
{
    struct gd__node_completion *c = &n->completion;
    const int next = below(n, c->priority);
    gd__node_lease_learn(n, c->priority, a);
    c->unacknowledged += a->consumer.unacknowledged;
    if (a->consumer.pending > 0 || c->unacknowledged > n->unreadable.count) {
        c->quiet_since_ns = GD__NODE_NEVER;
        gd__node_check_later(n);
    } else if (next >= GD_PRIORITY_MIN) {
        ask_consumer(n, next, c->step);
    } else {
        nobody_works(n);
    }
}

/* If the server tells when the lock was written, a push that died is known at once, and not after the time of a watch. */
static void push_answer(struct gd__node *n, const struct gd__queue_answer *a)
{
    struct gd__node_completion *c = &n->completion;
    c->push_open = gd__push_is_open(&c->push, n->now_ns, a, NULL);
    c->push_us = a->kind == GD__ANSWER_OK ? a->time_us : 0;
    struct gd__queue_request q = { .ask = GD__ASK_PRIORITIES };
    gd__node_check_ask(n, &q, GD__CHECK_PRIORITIES);
}

static void priorities_answer(struct gd__node *n, const struct gd__queue_answer *a)
{
    gd__node_priorities_learn(n, a);
    ask_consumers(n, GD__CHECK_CONSUMERS);
}

static void records_answer(struct gd__node *n, const struct gd__queue_answer *a)
{
    struct gd__node_completion *c = &n->completion;
    if (c->records != a->stream.messages)
        c->quiet_since_ns = n->now_ns;
    c->records = n->records_counted = a->stream.messages;
    if (c->push_open && c->push_us > 0 && a->time_us > c->push_us)
        c->push_open = a->time_us - c->push_us < (uint64_t)GD__PUSH_DEAD_MS * 1000;
    ask_stream(n, GD__QUEUE_TASK, GD__CHECK_TASKS);
}

bool gd__node_is_patient(const struct gd__node *n)
{
    const struct gd__node_completion *c = &n->completion;
    return c->quiet_since_ns != GD__NODE_NEVER && n->now_ns - c->quiet_since_ns >= c->patience_ns;
}

/* Records are missing, or there are more messages than tasks. Which of both, only the lists of all keys can tell. */
static void counts_differ(struct gd__node *n)
{
    if (gd__node_is_patient(n))
        gd__node_repair_begin(n);
    else
        gd__node_check_later(n);
}

static void tasks_answer(struct gd__node *n, const struct gd__queue_answer *a)
{
    struct gd__node_completion *c = &n->completion;
    c->tasks = n->tasks_counted = a->stream.messages;
    if (c->tasks == c->records && c->unacknowledged == 0)
        gd__node_check_counts(n);
    else if (c->tasks >= c->records)
        ask_resends(n);
    else
        counts_differ(n);
}

static void resends_answer(struct gd__node *n)
{
    struct gd__node_completion *c = &n->completion;
    const uint64_t missing = c->tasks - c->records;
    if (c->unacknowledged > 0 && missing <= c->resends + n->unreadable.count)
        gd__node_repair_begin(n); /* perhaps only those that cannot be read: the lists tell */
    else if (missing == c->resends && c->unacknowledged == 0)
        gd__node_check_counts(n);
    else
        counts_differ(n);
}

static void step_answer(struct gd__node *n, const struct gd__queue_answer *a)
{
    switch (n->completion.step) {
    case GD__CHECK_BUSY:
    case GD__CHECK_CONSUMERS:
    case GD__CHECK_STILL_QUIET:
        consumer_answer(n, a);
        break;
    case GD__CHECK_PUSH:
        push_answer(n, a);
        break;
    case GD__CHECK_PRIORITIES:
        priorities_answer(n, a);
        break;
    case GD__CHECK_RECORDS:
        records_answer(n, a);
        break;
    case GD__CHECK_TASKS:
        tasks_answer(n, a);
        break;
    case GD__CHECK_RESENDS:
        resends_answer(n);
        break;
    default:
        gd__node_repair_answer(n, a);
    }
}

/* NONE is an answer of LAST only; anything else that does not exist has been removed. */
static bool is_removed(const struct gd__node *n, const struct gd__queue_answer *a)
{
    const enum gd__node_check s = n->completion.step;
    return a->kind == GD__ANSWER_NONE && (s == GD__CHECK_BUSY || s == GD__CHECK_CONSUMERS ||
                                          s == GD__CHECK_STILL_QUIET || s == GD__CHECK_RECORDS || s == GD__CHECK_TASKS);
}

void gd__node_complete_answer(struct gd__node *n, const struct gd__queue_answer *a)
{
    struct gd__node_completion *c = &n->completion;
    if (a->kind == GD__ANSWER_ITEM) {
        if (c->step == GD__CHECK_RESENDS)
            c->resends++;
        else
            gd__node_repair_answer(n, a);
        return;
    }
    gd__node_forget_request(n, a->id);
    c->request = 0;
    if (is_removed(n, a))
        gd__node_fail(n, "the queue was removed from the server");
    else if (a->kind == GD__ANSWER_DENIED)
        gd__node_fail(n, a->text);
    else if (a->kind == GD__ANSWER_OK || a->kind == GD__ANSWER_NONE || a->kind == GD__ANSWER_REFUSED)
        step_answer(n, a);
    else
        gd__node_check_later(n);
}
