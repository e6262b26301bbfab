/* Lists the nodes of a queue: see reader.h. */
#include "base/error.h"
#include "queue/read/node_list.h"
#include "queue/read/reader.h"

enum { NODES_MOST = 100000 };

struct collection {
    struct gd_queue_reader *reader;
    struct gd__node_list list;
};

static int collect(void *user, const struct gd__queue_answer *a)
{
    struct collection *c = user;
    const int rc = gd__node_list_add(&c->list, c->reader->index.name, a, NODES_MOST);
    if (rc == 0 || rc == GD_E_NO_MEMORY)
        return rc;
    gd__read_index_skip(&c->reader->index, GD__QUEUE_STATE, a->sequence);
    return 0;
}

int gd_queue_reader_nodes(struct gd_queue_reader *r, int (*fn)(void *user, const struct gd_queue_node *node),
                          void *user)
{
    char filter[GD__QUEUE_SUBJECT_ROOM];
    struct collection c = { .reader = r };
    uint64_t now_us = 0;
    if (!r || !fn)
        return gd__error(GD_E_INVALID, "gd_queue_reader_nodes: the reader or the function is NULL");
    gd__node_status_filter(filter, r->index.name);
    int rc = gd__call_read(r->caller, GD__QUEUE_STATE, filter, 1, collect, &c);
    rc = rc < 0 ? rc : gd__reader_clock(r, &now_us); /* after the messages, so that no age is negative */
    gd__node_list_settle(&c.list);
    for (size_t i = 0; rc == 0 && i < c.list.n; i++)
        rc = gd__node_list_show(&c.list.items[i], now_us, fn, user);
    gd__node_list_free(&c.list);
    return rc;
}
