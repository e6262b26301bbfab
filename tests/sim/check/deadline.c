/* Deadlines: when a task must be asked to stop, when its process must be killed, and for what reasons a process may be
 * killed. */
#include "sim/check/check.h"

/* Moves a time before the freeze by the length of the freeze. */
static uint64_t thawed(const struct sim *s, uint64_t at)
{
    return s->frozen_at && at <= s->frozen_at ? at + s->plan.freeze_ns : at;
}

/* The shortest time limit in the batch at head. */
static uint64_t head_limit(const struct sim *s, unsigned w)
{
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    uint64_t least = GD__NEVER;
    const struct gd__task *first = gd__sched_head(&s->sched, w);
    if (worker->n_flight > 0)
        return least; /* the first task of the window waits for a place */
    for (uint64_t p = worker->head; first && p < worker->head + first->batch && p < worker->tail; p++) {
        const uint64_t own = sim_limit(s, gd__sched_at(&s->sched, w, p)->id);
        const uint64_t limit = own > 0 ? own : s->plan.config.task_timeout_ns;
        least = limit > 0 ? gd__min64(least, limit) : least;
    }
    return least;
}

/* When the task at head must be asked to stop. */
static uint64_t cancel_time(const struct sim *s, unsigned w)
{
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    const struct proc *p = &s->procs[w];
    const uint64_t begin = p->started > worker->head ? gd__max64(p->start_ns, worker->head_since) : worker->head_since;
    const uint64_t at = gd__after(thawed(s, begin), head_limit(s, w));
    return gd__max64(at, s->limit_changed_at); /* a lowered limit does not apply before it is set */
}

/* Whether the start time of the head is known exactly. It is not while the result of the head is on its way. */
static bool head_is_running(const struct sim *s, unsigned w)
{
    const uint64_t head = s->sched.workers[w].head;
    const struct proc *p = &s->procs[w];
    if (p->started <= head)
        return true;
    return p->phase >= PHASE_RUNNING && head >= p->run_begin && head < p->started;
}

void check_cancel(struct sim *s, unsigned w, uint64_t below)
{
    struct gd__sched_worker *worker = &s->sched.workers[w];
    SIM_MUST(s, (head_limit(s, w) != GD__NEVER || worker->cancel_asked) && worker->head < worker->tail,
             "cancel(%u) of nothing", w);
    SIM_MUST(s, below > worker->head && below <= worker->tail, "cancel(%u, %llu) outside the window", w, LLU(below));
    s->procs[w].cancelled_at = s->now;
    s->procs[w].ending_at = 0;
    if (worker->cancel_asked) {
        bool asked = false;
        for (uint64_t p = worker->head; p < below; p++)
            asked |= s->tasks[gd__sched_at(&s->sched, w, p)->id].cancel_asked;
        SIM_MUST(s, asked, "worker %u: a task is cancelled on request, but there was no request", w);
    }
    s->procs[w].on_request = worker->cancel_asked;
    if (worker->cancel_asked)
        return;
    if (head_is_running(s, w))
        SIM_MUST(s, sim_is_on_time(s) ? s->now == cancel_time(s, w) : s->now >= cancel_time(s, w),
                 "worker %u: asked to stop %lld ns from the deadline", w, (long long)(s->now - cancel_time(s, w)));
}

/* When the grace period of a cancelled task ends. After a request to end the task by force: when the wait for that
 * ends. */
static uint64_t grace_end(const struct sim *s, unsigned w)
{
    const struct proc *p = &s->procs[w];
    return p->ending_at ? p->ending_at + s->plan.config.end_wait_ns : p->cancelled_at + s->plan.config.cancel_grace_ns;
}

