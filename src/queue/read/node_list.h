/* A list of the nodes of a queue, made from what they say about themselves (queue/messages/node_status.h).
 *
 * Nodes publish while the list is read, so a node may come twice, and a new status has a higher sequence. So all are
 * collected first, and the last status of each node is taken.
 */
#ifndef GD_QUEUE_READ_NODE_LIST_H
#define GD_QUEUE_READ_NODE_LIST_H

#include <gpu_dispatch/queue.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/link.h"
#include "queue/messages/node_status.h"

struct gd__listed_node {
    char id[GD__QUEUE_NODE_ROOM];
    uint64_t sequence, time_us; /* of the message: when the server stored it */
    struct gd__node_status status;
};

/* A zeroed list is empty. */
struct gd__node_list {
    struct gd__listed_node *items;
    size_t n, room;
};

/* Adds the status in an item of READ, which is checked. Returns 0; GD_E_NO_MEMORY; GD_E_TOO_LARGE if the list has `most`
 * nodes; or the code of a status that cannot be used, and must be skipped. */
int gd__node_list_add(struct gd__node_list *l, const char *name, const struct gd__queue_answer *a, size_t most);

/* Takes the last status of each node, and sorts them by host. */
void gd__node_list_settle(struct gd__node_list *l);

/* Calls fn with a node. now_us: Unix time by the clock of the server; 0: not known. Returns what fn returned. */
int gd__node_list_show(const struct gd__listed_node *n, uint64_t now_us,
                       int (*fn)(void *user, const struct gd_queue_node *node), void *user);

void gd__node_list_free(struct gd__node_list *l);

#endif
