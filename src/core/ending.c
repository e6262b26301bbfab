/* The end of a run: stops the workers and cancels their tasks, or kills all workers. */
#include "core/internal.h"

static void stop_one(struct gd__sched *s, uint64_t now, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    w->wants_start = false;
    switch (w->state) {
    case GD_WORKER_OFF:
    case GD_WORKER_RESTING:
    case GD__WORKER_HELD:
        gd__heap_disarm(&s->heap, &w->timer);
        gd__worker_set_state(s, now, i, GD_WORKER_FINISHED);
        break;
    case GD_WORKER_STARTING: /* a quick setup may still end and clean up; a slow one is killed */
        gd__worker_stop(s, now, i, gd__min64(s->config.cleanup_grace_ns, s->config.cancel_grace_ns));
        break;
    case GD_WORKER_IDLE:
    case GD_WORKER_CANCELLING:
    case GD__WORKER_SHORT:
        gd__window_take_back(s, i, w->head); /* they end as cancelled */
        if (gd__load(w) == 0)
            gd__worker_stop(s, now, i, s->config.cleanup_grace_ns);
        break;
    default:
        break;
    }
}

void gd__pool_stop(struct gd__sched *s, uint64_t now)
{
    for (unsigned i = 0; i < s->config.n_workers; i++)
        stop_one(s, now, i);
}

static void cancel_window(struct gd__sched *s, uint64_t now, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    const uint64_t head = w->head, tail = w->tail;
    w->head = tail;
    gd__window_changed(s, i);
    gd__inflight_cancel_all(s, now, i);
    for (uint64_t p = head; p < tail; p++)
        gd__task_cancel(s, gd__window_at(s, w, p));
}

/* The time for running tasks is over: every worker that still has one is killed. Workers that are cleaning up have
 * their own time limit. */
void gd__pool_end_tasks(struct gd__sched *s, uint64_t now)
{
    for (unsigned i = 0; i < s->config.n_workers; i++)
        if (gd__takes_tasks(s->workers[i].state))
            gd__worker_kill(s, now, i, GD__KILL_ENDING);
    for (unsigned i = 0; i < s->config.n_workers; i++)
        cancel_window(s, now, i);
}

/* Kills all workers before it reports any task, so that the processes die while the callbacks run. */
void gd__pool_abort(struct gd__sched *s, uint64_t now)
{
    for (unsigned i = 0; i < s->config.n_workers; i++) {
        struct gd__sched_worker *w = &s->workers[i];
        w->wants_start = false;
        if (gd__is_gone(w->state))
            continue;
        if (gd__has_no_process(w->state)) {
            gd__heap_disarm(&s->heap, &w->timer);
            gd__worker_set_state(s, now, i, GD_WORKER_FINISHED);
        } else if (w->state == GD_WORKER_KILLING) {
            w->kill_reason = GD__KILL_ENDING;
        } else {
            gd__worker_kill(s, now, i, GD__KILL_ENDING);
        }
    }
    for (unsigned i = 0; i < s->config.n_workers; i++)
        cancel_window(s, now, i);
}
