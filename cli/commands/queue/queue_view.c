/* SPDX-License-Identifier: MIT
 *
 * The figures and nodes of a queue: see queue_view.h.
 */
#include "cli/commands/queue/queue_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "cli/say.h"

enum { FIRST_ROOM = 16, SHOWN_SECONDS = 3600 };

/* --- reading ------------------------------------------------------------------------ */

int queue_view_open(struct gd_queue_reader **out, const struct cli_queue *q)
{
    struct gd_queue_options o = GD_QUEUE_OPTIONS_INIT;
    cli_queue_apply(q, &o);
    cli_queue_warn(&o);
    return gd_queue_reader_open(out, &o) < 0 ? gd__fail("%s", gd_error_text()) : 0;
}

static void free_node(struct queue_node *n)
{
    free((char *)(uintptr_t)n->node.host);
    free((char *)(uintptr_t)n->node.id);
    free((char *)(uintptr_t)n->node.http);
    free((char *)(uintptr_t)n->node.note);
}

static void forget_nodes(struct queue_view *v)
{
    for (size_t i = 0; i < v->n_nodes; i++)
        free_node(&v->nodes[i]);
    v->n_nodes = 0;
}

void queue_view_free(struct queue_view *v)
{
    forget_nodes(v);
    free(v->nodes);
    *v = (struct queue_view){ 0 };
}

static bool copy_text(const char **to)
{
    const char *from = *to;
    *to = from ? strdup(from) : NULL;
    return !from || *to;
}

static int make_room(struct queue_view *v)
{
    if (v->n_nodes < v->room)
        return 0;
    const size_t room = v->room ? 2 * v->room : FIRST_ROOM;
    struct queue_node *larger = realloc(v->nodes, room * sizeof *larger);
    if (!larger)
        return GD_E_NO_MEMORY;
    v->nodes = larger;
    v->room = room;
    return 0;
}

int queue_view_add(struct queue_view *v, const struct gd_queue_node *node)
{
    struct queue_node n = { view_node_state_of(node), *node };
    if (n.state >= VIEW_NODE_LOST && node->age_seconds > SHOWN_SECONDS)
        return 0;
    if (make_room(v) < 0)
        return GD_E_NO_MEMORY;
    /* All of them, so that each is a copy or NULL. */
    const char **texts[] = { &n.node.host, &n.node.id, &n.node.http, &n.node.note };
    bool copied = true;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        copied = copy_text(texts[i]) && copied;
    v->nodes[v->n_nodes++] = n;
    return copied ? 0 : GD_E_NO_MEMORY;
}

static int add_node(void *user, const struct gd_queue_node *node)
{
    return queue_view_add(user, node);
}

int queue_view_read(struct queue_view *v, struct gd_queue_reader *r, const char *url)
{
    const char *first = NULL;
    forget_nodes(v);
    v->url = url;
    v->f.size = sizeof v->f;
    int rc = gd_queue_reader_figures(r, &v->f);
    if (rc == 0)
        rc = gd_queue_reader_nodes(r, add_node, v);
    v->skipped = gd_queue_reader_skipped(r, &first);
    snprintf(v->first_skipped, sizeof v->first_skipped, "%s", first ? first : "");
    if (rc < 0)
        return gd__fail("%s", rc == GD_E_NO_MEMORY ? "out of memory" : gd_error_text());
    queue_view_work_out(v);
    return 0;
}

void queue_view_say_skipped(struct gd_queue_reader *r)
{
    const char *first = NULL;
    const uint64_t n = gd_queue_reader_skipped(r, &first);
    if (n > 0)
        cli_say("%" PRIu64 " %s of the queue cannot be used and %s left out. The first one: %s", n,
                n == 1 ? "message" : "messages", n == 1 ? "was" : "were", first);
}

/* --- figures ------------------------------------------------------------------------- */

static int by_state(const void *pa, const void *pb)
{
    const struct queue_node *a = pa, *b = pb;
    const bool works_a = a->state < VIEW_NODE_LOST, works_b = b->state < VIEW_NODE_LOST;
    if (works_a != works_b)
        return works_a ? -1 : 1;
    const int order = strcmp(a->node.host, b->node.host);
    return order ? order : strcmp(a->node.id, b->node.id);
}

void queue_view_work_out(struct queue_view *v)
{
    const uint64_t left = v->f.waiting + v->f.held;
    v->workers = v->busy = 0;
    v->rate = 0;
    for (size_t i = 0; i < v->n_nodes; i++) {
        const struct queue_node *n = &v->nodes[i];
        if (n->state >= VIEW_NODE_LOST)
            continue;
        v->workers += n->node.workers;
        v->busy += n->node.busy;
        v->rate += n->node.tasks_per_second;
    }
    v->eta = left > 0 && v->rate > 0 ? (double)left / v->rate : -1;
    if (v->n_nodes > 0)
        qsort(v->nodes, v->n_nodes, sizeof *v->nodes, by_state);
}

const char *queue_view_state(const struct queue_view *v)
{
    return v->f.is_done ? "done" : v->f.nodes > 0 ? "running" : "waiting";
}
