/* Tasks in flight: begun by a worker and not finished. A worker that announced a concurrency of more than 1 has several
 * of them and finishes them in any order. This file is only for such workers. attempt.c has the rules for a worker with
 * concurrency 1.
 *
 * Such a worker has places, numbered from 0, and a task occupies one from its begin to its finish. The worker chooses
 * the place. Tasks begin in the order of positions. A task that has begun leaves the window, so the head of the window
 * is the first task that is not known to have begun.
 *
 * Each task in flight has its own deadline and timer. At the deadline, only this task is asked to stop. If the worker
 * does not finish it within the grace period, the process is killed. Then this task has timed out, and the other tasks
 * in flight are run again uncharged.
 *
 * If the process dies with several tasks in flight, none is charged, and each is a suspect. After its first such death
 * a task runs again like any other. After its second it runs alone, on the same worker, while the other workers go on.
 *
 * A worker may also load tasks before it begins them. Then a task that was being loaded, or was loaded, is suspect like
 * a task in flight. The time limit counts from the begin. But if no task is in flight, the first task of the window has
 * no reason to wait. So its limit counts from that moment, and limits its load too. */
#include "core/internal.h"

/* --- the set of tasks in flight --- */

static void enter(struct gd__sched *s, unsigned i, uint32_t slot, unsigned place, uint64_t position, uint64_t start_ns)
{
    struct gd__sched_worker *w = &s->workers[i];
    struct gd__task *t = &s->tasks[slot];
    t->state = GD__TASK_BEGUN;
    t->position = position;
    t->begin_ns = start_ns;
    t->asked_to_stop = false;
    w->flight[place] = slot;
    if (w->n_flight++ == 0)
        w->busy_since = start_ns;
}

/* Takes a task out of flight. The caller must then set its state and put it into a list. */
static void leave(struct gd__sched *s, uint64_t now, unsigned i, unsigned place)
{
    struct gd__sched_worker *w = &s->workers[i];
    gd__heap_disarm(&s->heap, &s->tasks[w->flight[place]].timer);
    w->flight[place] = GD__NO_TASK;
    if (--w->n_flight == 0 && now > w->busy_since)
        w->busy_ns += now - w->busy_since;
}

int gd__inflight_open(struct gd__sched *s, unsigned i, unsigned concurrency)
{
    struct gd__sched_worker *w = &s->workers[i];
    if (concurrency == 0 || concurrency > s->config.concurrency)
        return GD_E_PROTOCOL;
    for (unsigned place = 0; concurrency > 1 && place < concurrency; place++)
        w->flight[place] = GD__NO_TASK;
    w->concurrency = concurrency;
    w->places = gd__min64(concurrency, w->places_limit);
    gd__update_target(s, i);
    return 0;
}

const struct gd__task *gd__sched_in_flight(const struct gd__sched *s, unsigned i, unsigned place)
{
    const struct gd__sched_worker *w = &s->workers[i];
    const bool there = w->concurrency > 1 && place < w->concurrency && w->flight[place] != GD__NO_TASK;
    return there ? &s->tasks[w->flight[place]] : NULL;
}

const struct gd__task *gd__sched_oldest(const struct gd__sched *s, unsigned i)
{
    const struct gd__sched_worker *w = &s->workers[i];
    const struct gd__task *oldest = NULL;
    for (unsigned place = 0, left = w->n_flight; left > 0; place++) {
        const struct gd__task *t = gd__sched_in_flight(s, i, place);
        left -= t != NULL;
        if (t && (!oldest || t->position < oldest->position))
            oldest = t;
    }
    return oldest ? oldest : gd__sched_head(s, i);
}

/* --- begin --- */

int gd__inflight_begun(struct gd__sched *s, uint64_t now, unsigned i, const struct gd__begin *b)
{
    struct gd__sched_worker *w = &s->workers[i];
    if (w->concurrency < 2 || b->position != w->head || gd__window_length(w) == 0 || b->place >= w->concurrency ||
        w->flight[b->place] != GD__NO_TASK)
        return GD_E_PROTOCOL;
    const uint32_t slot = gd__window_at(s, w, w->head);
    /* A worker cannot put off a deadline, and a task can't have begun before it was the first. */
    const uint64_t first_since = w->head_since + w->frozen_ns;
    const uint64_t start_ns = gd__max64(gd__min64(b->start_ns, now), gd__min64(first_since, now));
    w->head++;
    gd__head_changed(w, now);
    enter(s, i, slot, b->place, b->position, start_ns);
    const uint64_t limit = gd__limit_of(s, &s->tasks[slot]);
    if (limit != GD__NEVER)
        gd__task_arm(s, slot, gd__after(start_ns, limit));
    if (s->tasks[slot].cancel_asked)
        gd__inflight_ask_to_stop(s, slot, now + s->config.cancel_grace_ns);
    if (w->state == GD_WORKER_CANCELLING && w->head >= w->cancel_below) { /* the worker was only slow to begin the task
                                                                             */
        gd__worker_set_state(s, now, i, GD_WORKER_IDLE);
        gd__heap_disarm(&s->heap, &w->timer);
    }
    w->stuck = w->no_steal = false;
    gd__window_changed(s, i);
    return 0;
}

