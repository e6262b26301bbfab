/* Requests from outside while the run goes on: pause, cancel one task, change the time limit, add and remove workers.
 *
 * A task that a worker has begun stays with it. Tasks that it has not begun can be taken back at once. So during a
 * pause nothing more starts. A waiting task that is cancelled never starts. A removed worker ends after the tasks that
 * it has begun.
 *
 * A worker that is removed becomes SPARE, as soon as its process is gone. A SPARE worker counts as gone until it is
 * added again.
 */
#include "core/internal.h"

static bool is_ending(const struct gd__sched *s)
{
    return s->stopping || s->workers_stopped;
}

/* --- pause --- */

bool gd__sched_pause(struct gd__sched *s)
{
    if (is_ending(s))
        return false;
    s->paused = true;
    for (unsigned i = 0; i < s->config.n_workers; i++)
        if (gd__takes_tasks(s->workers[i].state))
            gd__window_take_back(s, i, gd__first_unasked(&s->workers[i]));
    return true;
}

void gd__sched_resume(struct gd__sched *s)
{
    s->paused = false;
}

/* --- cancel one task --- */

static uint32_t slot_of(const struct gd__sched *s, uint64_t id)
{
    for (uint32_t slot = 0; slot < s->n_used; slot++)
        if (s->tasks[slot].id == id && s->tasks[slot].state != GD__TASK_FREE)
            return slot;
    return GD__NO_TASK;
}

static uint64_t position_of(const struct gd__sched *s, const struct gd__sched_worker *w, uint32_t slot)
{
    uint64_t p = w->head;
    while (gd__window_at(s, w, p) != slot)
        p++;
    return p;
}

/* The first position of the batch that holds position p. Earlier results of the batch at head may have come already. */
static uint64_t batch_begin(const struct gd__sched *s, const struct gd__sched_worker *w, uint64_t p)
{
    uint64_t begin = w->head, n;
    while ((n = s->tasks[gd__window_at(s, w, begin)].batch) <= p - begin)
        begin += n;
    return begin;
}

/* Whether the first task of the window, or one of its batch, was cancelled. */
static bool head_is_unwanted(const struct gd__sched *s, const struct gd__sched_worker *w)
{
    if (gd__window_length(w) == 0)
        return false;
    const uint64_t end = gd__min64(w->tail, w->head + s->tasks[gd__window_at(s, w, w->head)].batch);
    for (uint64_t p = w->head; p < end; p++)
        if (s->tasks[gd__window_at(s, w, p)].cancel_asked)
            return true;
    return false;
}

/* A task that was loaded ahead may wait long for a place. It is asked to stop when it begins. */
void gd__cancel_unwanted_head(struct gd__sched *s, uint64_t now, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    if (w->loads && w->n_flight > 0)
        return;
    if ((w->state != GD_WORKER_IDLE && w->state != GD__WORKER_SHORT) || !head_is_unwanted(s, w))
        return;
    w->cancel_asked = true;
    gd__worker_cancel_head(s, now, i, now + s->config.cancel_grace_ns);
}

/* Cancels a task of w's window. It is taken back if w has not begun it, together with all tasks that come later. */
static enum gd__cancel cancel_handed(struct gd__sched *s, uint64_t now, unsigned i, uint32_t slot)
{
    struct gd__sched_worker *w = &s->workers[i];
    const uint64_t p = position_of(s, w, slot);
    s->tasks[slot].cancel_asked = true;
    if (gd__takes_tasks(w->state))
        gd__window_take_back(s, i, gd__max64(batch_begin(s, w, p), gd__first_unasked(w)));
    if (p >= w->tail)
        return GD__CANCEL_ENDED;
    s->has_cancels = true;
    gd__cancel_unwanted_head(s, now, i);
    return GD__CANCEL_ASKED;
}

enum gd__cancel gd__sched_cancel_task(struct gd__sched *s, uint64_t now, uint64_t id)
{
    const uint32_t slot = slot_of(s, id);
    if (slot == GD__NO_TASK)
        return GD__CANCEL_UNKNOWN;
    struct gd__task *t = &s->tasks[slot];
    enum gd__cancel how = GD__CANCEL_ENDED;
    if (t->state == GD__TASK_PARKED)
        return GD__CANCEL_DONE;
    if (t->state == GD__TASK_BEGUN) {
        t->cancel_asked = true;
        gd__inflight_ask_to_stop(s, slot, now + s->config.cancel_grace_ns);
        how = GD__CANCEL_ASKED;
    } else if (t->state == GD__TASK_HANDED) {
        how = cancel_handed(s, now, (unsigned)t->worker, slot);
    } else {
        if (t->state == GD__TASK_WAITING)
            gd__place_remove(s, slot);
        gd__heap_disarm(&s->heap, &t->timer);
        t->cancel_asked = true;
        gd__task_cancel(s, slot);
    }
    gd__check_done(s, now);
    return how;
}

/* --- the time limit --- */

