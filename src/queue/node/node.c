/* A node: opening, events, ticks, the end. See node.h. */
#include "queue/node/node.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "queue/node/internal.h"

enum {
    FIRST_DELAY_MS = 100,
    DOUBLED = 7,         /* times: 12.8 s */
    RECONNECT_MS = 1000, /* after this time at most, everything has been asked again */
    LINE = 512,
};
#define END_NS (5 * GD__NODE_SECOND) /* a node that is to stop waits so long for a server that does not answer */

/* --- opening --- */

static void init_lists(struct gd__node *n)
{
    gd__node_list_init(&n->held);
    gd__node_list_init(&n->kept);
    gd__node_list_init(&n->turns);
    for (int p = 0; p < GD__NODE_PRIORITIES; p++)
        gd__node_list_init(&n->ready[p]);
}

/* Notices are sent after each third of the lease at the latest. Nodes that began at the same time have different
 * intervals, so that a thousand of them do not send all their notices in the same second again and again. */
void gd__node_set_lease(struct gd__node *n, uint32_t lease_ms)
{
    const uint64_t third = (uint64_t)lease_ms * GD__NODE_MS / 3;
    n->lease_ms = lease_ms;
    n->notice_ns = third - n->effects.random(n->effects.user) % (third / 4 + 1);
}

int gd__node_open(struct gd__node **out, const struct gd__node_config *config, const struct gd__node_effects *effects)
{
    *out = NULL;
    struct gd__node *n = gd__calloc(1, sizeof *n);
    if (!n)
        return gd__error(GD_E_NO_MEMORY, "no memory for a node of a queue");
    init_lists(n);
    n->effects = *effects;
    n->name = gd__strdup(config->name);
    n->host = gd__strdup(config->host ? config->host : "");
    n->slots = config->slots > 0 ? config->slots : 1;
    n->crash_limit = config->crash_limit > 0 ? config->crash_limit : 1;
    gd__node_set_lease(n, config->lease_ms > 0 ? config->lease_ms : 1);
    n->max_payload = config->max_payload;
    n->idle_ns = config->idle_ns;
    n->lost_ns = config->lost_ns;
    n->stay = config->stay;
    n->priorities = n->leased = config->priorities & ((1U << GD__NODE_PRIORITIES) - 1);
    n->connected = true;
    n->end = GD__NODE_DRAINED;
    n->end_by_ns = GD__NODE_NEVER;
    n->completion.at_ns = n->completion.quiet_since_ns = GD__NODE_NEVER;
    if (!n->name || !n->host || gd__heap_init(&n->timers, 64) < 0) {
        gd__node_close(&n);
        return gd__error(GD_E_NO_MEMORY, "no memory for a node of a queue");
    }
    *out = n;
    return 0;
}

static void free_messages(struct gd__node *n, struct gd__node_list *list)
{
    while (!gd__node_list_empty(list))
        gd__node_message_free(n, GD__NODE_OF(list->next, struct gd__node_message, held));
}

void gd__node_close(struct gd__node **node)
{
    struct gd__node *n = *node;
    *node = NULL;
    if (!n)
        return;
    free_messages(n, &n->held);
    free_messages(n, &n->kept);
    gd__node_repair_free(n);
    gd__node_unreadable_free(n);
    gd__heap_destroy(&n->timers);
    gd__free(n->requests);
    gd__free(n->name);
    gd__free(n->host);
    gd__free(n);
}

/* --- lines for the user --- */

void gd__node_say(struct gd__node *n, const char *format, ...)
{
    char line[LINE];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    n->effects.say(n->effects.user, line);
}

/* A line may be repeated if two others have shared its place meanwhile. */
void gd__node_say_once(struct gd__node *n, uint64_t what, const char *format, ...)
{
    char line[LINE];
    uint64_t *place = &n->said[what % GD__NODE_SAID];
    if (*place == what + 1)
        return;
    *place = what + 1;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    n->effects.say(n->effects.user, line);
}

