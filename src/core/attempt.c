/* The end of an attempt. A result has effects on its task and on the worker that sent it. If a worker dies, some tasks
 * of its window are charged with the death. See sched.h for the rules. */
#include "core/internal.h"

/* --- the window of a dead worker --- */

/* Empties the window of a process that is gone. `blamed`: how many tasks, counted from head, may have caused the death.
 * The loop goes from the last task to the first and puts each at the front of its list, which keeps their order. */
void gd__window_reclaim(struct gd__sched *s, uint64_t now, unsigned i, uint64_t blamed, const struct gd__outcome *o)
{
    struct gd__sched_worker *w = &s->workers[i];
    const uint64_t head = w->head, tail = w->tail;
    const bool cancelled = s->stopping;
    /* If a batch was asked to stop and only one of its tasks is left, another task of the batch may have taken too
     * long. */
    const bool on_request = w->kill_reason == GD__KILL_CANCELLED; /* the other tasks of the batch are innocent */
    const bool guilty = blamed == 1 && !on_request && !(o->failure == GD_FAILURE_TIMEOUT && w->cancel_batch);
    w->head = tail;
    gd__window_changed(s, i);
    for (uint64_t p = tail; p > head; p--) {
        const uint32_t slot = gd__window_at(s, w, p - 1);
        struct gd__task *t = &s->tasks[slot];
        const bool started = p - 1 - head < blamed;
        t->attempt += started;
        if (t->cancel_asked) {
            w->death_charged |= started && guilty; /* nobody is to blame */
            gd__task_cancel(s, slot);
        } else if (started && guilty) {
            gd__death_charge(s, i, t);
            if (o->failure == GD_FAILURE_TIMEOUT)
                gd__task_timed_out(s, now, slot, o);
            else
                gd__task_crashed(s, now, slot, o);
        } else if (cancelled) {
            gd__task_cancel(s, slot);
        } else {
            s->counts.retried += started;
            if (started)
                gd__task_began(t, o);
            t->solo |= started && !on_request;
            gd__place_again(s, slot);
        }
    }
}

uint64_t gd__count_blamed(const struct gd__sched_worker *w, const struct gd__death *d)
{
    const uint64_t length = gd__window_length(w);
    uint64_t below = gd__max64(d->started, d->loading);
    if ((w->kill_reason == GD__KILL_TIMEOUT || w->kill_reason == GD__KILL_CANCELLED) && below > w->head)
        below = w->cancel_below; /* only the first task or its batch was too slow; later tasks are innocent */
    if (gd__is_innocent_kill(w->kill_reason) || below <= w->head)
        return 0;
    return gd__min64(below - w->head, length);
}

/* --- results --- */

/* Updates the mean duration of the worker's tasks. The number of tasks that it is handed changes only if the mean has
 * moved by a quarter. */
void gd__note_mean(struct gd__sched *s, unsigned i, uint64_t per_task_ns)
{
    struct gd__sched_worker *w = &s->workers[i];
    w->mean_ns = w->mean_ns == 0 ? per_task_ns : (7 * w->mean_ns + per_task_ns) / 8;
    const uint64_t moved = w->mean_ns > w->target_mean ? w->mean_ns - w->target_mean : w->target_mean - w->mean_ns;
    if (moved > w->target_mean / 4)
        gd__update_target(s, i);
}

static void note_duration(struct gd__sched *s, unsigned i, const struct gd__task *t, const struct gd__outcome *o)
{
    struct gd__sched_worker *w = &s->workers[i];
    const uint64_t ns = o->end_ns > o->start_ns ? o->end_ns - o->start_ns : 0;
    if (w->batch_left > 0) { /* not the first of its batch: the time of the batch is counted already */
        w->batch_left--;
        return;
    }
    w->batch_left = t->batch - 1u;
    w->last_ns = ns;
    w->busy_ns += ns;
    const uint64_t per_task = (t->batch == 1 ? ns : ns / t->batch) + 1;
    gd__note_mean(s, i, per_task);
}

void gd__count_for_worker(struct gd__sched *s, const struct gd__outcome *o)
{
    struct gd__sched_worker *w = &s->workers[o->worker];
    if (o->failure == GD_FAILURE_TIMEOUT)
        w->timeouts++;
    else
        w->failed++;
}

/* A task that fails after it was asked to stop has timed out. If it was part of a batch, it is unknown which task took
 * too long, so each task of the batch is run again alone. If the batch was asked to stop because one of its tasks was
 * cancelled, the others are run again as they are. */
static void end_cancelled(struct gd__sched *s, uint64_t now, unsigned i, uint32_t slot, struct gd__outcome o)
{
    struct gd__task *t = &s->tasks[slot];
    if (s->workers[i].cancel_batch && !s->stopping) {
        t->solo |= !s->workers[i].cancel_asked;
        s->counts.retried++;
        gd__place_again(s, slot);
        return;
    }
    o.failure = GD_FAILURE_TIMEOUT;
    o.final = o.by_stop_signal = false; /* these describe the way it stopped, not the task */
    gd__task_timed_out(s, now, slot, &o);
}

static void end_well(struct gd__sched *s, unsigned i, uint32_t slot, const struct gd__outcome *o)
{
    s->workers[i].completed++;
    s->workers[s->workers[i].device].lost_in_row = 0;
    gd__task_final(s, slot, o);
}