void check_end_tasks(struct sim *s, unsigned w)
{
    struct proc *p = &s->procs[w];
    SIM_MUST(s, p->cancelled_at > 0 && p->ending_at == 0, "worker %u: asked to end a task twice, or without a cancel",
             w);
    SIM_MUST(s, s->sched.workers[w].state == GD_WORKER_CANCELLING && s->sched.workers[w].head < p->cancel,
             "worker %u: asked to end a task that was not cancelled", w);
    SIM_MUST(s, !sim_is_on_time(s) || s->now == grace_end(s, w),
             "worker %u: asked to end its task %lld ns from the end of the grace", w,
             (long long)(s->now - grace_end(s, w)));
    p->ending_at = s->now;
}

void check_timeout_kill(struct sim *s, unsigned w)
{
    const struct proc *p = &s->procs[w];
    const uint64_t due = grace_end(s, w);
    SIM_MUST(s, !p->ends_tasks || p->ending_at > 0, "worker %u killed, but not asked to end its task before", w);
    SIM_MUST(s, p->cancelled_at > 0, "worker %u killed for a timeout without a cancel before", w);
    /* If ticks are late, the grace period may begin at the deadline itself. */
    SIM_MUST(s, !sim_is_on_time(s) || s->now == due, "worker %u: killed %lld ns from deadline + grace", w,
             (long long)(s->now - due));
}

void check_kill(struct sim *s, unsigned w)
{
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    const struct proc *p = &s->procs[w];
    SIM_MUST(s, p->state != PROC_NONE && !p->killed, "kill(%u) twice or without a process", w);
    switch (worker->kill_reason) {
    case GD__KILL_TIMEOUT:
    case GD__KILL_CANCELLED:
        if (worker->concurrency > 1)
            check_flight_kill(s, w);
        else
            check_timeout_kill(s, w);
        SIM_MUST(s, worker->concurrency > 1 || p->on_request == (worker->kill_reason == GD__KILL_CANCELLED),
                 "worker %u is killed for the wrong reason", w);
        break;
    case GD__KILL_SETUP_TIMEOUT:
        SIM_MUST(s, s->plan.config.setup_timeout_ns > 0 && !p->ready_seen, "worker %u: no setup to time out", w);
        SIM_MUST(
            s, !sim_is_on_time(s) || s->now == gd__max64(p->spawned_at + s->plan.config.setup_timeout_ns, s->began_at),
            "worker %u: setup timed out at the wrong time", w);
        break;
    case GD__KILL_BROKEN:
        SIM_MUST(s, p->broken, "worker %u killed as broken", w);
        break;
    case GD__KILL_DEVICE_LOST:
    case GD__KILL_DEVICE_ERROR:
        break;
    case GD__KILL_ENDING:
        SIM_MUST(s,
                 s->sched.stopping || s->sched.workers_stopped || s->setup_failed[w] || sim_is_worn(s, w) ||
                     worker->leaving,
                 "worker %u killed as if the run were ending", w);
        SIM_MUST(s, !s->draining || p->stop, "worker %u killed although the run is drained", w);
        break;
    default:
        sim_fail(s, "worker %u killed for no reason", w);
    }
}

/* Checks that the scheduler will notice every deadline in time: a timer is armed for it, or for an earlier time. If the
 * dispatcher is late, deadline and timer may be in the past. */
void check_deadlines(struct sim *s)
{
    for (unsigned w = 0; w < s->plan.config.n_workers; w++) {
        const struct gd__sched_worker *worker = &s->sched.workers[w];
        const bool ready = worker->state == GD_WORKER_IDLE || worker->state == GD__WORKER_SHORT;
        const uint64_t timer = gd__timer_armed(&worker->timer) ? worker->timer.at_ns : GD__NEVER;
        if (ready && worker->head < worker->tail && head_is_running(s, w))
            SIM_MUST(s, timer <= gd__max64(cancel_time(s, w), s->now),
                     "worker %u: the deadline of its task would pass unnoticed", w);
        if (worker->state == GD_WORKER_CANCELLING)
            SIM_MUST(s, timer <= gd__max64(grace_end(s, w), s->now),
                     "worker %u: the end of its grace would pass unnoticed", w);
    }
}
