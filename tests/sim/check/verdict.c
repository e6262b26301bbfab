/* Verdicts: what the end of an attempt means for its task. The simulator keeps its own account of every task (struct
 * sim_task): its results, and the deaths that it is charged with by the rule at the top of sched.h. The scheduler must
 * come to the same verdicts. */
#include <signal.h>

#include "sim/check/check.h"

/* --- verdicts that wait for a stop --- */

static bool is_stop_signal(int signal)
{
    return signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
}

/* Whether a death must not be judged yet, because a stop of the whole run may be on its way. */
static bool must_wait(const struct sim *s, unsigned w, const struct gd__death *d)
{
    const unsigned state = s->sched.workers[w].state;
    return is_stop_signal(d->signal) && s->plan.config.signal_wait_ns > 0 && !s->sched.stopping &&
           !s->sched.workers_stopped && !s->sched.resting &&
           (state == GD_WORKER_IDLE || state == GD_WORKER_STARTING || state == GD__WORKER_SHORT);
}

void check_put_off(struct sim *s, const struct gd__task *t, bool for_crash)
{
    struct sim_task *task = &s->tasks[t->id];
    SIM_MUST(s, task->put_off == 0, "task %llu: two verdicts wait", LLU(t->id));
    task->put_off = s->now + s->plan.config.signal_wait_ns;
    task->for_crash = for_crash;
    task->late_verdict |= for_crash;
}

/* Called when a verdict that was put off is given. Its time must have come, and the run must not be stopping. */
static void settle_put_off(struct sim *s, const struct gd__task *t)
{
    struct sim_task *task = &s->tasks[t->id];
    if (task->put_off == 0)
        return;
    const bool parked = t->state == GD__TASK_PARKED; /* the task was judged before, and has waited for its turn */
    SIM_MUST(s, sim_is_on_time(s) && !parked ? s->now == task->put_off : s->now >= task->put_off,
             "task %llu was judged %lld ns from the right time", LLU(t->id), (long long)(s->now - task->put_off));
    SIM_MUST(s, parked || !s->sched.stopping, "task %llu was judged although the run is stopping", LLU(t->id));
    task->put_off = 0;
    if (task->for_crash)
        task->charges++;
    else
        task->errors++;
}

void check_tried(struct sim *s, const struct gd__task *t, const struct gd__outcome *o)
{
    settle_put_off(s, t);
    SIM_MUST(s, !s->sched.stopping, "task %llu is to be tried again after the stop", LLU(t->id));
    SIM_MUST(s, o->failure != GD_FAILURE_NONE, "task %llu is to be tried again after a success", LLU(t->id));
}

unsigned check_failed_tries(const struct sim *s, const struct sim_task *t)
{
    return t->errors + (s->plan.config.retry_timeouts ? t->timeouts : 0);
}

void check_charge(struct sim *s, unsigned w, const struct gd__task *t, const struct gd__death *d)
{
    struct sim_task *task = &s->tasks[t->id];
    task->after_stop |= s->sched.stopping;
    task->excused += s->sched.stopping || must_wait(s, w, d) || task->cancel_asked;
    deaths_charge(s, w, t->id);
    if (task->cancel_asked)
        return;
    if (must_wait(s, w, d))
        check_put_off(s, t, true);
    else if (!s->sched.stopping && ++task->charges == s->plan.config.crash_limit)
        deaths_task_failed(s, t->id);
}

static void blame(struct sim *s, unsigned w, uint64_t n, const struct gd__death *d)
{
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    const struct proc *p = &s->procs[w];
    if (n == 1) {
        const struct gd__task *t = gd__sched_head(&s->sched, w);
        check_charge(s, w, t, d);
        SIM_MUST(s, !p->poisoned || p->lying || sim_task_kind(s, t->id) == TASK_POISON,
                 "task %llu is charged with a death that another task caused", LLU(t->id));
    }
    for (uint64_t i = 0; n > 1 && i < n; i++) {
        struct sim_task *t = &s->tasks[gd__sched_at(&s->sched, w, worker->head + i)->id];
        t->suspect = true;
        t->group_deaths++;
    }
}

void check_timed_out(struct sim *s, uint64_t id)
{
    struct sim_task *t = &s->tasks[id];
    t->timeouts++;
    if (!s->plan.config.retry_timeouts || check_failed_tries(s, t) > s->plan.config.retries)
        deaths_task_failed(s, id);
}

