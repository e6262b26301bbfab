/* What the simulation wants to know about a message that a node holds. */
#ifndef GD_TESTS_SIM_QUEUE_WORLD_INSIDE_H
#define GD_TESTS_SIM_QUEUE_WORLD_INSIDE_H

#include <stdbool.h>
#include <stdint.h>

struct gd__node;
struct gd__node_message;
struct gd__queue_key;

const struct gd__queue_key *inside_key(const struct gd__node_message *message);
uint64_t inside_sequence(const struct gd__node_message *message); /* in the stream of tasks */
bool inside_holds(const struct gd__node *node, const struct gd__queue_key *key);
/* A message with this key is delivered, and the node has it already: it was sent again under another sequence, or its marker
 * is written, so that others leave it to this node. */
bool inside_need_not_look(const struct gd__node *node, const struct gd__queue_key *key, uint64_t sequence);

#endif
