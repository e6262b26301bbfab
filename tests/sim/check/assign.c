/* What a worker may be handed, and the order in which tasks start. */
#include "sim/check/check.h"

/* --- how much a worker holds --- */

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
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    const struct proc *p = &s->procs[w];
    const uint64_t length = gd__load(worker), most = s->plan.config.max_tasks;
    SIM_MUST(s, most == 0 || p->served + length <= most, "worker %u is handed more tasks than its process may do", w);
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
    SIM_MUST(s, t->payload[0] == sim_mix(s->run_seed, t->id) && t->payload[3] == 3,
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
    if (s->plan.config.placement != GD_PLACE_DYNAMIC || sched->stopping || !sim_is_on_time(s) || s->plan.freeze_at)
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
