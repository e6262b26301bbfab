/* The record message of a task message: made, kept, published, compared.
 *
 * All its bytes are made once, so that each publication is the same, with the same nonce. A record must never be lost
 * because it is too large: room is left for the smallest record of each task that follows. If the records do not fit, they
 * are written again with fewer texts: the end of stderr and the GPU are left out of the records of tasks that are done, then
 * of all. A record that does not fit even so becomes a failure that says so.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "queue/node/internal.h"

#define TOO_LARGE_TEXT                                                                                                \
    "the output does not fit into a message of the queue: use --spill-dir with a directory that all machines share, " \
    "or "                                                                                                             \
    "smaller bundles"
#define CRASH_TEXT "a node or a worker has died each time this task was begun alone: it is not tried again"

static struct gd__queue_text text(const char *s)
{
    return (struct gd__queue_text){ s, strlen(s) };
}

static struct gd__queue_record moved(const struct gd__queue_task *t)
{
    return (struct gd__queue_record){ .key = t->key, .state = GD__QUEUE_MOVED, .number = t->number };
}

static struct gd__queue_record crashed(const struct gd__node_message *m, const struct gd__queue_task *t)
{
    return (struct gd__queue_record){ .key = t->key,
                                      .state = GD__QUEUE_FAILED,
                                      .number = t->number,
                                      .attempts = m->before.alone + m->before.together,
                                      .failure = text("crash"),
                                      .error = text(CRASH_TEXT) };
}

/* Which records are without the texts that nothing depends on. */
enum texts { ALL_TEXTS, TEXTS_OF_FAILURES, NO_TEXTS };

static struct gd__queue_record bare(const struct gd__queue_record *full)
{
    struct gd__queue_record r = *full;
    r.stderr_end = r.gpu = (struct gd__queue_text){ "", 0 };
    return r;
}

/* The same end in fewer bytes. */
static struct gd__queue_record shortened(const struct gd__queue_record *full)
{
    struct gd__queue_record r = bare(full);
    r.output = (struct gd__queue_data){ .form = GD__QUEUE_NOTHING };
    if (full->state == GD__QUEUE_DONE || full->output.form != GD__QUEUE_NOTHING) {
        r.state = GD__QUEUE_FAILED;
        r.failure = text("output_too_large");
        r.error = text(TOO_LARGE_TEXT);
    }
    r.error.size = r.error.size < 128 ? r.error.size : 128;
    r.failure.size = r.failure.size < 32 ? r.failure.size : 32;
    return r;
}

static int add(struct gd__queue_writer *w, const struct gd__node_message *m, struct gd__node_entry *e, enum texts texts)
{
    struct gd__queue_record r = moved(&e->task.task);
    if (m->verdict == GD__VERDICT_CRASH)
        r = crashed(m, &e->task.task);
    else if (m->verdict == GD__VERDICT_RAN && e->state == GD__TASK_ENDED)
        r = e->result->record;
    e->moved = r.state == GD__QUEUE_MOVED;
    if (texts == NO_TEXTS || (texts == TEXTS_OF_FAILURES && r.state == GD__QUEUE_DONE))
        r = bare(&r);
    int rc = gd__queue_records_add(w, &r);
    if ((rc == GD_E_TOO_LARGE && texts == NO_TEXTS) || rc == GD_E_INVALID) {
        r = shortened(&r);
        rc = gd__queue_records_add(w, &r);
        if (rc == 0 && e->result)
            e->result->record.state = r.state;
    }
    return rc;
}

static int write_records(struct gd__node_message *m, struct gd__queue_writer *w, enum texts texts)
{
    struct gd__queue_key key;
    for (uint32_t i = 0; i < m->count; i++) {
        const size_t left = (size_t)(m->count - i - 1) * GD__QUEUE_RECORD_LEAST;
        w->most = m->record_most > left ? m->record_most - left : 0;
        const int rc = add(w, m, &m->entries[i], texts);
        if (rc < 0)
            return rc;
    }
    return gd__queue_message_end(w, &key);
}

