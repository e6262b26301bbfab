/* The other nodes of the queue, for the web page and the metrics of this one.
 *
 * Only what the nodes say about themselves is read, and only while somebody asks for it. Two kinds of
 * requests follow each other:
 *
 *   STREAM   the time by the clock of the server, and how far there is something to read
 *   READ     statuses, from the first one that was of use the last time; as often as there are more
 *
 * A status that is out of date stays in the stream for ever, but is never published again. So all of them have lower
 * sequences than those of nodes that work, and they are read only once.
 *
 * The answers come on a thread of the link, and the list is protected by the lock of the run.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "queue/call.h"
#include "queue/run/internal.h"

enum {
    NODES_MOST = 4096,
    LOOK_MS = 5000,       /* between two readings, if there are few nodes */
    LOOK_MOST_MS = 20000, /* if there are many; a node is lost after 30 s without a sign of life */
    LOOK_NODE_MS = 20,    /* so that a node reads not more than 50 statuses a second */
    WANTED_MS = 600000,   /* after each question. Metrics may be read only every few minutes */
};
#define SHOWN_US UINT64_C(3600000000) /* a node that was not seen for longer is not shown */

/* --- reading --- */

/* Sends a request. Without memory for it, the reading ends. The lock is not held. */
static void ask(struct gd__queue_run *r, const struct gd__queue_request *request)
{
    if (gd__link_ask(r->link, request) >= 0)
        return;
    pthread_mutex_lock(&r->lock);
    if (r->nodes.request == request->id)
        r->nodes.request = 0;
    pthread_mutex_unlock(&r->lock);
}

static void ask_clock(struct gd__queue_run *r, uint64_t id)
{
    ask(r, &(struct gd__queue_request){ .ask = GD__ASK_STREAM, .id = id, .stream = GD__QUEUE_STATE });
}

static void ask_statuses(struct gd__queue_run *r, uint64_t id, uint64_t from)
{
    char filter[GD__QUEUE_SUBJECT_ROOM];
    ask(r, &(struct gd__queue_request){ .ask = GD__ASK_READ,
                                        .id = id,
                                        .stream = GD__QUEUE_STATE,
                                        .subject = gd__node_status_filter(filter, r->address.name),
                                        .from = from,
                                        .most = GD__CALL_READ_MESSAGES,
                                        .most_bytes = GD__CALL_READ_BYTES });
}

static uint64_t next_id(struct gd__queue_nodes *n)
{
    n->request = GD__QUEUE_RUN_ID | GD__QUEUE_RUN_NODES | (n->request_count++ & UINT32_MAX);
    return n->request;
}

static uint64_t interval_ns(const struct gd__queue_nodes *n)
{
    const uint64_t ms = n->known.n * LOOK_NODE_MS;
    return (ms < LOOK_MS ? LOOK_MS : ms < LOOK_MOST_MS ? ms : LOOK_MOST_MS) * GD__NS_PER_MS;
}

uint64_t gd__queue_run_look(struct gd__queue_run *r, uint64_t now)
{
    struct gd__queue_nodes *n = &r->nodes;
    pthread_mutex_lock(&r->lock);
    const bool may_ask = now < n->wanted_until && r->connected && n->request == 0, is_due = may_ask && now >= n->due;
    const uint64_t id = is_due ? next_id(n) : 0;
    if (is_due)
        n->due = now + interval_ns(n);
    const uint64_t due = n->due;
    pthread_mutex_unlock(&r->lock);
    if (is_due)
        ask_clock(r, id);
    return may_ask ? due : UINT64_MAX;
}

/* --- answers; the lock is held --- */

static void take_item(struct gd__queue_run *r, const struct gd__queue_answer *a)
{
    struct gd__queue_nodes *n = &r->nodes;
    if (a->sequence < n->next)
        return;
    n->next = a->sequence + 1;
    n->items++;
    if (a->time_us == 0 || n->clock_us < a->time_us || n->clock_us - a->time_us <= SHOWN_US)
        (void)gd__node_list_add(&n->reading, r->address.name, a, NODES_MOST); /* one that cannot be used is skipped */
}

