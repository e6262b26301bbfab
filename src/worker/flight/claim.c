/* Claiming tasks for a worker with tasks in flight, and loading them before they begin. Only the main thread uses this.
 *
 *   claimed --passed to the loader--> load() on an I/O thread --may_begin--> begin(), in the order of positions
 *
 * A claimed task has an entry, and a task in flight has a place too (flight.h). Without load(), a task is claimed only
 * when it can begin at once. With load(), there are more entries than places, and a task is claimed as soon as an entry
 * is free. So tasks are loaded even while all places are taken.
 *
 * A task that is suspected of crashing (GD__TASK_SOLO) is loaded alone. While it is claimed or in flight, no other task
 * is claimed. */
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "worker/flight/flight.h"

/* ---- entries and places ---- */

static int make_list(struct gd__free_list *l, unsigned size)
{
    l->numbers = gd__calloc(size, sizeof l->numbers[0]);
    if (!l->numbers)
        return -1;
    for (unsigned i = 0; i < size; i++)
        l->numbers[i] = (uint16_t)i;
    l->size = size;
    l->put = size;
    return 0;
}

static bool is_used_up(const struct gd__free_list *l)
{
    return l->put - l->taken == 0;
}

static uint16_t take(struct gd__free_list *l)
{
    return l->numbers[l->taken++ % l->size];
}

static void put(struct gd__free_list *l, uint16_t number)
{
    l->numbers[l->put++ % l->size] = number;
}

static unsigned count_entries(const struct gd_worker *w, const struct gd__flight *f)
{
    if (!w->ops.load)
        return f->concurrency;
    const uint64_t bound = gd__loader_bound(w), most = f->concurrency + w->port.config.task_capacity;
    const uint64_t n = bound < most ? bound : most; /* more can't be claimed */
    return n < UINT16_MAX ? (unsigned)n : UINT16_MAX;
}

int gd__flight_make_entries(struct gd_worker *w, struct gd__flight *f)
{
    uint64_t claimed = 1;
    f->n_entries = count_entries(w, f);
    while (claimed < f->n_entries)
        claimed *= 2;
    f->claimed_mask = claimed - 1;
    f->claimed = gd__calloc(claimed, sizeof(struct gd__flight_entry *));
    f->entries = gd__calloc(f->n_entries, sizeof f->entries[0]);
    if (!f->claimed || !f->entries || make_list(&f->free_entries, f->n_entries) < 0 ||
        make_list(&f->free_places, f->concurrency) < 0)
        return -1;
    for (unsigned i = 0; i < f->n_entries; i++) {
        struct gd__flight_entry *e = &f->entries[i];
        gd__result_init(&e->e.result, w);
        gd__result_init(&e->part, w);
        e->finished.entry = e->partial.entry = e;
    }
    return 0;
}

void gd__flight_free_entries(struct gd__flight *f)
{
    gd__free(f->free_places.numbers);
    gd__free(f->free_entries.numbers);
    gd__free(f->entries);
    gd__free(f->claimed);
}

void gd__flight_enter(struct gd__flight *f, struct gd__flight_entry *e)
{
    atomic_store_explicit(&e->place, take(&f->free_places), memory_order_relaxed);
    f->begun++;
    f->in_flight++;
}

void gd__flight_leave(struct gd__flight *f, struct gd__flight_entry *e)
{
    f->solo = f->solo && !e->solo;
    put(&f->free_places, gd__flight_place(e));
    put(&f->free_entries, gd__flight_number(f, e));
    f->in_flight--;
}

/* ---- claiming ---- */

static bool program_has_room(struct gd_worker *w, const struct gd__flight *f)
{
    return !f->pipe || f->pipe->has_room(w);
}

bool gd__flight_may_claim(struct gd_worker *w, const struct gd__flight *f)
{
    return !f->solo && !is_used_up(&f->free_entries) && (w->loader || f->begun == w->port.next) &&
           program_has_room(w, f);
}

/* Copies the task that was claimed last from the ring to a free entry. */
static void open_claimed(struct gd_worker *w, struct gd__flight *f)
{
    const uint64_t position = w->port.next - 1;
    struct gd__flight_entry *e = &f->entries[take(&f->free_entries)];
    gd__entry_open(w, &e->e, position);
    if (e->e.task.size <= GD__INLINE_MAX) {
        memcpy(e->payload, e->e.task.data, sizeof e->payload);
        e->e.task.data = e->payload;
    }
    e->cancel_called = false;
    e->solo = f->solo = gd__is_solo(w, position);
    atomic_store_explicit(&e->may_begin, !w->loader, memory_order_relaxed);
    f->claimed[position & f->claimed_mask] = e;
}

static void pass_to_loader(struct gd_worker *w, struct gd__flight *f)
{
    for (; f->handed < w->port.next; f->handed++) {
        struct gd__flight_entry *e = f->claimed[f->handed & f->claimed_mask];
        if (e->solo && (f->in_flight > 0 || f->handed > f->begun))
            return;
        gd__loader_give(w, &e->e);
    }
}

void gd__flight_claim(struct gd_worker *w, struct gd__flight *f)
{
    while (gd__flight_may_claim(w, f) && gd__port_poll(&w->port) && gd__port_claim(&w->port, 1)) {
        GD__KILL_POINT("claimed");
        open_claimed(w, f);
    }
    if (w->loader)
        pass_to_loader(w, f);
}

struct gd__flight_entry *gd__flight_next(struct gd_worker *w, const struct gd__flight *f)
{
    if (f->begun == w->port.next || is_used_up(&f->free_places) || !program_has_room(w, f))
        return NULL;
    struct gd__flight_entry *e = f->claimed[f->begun & f->claimed_mask];
    if (e->solo && f->in_flight > 0)
        return NULL;
    return atomic_load_explicit(&e->may_begin, memory_order_acquire) ? e : NULL;
}

/* ---- for the loader ---- */

uint64_t gd__flight_claims(const struct gd_worker *w)
{
    return gd__flight_of(w)->claimed_mask + 1;
}

uint64_t gd__flight_begun(const struct gd_worker *w)
{
    return gd__flight_of(w)->begun;
}

void gd__flight_loaded(struct gd_worker *w, struct gd__entry *entry)
{
    struct gd__flight_entry *e = (struct gd__flight_entry *)entry;
    atomic_store_explicit(&e->may_begin, true, memory_order_release);
    gd__flight_wake(gd__flight_of(w));
}