/* A worker's timer never fires later than its first task's deadline: see deadline.c. */
void gd__sched_set_timeout(struct gd__sched *s, uint64_t now, uint64_t timeout_ns)
{
    s->config.task_timeout_ns = timeout_ns;
    s->limit_since = now;
    for (unsigned i = 0; i < s->config.n_workers; i++) {
        struct gd__sched_worker *w = &s->workers[i];
        gd__inflight_limit_changed(s, now, i);
        if (w->state != GD_WORKER_IDLE && w->state != GD__WORKER_SHORT)
            continue;
        const uint64_t deadline = gd__max64(gd__head_deadline(s, now, i), now);
        if (w->state == GD_WORKER_IDLE && deadline == GD__NEVER)
            gd__heap_disarm(&s->heap, &w->timer); /* the timer may be armed for a longer limit */
        else if (deadline != GD__NEVER && (!gd__timer_armed(&w->timer) || w->timer.at_ns > deadline))
            gd__worker_arm(s, i, deadline);
    }
}

/* --- workers --- */

/* Whether w runs tasks, or will when its process has started. */
static bool is_in_use(const struct gd__sched_worker *w)
{
    return !gd__is_gone(w->state) && w->state != GD_WORKER_STOPPING && !w->leaving && !w->given_up;
}

static bool is_last(const struct gd__sched *s)
{
    unsigned n = 0;
    for (unsigned i = 0; i < s->config.n_workers; i++)
        n += is_in_use(&s->workers[i]);
    return n == 1;
}

/* The worker with the least cost is removed first: one without a process, then one in setup, then one with few tasks.
 */
static uint64_t removal_cost(const struct gd__sched_worker *w)
{
    if (gd__has_no_process(w->state) || w->state == GD_WORKER_KILLING)
        return 0;
    return w->state == GD_WORKER_STARTING ? 1 : 2 + gd__load(w);
}

/* Returns the worker of the device that is removed first. If several have the same cost, it is the last one. -1: no
 * worker of the device is in use. */
static int choose_removal(const struct gd__sched *s, unsigned device)
{
    int best = -1;
    for (unsigned i = device; i < s->config.n_workers; i++) {
        const struct gd__sched_worker *w = &s->workers[i];
        if (w->device == device && is_in_use(w) && (best < 0 || removal_cost(w) <= removal_cost(&s->workers[best])))
            best = (int)i;
    }
    return best;
}

static void leave(struct gd__sched *s, uint64_t now, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    w->leaving = true;
    w->wants_start = false;
    gd__update_hunger(s, i);
    gd__place_release(s, i);
    if (w->state == GD_WORKER_OFF || w->state == GD_WORKER_RESTING) {
        gd__heap_disarm(&s->heap, &w->timer);
        gd__worker_left(s, now, i);
    } else if (w->state == GD_WORKER_STARTING) { /* a quick setup may still end and clean up; a slow one is killed */
        gd__worker_stop(s, now, i, gd__min64(s->config.cleanup_grace_ns, s->config.cancel_grace_ns));
    } else if (gd__takes_tasks(w->state)) {
        gd__window_take_back(s, i, gd__first_unasked(w));
        if (gd__load(w) == 0)
            gd__worker_stop(s, now, i, s->config.cleanup_grace_ns);
    }
}

int gd__sched_remove_worker(struct gd__sched *s, uint64_t now, unsigned w)
{
    if (is_ending(s))
        return GD__RESIZE_ENDING;
    const int i = choose_removal(s, s->workers[w].device);
    if (i < 0)
        return GD__RESIZE_NONE;
    if (is_last(s))
        return GD__RESIZE_LAST;
    leave(s, now, (unsigned)i);
    return i;
}

static void come(struct gd__sched *s, uint64_t now, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    s->counts.restarts += w->was_used;
    gd__worker_forget(w);
    gd__worker_set_state(s, now, i, GD_WORKER_OFF);
    gd__worker_start(s, now, i);
}

void gd__worker_left(struct gd__sched *s, uint64_t now, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    const bool comes_back = w->comes_back;
    w->leaving = w->comes_back = false;
    if (comes_back)
        come(s, now, i);
    else
        gd__worker_set_state(s, now, i, GD__WORKER_SPARE);
}

/* If a removed worker was not asked to stop yet, it simply stays. */
static void come_back(struct gd__sched *s, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    if (w->state == GD_WORKER_STOPPING || w->kill_reason == GD__KILL_ENDING) {
        w->comes_back = true;
    } else {
        w->leaving = false;
        gd__update_hunger(s, i);
    }
}

int gd__sched_add_worker(struct gd__sched *s, uint64_t now, unsigned w)
{
    const unsigned device = s->workers[w].device;
    if (is_ending(s))
        return GD__RESIZE_ENDING;
    if (s->workers[device].device_out)
        return GD__RESIZE_OUT;
    for (unsigned i = device; i < s->config.n_workers; i++) {
        const struct gd__sched_worker *at = &s->workers[i];
        if (at->device == device && at->leaving && !at->comes_back && !at->given_up) {
            come_back(s, i);
            return (int)i;
        }
    }
    for (unsigned i = device; i < s->config.n_workers; i++) {
        const struct gd__sched_worker *at = &s->workers[i];
        if (at->device == device && at->state == GD__WORKER_SPARE && !at->given_up) {
            come(s, now, i);
            return (int)i;
        }
    }
    return GD__RESIZE_NONE;
}
