/* How many messages a node pulls, and of which priority.
 *
 * A node wants one task for each slot, and one more ahead; if tasks are short, about 200 ms of work ahead. Messages may
 * be bundles: their usual number of tasks is measured, and the first pull asks for one message only.
 *
 * The priorities are asked in turn, the highest first. Only if no priority has a message, pulls are left to wait at the
 * server, one for each priority. At this point the list has come to its end, perhaps for a moment: nothing is pulled ahead
 * then, so that no node holds tasks while another one is idle. Nothing is pulled either while a suspect runs that nothing
 * else may run with.
 */
#include "queue/node/internal.h"

enum {
    AHEAD_MS = 200,
    WAIT_MS = 5000,   /* and up to twice as long */
    DRY_MS = 100,     /* a priority without messages is asked again after this time */
    AT_ONCE = 1024,   /* messages in one pull */
    BYTES = 64 << 20, /* in one pull, by the usual size of a message */
};

/* The next priority below this one, or GD_PRIORITY_MIN - 1. */
static int below(const struct gd__node *n, int priority)
{
    do {
        priority--;
    } while (priority >= GD_PRIORITY_MIN && !(n->priorities >> (priority - GD_PRIORITY_MIN) & 1));
    return priority;
}

bool gd__node_all_dry(const struct gd__node *n)
{
    for (int p = below(n, GD_PRIORITY_MAX + 1); p >= GD_PRIORITY_MIN; p = below(n, p)) {
        if (!n->pull[p - GD_PRIORITY_MIN].dry)
            return false;
    }
    return true;
}

static double tasks_ahead(const struct gd__node *n)
{
    double ahead = n->slots;
    if (n->task_ns > 0 && n->task_ns < (double)AHEAD_MS * GD__NODE_MS)
        ahead *= (double)AHEAD_MS * GD__NODE_MS / n->task_ns;
    const double most = n->slots < GD__NODE_HELD_MOST ? GD__NODE_HELD_MOST - n->slots : n->slots;
    return ahead < most ? ahead : most;
}

static double usual_tasks(const struct gd__node *n)
{
    return n->bundle_tasks > 1 ? n->bundle_tasks : 1;
}

/* How many messages will come soon. If a priority has messages, those that pulls of others wait for do not count. */
static uint64_t coming(const struct gd__node *n)
{
    uint64_t messages = n->expected;
    for (int p = 0; p < GD__NODE_PRIORITIES && !gd__node_all_dry(n); p++)
        messages -= n->pull[p].dry ? n->pull[p].expected : 0;
    return messages;
}

/* How many messages to ask for now; 0: none. */
static uint32_t messages_wanted(const struct gd__node *n)
{
    if (gd__node_is_exclusive(n))
        return 0;
    const bool dry = gd__node_all_dry(n);
    const double ahead = dry ? 0 : tasks_ahead(n);
    const double tasks_coming = (double)coming(n) * usual_tasks(n);
    const double missing = n->slots + ahead - (double)(n->waiting_tasks + n->given_tasks) - tasks_coming;
    if (missing < 1 || missing < ahead / 4)
        return 0;
    if (n->bundle_tasks == 0)
        return coming(n) > 0 ? 0 : 1;
    double messages = missing / n->bundle_tasks;
    const double most = BYTES / (n->message_bytes + 1);
    messages = messages < most ? messages : most;
    return messages >= AT_ONCE ? AT_ONCE : messages < 1 ? 1 : (uint32_t)(messages + 0.999);
}

static void send_pull(struct gd__node *n, int priority, uint32_t most, bool waits)
{
    struct gd__queue_request q = { .ask = GD__ASK_PULL, .priority = priority, .most = most };
    if (waits)
        q.wait_ms = (uint32_t)(gd__node_jitter(n, WAIT_MS) + WAIT_MS / 2);
    struct gd__node_request *r = gd__node_ask(n, &q, GD__FOR_PULL);
    if (!r) {
        n->in_round = false;
        n->pull_at_ns = n->now_ns + gd__node_delay_ns(n, n->pull_tries++);
        return;
    }
    r->waits = waits;
    n->pull[priority - GD_PRIORITY_MIN].asked_ns = n->now_ns;
    n->pull[priority - GD_PRIORITY_MIN].waiting += waits;
    n->pull[priority - GD_PRIORITY_MIN].expected += waits ? most : 0;
    n->expected += most;
}

static bool asked_just_now(const struct gd__node *n, int priority)
{
    return n->pull[priority - GD_PRIORITY_MIN].dry && n->pull[priority - GD_PRIORITY_MIN].asked_ns > 0 &&
           n->now_ns - n->pull[priority - GD_PRIORITY_MIN].asked_ns < DRY_MS * GD__NODE_MS;
}