void check_before_exit(struct sim *s, unsigned w, const struct gd__death *d)
{
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    const uint64_t length = worker->tail - worker->head;
    const uint64_t started = gd__max64(d->started, d->loading);
    s->held_until[w] = must_wait(s, w, d) ? s->now + s->plan.config.signal_wait_ns : 0;
    deaths_noticed(s, w);
    if (worker->concurrency > 1) {
        check_flight_exit(s, w, d);
        return;
    }
    if (length == 0)
        return;
    if (worker->kill_reason == GD__KILL_DEVICE_LOST || worker->kill_reason == GD__KILL_DEVICE_ERROR ||
        worker->kill_reason == GD__KILL_ENDING)
        return;
    if (worker->kill_reason != GD__KILL_TIMEOUT && worker->kill_reason != GD__KILL_CANCELLED) {
        blame(s, w, started > worker->head ? gd__min64(started - worker->head, length) : 0, d);
        return;
    }
    if (worker->kill_reason == GD__KILL_CANCELLED) { /* no task is charged: it is known which one did not stop */
        for (uint64_t i = worker->head; i < worker->cancel_below; i++)
            s->tasks[gd__sched_at(&s->sched, w, i)->id].excused++;
        return;
    }
    /* A task that was cancelled has timed out if it had begun. That is unknown for a process that does not die. Each
     * task of a batch is suspect, and later tasks are innocent. */
    if (started <= worker->head && !s->procs[w].abandoned)
        return;
    for (uint64_t i = worker->head; i < worker->cancel_below; i++) {
        const uint64_t id = gd__sched_at(&s->sched, w, i)->id;
        struct sim_task *t = &s->tasks[id];
        if (!worker->cancel_batch)
            deaths_charge(s, w, id);
        if (!worker->cancel_batch && !s->sched.stopping && !t->cancel_asked)
            check_timed_out(s, id);
        t->after_stop |= s->sched.stopping;
        t->excused += s->sched.stopping || t->cancel_asked;
        t->suspect |= worker->cancel_batch;
        t->group_deaths += worker->cancel_batch;
    }
}

/* --- a task's end --- */

static bool may_end_so(const struct sim *s, const struct sim_task *t, const struct gd__outcome *o)
{
    const struct gd__sched_config *c = &s->plan.config;
    const uint64_t handle = t->held ? ~o->handle : o->handle;
    const bool own_result = t->has_result && handle == t->handle;
    const bool failed = o->failure != GD_FAILURE_NONE && o->failure != GD_FAILURE_CANCELLED;
    if (failed && o->failure != GD_FAILURE_NO_WORKER && t->after_stop)
        return false;
    if (o->on_request != (t->cancel_asked && o->failure != GD_FAILURE_NONE))
        return false;
    switch (o->failure) {
    case GD_FAILURE_NONE:
        return own_result && t->last == GD_FAILURE_NONE;
    case GD_FAILURE_ERROR:
    case GD_FAILURE_OUT_OF_MEMORY:
        return own_result && o->failure == t->last && (o->final || check_failed_tries(s, t) > c->retries);
    case GD_FAILURE_TIMEOUT:
        return t->timeouts > 0 && (!c->retry_timeouts || check_failed_tries(s, t) > c->retries);
    case GD_FAILURE_CRASH:
        return t->charges == c->crash_limit;
    case GD_FAILURE_DEVICE_LOST:
        return own_result && t->last == GD_FAILURE_DEVICE_LOST && t->charges == c->crash_limit;
    case GD_FAILURE_CANCELLED:
        return t->cancel_asked || s->sched.end == GD__END_SHUTDOWN || s->sched.end == GD__END_SHORTAGE;
    case GD_FAILURE_NO_WORKER:
        return s->sched.end == GD__END_SETUP || s->sched.end == GD__END_NO_WORKERS;
    }
    return false;
}

void check_deliver(struct sim *s, const struct gd__task *t, const struct gd__outcome *o)
{
    SIM_MUST(s, t->id < s->taken, "task %llu delivered, but it does not exist", LLU(t->id));
    struct sim_task *task = &s->tasks[t->id];
    SIM_MUST(s, task->delivered++ == 0, "task %llu delivered twice", LLU(t->id));
    SIM_MUST(s, !s->plan.config.ordered || t->id == s->next_in_order, "task %llu delivered before %llu", LLU(t->id),
             LLU(s->next_in_order));
    s->next_in_order++;
    if (o->failure != GD_FAILURE_CANCELLED && o->failure != GD_FAILURE_NO_WORKER)
        settle_put_off(s, t);
    SIM_MUST(s, t->payload[0] == sim_mix(s->run_seed, t->id), "task %llu ends with the payload of another task",
             LLU(t->id));
    SIM_MUST(s, may_end_so(s, task, o),
             "task %llu must not end as failure %d (charges %u, errors %u, timeouts %u, last result %d)", LLU(t->id),
             o->failure, task->charges, task->errors, task->timeouts, task->last);
    SIM_MUST(s,
             s->plan.bad ||
                 t->attempt <= task->starts + task->timeouts + task->group_deaths + task->charges + task->excused,
             "task %llu: %u attempts, but it was started %u times", LLU(t->id), t->attempt, task->starts);
    SIM_MUST(s, s->plan.bad || task->charges <= task->starts + s->plan.load_ahead * task->charges,
             "task %llu: charged %u times, started %u times", LLU(t->id), task->charges, task->starts);
    s->results[o->failure]++;
    s->peak_allowed = gd__max64(s->peak_allowed, s->sched.finals + 1 + s->sched.config.queue_size + s->sched.running);
}
