/* What each request does, and the queue of requests from other threads.
 *
 * A request may call the user's callbacks, because a task that is cancelled ends at once. So requests are carried out
 * between two steps of a round, never in a callback.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "dispatch/internal.h"

enum { MOST_QUEUED = 1 << 20, MOST_TIMEOUT_MS = UINT32_MAX };

struct gd__control_entry {
    struct gd__control request;
    struct gd__control_entry *next;
};

/* --- carrying out --- */

#define ANSWER(out, c, ...) ((out)->code = (c), (void)snprintf((out)->text, sizeof(out)->text, __VA_ARGS__))

static bool is_ending(const struct gd_dispatcher *d)
{
    return d->sched.stopping || d->sched.workers_stopped;
}

static void refuse_at_end(struct gd__control_answer *out, const char *what)
{
    ANSWER(out, GD_E_SHUTDOWN, "%s: the run is ending", what);
}

/* How many tasks go on when nothing new starts. What could be taken back from the workers was taken back. */
static unsigned long long tasks_that_go_on(const struct gd_dispatcher *d)
{
    uint64_t n = 0;
    for (unsigned w = 0; w < d->n_workers; w++)
        n += d->sched.workers[w].tail - d->sched.workers[w].head + d->sched.workers[w].n_flight;
    return n;
}

static void pause_run(struct gd_dispatcher *d, const struct gd__control *c, struct gd__control_answer *out)
{
    (void)c;
    const bool was_paused = d->sched.paused;
    if (!gd__sched_pause(&d->sched)) {
        refuse_at_end(out, "not paused");
        return;
    }
    const unsigned long long n = tasks_that_go_on(d);
    ANSWER(out, 0, "%s: %llu running task%s on, nothing new starts", was_paused ? "paused already" : "paused", n,
           n == 1 ? " goes" : "s go");
}

static void resume_run(struct gd_dispatcher *d, const struct gd__control *c, struct gd__control_answer *out)
{
    (void)c;
    ANSWER(out, 0, d->sched.paused ? "resumed" : "not paused, nothing to resume");
    gd__sched_resume(&d->sched);
}

static void drain(struct gd_dispatcher *d, const struct gd__control *c, struct gd__control_answer *out)
{
    (void)c;
    if (is_ending(d) && !d->sched.draining) {
        refuse_at_end(out, "not drained");
        return;
    }
    gd__dispatcher_end_for(d, "the run was drained");
    gd__sched_drain(&d->sched, d->now);
    const unsigned long long n = tasks_that_go_on(d);
    ANSWER(out, 0, "draining: the run ends after %llu running task%s", n, n == 1 ? "" : "s");
}

/* The scheduler's id of the task with that number. */
static bool find_task(const struct gd_dispatcher *d, uint64_t number, uint64_t *id)
{
    for (uint32_t slot = 0; slot < d->sched.n_used; slot++) {
        const struct gd__task *t = &d->sched.tasks[slot];
        if (t->state == GD__TASK_FREE || gd__task_number(t) != number)
            continue;
        *id = t->id;
        return true;
    }
    return false;
}

static void cancel_task(struct gd_dispatcher *d, const struct gd__control *c, struct gd__control_answer *out)
{
    const unsigned long long number = c->value;
    uint64_t id = 0;
    gd__monitor_take_all(d); /* the task may be in the feeder's queue */
    const enum gd__cancel how =
        find_task(d, c->value, &id) ? gd__sched_cancel_task(&d->sched, d->now, id) : GD__CANCEL_UNKNOWN;
    switch (how) {
    case GD__CANCEL_UNKNOWN:
        ANSWER(out, GD_E_INVALID, "task %llu not cancelled: it has ended, or was not read from the source yet", number);
        break;
    case GD__CANCEL_DONE:
        ANSWER(out, GD_E_INVALID, "task %llu not cancelled: it is done, and waits until earlier tasks are reported",
               number);
        break;
    case GD__CANCEL_ENDED:
        ANSWER(out, 0, "task %llu cancelled before it began", number);
        break;
    case GD__CANCEL_ASKED:
        ANSWER(out, 0, "task %llu asked to stop", number);
        break;
    }
}

