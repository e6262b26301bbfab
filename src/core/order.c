/* Keeps the order in which tasks start.
 *
 * A worker may hold tasks that it has not begun. They were handed out in order, but if the worker's first task takes
 * long, they wait behind it while other workers begin later tasks. So tasks that have waited behind a running task for
 * ORDER_NS are taken back, together with everything that other workers have not begun, and handed out again.
 * (docs/architecture.md promises that no task starts while an earlier one has waited in this way for more than a
 * millisecond.) A worker with such a long task is `stuck`: it is handed nothing more before its next result.
 *
 * If a waiting task has a higher priority than tasks that workers hold and have not begun, those are taken back too.
 *
 * This is done only with GD_PLACE_DYNAMIC. With any other placement, tasks stay with their worker.
 */
#include "core/internal.h"

#define ORDER_NS    (400 * GD__NS_PER_US)
#define LOOK_GAP_NS (100 * GD__NS_PER_US) /* the least time between two checks of all workers */

uint64_t gd__first_spare(const struct gd__sched *s, const struct gd__sched_worker *w)
{
    if (w->concurrency > 1) /* tasks for which w has free places are about to begin, and stay */
        return w->head + gd__max64(w->places > w->n_flight ? w->places - w->n_flight : 0, w->n_flight == 0);
    return gd__window_length(w) == 0 ? w->head : w->head + s->tasks[gd__window_at(s, w, w->head)].batch;
}

bool gd__can_take_from(const struct gd__sched *s, const struct gd__sched_worker *w)
{
    return gd__takes_tasks(w->state) && !w->solo && !w->no_steal && w->tail > gd__first_spare(s, w);
}

static bool take_all_spare(struct gd__sched *s, unsigned i)
{
    const struct gd__sched_worker *w = &s->workers[i];
    return gd__can_take_from(s, w) && gd__window_take_back(s, i, gd__first_spare(s, w));
}

void gd__order_note(struct gd__sched *s, uint64_t now, unsigned i)
{
    const struct gd__sched_worker *w = &s->workers[i];
    if (s->config.n_workers == 1 || s->config.placement != GD_PLACE_DYNAMIC || !gd__can_take_from(s, w))
        return;
    /* The first task may have run for some time already. If the time counted from now, tasks that are taken back and
     * handed to the same worker again and again would wait too long. */
    const uint64_t due = gd__max64(w->head_since + ORDER_NS, now + LOOK_GAP_NS);
    s->order_at = gd__min64(s->order_at, due);
}

/* Takes back all tasks behind a first task that has run for long. Returns whether there were any. */
static bool free_from_long_tasks(struct gd__sched *s, uint64_t now)
{
    uint64_t next = GD__NEVER;
    bool any = false;
    for (unsigned i = 0; i < s->config.n_workers; i++) {
        struct gd__sched_worker *w = &s->workers[i];
        if (!gd__can_take_from(s, w))
            continue;
        if (w->head_since + ORDER_NS > now) {
            next = gd__min64(next, w->head_since + ORDER_NS);
            continue;
        }
        w->stuck = true;
        any |= take_all_spare(s, i);
    }
    s->order_at = next == GD__NEVER ? next : gd__max64(next, now + LOOK_GAP_NS);
    return any;
}

/* Whether w holds a task of a lower priority than the first waiting task. The last task of a window has the lowest
 * priority of the window. */
static bool holds_lower_priority(const struct gd__sched *s, const struct gd__sched_worker *w)
{
    return s->tasks[gd__window_at(s, w, w->tail - 1)].priority < s->tasks[gd__waiting_first(s, &s->backlog)].priority;
}

static bool some_worker_holds_lower_priority(const struct gd__sched *s)
{
    if (s->config.placement != GD_PLACE_DYNAMIC || s->backlog.count == 0)
        return false;
    for (unsigned i = 0; i < s->config.n_workers; i++)
        if (gd__can_take_from(s, &s->workers[i]) && holds_lower_priority(s, &s->workers[i]))
            return true;
    return false;
}

/* A task that is taken back may have to start before tasks that other workers hold. So the tasks of all workers are
 * taken back together. */
void gd__order_restore(struct gd__sched *s, uint64_t now)
{
    const bool late = now >= s->order_at && free_from_long_tasks(s, now);
    if (!late && !(s->has_priorities && some_worker_holds_lower_priority(s)))
        return;
    for (unsigned i = 0; i < s->config.n_workers; i++)
        take_all_spare(s, i);
    s->order_at = GD__NEVER;
}

void gd__order_by_priority(struct gd__sched *s)
{
    s->has_priorities = true;
    for (unsigned i = 0; i < s->config.n_workers; i++)
        gd__update_target(s, i);
}
