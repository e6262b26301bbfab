/* Which priorities the queue has. A push may add one while nodes work, so they ask from time to time: a node that has
 * nothing to do more often than the others.
 *
 * A new priority has a lease of its own. Until the node knows it, the lease of a message may run out, so it is asked for
 * as soon as the priority is known. */
#include "queue/node/internal.h"

enum { WORKING_MS = 10000, IDLE_MS = 3000 };

static bool may_ask(const struct gd__node *n)
{
    return n->connected && !n->draining && !n->finished && n->priorities_request == 0;
}

/* The lowest priority whose lease is not known, or GD_PRIORITY_MAX + 1. */
static int without_lease(const struct gd__node *n)
{
    int p = GD_PRIORITY_MIN;
    while (p <= GD_PRIORITY_MAX && !((n->priorities & ~n->leased) >> (p - GD_PRIORITY_MIN) & 1))
        p++;
    return p;
}

static bool may_ask_lease(const struct gd__node *n)
{
    return n->connected && !n->finished && n->lease_request == 0 && without_lease(n) <= GD_PRIORITY_MAX;
}

static void ask_lease(struct gd__node *n)
{
    if (!may_ask_lease(n) || n->now_ns < n->lease_at_ns)
        return;
    struct gd__queue_request q = { .ask = GD__ASK_CONSUMER, .priority = without_lease(n) };
    const struct gd__node_request *r = gd__node_ask(n, &q, GD__FOR_LEASE);
    n->lease_request = r ? q.id : 0;
    n->lease_at_ns = n->now_ns + gd__node_delay_ns(n, n->lease_tries++);
}

static void next_time(struct gd__node *n)
{
    const uint64_t ms = n->held_count > 0 ? WORKING_MS : IDLE_MS;
    n->priorities_at_ns = n->now_ns + gd__node_jitter(n, ms * GD__NODE_MS);
}

void gd__node_priorities(struct gd__node *n)
{
    if (n->priorities_at_ns == 0 && n->priorities != 0) /* the caller has just asked */
        next_time(n);
    ask_lease(n);
    if (!may_ask(n) || n->now_ns < n->priorities_at_ns)
        return;
    struct gd__queue_request q = { .ask = GD__ASK_PRIORITIES };
    const struct gd__node_request *r = gd__node_ask(n, &q, GD__FOR_PRIORITIES);
    n->priorities_request = r ? q.id : 0;
    next_time(n);
}

uint64_t gd__node_priorities_due(const struct gd__node *n)
{
    const uint64_t due = may_ask(n) ? n->priorities_at_ns : GD__NODE_NEVER;
    return may_ask_lease(n) && n->lease_at_ns < due ? n->lease_at_ns : due;
}

void gd__node_priorities_learn(struct gd__node *n, const struct gd__queue_answer *a)
{
    if (a->kind == GD__ANSWER_OK)
        n->priorities |= a->priorities & ((1U << GD__NODE_PRIORITIES) - 1);
}

void gd__node_priorities_answer(struct gd__node *n, const struct gd__queue_answer *a)
{
    gd__node_forget_request(n, a->id);
    n->priorities_request = 0;
    gd__node_priorities_learn(n, a);
}

void gd__node_lease_learn(struct gd__node *n, int priority, const struct gd__queue_answer *a)
{
    if (a->kind != GD__ANSWER_OK)
        return;
    n->leased |= 1U << (priority - GD_PRIORITY_MIN);
    if (a->consumer.lease_ms > 0 && a->consumer.lease_ms < n->lease_ms)
        gd__node_set_lease(n, a->consumer.lease_ms);
}

void gd__node_lease_answer(struct gd__node *n, const struct gd__node_request *r, const struct gd__queue_answer *a)
{
    const int priority = r->priority;
    gd__node_forget_request(n, a->id);
    n->lease_request = 0;
    gd__node_lease_learn(n, priority, a);
    if (a->kind == GD__ANSWER_OK) {
        n->lease_at_ns = 0;
        n->lease_tries = 0;
    }
}
