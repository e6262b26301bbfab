/* When the first task of a worker's window must have ended.
 *
 * Deadlines are lazy, so that a task costs no timer operation. A worker's timer is armed when its window gets its first
 * task. The real start of the task at head is read only when that timer fires.
 */
#include "core/internal.h"

/* Returns when the task at head must have ended. The start time that the worker reports is read only once and is not
 * accepted if it is later than now, so a worker cannot delay its deadline. A task that has not started is timed from
 * when it became the first, so that a stopped process is noticed too. */
uint64_t gd__head_deadline(struct gd__sched *s, uint64_t now, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    const uint64_t first_since = w->head_since + w->frozen_ns; /* without the time for which the run was frozen */
    if (w->run_position == w->head + 1)
        return w->run_start + s->config.task_timeout_ns;
    struct gd__probe p = { 0, 0 };
    s->fx->probe(s->ctx, i, w->head, &p);
    if (p.started <= w->head)
        return first_since + s->config.task_timeout_ns;
    w->run_position = w->head + 1;
    w->run_start = gd__min64(p.start_ns, now);
    if (w->run_start < w->frozen_until)
        w->run_start += gd__min64(w->frozen_ns, w->frozen_until - w->run_start);
    if (w->run_start < first_since) /* the task can't have begun before it was the first */
        w->run_start = first_since;
    return w->run_start + s->config.task_timeout_ns;
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
        if (gd__window_length(w) == 0)
            continue;
        w->frozen_ns += lost_ns;
        w->frozen_until = now;
        if (w->run_position == w->head + 1)
            w->run_start += lost_ns;
    }
}
