/* Requests from outside: pauses, cancelled tasks, changed time limits, workers added and removed, drains. They come at
 * random times, in any state of the run.
 *
 * These conditions must hold. A paused run starts no task. A cancelled task ends once, as cancelled or with a result
 * that was on its way. If no process has begun the task, it ends at once. A removed worker gets no task and ends.
 * check/ checks that no task is lost, and that no other task is charged.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* --- the plan --- */

static void add_spare_workers(struct gd__sched_config *c, uint64_t *r)
{
    const unsigned n = c->n_workers, spare = (unsigned)sim_below(r, 4);
    int *ids = malloc((n + spare) * sizeof *ids), *old;
    if (!ids)
        abort();
    memcpy(ids, c->gpu_ids, n * sizeof *ids);
    for (unsigned i = 0; i < spare; i++)
        ids[n + i] = ids[sim_below(r, n)];
    memcpy(&old, &c->gpu_ids, sizeof old);
    free(old);
    c->gpu_ids = ids;
    c->n_spare = spare;
    c->n_workers += spare;
}

void sim_control_draw(struct sim_plan *p, uint64_t *r)
{
    if (sim_below(r, 3) > 0)
        return;
    p->controls = 1 + (unsigned)sim_below(r, sim_below(r, 4) > 0 ? 8 : 100);
    const uint64_t span = (p->task_ns + p->source_gap_ns + GD__NS_PER_US) * (p->n_tasks + 2) + 2 * p->setup_ns;
    p->control_gap_ns = 1 + span / (sim_below(r, 3) > 0 ? p->controls : 100 * p->controls);
    if (sim_below(r, 4) == 0) /* a request may come between two messages of a process */
        p->control_gap_ns = 1 + p->message_ns;
    p->drain = sim_below(r, 4) == 0 ? 100 : 0;
    p->resize = sim_below(r, 4) == 0 ? 900 : 250;
    if (sim_below(r, 2) == 0)
        add_spare_workers(&p->config, r);
}

/* --- pause, drain, time limit --- */

/* The tasks of w that its process has not begun and was not asked to stop. */
static uint64_t not_begun(const struct sim *s, unsigned w)
{
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    const uint64_t begun =
        gd__max64(s->procs[w].claimed, s->procs[w].pause_limit); /* a claim may be lost and repeated */
    const uint64_t kept = gd__max64(gd__max64(worker->head, worker->cancel_below), begun);
    return gd__takes_tasks(worker->state) && !s->procs[w].lying && kept < worker->tail ? worker->tail - kept : 0;
}

static void pause_run(struct sim *s)
{
    const bool ending = s->sched.stopping || s->sched.workers_stopped;
    sim_trace(s, "pause");
    SIM_MUST(s, gd__sched_pause(&s->sched) == !ending, "a pause is refused, or accepted too late");
    s->paused |= !ending;
    for (unsigned w = 0; w < s->plan.config.n_workers; w++)
        s->procs[w].pause_limit = s->procs[w].limit;
}

static void resume_run(struct sim *s)
{
    sim_trace(s, "resume");
    s->paused = false;
    gd__sched_resume(&s->sched);
}

static void drain(struct sim *s)
{
    sim_trace(s, "drain");
    s->draining |= !s->sched.stopping && !s->sched.workers_stopped;
    gd__sched_drain(&s->sched, s->now);
    if (sim_below(&s->chance, 2) == 0) /* the user loses patience */
        sim_at(s, s->now + sim_spread(&s->chance, s->plan.control_gap_ns), EVENT_SHUTDOWN, 0);
}

static void change_limit(struct sim *s)
{
    const uint64_t unit = s->plan.task_ns + GD__NS_PER_US;
    const uint64_t n = sim_below(&s->chance, sim_below(&s->chance, 2) == 0 ? 4 : 50);
    const bool needed = s->plan.hangs > 0 || s->plan.stops > 0; /* so that a task that hangs ends */
    const uint64_t limit = n == 0 && needed ? unit : n * unit;
    sim_trace(s, "the time limit is %llu ns", LLU(limit));
    s->plan.config.task_timeout_ns = limit;
    s->limit_changed_at = s->now;
    gd__sched_set_timeout(&s->sched, s->now, limit);
}

/* --- cancel --- */

static const struct gd__task *find(const struct sim *s, uint64_t id)
{
    for (uint32_t slot = 0; slot < s->sched.n_used; slot++)
        if (s->sched.tasks[slot].id == id && s->sched.tasks[slot].state != GD__TASK_FREE)
            return &s->sched.tasks[slot];
    return NULL;
}

