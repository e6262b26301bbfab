/* SPDX-License-Identifier: MIT
 *
 * How the nodes of a queue are shown: see nodes.h.
 */
#include "view/nodes.h"

#include <inttypes.h>
#include <string.h>

#include "base/text/json_write.h"

enum { ALIVE_SECONDS = 30 };

enum view_node_state view_node_state_of(const struct gd_queue_node *n)
{
    return n->left                          ? VIEW_NODE_LEFT
           : n->age_seconds > ALIVE_SECONDS ? VIEW_NODE_LOST
           : n->draining                    ? VIEW_NODE_DRAINING
                                            : VIEW_NODE_RUNNING;
}

const char *view_node_state_name(enum view_node_state state)
{
    static const char *const names[] = { "running", "draining", "lost", "left" };
    return names[state];
}

/* Adds null for a text that is NULL. */
static void put_text(struct gd__buffer *b, const char *name, const char *text)
{
    gd__buffer_format(b, ",\"%s\":", name);
    if (text)
        gd__json_put_string(b, text, strlen(text));
    else
        gd__buffer_text(b, "null");
}

void view_node_json(struct gd__buffer *b, const struct gd_queue_node *n)
{
    gd__buffer_text(b, "{\"host\":");
    gd__json_put_string(b, n->host, strlen(n->host));
    put_text(b, "id", n->id);
    gd__buffer_format(b, ",\"pid\":%" PRIu64 ",\"state\":\"%s\",\"age_seconds\":%.3f", n->pid,
                      view_node_state_name(view_node_state_of(n)), n->age_seconds);
    gd__buffer_format(b, ",\"workers\":%u,\"busy\":%u,\"tasks_per_second\":%.3f", n->workers, n->busy,
                      n->tasks_per_second);
    gd__buffer_format(b, ",\"done\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"held\":%" PRIu64, n->done, n->failed, n->held);
    put_text(b, "http", n->http);
    put_text(b, "note", n->note);
    gd__buffer_text(b, "}");
}