static void set_timeout(struct gd_dispatcher *d, const struct gd__control *c, struct gd__control_answer *out)
{
    gd__sched_set_timeout(&d->sched, d->now, c->value * GD__NS_PER_MS);
    d->o.task_timeout_ms = (unsigned)c->value;
    if (c->value > 0)
        ANSWER(out, 0, "time limit of a task set to %g s", (double)c->value / 1000.0);
    else
        ANSWER(out, 0, "time limit of a task removed");
}

/* The device of the run that has this GPU; NULL: none. */
static const struct gd__run_device *device_with(const struct gd_dispatcher *d, int gpu_id)
{
    for (unsigned i = 0; i < d->n_gpus; i++)
        if (d->gpus[i].gpu_id == gpu_id)
            return &d->devices[d->gpus[i].device];
    return NULL;
}

static const char *why_not_resized(int r, bool add)
{
    switch ((enum gd__resize)r) {
    case GD__RESIZE_ENDING:
        return "the run is ending";
    case GD__RESIZE_OUT:
        return "the device is out of use";
    case GD__RESIZE_LAST:
        return "the last worker of a run cannot be removed: pause or drain it instead";
    case GD__RESIZE_NONE:
        break;
    }
    return add ? "no place for another worker: see max_workers_per_gpu" : "no worker of it is left";
}

static void resize(struct gd_dispatcher *d, const struct gd__control *c, struct gd__control_answer *out)
{
    const bool add = c->kind == GD__CONTROL_ADD;
    const unsigned first = device_with(d, c->gpu_id)->first_worker;
    uint64_t done = 0;
    int r = 0;
    while (done < c->value) {
        r = add ? gd__sched_add_worker(&d->sched, d->now, first) : gd__sched_remove_worker(&d->sched, d->now, first);
        if (r < 0)
            break;
        done++;
    }
    const char *what = add ? "added to" : "removed from";
    if (done == c->value)
        ANSWER(out, 0, "%llu worker%s %s GPU %d", (unsigned long long)done, done == 1 ? "" : "s", what, c->gpu_id);
    else
        ANSWER(out, r == GD__RESIZE_ENDING ? GD_E_SHUTDOWN : GD_E_INVALID, "%llu of %llu workers %s GPU %d: %s",
               (unsigned long long)done, (unsigned long long)c->value, what, c->gpu_id, why_not_resized(r, add));
}

typedef void action(struct gd_dispatcher *d, const struct gd__control *c, struct gd__control_answer *out);

static action *const actions[GD__CONTROL_KINDS] = {
    [GD__CONTROL_PAUSE] = pause_run,    [GD__CONTROL_RESUME] = resume_run,       [GD__CONTROL_DRAIN] = drain,
    [GD__CONTROL_CANCEL] = cancel_task, [GD__CONTROL_SET_TIMEOUT] = set_timeout, [GD__CONTROL_ADD] = resize,
    [GD__CONTROL_REMOVE] = resize,
};

/* Checks what does not depend on the state of the run. Any thread may call it. */
static int check(const struct gd_dispatcher *d, const struct gd__control *c)
{
    const bool resizes = c->kind == GD__CONTROL_ADD || c->kind == GD__CONTROL_REMOVE;
    if (c->kind == GD__CONTROL_SET_TIMEOUT && c->value > MOST_TIMEOUT_MS)
        return gd__error(GD_E_INVALID, "a time limit of %llu ms is too long: at most %llu; 0 means no limit",
                         (unsigned long long)c->value, (unsigned long long)MOST_TIMEOUT_MS);
    if (resizes && c->value == 0)
        return gd__error(GD_E_INVALID, "0 workers: add or remove at least 1");
    if (resizes && !device_with(d, c->gpu_id))
        return gd__error(GD_E_INVALID, "GPU %d is not a device of this run", c->gpu_id);
    return 0;
}