/* Asks the next priority of this round. Returns false if there is none. */
static bool next_of_round(struct gd__node *n, uint32_t most)
{
    if (!n->in_round)
        n->round_priority = GD_PRIORITY_MAX + 1;
    do {
        n->round_priority = below(n, n->round_priority);
    } while (n->round_priority >= GD_PRIORITY_MIN && asked_just_now(n, n->round_priority));
    n->in_round = n->round_priority >= GD_PRIORITY_MIN;
    if (n->in_round)
        send_pull(n, n->round_priority, most, false);
    return n->in_round;
}

static void leave_pulls_waiting(struct gd__node *n, uint32_t most)
{
    const unsigned priorities = (unsigned)__builtin_popcount(n->priorities);
    const uint32_t each = (most + priorities - 1) / priorities;
    for (int p = below(n, GD_PRIORITY_MAX + 1); p >= GD_PRIORITY_MIN; p = below(n, p)) {
        if (n->pull[p - GD_PRIORITY_MIN].waiting == 0 && n->now_ns >= n->pull_at_ns)
            send_pull(n, p, each, true);
    }
}

/* Records of an earlier run come first. */
static bool may_pull(const struct gd__node *n)
{
    return n->connected && n->unanswered == 0 && !n->draining && !n->finished && n->priorities != 0 &&
           n->now_ns >= n->pull_at_ns;
}

void gd__node_pull(struct gd__node *n)
{
    if (!may_pull(n) || n->in_round)
        return;
    const uint32_t most = messages_wanted(n);
    if (most > 0 && !gd__node_all_dry(n))
        (void)next_of_round(n, most);
    else if (most > 0)
        leave_pulls_waiting(n, most);
}

uint64_t gd__node_pull_due(const struct gd__node *n)
{
    return n->connected && !n->draining && n->pull_at_ns > n->now_ns ? n->pull_at_ns : GD__NODE_NEVER;
}

static void measure(struct gd__node *n, const struct gd__queue_answer *a)
{
    const double share = n->message_bytes > 0 ? 0.1 : 1;
    n->message_bytes += share * ((double)a->size - n->message_bytes);
}

static void pull_item(struct gd__node *n, struct gd__node_request *r, const struct gd__queue_answer *a)
{
    if (r->received < r->most) {
        r->received++;
        n->expected--;
        n->pull[r->priority - GD_PRIORITY_MIN].expected -= r->waits;
    }
    n->pull[r->priority - GD_PRIORITY_MIN].dry = a->pending == 0;
    measure(n, a);
    gd__node_arrive(n, a);
}

/* A pull that found less than it asked for: this priority is dry. The next one of the round is asked by the next tick. */
static void pull_found(struct gd__node *n, const struct gd__node_request *r)
{
    n->pull_tries = 0;
    if (r->received < r->most)
        n->pull[r->priority - GD_PRIORITY_MIN].dry = true;
    if (r->waits)
        return;
    if (r->received < r->most && messages_wanted(n) > 0 && may_pull(n))
        (void)next_of_round(n, messages_wanted(n));
    else
        n->in_round = false;
}

static void pull_failed(struct gd__node *n, const struct gd__node_request *r, const struct gd__queue_answer *a)
{
    if (!r->waits)
        n->in_round = false;
    if (a->kind == GD__ANSWER_FAILED)
        gd__node_say_once(n, GD__ANSWER_FAILED, "the server does not give out tasks: %s", a->text ? a->text : "");
    if (a->kind == GD__ANSWER_LATER && n->pull_tries >= GD__NODE_SAY_TRIES)
        gd__node_say_once(n, GD__ANSWER_LATER, "the server is not ready to give out tasks, and is asked again: %s",
                          a->text ? a->text : "");
    n->pull_at_ns = n->now_ns + gd__node_delay_ns(n, n->pull_tries++);
}

static void expect_no_more(struct gd__node *n, const struct gd__node_request *r)
{
    n->expected -= r->most - r->received;
    n->pull[r->priority - GD_PRIORITY_MIN].expected -= r->waits ? r->most - r->received : 0;
    n->pull[r->priority - GD_PRIORITY_MIN].waiting -= r->waits;
}

void gd__node_pull_answer(struct gd__node *n, struct gd__node_request *r, const struct gd__queue_answer *a)
{
    if (a->kind == GD__ANSWER_ITEM) {
        pull_item(n, r, a);
        return;
    }
    const struct gd__node_request ended = *r;
    gd__node_forget_request(n, a->id);
    expect_no_more(n, &ended);
    switch (a->kind) {
    case GD__ANSWER_OK:
        pull_found(n, &ended);
        break;
    case GD__ANSWER_NONE:
        gd__node_fail(n, "the queue was removed from the server");
        break;
    case GD__ANSWER_DENIED:
        gd__node_fail(n, a->text);
        break;
    default:
        pull_failed(n, &ended, a);
    }
}
