/* The end of the list: no message is left that nobody has. If this node has messages that it cannot begin soon, and other
 * nodes wait for messages, it gives them back. */
#include "queue/node/internal.h"

enum { OFTEN_MS = 100, SELDOM_MS = 1000, FULL_MS = 2000, SOON_MS = 250 };

static bool is_unbegun(const struct gd__node_message *m)
{
    return m->next == 0 && (m->state == GD__LEASE_RUNNING || m->state == GD__LEASE_MARKED);
}

/* The lowest priority with a message that has not begun, or GD_PRIORITY_MIN - 1. Messages are begun in order, so the last
 * one is looked at. */
static int unbegun_priority(const struct gd__node *n)
{
    for (int p = 0; p < GD__NODE_PRIORITIES; p++) {
        if (!gd__node_list_empty(&n->ready[p]) &&
            is_unbegun(GD__NODE_OF(n->ready[p].previous, struct gd__node_message, ready)))
            return p + GD_PRIORITY_MIN;
    }
    return GD_PRIORITY_MIN - 1;
}

/* When the tasks that wait here have waited too long to begin soon, if no task ends before. Those that run now may be
 * longer than those that have ended, so the time since the last end counts too. */
static uint64_t not_soon_ns(const struct gd__node *n)
{
    const double soon = (double)SOON_MS * GD__NODE_MS * n->slots / (double)n->waiting_tasks;
    return n->task_ns == 0 || n->task_ns >= soon ? 0 : n->last_end_ns + (uint64_t)soon;
}

/* Tasks that begin soon stay here: the way to another node takes time too. */
static bool begins_soon(const struct gd__node *n)
{
    return n->given_tasks < n->slots || n->waiting_tasks == 0 || n->now_ns < not_soon_ns(n);
}

static bool may_be_tail(const struct gd__node *n)
{
    return n->connected && !n->draining && !n->finished && n->tail_request == 0 && n->waiting_tasks > 0 &&
           n->given_tasks >= n->slots && unbegun_priority(n) >= GD_PRIORITY_MIN;
}

static bool is_tail(const struct gd__node *n)
{
    return may_be_tail(n) && !begins_soon(n);
}

uint64_t gd__node_tail_due(const struct gd__node *n)
{
    if (!may_be_tail(n))
        return GD__NODE_NEVER;
    return n->tail_at_ns > not_soon_ns(n) ? n->tail_at_ns : not_soon_ns(n);
}

/* Several times until the tasks that wait here would begin. A node that has enough does not pull, so it does not know that
 * the list has come to its end, and asks from time to time. */
static void next_time(struct gd__node *n)
{
    const uint64_t least_ms = gd__node_all_dry(n) ? OFTEN_MS : FULL_MS;
    const double until_ms = (double)n->waiting_tasks * n->task_ns / n->slots / (double)GD__NODE_MS;
    const uint64_t ms = n->task_ns > 0 && until_ms / 4 < SELDOM_MS ? (uint64_t)(until_ms / 4) : SELDOM_MS;
    n->tail_at_ns = n->now_ns + gd__node_jitter(n, (ms > least_ms ? ms : least_ms) * GD__NODE_MS);
}

void gd__node_tail(struct gd__node *n)
{
    if (!is_tail(n) || n->now_ns < n->tail_at_ns)
        return;
    struct gd__queue_request q = { .ask = GD__ASK_CONSUMER, .priority = unbegun_priority(n) };
    const struct gd__node_request *r = gd__node_ask(n, &q, GD__FOR_TAIL);
    n->tail_request = r ? q.id : 0;
    next_time(n);
}

static void give_back(struct gd__node *n, int priority, uint64_t most)
{
    struct gd__node_list *list = &n->ready[priority - GD_PRIORITY_MIN];
    for (; most > 0 && !gd__node_list_empty(list); most--) {
        struct gd__node_message *m = GD__NODE_OF(list->previous, struct gd__node_message, ready);
        if (!is_unbegun(m))
            return;
        gd__node_list_remove(&m->ready);
        m->nak_delay_ms = 0;
        n->returned += m->count;
        gd__node_step(n, m, GD__LEASE_NOT_RUN);
    }
}

void gd__node_tail_answer(struct gd__node *n, struct gd__node_request *r, const struct gd__queue_answer *a)
{
    const int priority = r->priority;
    gd__node_forget_request(n, a->id);
    n->tail_request = 0;
    gd__node_lease_learn(n, priority, a);
    if (a->kind != GD__ANSWER_OK || a->consumer.pending > 0 || begins_soon(n))
        return;
    n->pull[priority - GD_PRIORITY_MIN].dry = true; /* so it does not pull again what it gives back */
    const uint64_t own = n->pull[priority - GD_PRIORITY_MIN].waiting;
    if (a->consumer.waiting > own)
        give_back(n, priority, a->consumer.waiting - own);
}