/* With as many texts as fit. */
static int write_message(struct gd__node *n, struct gd__node_message *m, struct gd__queue_writer *w)
{
    for (enum texts texts = ALL_TEXTS;; texts++) {
        gd__queue_records_begin(w, m->record_most, m->nonce, text(n->host));
        const int rc = write_records(m, w, texts);
        if (rc == 0)
            return 0;
        gd__queue_writer_free(w);
        if (rc != GD_E_TOO_LARGE || texts == NO_TEXTS)
            return rc;
    }
}

int gd__node_record_build(struct gd__node *n, struct gd__node_message *m)
{
    struct gd__queue_writer w;
    if (m->record_most == 0)
        m->record_most = n->max_payload > GD__QUEUE_HEADERS_MOST ? (size_t)n->max_payload - GD__QUEUE_HEADERS_MOST : 0;
    const int rc = write_message(n, m, &w);
    if (rc < 0) {
        gd__node_say(n, "a record cannot be made, its tasks will run again: %s", gd_error_text());
        return rc;
    }
    gd__free(m->record);
    m->record = w.message.data;
    m->record_size = w.message.size;
    m->is_kept = n->effects.keep(n->effects.user, &m->key, m->record, m->record_size) == 0;
    n->unpublished += !m->kept;
    return 0;
}

/* --- requests --- */

static char *record_subject(const struct gd__node *n, const struct gd__node_message *m,
                            char out[GD__QUEUE_SUBJECT_ROOM])
{
    const struct gd__queue_subject s = { .kind = GD__QUEUE_RECORD, .key = m->key };
    return gd__queue_subject_text(out, n->name, &s);
}

void gd__node_record_publish(struct gd__node *n, struct gd__node_message *m)
{
    char subject[GD__QUEUE_SUBJECT_ROOM];
    struct gd__queue_request q = { .ask = GD__ASK_PUBLISH,
                                   .stream = GD__QUEUE_RECORD,
                                   .subject = record_subject(n, m, subject),
                                   .data = m->record,
                                   .size = m->record_size,
                                   .condition = GD__IF_NONE };
    gd__node_message_ask(n, m, &q);
}

void gd__node_record_read(struct gd__node *n, struct gd__node_message *m)
{
    char subject[GD__QUEUE_SUBJECT_ROOM];
    struct gd__queue_request q = { .ask = GD__ASK_LAST,
                                   .stream = GD__QUEUE_RECORD,
                                   /* after a refusal there is one, though perhaps not on every replica yet */
                                   .by_leader = m->state == GD__LEASE_COMPARING || m->state == GD__LEASE_CONFIRMING,
                                   .subject = record_subject(n, m, subject) };
    gd__node_message_ask(n, m, &q);
}

/* --- answers --- */

/* Sets which tasks have moved, according to this record. Returns whether there are any. */
static bool note_moves(struct gd__node_message *m, struct gd__queue_reader *r)
{
    struct gd__queue_record e;
    bool any = false;
    for (uint32_t i = 0; i < m->count && gd__queue_records_next(r, &e); i++) {
        m->entries[i].moved = e.state == GD__QUEUE_MOVED;
        any = any || m->entries[i].moved;
    }
    return any;
}

/* A record that this node cannot read. The task has an end, so it is not run; what else to do, a person must decide. */
static void unreadable(struct gd__node *n, struct gd__node_message *m, const struct gd__queue_answer *a)
{
    char key[GD__QUEUE_KEY_ROOM], subject[GD__QUEUE_SUBJECT_ROOM], why[256];
    (void)snprintf(why, sizeof why, "%s", gd_error_text());
    gd__node_say_once(n, m->sequence, "%s: %s", gd__queue_key_text(key, &m->key), why);
    gd__node_decide(n, m, false);
    const struct gd__node_unread unread = { .stream = GD__QUEUE_RECORD,
                                            .subject = record_subject(n, m, subject),
                                            .stored_sequence = a->sequence,
                                            .key = &m->key,
                                            .sequence = m->sequence,
                                            .token = m->token,
                                            .why = why };
    if (!m->kept)
        gd__node_unreadable_leave(n, &unread);
    gd__node_message_free(n, m);
}

