/* SPDX-License-Identifier: MIT
 *
 * How the nodes of a queue are shown.
 */
#ifndef GD_VIEW_NODES_H
#define GD_VIEW_NODES_H

#include <gpu_dispatch/queue.h>

#include "base/text/buffer.h"

enum view_node_state {
    VIEW_NODE_RUNNING,
    VIEW_NODE_DRAINING, /* takes no more tasks */
    VIEW_NODE_LOST,     /* no sign of life for 30 s */
    VIEW_NODE_LEFT,
};

enum view_node_state view_node_state_of(const struct gd_queue_node *n);
const char *view_node_state_name(enum view_node_state state); /* static */

/* Adds a node as a JSON object, for programs and for the page. */
void view_node_json(struct gd__buffer *b, const struct gd_queue_node *n);

#endif