void gd__control_do(struct gd_dispatcher *d, const struct gd__control *c, struct gd__control_answer *out)
{
    d->now = gd__now_ns(); /* time limits may begin now */
    if (check(d, c) < 0)
        ANSWER(out, GD_E_INVALID, "%s", gd_error_text());
    else
        actions[c->kind](d, c, out);
    gd__publish_request(d, out->text, out->code);
    gd__stats_publish(d, true); /* what follows is about the run as it is now */
    if (d->listener.control)
        d->listener.control(d->listener.user, out->text, out->code);
    if (d->o.on_control)
        d->o.on_control(d->o.user, out->text, out->code);
}

/* --- the queue --- */

static struct gd__control_entry *take_first(struct gd_dispatcher *d)
{
    struct gd__control_queue *q = &d->control;
    if (atomic_load_explicit(&q->n, memory_order_acquire) == 0)
        return NULL;
    pthread_mutex_lock(&q->lock);
    struct gd__control_entry *e = q->first;
    if (e) {
        q->first = e->next;
        atomic_fetch_sub(&q->n, 1);
    }
    pthread_mutex_unlock(&q->lock);
    return e;
}

/* Requests that are made meanwhile wait for the next round. Otherwise a callback that makes a request each time would
 * keep the run here. */
void gd__control_take(struct gd_dispatcher *d)
{
    struct gd__control_entry *e;
    for (unsigned n = atomic_load(&d->control.n); n > 0 && (e = take_first(d)); n--) {
        struct gd__control_answer answer;
        gd__control_do(d, &e->request, &answer);
        gd__free(e);
    }
}

void gd__control_free(struct gd_dispatcher *d)
{
    struct gd__control_entry *e;
    while ((e = take_first(d)))
        gd__free(e);
}

static int put_last(struct gd_dispatcher *d, struct gd__control_entry *e)
{
    struct gd__control_queue *q = &d->control;
    pthread_mutex_lock(&q->lock);
    const bool full = atomic_load(&q->n) >= MOST_QUEUED;
    if (!full) {
        if (q->first)
            q->last->next = e;
        else
            q->first = e;
        q->last = e;
        atomic_fetch_add(&q->n, 1);
    }
    pthread_mutex_unlock(&q->lock);
    return full ? gd__error(GD_E_BUSY, "%d requests wait already: is a callback stuck?", MOST_QUEUED) : 0;
}

static int request(struct gd_dispatcher *d, struct gd__control c)
{
    if (!d)
        return gd__error(GD_E_INVALID, "the dispatcher is NULL");
    int rc = check(d, &c);
    if (rc < 0)
        return rc;
    struct gd__control_entry *e = gd__calloc(1, sizeof *e);
    if (!e)
        return gd__error(GD_E_NO_MEMORY, "no memory for a request");
    e->request = c;
    rc = put_last(d, e);
    if (rc < 0)
        gd__free(e);
    else
        gd__dispatcher_wake(d);
    return rc;
}

int gd_dispatcher_pause(struct gd_dispatcher *d)
{
    return request(d, (struct gd__control){ .kind = GD__CONTROL_PAUSE });
}

int gd_dispatcher_unpause(struct gd_dispatcher *d)
{
    return request(d, (struct gd__control){ .kind = GD__CONTROL_RESUME });
}

int gd_dispatcher_drain(struct gd_dispatcher *d)
{
    return request(d, (struct gd__control){ .kind = GD__CONTROL_DRAIN });
}

int gd_dispatcher_cancel_task(struct gd_dispatcher *d, uint64_t task_id)
{
    return request(d, (struct gd__control){ .kind = GD__CONTROL_CANCEL, .value = task_id });
}

int gd_dispatcher_set_timeout(struct gd_dispatcher *d, unsigned task_timeout_ms)
{
    return request(d, (struct gd__control){ .kind = GD__CONTROL_SET_TIMEOUT, .value = task_timeout_ms });
}

int gd_dispatcher_add_workers(struct gd_dispatcher *d, int gpu_id, unsigned n)
{
    return request(d, (struct gd__control){ .kind = GD__CONTROL_ADD, .value = n, .gpu_id = gpu_id });
}

int gd_dispatcher_remove_workers(struct gd_dispatcher *d, int gpu_id, unsigned n)
{
    return request(d, (struct gd__control){ .kind = GD__CONTROL_REMOVE, .value = n, .gpu_id = gpu_id });
}
