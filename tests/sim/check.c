/* The conditions that must hold at each effect, after every event, and at the end. The simulator keeps its own account
 * of every task (struct sim_task): its results, and the deaths that it is charged with by the rule at the top of
 * sched.h. The scheduler must come to the same verdicts. */
#include <signal.h>

#include "sim.h"

#define LLU(x) ((unsigned long long)(x))

static bool on_time(const struct sim *s)
{
    return s->plan.late_ns == 0;
}

/* --- effects --- */

/* Whether w has run so many long tasks in a row that the scheduler must have noticed, whatever came before. */
static bool tasks_are_long(const struct sim *s, unsigned w)
{
    enum { LONG_IN_ROW = 10 };
    return s->long_in_row[w] >= LONG_IN_ROW && s->plan.config.batch_size == 1;
}

/* The most tasks that a worker may hold. The first row that applies counts.
 *
 *   several tasks in flight                   its places; if the tasks are short or there is one worker, and tasks have
 *                                             no priorities, also window_max tasks behind them; if it loads tasks and
 *                                             may have as many in flight as it can, also window_min tasks, or
 *                                             window_min in all if the user has set it
 *   tasks have priorities                     a batch
 *   a window is configured                    the window; at least a batch
 *   tasks are short, or there is one worker   two batches, and as many tasks as take 200 us
 *   otherwise                                 a batch
 *
 * If the workers load tasks ahead, the number is at least window_min in the second row and in the last two. */
static uint64_t most_handed(const struct sim *s, unsigned w)
{
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    const struct gd__sched_config *c = &s->plan.config;
    const uint64_t batch = gd__min64(c->batch_size, worker->batch_limit);
    if (worker->concurrency > 1) {
        const bool ahead = !s->sched.has_priorities &&
                           (c->n_workers == 1 || (worker->target_mean < GD__NS_PER_MS && !tasks_are_long(s, w)));
        const bool loads = s->plan.load_ahead > 0 && worker->places == worker->concurrency;
        const uint64_t loaded = !loads ? 0 : c->window_min_is_set ? c->window_min : worker->places + c->window_min;
        return gd__max64(worker->places + (ahead ? c->window_max : 0), loaded);
    }
    const uint64_t mean = worker->target_mean, ahead = mean == 0 ? 0 : 200 * GD__NS_PER_US / mean;
    const bool is_short = c->n_workers == 1 || (mean > 0 && mean * batch < GD__NS_PER_MS && !tasks_are_long(s, w));
    const uint64_t least = s->plan.load_ahead > 0 ? gd__max64(batch, c->window_min) : batch;
    if (s->sched.has_priorities)
        return least;
    return c->window > 0 ? gd__max64(c->window, batch) : gd__max64(is_short ? 2 * batch + ahead : batch, least);
}

/* If a task is taken back and at once handed to the same process again, behind the same task, it has waited all the
 * time. */
static void note_handed(struct sim *s, unsigned w, const struct gd__task *t)
{
    struct sim_task *task = &s->tasks[t->id];
    const uint64_t head = s->sched.workers[w].head;
    if (task->taken_at != s->now || task->handed_to != w || task->handed_behind != head)
        task->handed_at = s->now;
    task->handed_to = w;
    task->handed_behind = head;
}