/* --- deadlines --- */

void gd__inflight_ask_to_stop(struct gd__sched *s, uint32_t slot, uint64_t kill_at)
{
    struct gd__task *t = &s->tasks[slot];
    const struct gd__sched_worker *w = &s->workers[t->worker];
    unsigned place = 0;
    if (t->asked_to_stop || w->state == GD_WORKER_KILLING)
        return;
    while (w->flight[place] != slot)
        place++;
    t->asked_to_stop = true;
    gd__task_arm(s, slot, kill_at);
    s->fx->cancel_place(s->ctx, (unsigned)t->worker, place, t->position);
}

void gd__inflight_timer(struct gd__sched *s, uint64_t now, uint32_t slot)
{
    struct gd__task *t = &s->tasks[slot];
    const unsigned i = (unsigned)t->worker;
    struct gd__sched_worker *w = &s->workers[i];
    if (w->state == GD_WORKER_KILLING)
        return;
    if (t->asked_to_stop) {
        w->guilty = slot;
        gd__worker_kill(s, now, i, t->cancel_asked ? GD__KILL_CANCELLED : GD__KILL_TIMEOUT);
        return;
    }
    /* If the limit was lowered, the grace period does not begin before that. */
    const uint64_t deadline = gd__max64(gd__after(t->begin_ns, gd__limit_of(s, t)), s->limit_since);
    gd__inflight_ask_to_stop(s, slot, gd__max64(gd__after(deadline, s->config.cancel_grace_ns), now));
}

void gd__inflight_limit_changed(struct gd__sched *s, uint64_t now, unsigned i)
{
    const struct gd__sched_worker *w = &s->workers[i];
    for (unsigned place = 0, left = w->n_flight; left > 0; place++) {
        const uint32_t slot = w->flight[place];
        if (slot == GD__NO_TASK)
            continue;
        left--;
        const uint64_t limit = gd__limit_of(s, &s->tasks[slot]);
        if (s->tasks[slot].asked_to_stop)
            continue;
        if (limit == GD__NEVER)
            gd__heap_disarm(&s->heap, &s->tasks[slot].timer);
        else
            gd__task_arm(s, slot, gd__max64(gd__after(s->tasks[slot].begin_ns, limit), now));
    }
}

void gd__inflight_frozen(struct gd__sched *s, unsigned i, uint64_t lost_ns)
{
    struct gd__sched_worker *w = &s->workers[i];
    for (unsigned place = 0, left = w->n_flight; left > 0; place++)
        if (w->flight[place] != GD__NO_TASK) {
            s->tasks[w->flight[place]].begin_ns += lost_ns;
            left--;
        }
}

/* --- finish --- */

static void note_duration(struct gd__sched *s, unsigned i, const struct gd__outcome *o)
{
    s->workers[i].last_ns = o->end_ns > o->start_ns ? o->end_ns - o->start_ns : 0;
    gd__note_mean(s, i, s->workers[i].last_ns + 1);
}

/* Charges nothing. */
static void run_again(struct gd__sched *s, uint32_t slot, const struct gd__outcome *o)
{
    s->counts.retried++;
    gd__task_began(&s->tasks[slot], o);
    gd__place_again(s, slot);
}

/* The worker ran out of memory while other tasks were in flight. The task is run again uncharged, and the worker gets
 * fewer tasks at once. */
static void end_beside_others(struct gd__sched *s, unsigned i, uint32_t slot, const struct gd__outcome *o)
{
    struct gd__sched_worker *w = &s->workers[i];
    const uint64_t half = gd__max64((w->n_flight + 1u) / 2, 1);
    w->places_limit = (uint32_t)gd__min64(w->places_limit, half);
    w->places = (uint32_t)gd__min64(w->places, half);
    gd__update_target(s, i);
    gd__update_hunger(s, i);
    if (gd__can_take_from(s, w)) /* tasks that it was handed for places that it no longer has */
        gd__window_take_back(s, i, gd__first_spare(s, w));
    run_again(s, slot, o);
}

