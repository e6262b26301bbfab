/* The end of a run: stops the workers and cancels their tasks, or kills all workers. The beginning of another run with
 * the same workers (config.keep_workers).
 */
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

/* --- another run --- */

static bool is_removed(const struct gd__sched_worker *w)
{
    return w->leaving && !w->comes_back;
}

/* Whether its process was stopped at the end of the last run, and it gets a new one. If its device has failed while the
 * run was ending, it is given up. */
static bool can_come_back(const struct gd__sched_worker *w)
{
    return w->state == GD_WORKER_FINISHED && !w->given_up && !is_removed(w);
}

static void bring_back(struct gd__sched *s, uint64_t now, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    const unsigned state = can_come_back(w) ? GD_WORKER_OFF : w->given_up ? GD_WORKER_FAILED : GD__WORKER_SPARE;
    w->leaving = w->comes_back = false;
    if (state == GD_WORKER_OFF)
        gd__worker_forget(w);
    gd__worker_set_state(s, now, i, state);
}

/* How long the tasks of the next source take is not known. Task numbers begin anew, so the deaths that count must not
 * be found by the number of a task. The timer of an idle worker may be set for the own time limit of its last task, and
 * would be too late for a shorter limit. */
static void begin_anew(struct gd__sched *s, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    if (w->state == GD_WORKER_IDLE)
        gd__heap_disarm(&s->heap, &w->timer);
    w->deaths_in_row += w->n_charged;
    w->n_charged = 0;
    w->completed = w->failed = w->timeouts = w->last_ns = w->busy_ns = 0;
    w->restarts_before = w->restarts;
    w->is_older = true;
    w->mean_ns = 0;
    gd__update_target(s, i);
    gd__update_hunger(s, i);
}

bool gd__sched_can_run_again(const struct gd__sched *s)
{
    bool usable = s->n_alive > 0;
    for (unsigned i = 0; i < s->config.n_workers; i++)
        usable |= can_come_back(&s->workers[i]);
    return usable;
}

static void forget_run(struct gd__sched *s)
{
    gd__heap_disarm(&s->heap, &s->stop_timer);
    s->source_ended = s->stopping = s->workers_stopped = s->draining = false;
    s->has_priorities = s->has_limits = s->has_cancels = false;
    s->end = GD__END_NATURAL;
    s->next_id = s->next_delivery = s->finals = 0;
    s->allowed = s->config.queue_size;
    s->short_since = 0;
    s->order_at = GD__NEVER;
    s->counts = (struct gd__sched_counts){ .setup_failures = s->counts.setup_failures };
}

bool gd__sched_again(struct gd__sched *s, uint64_t now)
{
    const unsigned n = s->config.n_workers;
    if (!gd__sched_can_run_again(s))
        return false;
    forget_run(s);
    s->resting = true;
    for (unsigned i = 0; i < n; i++) /* these come first, so that some worker is alive */
        if (can_come_back(&s->workers[i]))
            bring_back(s, now, i);
    for (unsigned i = 0; i < n; i++) {
        if (s->workers[i].state == GD_WORKER_FINISHED)
            bring_back(s, now, i);
        begin_anew(s, i);
    }
    return true;
}

void gd__sched_stop_workers(struct gd__sched *s, uint64_t now)
{
    s->resting = false;
    s->source_ended = s->workers_stopped = true;
    gd__pool_stop(s, now);
}
