/* Requests that wait for an answer: see outstanding.h. */
#include "queue/nats/outstanding.h"

#include <assert.h>

#include "base/alloc.h"

/* A token is the index of a slot, and above it a number that counts requests. */
enum { INDEX_BITS = 24, SLOTS_FIRST = 64 };

static_assert(offsetof(struct gd__outstanding_request, timer) == 0, "a timer is cast to its request");

void gd__outstanding_destroy(struct gd__outstanding *o)
{
    struct gd__outstanding_request *r = o->unused, *next;
    for (; r; r = next) {
        next = r->next;
        gd__free(r);
    }
    for (size_t i = 0; i < o->n_slots; i++) {
        if (o->slots[i])
            gd__js_free(&o->slots[i]->x);
        gd__free(o->slots[i]);
    }
    gd__free(o->slots);
    gd__free(o->free_slots);
    gd__heap_destroy(&o->deadlines);
    *o = (struct gd__outstanding){ 0 };
}

/* free_slots[count ...) are the free ones. */
static bool grow(struct gd__outstanding *o)
{
    const size_t n = o->n_slots ? 2 * o->n_slots : SLOTS_FIRST;
    if (n > (size_t)1 << INDEX_BITS || gd__heap_grow(&o->deadlines, n) < 0)
        return false;
    struct gd__outstanding_request **slots = gd__realloc(o->slots, n * sizeof(*slots));
    if (!slots)
        return false;
    o->slots = slots;
    uint32_t *free_slots = gd__realloc(o->free_slots, n * sizeof *free_slots);
    if (!free_slots)
        return false;
    o->free_slots = free_slots;
    for (size_t i = o->n_slots; i < n; i++) {
        slots[i] = NULL;
        free_slots[i] = (uint32_t)i;
    }
    o->n_slots = n;
    return true;
}

/* A request takes its slot here, so that gd__outstanding_add() cannot fail. */
struct gd__outstanding_request *gd__outstanding_new(struct gd__outstanding *o)
{
    struct gd__outstanding_request *r = o->unused;
    if (o->count == o->n_slots && !grow(o))
        return NULL;
    if (r)
        o->unused = r->next;
    else if (!(r = gd__calloc(1, sizeof *r)))
        return NULL;
    r->index = o->free_slots[o->count++];
    r->token = ++o->generation << INDEX_BITS | r->index;
    r->latest_ns = 0;
    r->ends = GD__ANSWER_LOST;
    r->why = "";
    r->is_unsent = false;
    r->next = NULL;
    return r;
}

uint64_t gd__outstanding_number(const struct gd__outstanding_request *r)
{
    return r->token >> INDEX_BITS;
}

static size_t list_of(const struct gd__outstanding_request *r)
{
    return (size_t)(r->x.asked.priority - GD_PRIORITY_MIN) % GD__OUTSTANDING_PRIORITIES;
}

void gd__outstanding_add(struct gd__outstanding *o, struct gd__outstanding_request *r, uint64_t deadline_ns)
{
    o->slots[r->index] = r;
    gd__heap_arm(&o->deadlines, &r->timer, deadline_ns);
    if (r->x.asked.ask != GD__ASK_PULL)
        return;
    const size_t i = list_of(r);
    if (o->pulls[i].last)
        o->pulls[i].last->next = r;
    else
        o->pulls[i].first = r;
    o->pulls[i].last = r;
}

void gd__outstanding_move(struct gd__outstanding *o, struct gd__outstanding_request *r, uint64_t deadline_ns)
{
    gd__heap_arm(&o->deadlines, &r->timer, deadline_ns);
}

static void remove_pull(struct gd__outstanding *o, struct gd__outstanding_request *r)
{
    const size_t i = list_of(r);
    struct gd__outstanding_request *before = NULL;
    for (struct gd__outstanding_request *p = o->pulls[i].first; p && p != r; p = p->next)
        before = p;
    if (before)
        before->next = r->next;
    else
        o->pulls[i].first = r->next;
    if (o->pulls[i].last == r)
        o->pulls[i].last = before;
    r->next = NULL;
}

void gd__outstanding_remove(struct gd__outstanding *o, struct gd__outstanding_request *r)
{
    gd__heap_disarm(&o->deadlines, &r->timer);
    if (r->x.asked.ask == GD__ASK_PULL)
        remove_pull(o, r);
    o->slots[r->index] = NULL;
}

void gd__outstanding_release(struct gd__outstanding *o, struct gd__outstanding_request *r)
{
    gd__js_free(&r->x);
    o->free_slots[--o->count] = r->index;
    r->next = o->unused;
    o->unused = r;
}

struct gd__outstanding_request *gd__outstanding_find(const struct gd__outstanding *o, uint64_t token)
{
    const uint64_t index = token & ((UINT64_C(1) << INDEX_BITS) - 1);
    struct gd__outstanding_request *r = index < o->n_slots ? o->slots[index] : NULL;
    return r && r->token == token ? r : NULL;
}

struct gd__outstanding_request *gd__outstanding_pull(const struct gd__outstanding *o, int priority)
{
    return o->pulls[(size_t)(priority - GD_PRIORITY_MIN) % GD__OUTSTANDING_PRIORITIES].first;
}

struct gd__outstanding_request *gd__outstanding_first(const struct gd__outstanding *o)
{
    return (struct gd__outstanding_request *)gd__heap_first(&o->deadlines);
}
