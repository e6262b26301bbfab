/* What the simulation wants to know about a message that a node holds. In a file of its own, because the private headers
 * of the node and of the scheduler use the same names. */
#include "sim/queue/world/inside.h"

#include "queue/node/internal.h"

const struct gd__queue_key *inside_key(const struct gd__node_message *message)
{
    return &message->key;
}

static const struct gd__node_message *find(const struct gd__node *node, const struct gd__queue_key *key)
{
    for (struct gd__node_list *l = node->held.next; l != &node->held; l = l->next) {
        const struct gd__node_message *m = GD__NODE_OF(l, struct gd__node_message, held);
        if (gd__queue_key_same(&m->key, key))
            return m;
    }
    return NULL;
}

bool inside_holds(const struct gd__node *node, const struct gd__queue_key *key)
{
    return find(node, key) != NULL;
}

bool inside_need_not_look(const struct gd__node *node, const struct gd__queue_key *key, uint64_t sequence)
{
    const struct gd__node_message *m = find(node, key);
    return m && (m->sequence != sequence || m->state == GD__LEASE_MARKING || m->state == GD__LEASE_MARKED);
}

uint64_t inside_sequence(const struct gd__node_message *message)
{
    return message->sequence;
}