/* --- delays --- */

uint64_t gd__node_jitter(struct gd__node *n, uint64_t ns)
{
    return ns / 2 + n->effects.random(n->effects.user) % (ns + 1);
}

uint64_t gd__node_delay_ns(struct gd__node *n, unsigned tries)
{
    return gd__node_jitter(n, (FIRST_DELAY_MS * GD__NODE_MS) << (tries < DOUBLED ? tries : DOUBLED));
}

/* --- the end --- */

void gd__node_finish(struct gd__node *n, enum gd__node_end end, const char *text)
{
    if (n->finished)
        return;
    n->finished = true;
    n->effects.finished(n->effects.user, end, text ? text : "");
}

static void drain(struct gd__node *n)
{
    if (n->draining)
        return;
    n->draining = true;
    struct gd__node_list *next;
    for (struct gd__node_list *l = n->held.next; l != &n->held; l = next) {
        next = l->next;
        gd__node_message_drain(n, GD__NODE_OF(l, struct gd__node_message, held));
    }
}

void gd__node_set_slots(struct gd__node *n, unsigned slots)
{
    n->slots = slots > 0 ? slots : 1;
}

void gd__node_drain(struct gd__node *n, uint64_t now_ns)
{
    n->now_ns = now_ns;
    if (!n->finished)
        drain(n);
}

/* Draining is left to the next tick: the caller may be in the middle of a message. */
void gd__node_fail(struct gd__node *n, const char *text)
{
    if (n->end == GD__NODE_FAILED)
        return;
    n->end = GD__NODE_FAILED;
    (void)snprintf(n->end_text, sizeof n->end_text, "%s", text ? text : "");
}

void gd__node_closed(struct gd__node *n, uint64_t now_ns, const char *text)
{
    n->now_ns = now_ns;
    gd__node_fail(n, text);
}

bool gd__node_is_cut_off(const struct gd__node *n)
{
    const uint64_t limit = n->draining && n->lost_ns > END_NS ? END_NS : n->lost_ns;
    return !n->connected && n->now_ns - n->lost_since_ns >= limit;
}

static bool is_drained(const struct gd__node *n)
{
    return n->draining &&
           ((n->held_count == 0 && n->kept_count == 0) || (n->given_tasks == 0 && n->now_ns >= n->end_by_ns));
}

static bool is_without_work(const struct gd__node *n)
{
    return n->held_count == 0 && !n->draining;
}

static void check_end(struct gd__node *n)
{
    if (n->finished)
        return;
    if (!is_without_work(n))
        n->idle_since_ns = n->now_ns;
    if (is_drained(n))
        gd__node_finish(n, n->end, n->end_text);
    else if (gd__node_is_cut_off(n) && n->given_tasks == 0)
        gd__node_finish(n, n->end == GD__NODE_FAILED ? n->end : GD__NODE_CUT_OFF, n->end_text);
    else if (is_without_work(n) && n->idle_ns != GD__NODE_NEVER && n->now_ns - n->idle_since_ns >= n->idle_ns)
        gd__node_finish(n, GD__NODE_IDLE, "");
}

/* --- events --- */

