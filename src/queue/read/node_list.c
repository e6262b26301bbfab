/* A list of the nodes of a queue: see node_list.h. */
#include "queue/read/node_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { FIRST_ROOM = 64 };

static int make_room(struct gd__node_list *l)
{
    if (l->n < l->room)
        return 0;
    const size_t room = l->room ? 2 * l->room : FIRST_ROOM;
    struct gd__listed_node *larger = gd__realloc(l->items, room * sizeof *larger);
    if (!larger)
        return gd__error(GD_E_NO_MEMORY, "no memory for the nodes of a queue");
    l->items = larger;
    l->room = room;
    return 0;
}

static int read_node(struct gd__listed_node *n, const char *name, const struct gd__queue_answer *a)
{
    n->sequence = a->sequence;
    n->time_us = a->time_us;
    const int rc = gd__node_status_id(n->id, name, a->subject);
    return rc < 0 ? rc : gd__node_status_parse(&n->status, a->data, a->size);
}

int gd__node_list_add(struct gd__node_list *l, const char *name, const struct gd__queue_answer *a, size_t most)
{
    if (l->n >= most)
        return gd__error(GD_E_TOO_LARGE, "a queue can show at most %zu nodes", most);
    int rc = make_room(l);
    rc = rc < 0 ? rc : read_node(&l->items[l->n], name, a);
    l->n += rc == 0;
    return rc;
}

static int by_id(const void *a, const void *b)
{
    const struct gd__listed_node *x = a, *y = b;
    const int order = strcmp(x->id, y->id);
    return order ? order : (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

static int by_host(const void *a, const void *b)
{
    const struct gd__listed_node *x = a, *y = b;
    const int order = strcmp(x->status.host, y->status.host);
    return order ? order : strcmp(x->id, y->id);
}

void gd__node_list_settle(struct gd__node_list *l)
{
    size_t kept = 0;
    if (l->n > 0)
        qsort(l->items, l->n, sizeof *l->items, by_id);
    for (size_t i = 0; i < l->n; i++)
        if (i + 1 == l->n || strcmp(l->items[i].id, l->items[i + 1].id) != 0)
            l->items[kept++] = l->items[i];
    l->n = kept;
    if (l->n > 0)
        qsort(l->items, l->n, sizeof *l->items, by_host);
}

int gd__node_list_show(const struct gd__listed_node *n, uint64_t now_us,
                       int (*fn)(void *user, const struct gd_queue_node *node), void *user)
{
    const struct gd__node_status *s = &n->status;
    const bool timed = n->time_us > 0 && now_us > n->time_us;
    const struct gd_queue_node node = { .host = s->host,
                                        .id = n->id,
                                        .pid = s->pid,
                                        .age_seconds = timed ? (double)(now_us - n->time_us) / 1e6 : 0,
                                        .draining = s->state == GD__NODE_DRAINING,
                                        .left = s->state == GD__NODE_LEFT,
                                        .workers = s->workers,
                                        .busy = s->busy,
                                        .done = s->done,
                                        .failed = s->failed,
                                        .held = s->held,
                                        .tasks_per_second = s->tasks_per_second,
                                        .http = *s->http ? s->http : NULL,
                                        .note = *s->note ? s->note : NULL };
    return fn(user, &node);
}

void gd__node_list_free(struct gd__node_list *l)
{
    gd__free(l->items);
    *l = (struct gd__node_list){ .n = 0 };
}