/* Whether the process of the worker has begun that task, or was asked to stop it, or is being killed. */
static bool has_begun(const struct sim *s, uint64_t id)
{
    const struct gd__task *t = find(s, id);
    if (t && t->state == GD__TASK_BEGUN)
        return true;
    if (!t || t->state != GD__TASK_HANDED)
        return false;
    const unsigned w = (unsigned)t->worker;
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    uint64_t p = worker->head;
    while (gd__sched_at(&s->sched, w, p) != t)
        p++;
    return p < s->procs[w].claimed || p < worker->cancel_below || !gd__takes_tasks(worker->state);
}

static uint64_t any_task(struct sim *s)
{
    const unsigned w = (unsigned)sim_below(&s->chance, s->plan.config.n_workers);
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    if (worker->tail > worker->head && sim_below(&s->chance, 4) > 0)
        return gd__sched_at(&s->sched, w, worker->head + sim_below(&s->chance, worker->tail - worker->head))->id;
    return sim_below(&s->chance, s->taken + 1);
}

static void cancel_task(struct sim *s)
{
    const uint64_t id = any_task(s);
    const struct gd__task *t = find(s, id);
    const bool parked = t && t->state == GD__TASK_PARKED;
    struct sim_task *task = &s->tasks[id];
    const bool begun = has_begun(s, id);
    if (t && !parked)
        task->cancel_asked = true;
    const enum gd__cancel how = gd__sched_cancel_task(&s->sched, s->now, id);
    sim_trace(s, "cancel of task %llu: %d", LLU(id), how);
    SIM_MUST(s,
             how == (!t       ? GD__CANCEL_UNKNOWN
                     : parked ? GD__CANCEL_DONE
                     : begun  ? GD__CANCEL_ASKED
                              : GD__CANCEL_ENDED),
             "the cancel of task %llu returned %d", LLU(id), how);
    SIM_MUST(s, how != GD__CANCEL_ENDED || task->delivered || (t && t->state == GD__TASK_PARKED),
             "task %llu was cancelled, but has not ended", LLU(id));
}

/* --- workers --- */

static bool in_use(const struct sim *s, unsigned w)
{
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    return !gd__is_gone(worker->state) && worker->state != GD_WORKER_STOPPING && !worker->given_up && !worker->leaving;
}

static unsigned count_in_use(const struct sim *s, unsigned device)
{
    unsigned n = 0;
    for (unsigned w = 0; w < s->plan.config.n_workers; w++)
        n += in_use(s, w) && (device == UINT32_MAX || s->sched.workers[w].device == device);
    return n;
}

static void remove_worker(struct sim *s, unsigned w)
{
    const unsigned device = s->sched.workers[w].device, all = count_in_use(s, UINT32_MAX),
                   here = count_in_use(s, device);
    const bool ending = s->sched.stopping || s->sched.workers_stopped;
    const int r = gd__sched_remove_worker(&s->sched, s->now, w);
    sim_trace(s, "a worker of device %u is removed: %d", device, r);
    SIM_MUST(s, (r >= 0) == (!ending && here > 0 && all > 1), "the removal of a worker of device %u returned %d",
             device, r);
    if (r < 0)
        return;
    SIM_MUST(s, s->sched.workers[r].device == device && !s->removed[r], "worker %d was removed, not one of device %u",
             r, device);
    s->removed[r] = true;
    s->procs[r].pause_limit = s->procs[r].limit;
    if (s->sched.workers[r].state == GD__WORKER_SPARE)
        deaths_forget(s, (unsigned)r);
}

static void add_worker(struct sim *s, unsigned w)
{
    const unsigned device = s->sched.workers[w].device;
    const bool no = s->sched.stopping || s->sched.workers_stopped || s->device_out[device];
    bool any = false;
    for (unsigned k = 0; k < s->plan.config.n_workers; k++) {
        const struct gd__sched_worker *at = &s->sched.workers[k];
        any |= at->device == device && (at->state == GD__WORKER_SPARE || (s->removed[k] && !gd__is_gone(at->state))) &&
               !at->given_up;
        if (at->device == device && at->state == GD__WORKER_SPARE)
            s->removed[k] = false; /* the worker may be started again */
    }
    const int r = gd__sched_add_worker(&s->sched, s->now, w);
    sim_trace(s, "a worker of device %u is added: %d", device, r);
    SIM_MUST(s, (r >= 0) == (any && !no), "the addition of a worker to device %u returned %d", device, r);
    for (unsigned k = 0; k < s->plan.config.n_workers; k++)
        if (s->sched.workers[k].device == device && s->sched.workers[k].state == GD__WORKER_SPARE)
            s->removed[k] = true;
    if (r >= 0)
        s->removed[r] = false;
}

