/* The conditions that tasks in flight must meet. */
#include "sim/check/check.h"

static uint64_t limit_of(const struct sim *s, uint64_t id)
{
    const uint64_t own = sim_limit(s, id), limit = own > 0 ? own : s->plan.config.task_timeout_ns;
    return limit > 0 ? limit : GD__NEVER;
}

/* Checks the rules of flight.c for the result of a task in flight. */
void check_flight_result(struct sim *s, unsigned w, const struct gd__task *t, const struct message *m)
{
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    struct sim_task *task = &s->tasks[t->id];
    const enum gd_failure failure = m->outcome.failure;
    const bool asked = t->asked_to_stop || (s->plan.load_ahead > 0 && m->position < worker->cancel_below);
    const bool may_be_cancelled = asked || s->sched.stopping;
    task->has_result = true;
    task->last = failure == GD_FAILURE_CANCELLED && !may_be_cancelled ? GD_FAILURE_ERROR : failure;
    task->handle = m->outcome.handle;
    if (failure == GD_FAILURE_NONE || task->cancel_asked)
        return;
    if (s->sched.stopping)
        task->after_stop = true;
    else if (failure == GD_FAILURE_OUT_OF_MEMORY && worker->n_flight > 1 && !asked)
        return; /* other tasks were in flight, so this one is not charged */
    else if (m->outcome.shortage && !asked)
        return;
    else if (failure != GD_FAILURE_DEVICE_LOST && !asked && m->outcome.by_stop_signal &&
             s->plan.config.signal_wait_ns > 0)
        check_put_off(s, t, false);
    else if (failure == GD_FAILURE_DEVICE_LOST)
        task->charges++;
    else if (!asked)
        task->errors++;
    else
        check_timed_out(s, t->id);
}

void check_cancel_place(struct sim *s, unsigned w, unsigned place, uint64_t position)
{
    const struct gd__task *t = gd__sched_in_flight(&s->sched, w, place);
    SIM_MUST(s, t && t->position == position, "worker %u: place %u was asked to stop, which has no such task", w,
             place);
    struct sim_task *task = &s->tasks[t->id];
    const uint64_t limit = limit_of(s, t->id);
    if (task->cancel_asked) {
        task->asked_at = s->now;
        return;
    }
    SIM_MUST(s, limit != GD__NEVER, "task %llu has no time limit, but was asked to stop", LLU(t->id));
    const uint64_t deadline = gd__max64(gd__after(t->begin_ns, limit), s->limit_changed_at);
    const uint64_t due = gd__max64(deadline, task->begin_seen);
    SIM_MUST(s, s->plan.late_ns == 0 && !s->plan.freeze_at ? s->now == due : s->now >= due,
             "task %llu was asked to stop %lld ns from its deadline", LLU(t->id), (long long)(s->now - due));
    task->asked_at = deadline; /* the grace period begins at the deadline */
}

/* The worker is killed because a task in flight did not stop. */
void check_flight_kill(struct sim *s, unsigned w)
{
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    SIM_MUST(s, worker->guilty != GD__NO_TASK || (s->procs[w].cancelled_at > 0 && s->plan.load_ahead == 0),
             "worker %u is killed for a time limit of no task", w);
    if (worker->guilty == GD__NO_TASK)
        return;
    const struct gd__task *t = &s->sched.tasks[worker->guilty];
    const uint64_t due = s->tasks[t->id].asked_at + s->plan.config.cancel_grace_ns;
    SIM_MUST(s, t->worker == (int)w, "worker %u is killed for another's task", w);
    if (t->state == GD__TASK_HANDED && t == gd__sched_head(&s->sched, w)) { /* its load did not stop */
        SIM_MUST(s, s->plan.load_ahead > 0 && worker->n_flight == 0 && s->procs[w].cancelled_at > 0,
                 "worker %u is killed for a task that has not begun", w);
        check_timeout_kill(s, w);
        return;
    }
    SIM_MUST(s, t->asked_to_stop, "worker %u is killed for a task that was not asked to stop", w);
    SIM_MUST(s, s->plan.late_ns > 0 || s->plan.freeze_at || s->now == gd__max64(due, s->tasks[t->id].begin_seen),
             "worker %u: killed %lld ns from deadline + grace", w, (long long)(s->now - due));
}