static void end_badly(struct gd__sched *s, uint64_t now, uint32_t slot, struct gd__outcome o)
{
    if (o.failure == GD_FAILURE_CANCELLED && !s->stopping) {
        o.failure = GD_FAILURE_ERROR; /* nothing had asked it to stop */
        o.final = true;
    }
    if (o.failure == GD_FAILURE_DEVICE_LOST)
        gd__task_crashed(s, now, slot, &o);
    else
        gd__task_retry(s, now, slot, &o);
}

/* Puts the task back as if it had not been handed out. */
static void end_short(struct gd__sched *s, uint64_t now, unsigned i, uint32_t slot, const struct gd__outcome *o)
{
    s->tasks[slot].attempt--;
    const bool no_use = gd__short_of(s, now, i, o->bytes, o->size);
    gd__place_again(s, slot);
    if (no_use) {
        s->end = GD__END_SHORTAGE; /* before tasks are reported as cancelled for it */
        gd__sched_shutdown(s, now);
    } else if (s->workers[i].state == GD_WORKER_IDLE) {
        gd__worker_short(s, now, i);
    }
}

void gd__worker_check_worn(struct gd__sched *s, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    if (s->config.max_tasks == 0 || w->served < s->config.max_tasks || w->renew || s->stopping)
        return;
    w->renew = true; /* it has no other task: it was handed no more than this many */
    gd__update_hunger(s, i);
}

static void after_result(struct gd__sched *s, uint64_t now, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    gd__worker_check_worn(s, i);
    if (w->state == GD_WORKER_CANCELLING && w->head >= w->cancel_below) {
        gd__worker_set_state(s, now, i, GD_WORKER_IDLE);
        gd__heap_disarm(&s->heap, &w->timer);
        gd__arm_head_limit(s, now, i);
    } else if (s->has_limits && (w->state == GD_WORKER_IDLE || w->state == GD__WORKER_SHORT)) {
        gd__arm_head_limit(s, now, i);
    }
    if (s->has_cancels)
        gd__cancel_unwanted_head(s, now, i);
    const bool ready = w->state == GD_WORKER_IDLE || w->state == GD__WORKER_SHORT;
    if ((s->stopping || w->leaving || w->renew) && ready && gd__load(w) == 0)
        gd__worker_stop(s, now, i, s->config.cleanup_grace_ns);
    if (s->outstanding == 0)
        gd__check_done(s, now);
}

void gd__attempt_settled(struct gd__sched *s, unsigned i, const struct gd__outcome *o)
{
    struct gd__sched_worker *w = &s->workers[i];
    w->solo = w->no_steal = w->stuck = false;
    w->productive = w->productive || (o->failure != GD_FAILURE_DEVICE_LOST && !o->shortage);
    w->served += !o->shortage;
    if (!o->shortage)
        s->short_since = w->shortages = 0;
}

void gd__attempt_judge(struct gd__sched *s, uint64_t now, unsigned i, uint32_t slot, const struct gd__outcome *o,
                       bool asked)
{
    const enum gd_failure failure = o->failure;
    if (failure == GD_FAILURE_NONE)
        end_well(s, i, slot, o);
    else if (s->tasks[slot].cancel_asked)
        gd__task_cancelled(s, slot, o);
    else if (o->shortage && !asked && !s->stopping)
        end_short(s, now, i, slot, o);
    else if (asked && failure != GD_FAILURE_DEVICE_LOST)
        end_cancelled(s, now, i, slot, *o);
    else
        end_badly(s, now, slot, *o);
    if (failure != GD_FAILURE_DEVICE_LOST || s->workers[i].state == GD_WORKER_KILLING) {
        after_result(s, now, i);
        return;
    }
    gd__device_lost(s, now, i);
    gd__check_done(s, now);
}

int gd__attempt_ended(struct gd__sched *s, uint64_t now, unsigned i, const struct gd__outcome *o, unsigned safe_batch)
{
    struct gd__sched_worker *w = &s->workers[i];
    if (gd__window_length(w) == 0 || w->concurrency > 1)
        return GD_E_PROTOCOL;
    const uint32_t slot = gd__window_at(s, w, w->head);
    struct gd__task *t = &s->tasks[slot];
    __builtin_prefetch(&s->tasks[gd__window_at(s, w, w->head + 4)]); /* a stale entry there is a valid slot too */
    const bool asked = w->head < w->cancel_below;
    note_duration(s, i, t, o);
    t->attempt++;
    w->head++;
    gd__head_changed(w, now);
    gd__attempt_settled(s, i, o);
    if (safe_batch > 0 && safe_batch < w->batch_limit) {
        w->batch_limit = safe_batch;
        gd__update_target(s, i);
    }
    gd__window_changed(s, i);
    if (o->failure == GD_FAILURE_NONE) { /* almost every task: as little as possible is done */
        end_well(s, i, slot, o);
        if (!w->ready || s->stopping || s->has_limits || s->has_cancels || s->config.max_tasks > 0 ||
            s->outstanding == 0)
            after_result(s, now, i);
    } else {
        gd__attempt_judge(s, now, i, slot, o, asked);
    }
    return 0;
}
