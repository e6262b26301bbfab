/* Messages that this node cannot read: they are damaged, or were written by a newer version or another program. They are
 * left to others, who may be newer, and stay unacknowledged. If nothing else is left in the queue, the node ends with an
 * error that names them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/printable.h"
#include "queue/node/internal.h"

/* A node that has met more of them leaves only if it is told to, because it knows too little about what is left. */
enum { MOST = 4096, FIRST_ROOM = 16, LEASES = 10, SOON_MS = 1000 };

struct gd__node_unreadable {
    uint64_t sequence;
    struct gd__queue_key key; /* tasks is 0: the subject has none */
    char token[GD__QUEUE_TOKEN_ROOM];
};

static struct gd__node_unreadable *find(const struct gd__node *n, uint64_t sequence)
{
    for (size_t i = 0; i < n->unreadable.count; i++) {
        if (n->unreadable.entries[i].sequence == sequence)
            return &n->unreadable.entries[i];
    }
    return NULL;
}

/* NULL: no memory, or too many. */
static struct gd__node_unreadable *add(struct gd__node *n)
{
    struct gd__node_unreadables *u = &n->unreadable;
    if (u->count == u->room) {
        const size_t room = u->room ? 2 * u->room : FIRST_ROOM;
        struct gd__node_unreadable *larger = room <= MOST ? gd__calloc(room, sizeof *larger) : NULL;
        if (!larger)
            return NULL;
        if (u->count > 0)
            memcpy(larger, u->entries, u->count * sizeof *larger);
        gd__free(u->entries);
        u->entries = larger;
        u->room = room;
    }
    return &u->entries[u->count++];
}

static void note_first(struct gd__node_unreadables *u, const struct gd__node_unread *m)
{
    u->first_stream = m->stream;
    u->first_sequence = m->stored_sequence;
    (void)gd__text_line(u->first_subject, sizeof u->first_subject, m->subject, strlen(m->subject));
    (void)snprintf(u->first_why, sizeof u->first_why, "%s", m->why);
}

void gd__node_unreadable_leave(struct gd__node *n, const struct gd__node_unread *m)
{
    struct gd__node_unreadable *e = find(n, m->sequence);
    if (!e) {
        e = add(n);
        if (e && n->unreadable.count == 1)
            note_first(&n->unreadable, m);
    }
    if (e) {
        e->sequence = m->sequence;
        e->key = m->key ? *m->key : (struct gd__queue_key){ 0 };
        (void)snprintf(e->token, sizeof e->token, "%s", m->token);
    }
    n->effects.tell(n->effects.user, GD__TELL_NAK, m->token, n->lease_ms * LEASES);
}

bool gd__node_unreadable_has(const struct gd__node *n, const struct gd__queue_key *key)
{
    for (size_t i = 0; i < n->unreadable.count; i++) {
        const struct gd__node_unreadable *e = &n->unreadable.entries[i];
        if (e->key.tasks != 0 && gd__queue_key_same(&e->key, key))
            return true;
    }
    return false;
}

/* They are delivered again as soon as the pulls of this node are gone: the next node that waits finds them too, and ends in
 * the same way. */
void gd__node_unreadable_end(struct gd__node *n, uint64_t count)
{
    const struct gd__node_unreadables *u = &n->unreadable;
    char text[sizeof n->end_text], stream[GD__QUEUE_SUBJECT_ROOM];
    for (size_t i = 0; i < u->count; i++)
        n->effects.tell(n->effects.user, GD__TELL_NAK, u->entries[i].token, SOON_MS);
    (void)snprintf(text, sizeof text,
                   "all other tasks are done, but %" PRIu64 " %s of the queue cannot be read. The first one is %s: %s. "
                   "Run a newer version of gpu_dispatch, or remove the message: nats stream rmm %s %" PRIu64,
                   count, count == 1 ? "message" : "messages", u->first_subject, u->first_why,
                   gd__queue_stream_text(stream, n->name, u->first_stream), u->first_sequence);
    gd__node_fail(n, text);
}

void gd__node_unreadable_free(struct gd__node *n)
{
    gd__free(n->unreadable.entries);
    n->unreadable = (struct gd__node_unreadables){ 0 };
}