static void blame(struct sim *s, unsigned w, const struct gd__task *t, unsigned n, const struct gd__death *d)
{
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    struct sim_task *task = &s->tasks[t->id];
    const bool stopping = s->sched.stopping;
    task->excused++;
    task->after_stop |= stopping;
    const bool timeout = worker->kill_reason == GD__KILL_TIMEOUT;
    const bool too_slow = timeout && worker->guilty == (uint32_t)(t - s->sched.tasks);
    if (too_slow || (task->cancel_asked && n == 1 && !timeout && !gd__is_innocent_kill(worker->kill_reason)))
        deaths_charge(s, w, t->id);
    if (task->cancel_asked || worker->kill_reason == GD__KILL_CANCELLED) {
        return;
    } else if (too_slow && !stopping) {
        check_timed_out(s, t->id);
    } else if (timeout) {
        return;
    } else if (gd__is_innocent_kill(worker->kill_reason) || stopping) {
        return;
    } else if (n == 1) {
        SIM_MUST(s, !s->procs[w].poisoned || s->procs[w].lying || sim_task_kind(s, t->id) == TASK_POISON,
                 "task %llu is charged with a death that another task caused", LLU(t->id));
        check_charge(s, w, t, d);
    } else {
        task->flight_deaths++;
        task->suspect |= task->flight_deaths >= 2;
    }
}

void check_flight_exit(struct sim *s, unsigned w, const struct gd__death *d)
{
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    const bool for_task = worker->kill_reason == GD__KILL_TIMEOUT || worker->kill_reason == GD__KILL_CANCELLED;
    uint64_t started = d->started;
    if (!for_task && !gd__is_innocent_kill(worker->kill_reason))
        started = gd__max64(started, d->loading); /* any task that was loaded may be the cause */
    else if (for_task && worker->guilty != GD__NO_TASK &&
             gd__sched_head(&s->sched, w) == &s->sched.tasks[worker->guilty])
        started = gd__max64(started, worker->head + 1);
    started = gd__min64(gd__max64(started, worker->head), worker->tail);
    const unsigned n = worker->n_flight + (unsigned)(started - worker->head);
    for (unsigned place = 0; place < worker->concurrency; place++) {
        const struct gd__task *t = gd__sched_in_flight(&s->sched, w, place);
        if (t)
            blame(s, w, t, n, d);
    }
    for (uint64_t p = worker->head; p < started; p++)
        blame(s, w, gd__sched_at(&s->sched, w, p), n, d);
}

/* Tasks go to the worker that has the fewest. */
void check_flight_assign(struct sim *s, unsigned w, const struct gd__task *t)
{
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    const uint64_t load = gd__load(worker) - 1;
    if (load >= worker->places || t->solo || t->home >= 0)
        return;
    for (unsigned k = 0; k < s->plan.config.n_workers; k++) {
        const struct gd__sched_worker *other = &s->sched.workers[k];
        const bool served = other->state == GD_WORKER_IDLE && !other->solo && !other->stuck && !other->suspects.count &&
                            !s->removed[k] && sim_may_get(s, k);
        const bool room = other->concurrency > 1 && gd__load(other) < other->places &&
                          gd__window_length(other) < s->plan.config.window_max;
        SIM_MUST(s, !served || !room || gd__load(other) >= load,
                 "task %llu goes to worker %u with %llu tasks, while %u has %llu", LLU(t->id), w, LLU(load), k,
                 LLU(gd__load(other)));
    }
}

/* A free place is filled at once, and no deadline passes unnoticed. */
void check_flight(struct sim *s, unsigned w)
{
    const struct gd__sched *sched = &s->sched;
    const struct gd__sched_worker *worker = &sched->workers[w];
    unsigned n = 0;
    for (unsigned place = 0; worker->concurrency > 1 && place < worker->concurrency; place++) {
        const struct gd__task *t = gd__sched_in_flight(sched, w, place);
        if (!t)
            continue;
        n++;
        SIM_MUST(s, t->worker == (int)w, "task %llu is in flight on two workers", LLU(t->id));
        SIM_MUST(s, !t->solo || gd__load(worker) == 1, "task %llu is a suspect, but does not run alone", LLU(t->id));
        if (worker->state != GD_WORKER_KILLING && s->plan.late_ns == 0 && !s->plan.freeze_at && !t->asked_to_stop)
            SIM_MUST(s, gd__max64(gd__after(t->begin_ns, limit_of(s, t->id)), s->limit_changed_at + 1) > s->now,
                     "task %llu is past its deadline", LLU(t->id));
    }
    SIM_MUST(s, n == worker->n_flight, "worker %u has %u tasks in flight, not %u", w, n, worker->n_flight);
    if (worker->concurrency == 1 || worker->state != GD_WORKER_IDLE || worker->solo || worker->stuck ||
        worker->suspects.count > 0 || sched->solo.count > 0 || sched->stopping || sched->next_start > s->now ||
        s->paused || s->removed[w] || !sim_may_get(s, w))
        return;
    SIM_MUST(s,
             gd__load(worker) >= worker->places || gd__window_length(worker) >= s->plan.config.window_max ||
                 sched->backlog.count + worker->placed.count == 0,
             "worker %u has a free place while tasks wait", w);
}