/* The list is complete. */
static void settle(struct gd__queue_nodes *n)
{
    gd__node_list_settle(&n->reading);
    gd__node_list_free(&n->known);
    n->known = n->reading;
    n->reading = (struct gd__node_list){ .n = 0 };
    n->from = n->next;
    for (size_t i = 0; i < n->known.n; i++)
        n->from = n->known.items[i].sequence < n->from ? n->known.items[i].sequence : n->from;
    n->known_us = n->clock_us;
    n->known_ns = n->asked_ns;
    n->is_known = true;
    n->request = 0;
}

static void give_up(struct gd__queue_nodes *n)
{
    gd__node_list_free(&n->reading);
    n->request = 0;
}

static void begin_reading(struct gd__queue_nodes *n, const struct gd__queue_answer *a)
{
    n->clock_us = a->time_us;
    n->asked_ns = gd__now_ns();
    n->last = a->stream.last_sequence;
    n->next = n->from > 0 ? n->from : 1;
    n->is_reading = true;
    gd__node_list_free(&n->reading);
}

/* A request has ended. Returns whether statuses must be asked for. */
static bool go_on(struct gd__queue_nodes *n, const struct gd__queue_answer *a)
{
    const bool was_reading = n->is_reading;
    const size_t items = n->items;
    n->items = 0;
    n->is_reading = false;
    if (!was_reading && a->kind == GD__ANSWER_OK) {
        begin_reading(n, a);
        return true;
    }
    if (!was_reading || (a->kind != GD__ANSWER_OK && a->kind != GD__ANSWER_NONE)) {
        give_up(n);
        return false;
    }
    n->is_reading = items > 0 && n->next <= n->last;
    if (!n->is_reading)
        settle(n);
    return n->is_reading;
}

void gd__queue_run_nodes_answered(struct gd__queue_run *r, const struct gd__queue_answer *a)
{
    struct gd__queue_nodes *n = &r->nodes;
    bool more = false;
    pthread_mutex_lock(&r->lock);
    if (a->id == n->request && a->kind == GD__ANSWER_ITEM)
        take_item(r, a);
    else if (a->id == n->request)
        more = go_on(n, a);
    const uint64_t id = more ? next_id(n) : 0, from = n->next;
    pthread_mutex_unlock(&r->lock);
    if (more)
        ask_statuses(r, id, from);
}

/* --- for observers --- */

/* Somebody wants to know the nodes. A list from long ago is out of date. */
static void want(struct gd__queue_run *r, uint64_t now)
{
    struct gd__queue_nodes *n = &r->nodes;
    const bool was_wanted = now < n->wanted_until;
    n->wanted_until = now + WANTED_MS * GD__NS_PER_MS;
    if (was_wanted)
        return;
    n->is_known = false;
    struct gd__run_event *e = gd__queue_run_event(GD__RUN_LOOK, 0); /* without it, the thread looks a bit later */
    if (e)
        gd__queue_run_post_locked(r, e);
}

int gd__queue_run_nodes(struct gd__queue_run *r, int (*fn)(void *user, const struct gd_queue_node *node), void *user)
{
    const uint64_t now = gd__now_ns();
    const struct gd__queue_nodes *n = &r->nodes;
    pthread_mutex_lock(&r->lock);
    want(r, now);
    const bool is_known = n->is_known;
    const size_t count = is_known ? n->known.n : 0;
    struct gd__listed_node *nodes = count > 0 ? gd__memdup(n->known.items, count * sizeof *nodes) : NULL;
    const uint64_t now_us =
        n->known_us > 0 && now > n->known_ns ? n->known_us + (now - n->known_ns) / GD__NS_PER_US : n->known_us;
    pthread_mutex_unlock(&r->lock);
    if (count > 0 && !nodes)
        return gd__error(GD_E_NO_MEMORY, "no memory for the nodes of a queue");
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = gd__node_list_show(&nodes[i], now_us, fn, user);
    gd__free(nodes);
    return rc < 0 ? rc : is_known;
}

void gd__queue_run_nodes_free(struct gd__queue_nodes *n)
{
    gd__node_list_free(&n->known);
    gd__node_list_free(&n->reading);
}