void gd__node_record_found(struct gd__node *n, struct gd__node_message *m, const struct gd__queue_answer *a)
{
    struct gd__queue_reader r;
    if (gd__queue_records_open(&r, a->data, a->size, &m->key) < 0) {
        unreadable(n, m, a);
        return;
    }
    const bool again = m->state == GD__LEASE_CONFIRMING && m->move_again;
    m->move_again = m->move_again && !again;
    if (m->state == GD__LEASE_CONFIRMING && !again && memcmp(r.nonce, m->moved_nonce, sizeof r.nonce) == 0) {
        gd__node_step(n, m, GD__LEASE_SAME);
        return;
    }
    const bool ours = memcmp(r.nonce, m->nonce, sizeof m->nonce) == 0, part = note_moves(m, &r);
    memcpy(m->moved_nonce, r.nonce, sizeof r.nonce);
    if (ours)
        gd__node_step(n, m, part ? GD__LEASE_OURS_PART : GD__LEASE_OURS);
    else
        gd__node_step(n, m, part ? GD__LEASE_ANOTHERS_PART : GD__LEASE_ANOTHERS);
}

/* The server accepts less than it said: the largest outputs must go. */
static void too_large(struct gd__node *n, struct gd__node_message *m)
{
    m->record_most = m->record_size - m->record_size / 4;
    if (m->kept || m->record_most < (size_t)m->count * GD__QUEUE_RECORD_LEAST || gd__node_record_build(n, m) < 0) {
        gd__node_say(n, "the server refuses a record because it is too large: raise max_payload of the server");
        gd__node_step(n, m, GD__LEASE_GIVE_UP);
        return;
    }
    n->unpublished--;
    gd__node_record_publish(n, m);
}

static void accepted(struct gd__node *n, struct gd__node_message *m)
{
    memcpy(m->moved_nonce, m->nonce, sizeof m->nonce);
    gd__node_step(n, m, gd__node_has_moves(m) ? GD__LEASE_ACCEPTED_PART : GD__LEASE_ACCEPTED);
}

void gd__node_record_published(struct gd__node *n, struct gd__node_message *m, const struct gd__queue_answer *a)
{
    if (a->kind == GD__ANSWER_TOO_LARGE)
        too_large(n, m);
    else if (a->kind == GD__ANSWER_REFUSED)
        gd__node_step(n, m, GD__LEASE_REFUSED);
    else if (a->kind == GD__ANSWER_OK)
        accepted(n, m);
    else
        gd__node_retry(n, m); /* an answer that makes no sense: the record is kept until it is confirmed */
}

static void count_failure(struct gd__node *n, const struct gd__node_entry *e, bool won)
{
    n->won += won;
    n->lost += !won;
    n->failed += won && e->result->record.state == GD__QUEUE_FAILED;
}

void gd__node_decide(struct gd__node *n, struct gd__node_message *m, bool won)
{
    if (m->decided)
        return;
    m->decided = true;
    if (won && m->verdict == GD__VERDICT_CRASH) {
        n->won += m->count;
        n->failed += m->count;
        n->convicted += m->count;
    }
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->entries[i].state == GD__TASK_ENDED) {
            count_failure(n, &m->entries[i], won);
            n->effects.decided(n->effects.user, &m->entries[i].task, won);
        }
    }
    if (m->is_kept)
        n->effects.forget(n->effects.user, &m->key);
    if (m->record && !m->kept)
        n->unpublished--;
    m->is_kept = false;
}