void check_assign(struct sim *s, unsigned w, const struct gd__task *t, unsigned attempt)
{
    SIM_MUST(s, !sim_is_worn(s, w), "worker %u gets a task after its last one", w);
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    const struct proc *p = &s->procs[w];
    const uint64_t length = gd__load(worker);
    const struct gd__task *first = gd__sched_head(&s->sched, w);
    sim_trace(s, "assign task %llu to %u at %llu, attempt %u, batch %u%s", LLU(t->id), w, LLU(worker->tail - 1),
              attempt, t->batch, t->solo ? ", solo" : "");
    SIM_MUST(s, worker->state == GD_WORKER_IDLE && p->ready_seen && !p->killed && !p->stop && p->state != PROC_NONE,
             "task %llu assigned to worker %u, which is not ready", LLU(t->id), w);
    SIM_MUST(s, p->tail == worker->tail - 1, "worker %u: assigned at %llu, its ring ends at %llu", w,
             LLU(worker->tail - 1), LLU(p->tail));
    SIM_MUST(s, gd__window_length(worker) <= s->plan.config.window_max, "worker %u is handed more than its ring holds",
             w);
    SIM_MUST(s, length <= worker->target && length <= most_handed(s, w), "worker %u is handed %llu at once", w,
             LLU(length));
    SIM_MUST(s, s->tasks[t->id].delivered == 0, "task %llu assigned after its end", LLU(t->id));
    SIM_MUST(s, !s->tasks[t->id].held, "task %llu assigned after it was done", LLU(t->id));
    SIM_MUST(s, t->payload[0] == sim_mix(s->seed, t->id) && t->payload[3] == 3,
             "task %llu has the payload of another task", LLU(t->id));
    SIM_MUST(s, attempt == t->attempt + 1, "task %llu: attempt %u after %u", LLU(t->id), attempt, t->attempt);
    SIM_MUST(s, t->batch >= 1 && t->batch <= s->plan.config.batch_size && t->batch <= worker->batch_limit,
             "task %llu in a batch of %u", LLU(t->id), t->batch);
    SIM_MUST(s, t->solo == s->tasks[t->id].suspect, "task %llu: suspect %d, solo %d", LLU(t->id),
             s->tasks[t->id].suspect, t->solo);
    SIM_MUST(s, t->solo || s->sched.solo.count == 0, "task %llu goes before a suspect that waits", LLU(t->id));
    const uint32_t slot = (uint32_t)(t - s->sched.tasks);
    SIM_MUST(s,
             t->solo || t->home >= 0 || s->sched.backlog.count == 0 ||
                 gd__goes_first(&s->sched, slot, gd__waiting_first(&s->sched, &s->sched.backlog)),
             "task %llu is handed out before one that goes first", LLU(t->id));
    check_control_assign(s, w, t);
    note_handed(s, w, t);
    if (worker->concurrency > 1)
        check_flight_assign(s, w, t);
    SIM_MUST(s, length == 1 || (!t->solo && !first->solo), "task %llu shares worker %u with a suspect", LLU(t->id), w);
}

/* Moves a time before the freeze by the length of the freeze. */
static uint64_t thawed(const struct sim *s, uint64_t at)
{
    return s->frozen_at && at <= s->frozen_at ? at + s->plan.freeze_ns : at;
}

/* --- the order in which tasks start --- */

/* The time at which the tasks of w's window began to wait behind a running task, as far as the dispatcher can know.
 * GD__NEVER: they do not wait behind one. */
static uint64_t behind_since(const struct sim *s, unsigned w)
{
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    const struct proc *p = &s->procs[w];
    if (worker->concurrency > 1) /* behind tasks in flight, which have all places */
        return p->state == PROC_NONE || worker->n_flight == 0 || p->lying ? GD__NEVER : worker->head_since;
    if (p->state == PROC_NONE || p->started <= worker->head || p->phase < PHASE_RUNNING || p->lying)
        return GD__NEVER;
    return gd__max64(p->start_ns, worker->head_since);
}

/* Checks that no task starts while an earlier one of the same priority has waited behind a running task for more than
 * 1 ms. Claimed tasks count as started. */
void check_begin(struct sim *s, unsigned w, uint64_t id)
{
    const struct gd__sched *sched = &s->sched;
    if (s->plan.config.placement != GD_PLACE_DYNAMIC || sched->stopping || !on_time(s) || s->plan.freeze_at)
        return;
    for (unsigned k = 0; k < s->plan.config.n_workers; k++) {
        const struct gd__sched_worker *other = &sched->workers[k];
        const uint64_t since = k == w ? GD__NEVER : behind_since(s, k);
        /* A worker may claim only a part of its first batch: it had looked at a smaller one, which was taken back. */
        const uint64_t first = gd__max64(gd__first_spare(sched, other), s->procs[k].claimed);
        for (uint64_t p = first; since != GD__NEVER && p < other->tail; p++) {
            const struct gd__task *t = gd__sched_at(sched, k, p);
            const uint64_t waited = gd__max64(since, s->tasks[t->id].handed_at);
            SIM_MUST(s, t->id > id || t->priority != sim_priority(s, id) || waited + GD__NS_PER_MS >= s->now,
                     "task %llu starts while task %llu has waited behind another for %llu us", LLU(id), LLU(t->id),
                     LLU((s->now - waited) / GD__NS_PER_US));
        }
    }
}