int gd__inflight_finished(struct gd__sched *s, uint64_t now, unsigned i, unsigned place, uint64_t position,
                          const struct gd__outcome *o)
{
    struct gd__sched_worker *w = &s->workers[i];
    const struct gd__task *there = gd__sched_in_flight(s, i, place);
    if (!there || there->position != position)
        return GD_E_PROTOCOL;
    const uint32_t slot = w->flight[place];
    struct gd__task *t = &s->tasks[slot];
    const bool asked_before_begin = w->loads && position < w->cancel_below;
    const bool asked = (t->asked_to_stop || asked_before_begin) && !t->cancel_asked;
    leave(s, now, i, place);
    if (w->n_flight == 0) { /* from now on the first task of the window has no reason to wait */
        gd__head_changed(w, now);
        if (w->state == GD_WORKER_IDLE || w->state == GD__WORKER_SHORT)
            gd__arm_head_limit(s, now, i);
    }
    note_duration(s, i, o);
    t->attempt++;
    gd__attempt_settled(s, i, o);
    gd__window_changed(s, i);
    gd__worker_check_worn(s, i);
    if (o->failure == GD_FAILURE_OUT_OF_MEMORY && w->n_flight > 0 && !t->asked_to_stop && !asked && !s->stopping)
        end_beside_others(s, i, slot, o);
    else
        gd__attempt_judge(s, now, i, slot, o, asked);
    return 0;
}

/* --- the end of the process --- */

static void suspect(struct gd__sched *s, unsigned i, uint32_t slot, const struct gd__outcome *o)
{
    struct gd__task *t = &s->tasks[slot];
    t->group_deaths += t->group_deaths < 2;
    if (t->group_deaths == 2) {
        t->solo = true;
        t->solo_on = (int16_t)i;
    }
    run_again(s, slot, o);
}

/* What the death means for one task that was in flight. n: how many there were. */
static void end_by_death(struct gd__sched *s, uint64_t now, unsigned i, uint32_t slot, unsigned n,
                         const struct gd__outcome *o)
{
    struct gd__sched_worker *w = &s->workers[i];
    const bool innocent = gd__is_innocent_kill(w->kill_reason);
    const bool too_slow = w->kill_reason == GD__KILL_TIMEOUT && slot == w->guilty;
    const bool alone = n == 1 && !innocent && w->kill_reason != GD__KILL_TIMEOUT;
    struct gd__outcome own = *o;
    s->tasks[slot].attempt++;
    own.start_ns = s->tasks[slot].begin_ns;
    if (s->tasks[slot].cancel_asked)
        w->death_charged |= too_slow || alone;
    else if (too_slow || (alone && w->kill_reason != GD__KILL_CANCELLED))
        gd__death_charge(s, i, &s->tasks[slot]);
    if (s->tasks[slot].cancel_asked || (s->stopping && !too_slow))
        gd__task_cancel(s, slot);
    else if (too_slow)
        gd__task_timed_out(s, now, slot, &own);
    else if (innocent || w->kill_reason == GD__KILL_TIMEOUT || w->kill_reason == GD__KILL_CANCELLED)
        run_again(s, slot, &own);
    else if (n == 1)
        gd__task_crashed(s, now, slot, &own);
    else
        suspect(s, i, slot, &own);
}

/* The tasks of the window below the returned position had begun, or may have caused the death while they were loaded. */
static uint64_t find_suspects(const struct gd__sched *s, const struct gd__sched_worker *w, const struct gd__death *d)
{
    uint64_t below = d->started;
    const bool for_task = w->kill_reason == GD__KILL_TIMEOUT || w->kill_reason == GD__KILL_CANCELLED;
    if (for_task && w->guilty == gd__window_at(s, w, w->head))
        below = gd__max64(below, w->head + 1); /* its load did not stop */
    else if (!for_task && !gd__is_innocent_kill(w->kill_reason))
        below = gd__max64(below, d->loading);
    return gd__min64(gd__max64(below, w->head), w->tail);
}

void gd__inflight_reclaim(struct gd__sched *s, uint64_t now, unsigned i, const struct gd__death *d,
                          const struct gd__outcome *o)
{
    struct gd__sched_worker *w = &s->workers[i];
    const uint64_t begun_below = find_suspects(s, w, d);
    const unsigned n = w->n_flight + (unsigned)(begun_below - w->head);
    const uint64_t head = w->head, tail = w->tail;
    w->head = w->tail;
    w->solo = false;
    for (unsigned place = 0; w->n_flight > 0; place++) {
        const uint32_t slot = w->flight[place];
        if (slot == GD__NO_TASK)
            continue;
        leave(s, now, i, place);
        end_by_death(s, now, i, slot, n, o);
    }
    for (uint64_t p = head; p < tail; p++) {
        const uint32_t slot = gd__window_at(s, w, p);
        if (p < begun_below) {
            s->tasks[slot].begin_ns = p == head ? gd__max64(o->start_ns, w->head_since) : o->start_ns;
            end_by_death(s, now, i, slot, n, o);
        } else {
            gd__place_again(s, slot);
        }
    }
    w->guilty = GD__NO_TASK;
    gd__window_changed(s, i);
}

void gd__inflight_cancel_all(struct gd__sched *s, uint64_t now, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    for (unsigned place = 0; w->n_flight > 0; place++) {
        const uint32_t slot = w->flight[place];
        if (slot == GD__NO_TASK)
            continue;
        leave(s, now, i, place);
        gd__task_cancel(s, slot);
    }
    gd__window_changed(s, i);
}
