/* SPDX-License-Identifier: MIT
 *
 * The queue of a run as JSON and as metrics: see queue.h. Anybody who can write to the queue chooses the texts of a node,
 * so they are escaped here, and the page shows them as text.
 */
#include "web/live/queue.h"

#include "view/nodes.h"

#define PREFIX "gpu_dispatch_queue_"

int web_queue_add(void *queue, const struct gd_queue_node *node)
{
    struct web_queue *q = queue;
    gd__buffer_text(&q->nodes, q->nodes.size > 0 ? "," : "");
    view_node_json(&q->nodes, node);
    q->n_alive += view_node_state_of(node) < VIEW_NODE_LOST;
    return q->nodes.failed ? GD_E_NO_MEMORY : 0;
}

static void add_count(struct gd__buffer *b, const char *name, bool known, uint64_t value)
{
    if (known)
        gd__buffer_format(b, ",\"%s\":%llu", name, (unsigned long long)value);
    else
        gd__buffer_format(b, ",\"%s\":null", name);
}

void web_queue_json(struct gd__buffer *b, const struct web_queue *q)
{
    gd__buffer_format(b, "{\"connected\":%s", q->connected ? "true" : "false");
    add_count(b, "tasks", q->tasks > 0, q->tasks);
    add_count(b, "records", q->tasks > 0, q->records);
    add_count(b, "unpublished", true, q->unpublished);
    gd__buffer_text(b, q->nodes_known ? ",\"nodes\":[" : ",\"nodes\":null}\n");
    if (!q->nodes_known)
        return;
    if (q->nodes.size > 0)
        gd__buffer_add(b, q->nodes.data, q->nodes.size);
    gd__buffer_text(b, "]}\n");
}

static void add_metric(struct gd__buffer *b, const char *name, const char *help, bool known, uint64_t value)
{
    gd__buffer_format(b, "# HELP " PREFIX "%s %s\n# TYPE " PREFIX "%s gauge\n", name, help, name);
    if (known)
        gd__buffer_format(b, PREFIX "%s %llu\n", name, (unsigned long long)value);
}

void web_queue_metrics(struct gd__buffer *b, const struct web_queue *q)
{
    add_metric(b, "connected", "1 if this node is connected to the server of the queue.", true, q->connected);
    add_metric(b, "nodes", "Nodes that work on the queue.", q->nodes_known, q->n_alive);
    add_metric(b, "task_messages", "Messages with tasks in the queue, from all pushes.", q->tasks > 0, q->tasks);
    add_metric(b, "record_messages", "Messages with records in the queue, from all nodes.", q->tasks > 0, q->records);
    add_metric(b, "unpublished_record_messages",
               "Messages with records of this node that the server has not confirmed.", true, q->unpublished);
}

void web_queue_free(struct web_queue *q)
{
    gd__buffer_free(&q->nodes);
    *q = (struct web_queue){ .n_alive = 0 };
}