/* --- deadlines --- */

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
        SIM_MUST(s, on_time(s) ? s->now == cancel_time(s, w) : s->now >= cancel_time(s, w),
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
    SIM_MUST(s, !on_time(s) || s->now == grace_end(s, w),
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
    SIM_MUST(s, !on_time(s) || s->now == due, "worker %u: killed %lld ns from deadline + grace", w,
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
        SIM_MUST(s, !on_time(s) || s->now == p->spawned_at + s->plan.config.setup_timeout_ns,
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

bool sim_is_stop_signal(int signal)
{
    return signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
}

/* Whether a death must not be judged yet, because a stop of the whole run may be on its way. */
static bool must_wait(const struct sim *s, unsigned w, const struct gd__death *d)
{
    const unsigned state = s->sched.workers[w].state;
    return sim_is_stop_signal(d->signal) && s->plan.config.signal_wait_ns > 0 && !s->sched.stopping &&
           !s->sched.workers_stopped &&
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
    SIM_MUST(s, on_time(s) && !parked ? s->now == task->put_off : s->now >= task->put_off,
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

/* How many of the tries that `retries` allows have failed. */
static unsigned failed_tries(const struct sim *s, const struct sim_task *t)
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
    if (!s->plan.config.retry_timeouts || failed_tries(s, t) > s->plan.config.retries)
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
        return own_result && o->failure == t->last && (o->final || failed_tries(s, t) > c->retries);
    case GD_FAILURE_TIMEOUT:
        return t->timeouts > 0 && (!c->retry_timeouts || failed_tries(s, t) > c->retries);
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
    SIM_MUST(s, t->payload[0] == sim_mix(s->seed, t->id), "task %llu ends with the payload of another task",
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

/* --- dealing by size --- */

void check_before_pump(struct sim *s)
{
    s->deals++;
    for (uint64_t i = 0; i < s->sched.by_size_count; i++)
        s->tasks[s->sched.tasks[s->sched.by_size[i]].id].deal = s->deals;
}

/* Within a priority, the tasks that have just been dealt to a worker are in its queue from the largest to the smallest.
 */
static void check_dealt(struct sim *s, const struct gd__waiting *q)
{
    for (unsigned level = 0; level < GD__PRIORITIES; level++) {
        uint64_t last = UINT64_MAX;
        uint32_t slot = q->fresh[level].head;
        for (uint64_t i = 0; i < q->fresh[level].count; i++, slot = s->sched.tasks[slot].next) {
            const struct gd__task *t = &s->sched.tasks[slot];
            if (s->tasks[t->id].deal != s->deals)
                continue;
            SIM_MUST(s, t->weight <= last, "task %llu was dealt before a larger one", LLU(t->id));
            last = t->weight;
        }
    }
}

/* A task that has just been dealt is in the queue of a worker, unless no worker gets tasks. */
static void check_dealt_to_worker(void *ctx, uint32_t slot)
{
    struct sim *s = ctx;
    const struct gd__task *t = &s->sched.tasks[slot];
    if (s->tasks[t->id].deal != s->deals || t->home >= 0)
        return;
    for (unsigned w = 0; w < s->plan.config.n_workers; w++)
        SIM_MUST(s, gd__is_gone(s->sched.workers[w].state) || s->sched.workers[w].leaving,
                 "task %llu was dealt to no worker, but worker %u gets tasks", LLU(t->id), w);
}

/* --- after every event --- */

static void see(struct sim *s, uint32_t slot, enum gd__task_state state, int home, const char *where)
{
    SIM_MUST(s, slot < s->sched.n_slots, "%s holds slot %u", where, slot);
    const struct gd__task *t = &s->sched.tasks[slot];
    SIM_MUST(s, t->id < s->taken, "%s has task %llu, which does not exist", where, LLU(t->id));
    struct sim_task *task = &s->tasks[t->id];
    SIM_MUST(s, t->state == state, "task %llu in %s has state %u", LLU(t->id), where, t->state);
    SIM_MUST(s, task->seen != s->round, "task %llu is in two places, one is %s", LLU(t->id), where);
    SIM_MUST(s, task->delivered == 0, "task %llu in %s has been delivered", LLU(t->id), where);
    SIM_MUST(s, home == -2 || t->home == home, "task %llu in %s has home %d", LLU(t->id), where, t->home);
    SIM_MUST(s, task->charges < s->plan.config.crash_limit || state == GD__TASK_PARKED,
             "task %llu is not final after %u charges", LLU(t->id), task->charges);
    SIM_MUST(s, failed_tries(s, task) <= s->plan.config.retries || state == GD__TASK_PARKED,
             "task %llu is not final after %u errors and %u timeouts", LLU(t->id), task->errors, task->timeouts);
    SIM_MUST(s, task->timeouts == 0 || s->plan.config.retry_timeouts || state == GD__TASK_PARKED,
             "task %llu is not final although it timed out", LLU(t->id));
    SIM_MUST(s, (t->verdict != GD__VERDICT_NONE) == (task->put_off != 0) || state == GD__TASK_PARKED,
             "task %llu in %s: scheduler and simulator disagree whether a verdict is put off", LLU(t->id), where);
    SIM_MUST(s, !s->sched.stopping || state == GD__TASK_HANDED || state == GD__TASK_BEGUN || state == GD__TASK_PARKED,
             "task %llu is in %s although the run is stopping", LLU(t->id), where);
    task->seen = s->round;
    s->walked++;
}

static void walk_list(struct sim *s, const struct gd__list *l, int home, const char *where)
{
    uint32_t slot = l->head;
    for (uint64_t i = 0; i < l->count; i++) {
        see(s, slot, GD__TASK_WAITING, home, where);
        SIM_MUST(s, i + 1 < l->count || slot == l->tail, "the tail of %s is not its last", where);
        slot = s->sched.tasks[slot].next;
    }
}

struct walk {
    struct sim *s;
    int home;
    const char *where;
    uint64_t n;
    uint32_t first;
};

static void walk_waiting_one(void *ctx, uint32_t slot)
{
    struct walk *w = ctx;
    see(w->s, slot, GD__TASK_WAITING, w->home, w->where);
    w->n++;
    SIM_MUST(w->s,
             slot == w->first || w->s->plan.config.placement == GD_PLACE_BY_SIZE ||
                 gd__goes_first(&w->s->sched, w->first, slot),
             "the first task of %s is not the first", w->where);
}

static void walk_waiting(struct sim *s, const struct gd__waiting *q, int home, const char *where)
{
    struct walk w = { .s = s, .home = home, .where = where };
    w.first = q->count > 0 ? gd__waiting_first(&s->sched, q) : GD__NO_TASK;
    gd__waiting_each(&s->sched, q, walk_waiting_one, &w);
    SIM_MUST(s, w.n == q->count, "%s holds %llu tasks, not %llu", where, LLU(w.n), LLU(q->count));
}

static void walk_window(struct sim *s, unsigned w, uint64_t *running)
{
    const struct gd__sched *sched = &s->sched;
    const struct gd__sched_worker *worker = &sched->workers[w];
    SIM_MUST(s, worker->head <= worker->tail && worker->tail - worker->head <= s->plan.config.window_max,
             "worker %u has the window %llu..%llu", w, LLU(worker->head), LLU(worker->tail));
    for (uint64_t p = worker->head; p < worker->tail; p++) {
        const uint32_t slot = worker->window[p & sched->window_mask];
        see(s, slot, GD__TASK_HANDED, -2, "a window");
        SIM_MUST(s, sched->tasks[slot].batch <= worker->tail - p, "the batch of task %llu ends outside its window",
                 LLU(sched->tasks[slot].id));
        SIM_MUST(s, sched->tasks[slot].worker == (int)w, "task %llu has another worker", LLU(sched->tasks[slot].id));
    }
    for (unsigned place = 0; worker->concurrency > 1 && place < worker->concurrency; place++)
        if (worker->flight[place] != GD__NO_TASK)
            see(s, worker->flight[place], GD__TASK_BEGUN, -2, "a flight");
    *running += gd__min64(gd__load(worker), worker->concurrency > 1 ? worker->concurrency : s->plan.config.batch_size);
}

/* Checks that every task has one state and is in one place. */
static void walk(struct sim *s)
{
    const struct gd__sched *sched = &s->sched;
    uint64_t running = 0, placed = 0, suspects = 0;
    s->round++;
    s->walked = 0;
    walk_waiting(s, &sched->backlog, -1, "the backlog");
    if (s->plan.config.placement == GD_PLACE_BY_SIZE)
        gd__waiting_each(sched, &sched->backlog, check_dealt_to_worker, s);
    walk_list(s, &sched->solo, -2, "the suspects");
    for (uint64_t i = 0; i < sched->by_size_count; i++)
        see(s, sched->by_size[i], GD__TASK_WAITING, -1, "the tasks by size");
    for (unsigned w = 0; w < s->plan.config.n_workers; w++) {
        walk_waiting(s, &sched->workers[w].placed, (int)w, "a worker's queue");
        check_dealt(s, &sched->workers[w].placed);
        walk_list(s, &sched->workers[w].suspects, -2, "a worker's suspects");
        suspects += sched->workers[w].suspects.count;
        placed += sched->workers[w].placed.count;
        walk_window(s, w, &running);
    }
    SIM_MUST(s, placed == sched->n_placed, "%llu tasks are placed, not %llu", LLU(placed), LLU(sched->n_placed));
    SIM_MUST(s, suspects == sched->n_suspects, "%llu suspects, not %llu", LLU(suspects), LLU(sched->n_suspects));
    SIM_MUST(s, running == sched->running, "%llu tasks run, not %llu", LLU(running), LLU(sched->running));
    for (uint32_t slot = 0; slot < s->peak_slots; slot++) {
        const struct gd__task *t = &sched->tasks[slot];
        const bool armed = gd__timer_armed(&t->timer);
        SIM_MUST(s, t->state == GD__TASK_BEGUN || armed == (t->state == GD__TASK_DELAYED),
                 "slot %u: state %u, timer %d", slot, t->state, armed);
        if (t->state == GD__TASK_DELAYED)
            see(s, slot, GD__TASK_DELAYED, -2, "the delayed");
        else if (t->state == GD__TASK_PARKED)
            see(s, slot, GD__TASK_PARKED, -2, "the parked");
    }
    SIM_MUST(s, s->walked == sched->outstanding, "%llu tasks were found, %llu are outstanding", LLU(s->walked),
             LLU(sched->outstanding));
}

/* --- idle workers and waiting tasks --- */

struct oldest {
    const struct gd__sched *sched;
    uint64_t since;
};

static void look_at_age(void *ctx, uint32_t slot)
{
    struct oldest *o = ctx;
    o->since = gd__min64(o->since, o->sched->tasks[slot].waiting_since);
}

/* When the task of this queue that has waited longest began to wait. */
static uint64_t oldest(const struct gd__sched *sched, const struct gd__waiting *q)
{
    struct oldest o = { sched, GD__NEVER };
    gd__waiting_each(sched, q, look_at_age, &o);
    return o.since;
}

/* Whether tasks of this list are rightly held back for a fuller batch: none has waited long enough. */
static bool held_back(const struct sim *s, const struct gd__sched_worker *worker, const struct gd__waiting *q)
{
    const struct gd__sched_config *c = &s->plan.config;
    const struct gd__sched *sched = &s->sched;
    const uint64_t batch = worker->concurrency > 1 ? 1 : gd__min64(c->batch_size, worker->batch_limit);
    if (q->count >= batch || c->batch_wait_ns == 0 || sched->source_ended || sched->next_id >= sched->allowed)
        return false;
    const uint64_t until = oldest(sched, q) + c->batch_wait_ns;
    return until > s->now && gd__sched_deadline(sched) <= until; /* and the scheduler will look again */
}

static bool waits_for_gap(const struct sim *s)
{
    return s->sched.next_start > s->now && gd__sched_deadline(&s->sched) <= s->sched.next_start;
}

static void check_idle(struct sim *s, unsigned w)
{
    const struct gd__sched *sched = &s->sched;
    if (waits_for_gap(s))
        return;
    const struct gd__sched_worker *worker = &sched->workers[w];
    SIM_MUST(s, sched->solo.count + worker->suspects.count == 0, "worker %u is idle while a suspect waits", w);
    SIM_MUST(s, sched->by_size_count == 0, "worker %u is idle while tasks wait to be dealt", w);
    SIM_MUST(s, sched->backlog.count == 0 || held_back(s, worker, &sched->backlog),
             "worker %u is idle while the backlog has %llu tasks", w, LLU(sched->backlog.count));
    SIM_MUST(s, worker->placed.count == 0 || held_back(s, worker, &worker->placed),
             "worker %u is idle while tasks placed on it wait", w);
}

/* The number of tasks from position `from` on that a worker has but has not claimed. */
static uint64_t unclaimed(const struct sim *s, unsigned w, uint64_t from)
{
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    const bool ready = worker->state == GD_WORKER_IDLE || worker->state == GD_WORKER_CANCELLING;
    if (!ready || worker->tail <= from)
        return 0;
    /* Judging by earlier tasks, this is so little work that it is not moved, unless the first task takes long. */
    const uint64_t length = worker->tail - worker->head;
    if (worker->mean_ns > 0 && worker->mean_ns * length < GD__SHARE_NS && worker->head_since + GD__SHARE_NS > s->now)
        return 0;
    const uint64_t kept = gd__max64(from, s->procs[w].claimed);
    return kept < worker->tail ? worker->tail - kept : 0;
}

/* Checks that no worker holds a task that it has not begun while a task of a higher priority waits. */
static void check_priorities(struct sim *s)
{
    const struct gd__sched *sched = &s->sched;
    const int highest = sched->tasks[gd__waiting_first(sched, &sched->backlog)].priority;
    for (unsigned w = 0; w < s->plan.config.n_workers; w++) {
        const struct gd__sched_worker *worker = &sched->workers[w];
        const uint64_t n = unclaimed(s, w, gd__first_spare(sched, worker));
        for (uint64_t p = worker->tail - n; p < worker->tail; p++)
            SIM_MUST(s, gd__sched_at(sched, w, p)->priority >= highest || worker->no_steal,
                     "worker %u holds a task of a lower priority than one that waits", w);
    }
}

static void check_workers(struct sim *s)
{
    const struct gd__sched *sched = &s->sched;
    unsigned starting = 0, ready = 0, out = 0, idle = UINT32_MAX, rich = UINT32_MAX;
    for (unsigned w = 0; w < s->plan.config.n_workers; w++) {
        const struct gd__sched_worker *worker = &sched->workers[w];
        starting += worker->state == GD_WORKER_STARTING;
        ready += worker->state == GD_WORKER_IDLE || worker->state == GD_WORKER_CANCELLING ||
                 worker->state == GD__WORKER_SHORT;
        out += worker->state == GD_WORKER_FINISHED || worker->state == GD_WORKER_FAILED ||
               worker->state == GD_WORKER_LOST || worker->state == GD__WORKER_SPARE;
        /* If the scheduler has tried in vain, the worker had a claim. The worker may have lost the claim, and will
         * repeat it. */
        if (unclaimed(s, w, gd__first_spare(sched, worker)) > 0 && !worker->no_steal)
            rich = w;
        check_flight(s, w);
        SIM_MUST(s, worker->state != GD_WORKER_IDLE || gd__load(worker) > 0 || !sim_is_worn(s, w) || sched->stopping,
                 "worker %u goes on after its last task", w);
        if (worker->state != GD_WORKER_IDLE || gd__load(worker) > 0 || sched->stopping || s->paused || s->removed[w])
            continue;
        idle = w;
        check_idle(s, w);
    }
    if (s->plan.config.placement == GD_PLACE_DYNAMIC && sched->backlog.count > 0 && !sched->stopping)
        check_priorities(s);
    SIM_MUST(s, s->plan.config.setup_jobs == 0 || starting <= s->plan.config.setup_jobs, "%u workers set up at once",
             starting);
    SIM_MUST(s, starting == sched->n_starting && ready == sched->n_ready,
             "the scheduler's counts of workers are wrong: %u starting, %u ready", sched->n_starting, sched->n_ready);
    SIM_MUST(s, s->plan.config.n_workers - out == sched->n_alive,
             "the scheduler's count of living workers is wrong: %u", sched->n_alive);
    if (s->plan.config.placement == GD_PLACE_DYNAMIC && sched->backlog.count == 0 && idle != UINT32_MAX)
        SIM_MUST(s, rich == UINT32_MAX, "worker %u is idle while worker %u has tasks that it has not claimed", idle,
                 rich);
}

/* Checks that the scheduler will notice every deadline in time: a timer is armed for it, or for an earlier time. */
static void check_deadlines(struct sim *s)
{
    for (unsigned w = 0; w < s->plan.config.n_workers; w++) {
        const struct gd__sched_worker *worker = &s->sched.workers[w];
        const bool ready = worker->state == GD_WORKER_IDLE || worker->state == GD__WORKER_SHORT;
        const uint64_t timer = gd__timer_armed(&worker->timer) ? worker->timer.at_ns : GD__NEVER;
        if (ready && worker->head < worker->tail && head_is_running(s, w))
            SIM_MUST(s, timer <= cancel_time(s, w), "worker %u: the deadline of its task would pass unnoticed", w);
        if (worker->state == GD_WORKER_CANCELLING)
            SIM_MUST(s, timer <= grace_end(s, w), "worker %u: the end of its grace would pass unnoticed", w);
    }
}

void check_after_event(struct sim *s)
{
    const struct gd__sched *sched = &s->sched;
    const uint64_t bound = sched->finals + sched->running + sched->config.queue_size;
    s->peak_slots = gd__max64(s->peak_slots, sched->outstanding);
    s->peak_allowed = gd__max64(s->peak_allowed, bound);
    SIM_MUST(s, sched->allowed >= bound, "the source may give %llu tasks, but %llu should be allowed",
             LLU(sched->allowed), LLU(bound));
    SIM_MUST(s, sched->allowed <= s->peak_allowed, "the source may give %llu tasks, but at most %llu are allowed",
             LLU(sched->allowed), LLU(s->peak_allowed));
    SIM_MUST(s, s->taken == sched->finals + sched->outstanding, "%llu taken, %llu final, %llu outstanding",
             LLU(s->taken), LLU(sched->finals), LLU(sched->outstanding));
    if (s->handled % s->plan.check_every != 0)
        return;
    check_workers(s);
    check_control(s);
    check_deadlines(s);
    walk(s);
}

/* --- the end --- */

/* Whether a worker of this device can still be added. Then the device is not out of use. */
static bool has_spare(const struct sim *s, unsigned device)
{
    for (unsigned w = device; w < s->plan.config.n_workers; w++)
        if (s->sched.workers[w].device == device && s->sched.workers[w].state == GD__WORKER_SPARE)
            return true;
    return false;
}

void check_end(struct sim *s)
{
    const struct gd__sched *sched = &s->sched;
    const struct gd__sched_counts *n = &sched->counts;
    uint64_t failed = 0;
    for (unsigned w = 0; w < s->plan.config.n_workers; w++)
        SIM_MUST(s, s->procs[w].state == PROC_NONE, "finished, but worker %u has a process", w);
    for (uint64_t id = 0; id < s->taken; id++)
        SIM_MUST(s, s->tasks[id].delivered == 1, "task %llu was lost", LLU(id));
    for (unsigned f = GD_FAILURE_ERROR; f <= GD_FAILURE_NO_WORKER; f++)
        failed += f == GD_FAILURE_TIMEOUT ? 0 : s->results[f];
    SIM_MUST(s,
             n->taken == s->taken && n->completed == s->results[GD_FAILURE_NONE] && n->failed == failed &&
                 n->timeouts == s->results[GD_FAILURE_TIMEOUT],
             "the counts are wrong: %llu %llu %llu %llu", LLU(n->taken), LLU(n->completed), LLU(n->failed),
             LLU(n->timeouts));
    SIM_MUST(s, n->setup_failures == s->setup_failures_told, "%llu setup failures, %llu reported",
             LLU(n->setup_failures), LLU(s->setup_failures_told));
    SIM_MUST(s, s->spawns <= s->first_spawns + n->restarts, "%llu restarts of %llu", LLU(s->spawns - s->first_spawns),
             LLU(n->restarts));
    for (unsigned w = 0; w < s->plan.config.n_workers; w++)
        SIM_MUST(s,
                 (sched->end != GD__END_SETUP && sched->end != GD__END_NO_WORKERS) ||
                     s->device_out[sched->workers[w].device] || has_spare(s, sched->workers[w].device),
                 "no worker is left, but the device of worker %u was not reported as out of use", w);
    const bool natural = !s->plan.shutdown_at && !s->plan.abort_at && sched->end == GD__END_NATURAL;
    SIM_MUST(s, !natural || s->plan.source_cut_at || s->taken == s->plan.n_tasks, "only %llu tasks were taken",
             LLU(s->taken));
}
