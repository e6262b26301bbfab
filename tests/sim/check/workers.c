/* No worker is idle while it could have a task. */
#include "sim/check/check.h"

struct patience {
    const struct sim *s;
    uint64_t until;
};

/* A task from the source may be held back for batch_wait_ns, a task that was handed out before not at all. */
static void look_at_one(void *ctx, uint32_t slot)
{
    struct patience *p = ctx;
    const struct sim_task *task = &p->s->tasks[p->s->sched.tasks[slot].id];
    const bool is_new = task->handed_at == 0;
    p->until = gd__min64(p->until, is_new ? task->given_at + p->s->plan.config.batch_wait_ns : 0);
}

/* Whether tasks of this list are rightly held back for a fuller batch: none has waited long enough. */
static bool held_back(const struct sim *s, const struct gd__sched_worker *worker, const struct gd__waiting *q)
{
    const struct gd__sched_config *c = &s->plan.config;
    const struct gd__sched *sched = &s->sched;
    const uint64_t batch = worker->concurrency > 1 ? 1 : gd__min64(c->batch_size, worker->batch_limit);
    if (q->count >= batch || c->batch_wait_ns == 0 || sched->source_ended || sched->next_id >= sched->allowed)
        return false;
    struct patience p = { s, GD__NEVER };
    gd__waiting_each(sched, q, look_at_one, &p);
    return p.until > s->now && gd__sched_deadline(sched) <= p.until; /* and the scheduler will look again */
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

void check_workers(struct sim *s)
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
        SIM_MUST(s, !sim_is_worn(s, w) || gd__load(worker) == 0, "worker %u has a task after its last one", w);
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
