/* SPDX-License-Identifier: MIT
 *
 * What `status --queue` and `top --queue` show of a queue: its figures and its nodes, as they were at one moment.
 */
#ifndef GD_CLI_COMMANDS_QUEUE_QUEUE_VIEW_H
#define GD_CLI_COMMANDS_QUEUE_QUEUE_VIEW_H

#include <gpu_dispatch/queue.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/text/buffer.h"
#include "cli/queue/queue_options.h"
#include "view/nodes.h"

struct queue_node {
    enum view_node_state state;
    struct gd_queue_node node; /* its strings are copies */
};

struct queue_view {
    const char *url;
    struct gd_queue_figures f; /* command and server_version are borrowed from the reader */
    /* Those that work first, then by host. Nodes that left or were lost more than an hour ago are left out. */
    struct queue_node *nodes;
    size_t n_nodes, room;
    uint64_t workers, busy; /* of the nodes that work */
    double rate;            /* tasks a second, as these nodes report them; 0: not known */
    double eta;             /* seconds; < 0: not known */
    uint64_t skipped;       /* messages that were skipped */
    char first_skipped[512];
};

/* Opens a reader. Returns 0, or -1 with gd__fail_text(). */
int queue_view_open(struct gd_queue_reader **out, const struct cli_queue *q);

/* Reads the queue. A zeroed struct is empty; a view can be read again. Returns 0, or -1 with gd__fail_text(). */
int queue_view_read(struct queue_view *v, struct gd_queue_reader *r, const char *url);
void queue_view_free(struct queue_view *v);

/* Adds a node with copies of its strings, unless it is out of date. Returns 0 or GD_E_NO_MEMORY. */
int queue_view_add(struct queue_view *v, const struct gd_queue_node *node);

/* Computes workers, busy, rate and eta, and sorts the nodes. */
void queue_view_work_out(struct queue_view *v);

/* "done", "running", "waiting" (no node works on it) */
const char *queue_view_state(const struct queue_view *v);

/* Adds the members of a JSON object (queue_json.c). The first one has no comma before it. */
void queue_view_json(struct gd__buffer *b, const struct queue_view *v);

/* Prints a warning if messages were skipped. */
void queue_view_say_skipped(struct gd_queue_reader *r);

#endif
