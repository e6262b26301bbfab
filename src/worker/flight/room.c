/* Room for result bytes in flight mode, where any thread may allocate.
 *
 * A thread that finds no room waits until the dispatcher has released some, or another thread has dropped a result.
 * While a thread waits, the main thread sleeps with wants_room, and signals `changed` when `released` has moved. If the
 * main thread itself needs room, inside begin(), it commits what other threads post while it waits.
 *
 * A thread that runs load() does not wait for room. A task that holds room may have to begin after the task of this
 * thread, so the thread could wait for itself.
 *
 * If all room belongs to results that are not finished, and every thread that allocated one of them waits for room,
 * they would wait for ever. Then the allocation fails. Threads have numbers, so that this case can be recognised.
 */
#include <string.h>

#include "base/error.h"
#include "shm/bytes.h"
#include "worker/flight/flight.h"

struct gd__room_waiter {
    struct gd__room_waiter *next;
    unsigned thread;
};

static unsigned this_thread(void)
{
    static _Atomic unsigned last;
    static _Thread_local unsigned number;
    if (number == 0)
        number = atomic_fetch_add(&last, 1) + 1;
    return number;
}

void gd__flight_room_init(struct gd__flight *f)
{
    f->main_number = this_thread();
}

/* ---- with bytes_lock held ---- */

/* Frees the blocks that the dispatcher has released. */
static void free_released(struct gd_worker *w, struct gd__flight *f)
{
    const uint64_t released = atomic_load_explicit(&w->port.in->released, memory_order_acquire);
    if (released == atomic_load_explicit(&f->released, memory_order_relaxed))
        return;
    atomic_store_explicit(&f->released, released, memory_order_relaxed);
    gd__bytes_release(w->port.bytes, released);
    if (f->waiters)
        pthread_cond_broadcast(&f->changed);
}

static bool is_waiting(const struct gd__flight *f, unsigned thread)
{
    for (const struct gd__room_waiter *i = f->waiters; i; i = i->next)
        if (i->thread == thread)
            return true;
    return false;
}

/* Whether the room of this entry will become free without the threads that are waiting now. */
static bool will_free(const struct gd__flight *f, const struct gd__flight_entry *e)
{
    const unsigned state = atomic_load(&e->state);
    if (e->part.owner && (e->part_is_posted || !is_waiting(f, e->part.owner)))
        return true;
    if (!e->e.result.owner || state == 0) /* a task that was loaded may wait for a place for as long as others wait */
        return false;
    if (state & GD__FLIGHT_BEGINNING) /* the main thread commits it after begin() has returned */
        return !is_waiting(f, state & GD__FLIGHT_FINISHED ? f->main_number : e->e.result.owner);
    return state & GD__FLIGHT_FINISHED || !is_waiting(f, e->e.result.owner);
}

static bool may_wait(const struct gd_worker *w, const struct gd__flight *f)
{
    if (gd__bytes_are_out(w->port.bytes))
        return true;
    for (unsigned i = 0; i < f->n_entries; i++)
        if (will_free(f, &f->entries[i]))
            return true;
    return false;
}

static void unlink_waiter(struct gd__flight *f, struct gd__room_waiter *me)
{
    struct gd__room_waiter **at = &f->waiters;
    while (*at && *at != me)
        at = &(*at)->next;
    *at = me->next;
    atomic_fetch_sub(&f->n_waiters, 1);
}

/* Waits once. Returns false if that could last for ever. */
static bool wait_once(struct gd_worker *w, struct gd__flight *f)
{
    struct gd__room_waiter me = { .next = f->waiters, .thread = this_thread() };
    f->waiters = &me;
    atomic_fetch_add(&f->n_waiters, 1);
    const bool waits = may_wait(w, f);
    if (waits && gd__flight_on_main(f)) {
        pthread_mutex_unlock(&w->bytes_lock);
        gd__flight_await_room(w);
        pthread_mutex_lock(&w->bytes_lock);
    } else if (waits) {
        gd__flight_wake(f); /* so that the main thread asks the dispatcher to report releases */
        pthread_cond_wait(&f->changed, &w->bytes_lock);
    }
    unlink_waiter(f, &me);
    return waits;
}

/* ---- */

void gd__flight_room_released(struct gd_worker *w)
{
    pthread_mutex_lock(&w->bytes_lock);
    free_released(w, gd__flight_of(w));
    pthread_mutex_unlock(&w->bytes_lock);
}

uint64_t gd__flight_take_room(struct gd_result *r, uint64_t size)
{
    struct gd_worker *w = r->worker;
    struct gd__flight *f = gd__flight_of(w);
    const uint64_t all = w->port.config.result_region_size - w->port.config.data_offset;
    uint64_t offset;
    pthread_mutex_lock(&w->bytes_lock);
    do {
        free_released(w, f);
        offset = gd__bytes_alloc(w->port.bytes, size);
    } while (!offset && size <= all && !gd__thread_is_io() && wait_once(w, f));
    if (offset)
        r->owner = this_thread();
    pthread_mutex_unlock(&w->bytes_lock);
    return offset;
}

void gd__flight_drop_room(struct gd_result *r)
{
    struct gd_worker *w = r->worker;
    struct gd__flight *f = gd__flight_of(w);
    pthread_mutex_lock(&w->bytes_lock);
    gd__bytes_drop(w->port.bytes, r->offset);
    r->owner = 0;
    const bool waited_for = f->waiters != NULL;
    if (waited_for)
        pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&w->bytes_lock);
    if (waited_for) { /* the main thread may be waiting too, or about to wait */
        atomic_store_explicit(&f->dropped, true, memory_order_relaxed);
        gd__flight_wake(f);
    }
}
