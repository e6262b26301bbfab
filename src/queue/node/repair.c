/* Messages that got stuck: nothing is pending or unacknowledged, but records are missing. This happens if a server has
 * lost a part of what it knew. A message that has no record is sent again, with the next number in its subject. Several
 * nodes may do this at once: the server takes each subject once.
 */
#include <string.h>

#include "base/alloc.h"
#include "queue/node/internal.h"

enum { FIRST_ROOM = 1024 };

/* --- sets of keys --- */

static struct gd__node_known *slot(const struct gd__node_key_set *set, const struct gd__queue_key *key)
{
    uint64_t h;
    memcpy(&h, key->hash, sizeof h);
    size_t i = (size_t)(h + key->repeat * UINT64_C(0x9e3779b97f4a7c15) + key->again) & (set->room - 1);
    while (set->entries[i].key.tasks != 0 && !gd__queue_key_same(&set->entries[i].key, key))
        i = (i + 1) & (set->room - 1);
    return &set->entries[i];
}

static bool grow(struct gd__node_key_set *set)
{
    struct gd__node_key_set larger = { .room = set->room ? 2 * set->room : FIRST_ROOM, .count = set->count };
    larger.entries = gd__calloc(larger.room, sizeof *larger.entries);
    if (!larger.entries)
        return false;
    for (size_t i = 0; i < set->room; i++) {
        if (set->entries[i].key.tasks != 0)
            *slot(&larger, &set->entries[i].key) = set->entries[i];
    }
    gd__free(set->entries);
    *set = larger;
    return true;
}

static bool contains(const struct gd__node_key_set *set, const struct gd__queue_key *key)
{
    return set->count > 0 && slot(set, key)->key.tasks != 0;
}

/* The highest number of a subject counts. Returns false if there is no memory. */
static bool insert(struct gd__node_key_set *set, const struct gd__queue_subject *s)
{
    if (4 * (set->count + 1) > 3 * set->room && !grow(set))
        return false;
    struct gd__node_known *k = slot(set, &s->key);
    set->count += k->key.tasks == 0;
    if (k->key.tasks == 0 || s->resend > k->resend)
        *k = (struct gd__node_known){ s->key, s->priority, s->resend };
    return true;
}

static void free_set(struct gd__node_key_set *set)
{
    gd__free(set->entries);
    *set = (struct gd__node_key_set){ 0 };
}

void gd__node_repair_free(struct gd__node *n)
{
    struct gd__node_completion *c = &n->completion;
    free_set(&c->recorded);
    free_set(&c->missing);
}

/* --- lists --- */

static void list(struct gd__node *n, enum gd__queue_kind stream, enum gd__node_check step)
{
    struct gd__queue_request q = { .ask = GD__ASK_SUBJECTS, .stream = stream };
    gd__node_check_ask(n, &q, step);
}

/* Records first: a record that is stored meanwhile only leads to a message too many. */
void gd__node_repair_begin(struct gd__node *n)
{
    gd__node_repair_free(n);
    n->completion.repaired = 0;
    list(n, GD__QUEUE_RECORD, GD__CHECK_LIST_RECORDS);
}

static void listed(struct gd__node *n, const struct gd__queue_answer *a)
{
    struct gd__node_completion *c = &n->completion;
    struct gd__queue_subject s;
    bool ok = true;
    if (gd__queue_subject_parse(&s, n->name, a->subject ? a->subject : "") < 0)
        return;
    if (c->step == GD__CHECK_LIST_RECORDS && s.kind == GD__QUEUE_RECORD)
        ok = insert(&c->recorded, &s);
    else if (c->step == GD__CHECK_LIST_TASKS && s.kind == GD__QUEUE_TASK && !contains(&c->recorded, &s.key) &&
             !(c->unacknowledged > 0 && gd__node_unreadable_has(n, &s.key)))
        ok = insert(&c->missing, &s);
    if (!ok) {
        gd__node_say(n, "no memory for the list of all tasks of the queue: it is not checked for lost messages now");
        gd__node_check_later(n);
    }
}

/* --- sending again --- */