/* Removes a worker, and then all other devices fail. So the only workers that are left are about to leave. */
static void leave_none_in_use(struct sim *s, unsigned w)
{
    remove_worker(s, w);
    for (unsigned k = 0; k < s->plan.config.n_workers; k++)
        if (s->sched.workers[k].device == k && k != s->sched.workers[w].device)
            sim_fail_device(s, k);
}

static void resize(struct sim *s, unsigned w)
{
    const uint64_t kind = sim_below(&s->chance, 32);
    if (kind == 0)
        leave_none_in_use(s, w);
    else if (kind % 2 == 0)
        remove_worker(s, w);
    else
        add_worker(s, w);
}

/* --- requests --- */

static void any_request(struct sim *s)
{
    const unsigned w = (unsigned)sim_below(&s->chance, s->plan.config.n_workers);
    if (sim_below(&s->chance, 1000) < s->plan.drain) {
        drain(s);
        return;
    }
    if (sim_below(&s->chance, 1000) < s->plan.resize) {
        resize(s, w);
        return;
    }
    switch (sim_below(&s->chance, 8)) {
    case 0:
        pause_run(s);
        break;
    case 1:
        resume_run(s);
        break;
    case 2:
    case 3:
    case 4:
        change_limit(s);
        break;
    default:
        cancel_task(s);
    }
}

void sim_control(struct sim *s)
{
    if (s->controls_left > 0) {
        s->controls_left--;
        any_request(s);
    } else {
        resume_run(s);
    }
    if (s->controls_left > 0 || s->paused) /* a run that stays paused would not end */
        sim_at(s, s->now + 1 + sim_spread(&s->chance, s->plan.control_gap_ns), EVENT_CONTROL, 0);
}

/* --- conditions --- */

void check_control_start(struct sim *s, unsigned w)
{
    const struct proc *p = &s->procs[w];
    SIM_MUST(s, !s->paused || p->started <= p->pause_limit, "worker %u starts a task although the run is paused", w);
}

void check_control_assign(struct sim *s, unsigned w, const struct gd__task *t)
{
    SIM_MUST(s, !s->paused, "task %llu is handed out although the run is paused", LLU(t->id));
    SIM_MUST(s, !s->removed[w], "task %llu is handed to worker %u, which was removed", LLU(t->id), w);
    SIM_MUST(s, !s->tasks[t->id].cancel_asked, "task %llu is handed out although it was cancelled", LLU(t->id));
}

void check_control(struct sim *s)
{
    SIM_MUST(s, s->paused == s->sched.paused, "scheduler and simulator disagree whether the run is paused");
    for (unsigned w = 0; w < s->plan.config.n_workers; w++) {
        const struct gd__sched_worker *worker = &s->sched.workers[w];
        const bool ready = worker->state == GD_WORKER_IDLE || worker->state == GD__WORKER_SHORT;
        const struct gd__task *first = gd__sched_head(&s->sched, w);
        SIM_MUST(s, (!s->paused && !s->removed[w]) || not_begun(s, w) == 0,
                 "worker %u holds %llu tasks that it has not begun", w, LLU(not_begun(s, w)));
        SIM_MUST(s, s->plan.late_ns > 0 || s->stop_due == 0 || s->now <= s->stop_due || !first,
                 "worker %u has a task after the time for a stop", w);
        SIM_MUST(s, s->removed[w] || worker->state != GD__WORKER_SPARE, "worker %u was added, and is not started", w);
        SIM_MUST(s, (!s->removed[w] && !gd__is_gone(worker->state)) || worker->placed.count == 0,
                 "tasks wait for worker %u, which was removed or has failed", w);
        SIM_MUST(s, !s->removed[w] || !gd__takes_tasks(worker->state) || first || worker->n_flight > 0,
                 "worker %u was removed, and goes on", w);
        SIM_MUST(s, !ready || !first || worker->n_flight > 0 || !s->tasks[first->id].cancel_asked,
                 "task %llu was cancelled, and is not asked to stop", LLU(first->id));
        SIM_MUST(s,
                 !s->removed[w] || worker->state == GD__WORKER_SPARE || worker->leaving || worker->given_up ||
                     gd__is_gone(worker->state),
                 "worker %u was removed, and is in state %u", w, worker->state);
    }
}
