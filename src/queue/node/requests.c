/* Which request an answer belongs to.
 *
 * An id is a serial number and the index of an entry, so that an answer is found without a search. An answer whose entry
 * has another id belongs to a request that nobody waits for any more.
 */
#include <string.h>

#include "base/alloc.h"
#include "queue/node/internal.h"

enum { INDEX_BITS = 24, FIRST_ROOM = 256 };
#define INDEX_MASK ((UINT64_C(1) << INDEX_BITS) - 1)

static bool grow(struct gd__node *n)
{
    const uint32_t room = n->requests_room ? 2 * n->requests_room : FIRST_ROOM;
    if (room > INDEX_MASK)
        return false;
    struct gd__node_request *requests = gd__realloc(n->requests, room * sizeof *requests);
    if (!requests)
        return false;
    memset(requests + n->requests_room, 0, (room - n->requests_room) * sizeof *requests);
    n->requests = requests;
    for (uint32_t i = room; i > n->requests_room; i--) {
        requests[i - 1].next_free = n->requests_free;
        n->requests_free = i;
    }
    n->requests_room = room;
    return true;
}

struct gd__node_request *gd__node_ask(struct gd__node *n, struct gd__queue_request *q, enum gd__node_purpose purpose)
{
    if (!n->connected || n->finished || (n->requests_free == 0 && !grow(n)))
        return NULL;
    const uint32_t index = n->requests_free - 1;
    struct gd__node_request *r = &n->requests[index];
    n->requests_free = r->next_free;
    q->id = ++n->serial << INDEX_BITS | index;
    *r = (struct gd__node_request){ .id = q->id, .purpose = purpose, .priority = q->priority, .most = q->most };
    n->effects.ask(n->effects.user, q);
    return r;
}

struct gd__node_request *gd__node_find_request(struct gd__node *n, uint64_t id)
{
    const uint64_t index = id & INDEX_MASK;
    return id != 0 && index < n->requests_room && n->requests[index].id == id ? &n->requests[index] : NULL;
}

void gd__node_forget_request(struct gd__node *n, uint64_t id)
{
    struct gd__node_request *r = gd__node_find_request(n, id);
    if (!r)
        return;
    *r = (struct gd__node_request){ .next_free = n->requests_free };
    n->requests_free = (uint32_t)(id & INDEX_MASK) + 1;
}
