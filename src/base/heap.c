/* A binary min-heap of embedded timers. Positions begin at 1, so that 0 can mean "not armed" and the parent of i is
 * i/2. Timers with the same time come out in no particular order.
 */
#include "base/heap.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/error.h"

int gd__heap_init(struct gd__heap *h, size_t capacity)
{
    *h = (struct gd__heap){ 0 };
    if (capacity >= UINT32_MAX)
        return gd__error(GD_E_NO_MEMORY, "no memory for %zu timers", capacity);
    h->items = gd__calloc(capacity + 1, sizeof *h->items);
    if (!h->items)
        return gd__error_errno("no memory for %zu timers", capacity);
    h->capacity = capacity;
    return 0;
}

int gd__heap_grow(struct gd__heap *h, size_t capacity)
{
    if (capacity <= h->capacity)
        return 0;
    if (capacity >= UINT32_MAX)
        return gd__error(GD_E_NO_MEMORY, "no memory for %zu timers", capacity);
    struct gd__timer **items = gd__realloc(h->items, (capacity + 1) * sizeof(*items));
    if (!items)
        return gd__error_errno("no memory for %zu timers", capacity);
    h->items = items;
    h->capacity = capacity;
    return 0;
}

void gd__heap_destroy(struct gd__heap *h)
{
    gd__free(h->items);
    *h = (struct gd__heap){ 0 };
}

static void put(struct gd__heap *h, size_t position, struct gd__timer *t)
{
    h->items[position] = t;
    t->position = (uint32_t)position;
}

/* sift_up() and sift_down() move the hole at i to the position where t belongs, and put t there. */
static void sift_up(struct gd__heap *h, size_t i, struct gd__timer *t)
{
    for (; i > 1 && t->at_ns < h->items[i / 2]->at_ns; i /= 2)
        put(h, i, h->items[i / 2]);
    put(h, i, t);
}

static void sift_down(struct gd__heap *h, size_t i, struct gd__timer *t)
{
    for (size_t child; (child = 2 * i) <= h->count; i = child) {
        if (child < h->count && h->items[child + 1]->at_ns < h->items[child]->at_ns)
            child++;
        if (t->at_ns <= h->items[child]->at_ns)
            break;
        put(h, i, h->items[child]);
    }
    put(h, i, t);
}

static void place(struct gd__heap *h, size_t i, struct gd__timer *t)
{
    if (i > 1 && t->at_ns < h->items[i / 2]->at_ns)
        sift_up(h, i, t);
    else
        sift_down(h, i, t);
}

void gd__heap_arm(struct gd__heap *h, struct gd__timer *t, uint64_t at_ns)
{
    t->at_ns = at_ns;
    if (t->position == 0) {
        assert(h->count < h->capacity);
        t->position = (uint32_t)++h->count;
    }
    place(h, t->position, t);
}

void gd__heap_disarm(struct gd__heap *h, struct gd__timer *t)
{
    size_t i = t->position;
    if (i == 0)
        return;
    struct gd__timer *last = h->items[h->count--];
    t->position = 0;
    if (last != t)
        place(h, i, last);
}

void gd__heap_shift(struct gd__heap *h, uint64_t by_ns)
{
    for (size_t i = 1; i <= h->count; i++)
        h->items[i]->at_ns += by_ns;
}

struct gd__timer *gd__heap_first(const struct gd__heap *h)
{
    return h->count ? h->items[1] : NULL;
}
