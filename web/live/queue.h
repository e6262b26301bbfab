/* SPDX-License-Identifier: MIT
 *
 * The queue of a run, for its page and its metrics: what this node knows about the queue, and all nodes that work on it.
 */
#ifndef GD_WEB_LIVE_QUEUE_H
#define GD_WEB_LIVE_QUEUE_H

#include <gpu_dispatch/queue.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buffer.h"

/* A zeroed struct is a queue of which nothing is known. */
struct web_queue {
    bool connected;          /* to the server */
    uint64_t tasks, records; /* messages in the queue; 0: not known */
    uint64_t unpublished;    /* record messages of this node that the server has not confirmed */
    bool nodes_known;
    struct gd__buffer nodes; /* JSON objects, with commas between them */
    uint64_t n_alive;        /* nodes that have not left and were not lost */
};

/* Fills a zeroed struct. Called on the server's thread. */
typedef void web_queue_fn(void *user, struct web_queue *out);

/* Adds a node to a struct web_queue. Returns 0 or GD_E_NO_MEMORY. */
int web_queue_add(void *queue, const struct gd_queue_node *node);

/* Adds {"connected":...,"tasks":...,"records":...,"unpublished":...,"nodes":[...]} and a newline. What is not known is
 * null. */
void web_queue_json(struct gd__buffer *b, const struct web_queue *q);

/* Adds the metrics in Prometheus's text format 0.0.4. What is not known has no sample. */
void web_queue_metrics(struct gd__buffer *b, const struct web_queue *q);

void web_queue_free(struct web_queue *q);

#endif
