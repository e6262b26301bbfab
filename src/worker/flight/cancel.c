/* Cancelling one of several tasks in flight.
 *
 * The dispatcher stores position + 1 in cancel_at[place] and sends a byte, for which the guardian thread calls
 * gd__flight_cancel_all(). The user's cancel() runs without a lock. Meanwhile the CANCELLING bit keeps the entry from
 * being freed, even if another thread, or cancel() itself, finishes the task.
 */
#include "worker/flight/flight.h"

static bool may_have_place(const struct gd__flight_entry *e)
{
    return atomic_load_explicit(&e->state, memory_order_acquire) & (GD__FLIGHT_BEGINNING | GD__FLIGHT_HELD);
}

bool gd__flight_is_cancelled(const struct gd_worker *w, const struct gd__flight_entry *e)
{
    /* A task that takes too long to load is cancelled before it has a place. */
    if ((gd__flight_of(w)->serial || w->ops.load) && gd__host_cancel_below(w) > e->e.position)
        return true;
    return !gd__flight_of(w)->serial && may_have_place(e) &&
           atomic_load_explicit(&w->port.cancel_at[gd__flight_place(e)], memory_order_acquire) == e->e.position + 1;
}

bool gd_result_cancel_requested(const struct gd_result *r)
{
    if (!r || !r->worker)
        return false;
    const struct gd__flight_entry *e = gd__flight_entry_of(r);
    return e ? gd__flight_is_cancelled(r->worker, e) : gd_task_cancelled(r->worker);
}

/* The entry is ours until CANCELLING is cleared, so its position does not change. */
static void call_cancel(struct gd_worker *w, struct gd__flight_entry *e)
{
    if (e->cancel_called || !gd__flight_is_cancelled(w, e))
        return;
    e->cancel_called = true;
    const struct gd__flight_pipe *pipe = gd__flight_of(w)->pipe;
    if (pipe)
        pipe->cancel(w, e);
    else
        w->ops.cancel(w, &e->e.task);
    gd__host_check_fork(w);
}

void gd__flight_cancel_one(struct gd_worker *w, struct gd__flight_entry *e)
{
    unsigned held = GD__FLIGHT_HELD;
    if (!atomic_compare_exchange_strong(&e->state, &held, GD__FLIGHT_HELD | GD__FLIGHT_CANCELLING))
        return;
    call_cancel(w, e);
    if (atomic_fetch_and(&e->state, ~(unsigned)GD__FLIGHT_CANCELLING) & GD__FLIGHT_FINISHED)
        gd__flight_post(gd__flight_of(w), &e->finished);
}

/* If begin() is running, leaves the call of cancel() to the main thread and returns true. */
static bool is_due_after_begin(struct gd__flight_entry *e)
{
    unsigned state = atomic_load(&e->state);
    while (state & GD__FLIGHT_BEGINNING)
        if (atomic_compare_exchange_weak(&e->state, &state, state | GD__FLIGHT_CANCEL_DUE))
            return true;
    return false;
}

static bool has_request(const struct gd_worker *w, const struct gd__flight *f, const struct gd__flight_entry *e)
{
    if ((f->serial || w->ops.load) && gd__host_cancel_below(w) > 0)
        return true;
    return !f->serial && atomic_load(&w->port.cancel_at[gd__flight_place(e)]) != 0;
}

void gd__flight_cancel_all(struct gd_worker *w)
{
    struct gd__flight *f = gd__flight_of(w);
    if (f && f->pipe) { /* only the main thread sends lines */
        atomic_store(&f->cancel_due, true);
        gd__flight_wake(f);
    } else if (f && w->ops.cancel) {
        gd__flight_cancel_scan(w);
    }
}

void gd__flight_cancel_scan(struct gd_worker *w)
{
    struct gd__flight *f = gd__flight_of(w);
    for (unsigned i = 0; i < f->n_entries; i++) {
        struct gd__flight_entry *e = &f->entries[i];
        if (may_have_place(e) && has_request(w, f, e) && !is_due_after_begin(e))
            gd__flight_cancel_one(w, e);
    }
}