void gd__node_answer(struct gd__node *n, uint64_t now_ns, const struct gd__queue_answer *a)
{
    struct gd__node_request *r = n->finished ? NULL : gd__node_find_request(n, a->id);
    n->now_ns = now_ns;
    if (!r) { /* nobody waits for it. A message must not wait for its lease to run out */
        if (a->kind == GD__ANSWER_ITEM && a->token && a->token[0] != '\0')
            n->effects.tell(n->effects.user, GD__TELL_NAK, a->token, 0);
        return;
    }
    switch (r->purpose) {
    case GD__FOR_MESSAGE:
        if (a->kind != GD__ANSWER_ITEM)
            gd__node_message_answer(n, r->message, a);
        break;
    case GD__FOR_PULL:
        gd__node_pull_answer(n, r, a);
        break;
    case GD__FOR_PRIORITIES:
        if (a->kind != GD__ANSWER_ITEM)
            gd__node_priorities_answer(n, a);
        break;
    case GD__FOR_LEASE:
        if (a->kind != GD__ANSWER_ITEM)
            gd__node_lease_answer(n, r, a);
        break;
    case GD__FOR_TAIL:
        if (a->kind != GD__ANSWER_ITEM)
            gd__node_tail_answer(n, r, a);
        break;
    case GD__FOR_CHECK:
        gd__node_complete_answer(n, a);
        break;
    case GD__FOR_LIFE: /* the next one comes soon */
        gd__node_forget_request(n, a->id);
        break;
    case GD__FOR_NOTHING:
        break;
    }
}

/* Everything that could not be asked is asked again, but not all at once. */
static void wake(struct gd__node *n, struct gd__node_list *list)
{
    for (struct gd__node_list *l = list->next; l != list; l = l->next) {
        struct gd__node_message *m = GD__NODE_OF(l, struct gd__node_message, held);
        if (m->blocked)
            gd__heap_arm(&n->timers, &m->timer,
                         n->now_ns + n->effects.random(n->effects.user) % (RECONNECT_MS * GD__NODE_MS));
        m->blocked = false;
    }
}

/* A server that died may have lost the messages that it stored last. What was moved before is moved once more, and no
 * message that is held now is acknowledged by its token. */
static void doubt_messages(struct gd__node *n)
{
    for (struct gd__node_list *l = n->held.next; l != &n->held; l = l->next) {
        struct gd__node_message *m = GD__NODE_OF(l, struct gd__node_message, held);
        m->move_again = m->state == GD__LEASE_MOVING || m->state == GD__LEASE_CONFIRMING;
        m->old_token = true;
    }
}

void gd__node_connected(struct gd__node *n, uint64_t now_ns, bool is_connected)
{
    n->now_ns = now_ns;
    if (n->connected == is_connected)
        return;
    n->connected = is_connected;
    n->lost_since_ns = now_ns;
    if (!is_connected) {
        doubt_messages(n);
        return;
    }
    n->connected_since_ns = now_ns;
    n->pull_tries = 0;
    n->pull_at_ns = now_ns + n->effects.random(n->effects.user) % (RECONNECT_MS * GD__NODE_MS);
    wake(n, &n->held);
    wake(n, &n->kept);
}

int gd__node_publish_kept(struct gd__node *n, const struct gd__queue_key *key, const void *message, size_t size)
{
    struct gd__queue_reader r;
    const int rc = gd__queue_records_open(&r, message, size, key);
    if (rc < 0)
        return rc;
    struct gd__node_message *m = gd__calloc(1, sizeof *m);
    char *copy = gd__memdup(message, size);
    if (!m || !copy || gd__node_reserve(n) < 0) {
        gd__free(m);
        gd__free(copy);
        return gd__error(GD_E_NO_MEMORY, "no memory for a record of an earlier run");
    }
    m->kept = m->is_kept = m->blocked = true;
    m->key = *key;
    m->record = copy;
    m->record_size = size;
    m->state = GD__LEASE_PUBLISHING;
    memcpy(m->nonce, r.nonce, sizeof m->nonce);
    gd__node_list_append(&n->kept, &m->held);
    n->kept_count++;
    n->unanswered++;
    return 0;
}

/* --- ticks --- */

static void begin(struct gd__node *n)
{
    struct gd__node_list *next;
    n->begun = true;
    n->idle_since_ns = n->connected_since_ns = n->now_ns;
    for (struct gd__node_list *l = n->kept.next; l != &n->kept; l = next) {
        next = l->next;
        gd__node_message_again(n, GD__NODE_OF(l, struct gd__node_message, held));
    }
}

