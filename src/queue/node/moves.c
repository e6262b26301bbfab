/* The tasks of a bundle that are published in other messages, because the record of the bundle says that they have moved:
 * the rest of a bundle in one message, or each task of a suspect bundle in a message of its own. A rest whose tasks have
 * killed workers is a suspect too.
 *
 * The messages have the same subjects on every machine. If one exists already, another node was faster. */
#include "base/alloc.h"
#include "base/error.h"
#include "queue/node/internal.h"

bool gd__node_has_moves(const struct gd__node_message *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->entries[i].moved)
            return true;
    }
    return false;
}

static int write_message(const struct gd__node_message *m, struct gd__queue_writer *w, struct gd__queue_key *key)
{
    const uint32_t from = m->each ? m->moving : 0, to = m->each ? m->moving + 1 : m->count;
    for (uint32_t i = from; i < to; i++) {
        const int rc = m->entries[i].moved ? gd__queue_tasks_add(w, &m->entries[i].task.task) : 0;
        if (rc < 0)
            return rc;
    }
    w->suspect = m->each || m->crashes > 0;
    return gd__queue_message_end(w, key);
}

static bool all_moved(const struct gd__node_message *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (!m->entries[i].moved)
            return false;
    }
    return true;
}

void gd__node_move(struct gd__node *n, struct gd__node_message *m)
{
    if (m->move_again) { /* the record may be lost too, and another one may count now */
        m->moving = 0;
        gd__node_step(n, m, GD__LEASE_MOVED);
        return;
    }
    if (m->moving == 0)
        m->each = all_moved(m);
    char subject[GD__QUEUE_SUBJECT_ROOM];
    struct gd__queue_writer w;
    struct gd__queue_subject s = { .kind = GD__QUEUE_TASK, .priority = m->priority };
    gd__queue_tasks_begin(&w, GD__QUEUE_MESSAGE_MOST);
    if (write_message(m, &w, &s.key) < 0) {
        gd__node_say(n, "tasks cannot be moved to another message now: %s", gd_error_text());
        gd__node_retry(n, m);
    } else {
        struct gd__queue_request q = { .ask = GD__ASK_PUBLISH,
                                       .stream = GD__QUEUE_TASK,
                                       .subject = gd__queue_subject_text(subject, n->name, &s),
                                       .data = w.message.data,
                                       .size = w.message.size,
                                       .condition = GD__IF_NONE };
        gd__node_message_ask(n, m, &q);
    }
    gd__queue_writer_free(&w);
}

void gd__node_moved(struct gd__node *n, struct gd__node_message *m)
{
    m->moving++;
    if (m->move_again || (m->each && m->moving < m->count)) {
        gd__node_move(n, m);
        return;
    }
    m->moving = 0; /* if the record has changed, they move once more */
    gd__node_step(n, m, GD__LEASE_MOVED);
}
