/* Every task has one state and is in one place. */
#include "sim/check/check.h"

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

/* --- states and places --- */

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
    SIM_MUST(s, check_failed_tries(s, task) <= s->plan.config.retries || state == GD__TASK_PARKED,
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
void check_places(struct sim *s)
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
