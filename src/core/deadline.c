/* When the first task of a worker's window must have ended.
 *
 * Deadlines are lazy, so that a task costs no timer operation. A worker's timer is armed when its window gets its first
 * task. The real start of the task at head is read only when that timer fires.
 */
#include "core/internal.h"

uint64_t gd__limit_of(const struct gd__sched *s, const struct gd__task *t)
{
    const uint64_t ns = t->timeout_ns > 0 ? t->timeout_ns : s->config.task_timeout_ns;
    return ns > 0 ? ns : GD__NEVER;
}

uint64_t gd__head_limit(const struct gd__sched *s, const struct gd__sched_worker *w)
{
    /* With tasks in flight, the first of the window may rightly wait for a place. */
    if (gd__window_length(w) == 0 || w->n_flight > 0)
        return GD__NEVER;
    const struct gd__task *first = &s->tasks[gd__window_at(s, w, w->head)];
    uint64_t least = gd__limit_of(s, first);
    for (uint64_t p = w->head + 1; s->has_limits && p < w->head + first->batch && p < w->tail; p++)
        least = gd__min64(least, gd__limit_of(s, &s->tasks[gd__window_at(s, w, p)]));
    return least;
}

/* When the first task began. The start time that the worker reports is read once and cannot be later than now, so a
 * worker cannot put off its deadline. If the task has not started, its time counts from when it became the first, so
 * that a stopped process is noticed too. */
static uint64_t head_start(struct gd__sched *s, uint64_t now, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    const uint64_t first_since = w->head_since + w->frozen_ns; /* without the time for which the run was frozen */
    if (w->run_position == w->head + 1)
        return w->run_start;
    struct gd__probe p = { 0, 0 };
    s->fx->probe(s->ctx, i, w->head, &p);
    if (p.started <= w->head)
        return first_since;
    w->run_position = w->head + 1;
    w->run_start = gd__min64(p.start_ns, now);
    if (w->run_start < w->frozen_until)
        w->run_start += gd__min64(w->frozen_ns, w->frozen_until - w->run_start);
    if (w->run_start < first_since) /* the task can't have begun before it was the first */
        w->run_start = first_since;
    return w->run_start;
}

uint64_t gd__head_deadline(struct gd__sched *s, uint64_t now, unsigned i)
{
    const uint64_t limit = gd__head_limit(s, &s->workers[i]);
    return limit == GD__NEVER ? GD__NEVER : gd__after(head_start(s, now, i), limit);
}

void gd__arm_head_limit(struct gd__sched *s, uint64_t now, unsigned i)
{
    const struct gd__sched_worker *w = &s->workers[i];
    const uint64_t at = gd__after(now, gd__head_limit(s, w));
    if (at != GD__NEVER && (!gd__timer_armed(&w->timer) || w->timer.at_ns > at))
        gd__worker_arm(s, i, at);
}

void gd__head_changed(struct gd__sched_worker *w, uint64_t now)
{
    w->head_since = now;
    w->frozen_ns = w->frozen_until = 0;
}

/* The timers have been moved already. This moves the times that deadlines are computed from. */
void gd__pool_frozen(struct gd__sched *s, uint64_t now, uint64_t lost_ns)
{
    for (unsigned i = 0; i < s->config.n_workers; i++) {
        struct gd__sched_worker *w = &s->workers[i];
        gd__inflight_frozen(s, i, lost_ns);
        if (gd__window_length(w) == 0)
            continue;
        w->frozen_ns += lost_ns;
        w->frozen_until = now;
        if (w->run_position == w->head + 1)
            w->run_start += lost_ns;
    }
}
