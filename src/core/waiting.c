/* The queue of waiting tasks: see waiting.h. */
#include "core/waiting.h"

#include <string.h>

#include "core/internal.h"

/* --- lists --- */

void gd__list_push_front(struct gd__sched *s, struct gd__list *l, uint32_t slot)
{
    s->tasks[slot].next = l->count == 0 ? GD__NO_TASK : l->head;
    if (l->count == 0)
        l->tail = slot;
    l->head = slot;
    l->count++;
}

bool gd__list_remove(struct gd__sched *s, struct gd__list *l, uint32_t slot)
{
    uint32_t before = GD__NO_TASK, at = l->head;
    uint64_t left = l->count;
    for (; left > 0 && at != slot; left--) {
        before = at;
        at = s->tasks[at].next;
    }
    if (left == 0)
        return false;
    if (before == GD__NO_TASK)
        l->head = s->tasks[slot].next;
    else
        s->tasks[before].next = s->tasks[slot].next;
    if (slot == l->tail)
        l->tail = before;
    l->count--;
    return true;
}

/* --- the order --- */

bool gd__goes_first(const struct gd__sched *s, uint32_t a, uint32_t b)
{
    const struct gd__task *x = &s->tasks[a], *y = &s->tasks[b];
    if (x->priority != y->priority)
        return x->priority > y->priority;
    if (s->config.placement == GD_PLACE_BY_SIZE && x->weight != y->weight)
        return x->weight > y->weight;
    return x->id < y->id;
}

/* --- the pairing heap --- */

/* Makes one heap of two. The links of the roots to their siblings are not read. */
static uint32_t meld(struct gd__sched *s, uint32_t a, uint32_t b)
{
    const uint32_t root = gd__goes_first(s, a, b) ? a : b, other = root == a ? b : a;
    s->tasks[other].next = s->tasks[root].child;
    s->tasks[root].child = other;
    return root;
}

/* Makes one heap of the children of a root that is removed: in pairs from the left, then from the right. Returns
 * GD__NO_TASK if there are none. */
static uint32_t meld_children(struct gd__sched *s, uint32_t first)
{
    uint32_t pairs = GD__NO_TASK; /* linked by next, the last pair first */
    while (first != GD__NO_TASK) {
        const uint32_t second = s->tasks[first].next;
        const uint32_t rest = second == GD__NO_TASK ? GD__NO_TASK : s->tasks[second].next;
        const uint32_t pair = second == GD__NO_TASK ? first : meld(s, first, second);
        s->tasks[pair].next = pairs;
        pairs = pair;
        first = rest;
    }
    uint32_t root = pairs;
    if (root == GD__NO_TASK)
        return root;
    for (uint32_t pair = s->tasks[root].next; pair != GD__NO_TASK;) {
        const uint32_t rest = s->tasks[pair].next;
        root = meld(s, root, pair);
        pair = rest;
    }
    return root;
}

/* --- the queue --- */

void gd__waiting_insert(struct gd__sched *s, struct gd__waiting *q, uint32_t slot)
{
    const struct gd__list *fresh = &q->fresh[s->tasks[slot].priority - GD__PRIORITY_MIN];
    if (fresh->count > 0 && gd__goes_first(s, fresh->tail, slot)) {
        gd__waiting_append(s, q, slot);
        return;
    }
    s->tasks[slot].child = GD__NO_TASK;
    q->returned = q->n_returned == 0 ? slot : meld(s, q->returned, slot);
    q->n_returned++;
    q->count++;
}

static bool returned_is_first(const struct gd__sched *s, const struct gd__waiting *q)
{
    return q->n_returned > 0 && (q->levels == 0 || gd__goes_first(s, q->returned, q->fresh[gd__top_level(q)].head));
}

uint32_t gd__waiting_first(const struct gd__sched *s, const struct gd__waiting *q)
{
    return returned_is_first(s, q) ? q->returned : q->fresh[gd__top_level(q)].head;
}

uint32_t gd__waiting_pop_any(struct gd__sched *s, struct gd__waiting *q)
{
    if (!returned_is_first(s, q))
        return gd__waiting_pop_fresh(s, q);
    const uint32_t slot = q->returned;
    q->returned = meld_children(s, s->tasks[slot].child);
    q->n_returned--;
    q->count--;
    return slot;
}

/* A task in the heap has no link to its parent, so the heap is taken apart and made again without the task. */
static void remove_returned(struct gd__sched *s, struct gd__waiting *q, uint32_t slot)
{
    uint32_t others = GD__NO_TASK; /* linked by next */
    for (uint64_t n = q->n_returned; n > 0; n--) {
        const uint32_t first = q->returned;
        q->returned = meld_children(s, s->tasks[first].child);
        if (first == slot)
            continue;
        s->tasks[first].next = others;
        others = first;
    }
    q->n_returned = 0;
    while (others != GD__NO_TASK) {
        const uint32_t next = s->tasks[others].next;
        s->tasks[others].child = GD__NO_TASK;
        q->returned = q->n_returned == 0 ? others : meld(s, q->returned, others);
        q->n_returned++;
        others = next;
    }
}

void gd__waiting_remove(struct gd__sched *s, struct gd__waiting *q, uint32_t slot)
{
    const int level = s->tasks[slot].priority - GD__PRIORITY_MIN;
    if (!gd__list_remove(s, &q->fresh[level], slot))
        remove_returned(s, q, slot);
    else if (q->fresh[level].count == 0)
        q->levels &= (uint8_t) ~(1u << level);
    q->count--;
}

void gd__waiting_clear(struct gd__waiting *q)
{
    memset(q, 0, sizeof *q);
}

/* The last of the siblings that begin with slot. It may be linked to `stop` already. */
static uint32_t last_sibling(const struct gd__sched *s, uint32_t slot, uint32_t stop)
{
    while (s->tasks[slot].next != GD__NO_TASK && s->tasks[slot].next != stop)
        slot = s->tasks[slot].next;
    return slot;
}

/* The heap may be as deep as it has tasks, so this does not recurse. Instead, the last child of a task is linked back
 * to the task until all its children were visited. */
static void each_returned(const struct gd__sched *s, uint32_t root, void (*each)(void *ctx, uint32_t slot), void *ctx)
{
    each(ctx, root);
    for (uint32_t slot = s->tasks[root].child; slot != GD__NO_TASK;) {
        const uint32_t child = s->tasks[slot].child;
        if (child != GD__NO_TASK) {
            const uint32_t last = last_sibling(s, child, slot);
            const bool is_new = s->tasks[last].next == GD__NO_TASK;
            s->tasks[last].next = is_new ? slot : GD__NO_TASK;
            if (is_new) {
                slot = child;
                continue;
            }
        }
        each(ctx, slot);
        slot = s->tasks[slot].next;
    }
}

void gd__waiting_each(const struct gd__sched *s, const struct gd__waiting *q, void (*each)(void *ctx, uint32_t slot),
                      void *ctx)
{
    for (unsigned level = 0; level < GD__PRIORITIES; level++) {
        uint32_t slot = q->fresh[level].head;
        for (uint64_t n = q->fresh[level].count; n > 0; n--, slot = s->tasks[slot].next)
            each(ctx, slot);
    }
    if (q->n_returned > 0)
        each_returned(s, q->returned, each, ctx);
}