static char *subject_of(const struct gd__node *n, const struct gd__node_known *k, uint32_t more,
                        char out[GD__QUEUE_SUBJECT_ROOM])
{
    const struct gd__queue_subject s = {
        .kind = GD__QUEUE_TASK, .priority = k->priority, .key = k->key, .resend = k->resend + more
    };
    return gd__queue_subject_text(out, n->name, &s);
}

static void finish_repair(struct gd__node *n)
{
    struct gd__node_completion *c = &n->completion;
    if (c->repaired > 0)
        gd__node_say(n, "%llu messages of the queue had got lost on the server and were sent again",
                     (unsigned long long)c->repaired);
    c->quiet_since_ns = GD__NODE_NEVER;
    c->rounds = 0;
    gd__node_check_later(n);
}

/* The task message, or its record. */
static void read_last(struct gd__node *n, const char *subject, enum gd__queue_kind stream, enum gd__node_check step)
{
    struct gd__queue_request q = { .ask = GD__ASK_LAST, .stream = stream, .subject = subject };
    gd__node_check_ask(n, &q, step);
}

static void next_missing(struct gd__node *n)
{
    char subject[GD__QUEUE_SUBJECT_ROOM];
    struct gd__node_completion *c = &n->completion;
    while (c->repairing < c->missing.room && c->missing.entries[c->repairing].key.tasks == 0)
        c->repairing++;
    if (c->repairing == c->missing.room) {
        finish_repair(n);
        return;
    }
    const struct gd__queue_subject s = { .kind = GD__QUEUE_RECORD, .key = c->missing.entries[c->repairing].key };
    read_last(n, gd__queue_subject_text(subject, n->name, &s), GD__QUEUE_RECORD, GD__CHECK_RECORD);
}

static void read_message(struct gd__node *n)
{
    char subject[GD__QUEUE_SUBJECT_ROOM];
    const struct gd__node_known *k = &n->completion.missing.entries[n->completion.repairing];
    read_last(n, subject_of(n, k, 0, subject), GD__QUEUE_TASK, GD__CHECK_READ);
}

static void send_again(struct gd__node *n, const struct gd__queue_answer *a)
{
    char subject[GD__QUEUE_SUBJECT_ROOM];
    const struct gd__node_known *k = &n->completion.missing.entries[n->completion.repairing];
    struct gd__queue_request q = { .ask = GD__ASK_PUBLISH,
                                   .stream = GD__QUEUE_TASK,
                                   .subject = subject_of(n, k, 1, subject),
                                   .data = a->data,
                                   .size = a->size,
                                   .condition = GD__IF_NONE };
    gd__node_check_ask(n, &q, GD__CHECK_RESEND);
}

void gd__node_repair_send(struct gd__node *n)
{
    n->completion.repairing = 0;
    next_missing(n);
}

/* The consumers were asked before the lists, and a message may have been pushed since then. So they are asked once more:
 * a message of the list that is neither pending nor unacknowledged now is stuck, or has a record by now. So its record is
 * looked for before the message is sent again. */
static void lists_complete(struct gd__node *n)
{
    if (n->completion.missing.count == 0)
        gd__node_check_counts(n);
    else if (gd__node_is_patient(n))
        gd__node_check_quiet(n);
    else
        gd__node_check_later(n);
}

void gd__node_repair_answer(struct gd__node *n, const struct gd__queue_answer *a)
{
    struct gd__node_completion *c = &n->completion;
    if (a->kind == GD__ANSWER_ITEM) {
        listed(n, a);
        return;
    }
    if (c->step == GD__CHECK_LIST_RECORDS) {
        list(n, GD__QUEUE_TASK, GD__CHECK_LIST_TASKS);
    } else if (c->step == GD__CHECK_LIST_TASKS) {
        lists_complete(n);
    } else if (c->step == GD__CHECK_RECORD && a->kind == GD__ANSWER_NONE) {
        read_message(n);
    } else if (c->step == GD__CHECK_READ && a->kind == GD__ANSWER_OK) {
        send_again(n, a);
    } else {
        c->repaired += c->step == GD__CHECK_RESEND && a->kind == GD__ANSWER_OK;
        c->repairing++;
        next_missing(n);
    }
}