static void run_timers(struct gd__node *n)
{
    for (struct gd__timer *t; (t = gd__heap_first(&n->timers)) && t->at_ns <= n->now_ns;) {
        gd__heap_disarm(&n->timers, t);
        gd__node_message_again(n, GD__NODE_OF(t, struct gd__node_message, timer));
    }
}

static uint64_t notice_due(const struct gd__node *n)
{
    if (gd__node_list_empty(&n->held) || !n->connected)
        return GD__NODE_NEVER;
    const struct gd__node_message *m = GD__NODE_OF(n->held.next, struct gd__node_message, held);
    return m->noticed_ns + n->notice_ns;
}

static void send_notices(struct gd__node *n)
{
    while (notice_due(n) <= n->now_ns) {
        struct gd__node_message *m = GD__NODE_OF(n->held.next, struct gd__node_message, held);
        n->effects.tell(n->effects.user, GD__TELL_WORKING, m->token, 0);
        m->noticed_ns = n->now_ns;
        gd__node_list_remove(&m->held);
        gd__node_list_append(&n->held, &m->held);
    }
}

static uint64_t end_due(const struct gd__node *n)
{
    uint64_t due = GD__NODE_NEVER;
    if (!n->connected && n->given_tasks == 0) {
        const uint64_t limit = n->draining && n->lost_ns > END_NS ? END_NS : n->lost_ns;
        due = limit == GD__NODE_NEVER ? GD__NODE_NEVER : n->lost_since_ns + limit;
    }
    if (is_without_work(n) && n->idle_ns != GD__NODE_NEVER && n->idle_since_ns + n->idle_ns < due)
        due = n->idle_since_ns + n->idle_ns;
    return n->draining && n->end_by_ns < due ? n->end_by_ns : due;
}

static uint64_t next_due(const struct gd__node *n)
{
    const struct gd__timer *first = gd__heap_first(&n->timers);
    const uint64_t all[] = { first ? first->at_ns : GD__NODE_NEVER,
                             notice_due(n),
                             gd__node_life_due(n),
                             gd__node_priorities_due(n),
                             gd__node_pull_due(n),
                             gd__node_tail_due(n),
                             gd__node_complete_due(n),
                             end_due(n) };
    uint64_t due = all[0];
    for (size_t i = 1; i < sizeof all / sizeof all[0]; i++)
        due = all[i] < due ? all[i] : due;
    return n->finished ? GD__NODE_NEVER : due;
}

uint64_t gd__node_tick(struct gd__node *n, uint64_t now_ns)
{
    n->now_ns = now_ns;
    if (n->finished)
        return GD__NODE_NEVER;
    if (!n->begun)
        begin(n);
    if (n->end == GD__NODE_FAILED && !n->draining)
        drain(n);
    if (n->end == GD__NODE_FAILED && n->given_tasks == 0 && n->end_by_ns == GD__NODE_NEVER)
        n->end_by_ns = now_ns + END_NS; /* for the records of tasks that have just ended */
    run_timers(n);
    send_notices(n);
    gd__node_turns(n);
    gd__node_give(n);
    gd__node_life(n);
    gd__node_priorities(n);
    gd__node_pull(n);
    gd__node_tail(n);
    gd__node_complete(n);
    check_end(n);
    return next_due(n);
}

/* --- figures --- */

void gd__node_figures(const struct gd__node *n, struct gd__node_figures *out)
{
    *out = (struct gd__node_figures){ .held = n->held_count,
                                      .given = n->given_tasks,
                                      .won = n->won,
                                      .lost = n->lost,
                                      .returned = n->returned,
                                      .failed = n->failed,
                                      .convicted = n->convicted,
                                      .unpublished = n->unpublished + n->kept_count,
                                      .tasks = n->tasks_counted,
                                      .records = n->records_counted,
                                      .connected = n->connected,
                                      .draining = n->draining };
}
