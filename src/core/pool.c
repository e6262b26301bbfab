/* Workers: what each event does in each state.
 *
 * "Result" stands for the begin of a task in flight too.
 *
 *              ready     setup failed  result    exited        timer
 *   OFF        .         .             .         .             .
 *   STARTING   now IDLE  stop it       .         died          setup took too long: kill
 *   IDLE       .         .             take it   died          a deadline may have passed
 *   CANCELLING .         .             take it   died          grace is over: kill
 *   STOPPING   ignore    count it      .         finished      too slow: kill
 *   KILLING    ignore    ignore        take it   died          it does not die: now LOST
 *   RESTING    .         .             .         .             start again
 *   HELD       .         .             .         .             no stop came: the death counts
 *   SHORT      .         .             take it   died          it may be handed tasks again
 *   SPARE      .         .             .         .             .
 *   FINISHED, FAILED, LOST: no more events.
 *
 * A dot marks an event that is impossible in that state: the worker has broken the protocol. IDLE means "ready". If its
 * window holds tasks, users see the worker as BUSY.
 *
 * death.c, deadline.c, device.c (all workers of one device) and ending.c (the run) handle what follows from the events.
 * control.c starts SPARE workers, and makes workers SPARE.
 */
#include "core/internal.h"

enum event { EV_READY, EV_SETUP_FAILED, EV_BEGUN, EV_EXITED, EV_TIMER, N_EVENTS };

struct event_data {
    uint64_t now;
    const char *message;
    const struct gd__death *death;
    const struct gd__begin *begin;
    unsigned concurrency; /* READY */
};

typedef int handler(struct gd__sched *s, unsigned i, const struct event_data *e);

/* --- changes of state --- */

static void start_next_in_line(struct gd__sched *s, uint64_t now)
{
    for (unsigned i = 0; i < s->config.n_workers && !s->stopping && !s->workers_stopped; i++)
        if (s->workers[i].wants_start)
            gd__worker_start(s, now, i);
}

static unsigned count_used(const struct gd__sched *s)
{
    unsigned n = 0;
    for (unsigned i = 0; i < s->config.n_workers; i++)
        n += s->workers[i].was_used;
    return n;
}

/* The last worker is out of use. Ends the run, unless it is ending already. */
static void no_worker_left(struct gd__sched *s)
{
    const bool over = s->stopping || s->workers_stopped;
    if (over)
        return;
    s->end = s->counts.setup_failures == count_used(s) ? GD__END_SETUP : GD__END_NO_WORKERS;
    s->stopping = true;
    gd__cancel_waiting(s);
}

/* Reports that a device has no worker left. Does so only once, and not while the run is ending. */
static void check_device(struct gd__sched *s, unsigned i)
{
    const unsigned device = s->workers[i].device;
    if (s->workers[device].device_out || s->stopping || s->workers_stopped)
        return;
    for (unsigned k = device; k < s->config.n_workers; k++)
        if (s->workers[k].device == device && !gd__is_gone(s->workers[k].state))
            return;
    s->workers[device].device_out = true;
    s->fx->device_out(s->ctx, i, NULL);
}

void gd__worker_set_state(struct gd__sched *s, uint64_t now, unsigned i, unsigned state)
{
    struct gd__sched_worker *w = &s->workers[i];
    const unsigned old = w->state;
    w->state = (uint8_t)state;
    s->n_ready += (unsigned)gd__takes_tasks(state) - (unsigned)gd__takes_tasks(old);
    s->n_starting += (unsigned)(state == GD_WORKER_STARTING) - (unsigned)(old == GD_WORKER_STARTING);
    gd__update_hunger(s, i);
    s->n_alive += (unsigned)!gd__is_gone(state) - (unsigned)!gd__is_gone(old);
    if (gd__is_gone(state)) {
        gd__place_release(s, i);
        if (gd__is_terminal(state)) /* a device whose workers were removed can be used again */
            check_device(s, i);
        if (s->n_alive == 0)
            no_worker_left(s);
    }
    if (old == GD_WORKER_STARTING)
        start_next_in_line(s, now);
}

void gd__worker_arm(struct gd__sched *s, unsigned i, uint64_t at)
{
    gd__heap_arm(&s->heap, &s->workers[i].timer, at);
}

void gd__worker_kill(struct gd__sched *s, uint64_t now, unsigned i, enum gd__kill_reason reason)
{
    struct gd__sched_worker *w = &s->workers[i];
    if (w->state == GD_WORKER_KILLING)
        return;
    if (gd__takes_tasks(w->state) && reason != GD__KILL_ENDING && !s->stopping) /* the process may take long to die */
        gd__window_take_back(s, i, gd__first_unasked(w));
    w->kill_reason = (uint8_t)reason;
    gd__worker_set_state(s, now, i, GD_WORKER_KILLING);
    gd__worker_arm(s, i, now + s->config.kill_wait_ns);
    s->fx->kill(s->ctx, i);
}

void gd__worker_stop(struct gd__sched *s, uint64_t now, unsigned i, uint64_t grace)
{
    gd__worker_set_state(s, now, i, GD_WORKER_STOPPING);
    gd__worker_arm(s, i, now + grace);
    s->fx->stop(s->ctx, i);
}

void gd__worker_start(struct gd__sched *s, uint64_t now, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    w->wants_start = s->config.setup_jobs > 0 && s->n_starting >= s->config.setup_jobs;
    if (w->wants_start)
        return;
    w->kill_reason = GD__KILL_NONE;
    w->productive = w->is_older = w->solo = w->no_steal = w->stuck = w->renew = false;
    w->served = 0;
    w->was_used = true;
    w->head = w->tail = w->cancel_below = w->run_position = 0;
    w->batch_left = 0;
    w->cancel_batch = false;
    w->concurrency = w->places = 1;
    w->guilty = GD__NO_TASK;
    gd__worker_set_state(s, now, i, GD_WORKER_STARTING);
    if (s->config.setup_timeout_ns > 0)
        gd__worker_arm(s, i, now + s->config.setup_timeout_ns);
    s->fx->spawn(s->ctx, i);
}

/* At the end of the last run, workers may have failed without a report about their device. */
void gd__pool_start(struct gd__sched *s, uint64_t now)
{
    for (unsigned i = 0; i < s->config.n_workers; i++)
        if (s->workers[i].state == GD_WORKER_OFF)
            gd__worker_start(s, now, i);
        else if (gd__is_terminal(s->workers[i].state))
            check_device(s, i);
}

void gd__worker_cancel_head(struct gd__sched *s, uint64_t now, unsigned i, uint64_t kill_at)
{
    struct gd__sched_worker *w = &s->workers[i];
    const uint16_t batch = s->tasks[gd__window_at(s, w, w->head)].batch;
    w->cancel_below = w->head + batch;
    w->cancel_batch = batch > 1;
    w->ends_tasks = false;
    gd__worker_set_state(s, now, i, GD_WORKER_CANCELLING);
    gd__worker_arm(s, i, kill_at);
    s->fx->cancel(s->ctx, i, w->cancel_below);
}

/* --- the window --- */

void gd__window_changed(struct gd__sched *s, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    const uint64_t running = gd__min64(gd__load(w), w->concurrency > 1 ? w->concurrency : s->config.batch_size);
    s->running += running - w->counted_running;
    w->counted_running = running;
    gd__update_allowed(s);
    gd__update_hunger(s, i);
}

/* Makes the last batch shorter if only its first tasks are left. This happens if the worker began these tasks as a
 * smaller batch, which was at the same position before and was taken back. */
static void cut_last_batch(struct gd__sched *s, const struct gd__sched_worker *w)
{
    for (uint64_t p = w->tail; p > w->head; p--) {
        struct gd__task *t = &s->tasks[gd__window_at(s, w, p - 1)];
        if (t->batch <= w->tail - (p - 1))
            return;
        t->batch = (uint16_t)(w->tail - (p - 1));
    }
}

bool gd__window_take_back(struct gd__sched *s, unsigned i, uint64_t keep)
{
    struct gd__sched_worker *w = &s->workers[i];
    const uint64_t old_tail = w->tail;
    if (keep >= old_tail)
        return false;
    w->tail = gd__max64(gd__min64(s->fx->take_back(s->ctx, i, keep), old_tail), keep);
    w->no_steal = w->tail == old_tail;
    cut_last_batch(s, w);
    if (gd__load(w) == 0)
        w->solo = w->stuck = false;
    gd__window_changed(s, i);
    for (uint64_t p = w->tail; p < old_tail; p++)
        gd__place_again(s, gd__window_at(s, w, p));
    return !w->no_steal;
}

/* --- handlers --- */

static int on_ready(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    struct gd__sched_worker *w = &s->workers[i];
    const int rc = gd__inflight_open(s, i, e->concurrency);
    if (rc < 0)
        return rc;
    w->setup_tries = 0;
    s->short_since = w->shortages = 0; /* the shortage is over: this worker could be started */
    gd__heap_disarm(&s->heap, &w->timer);
    gd__worker_set_state(s, e->now, i, GD_WORKER_IDLE);
    return 0;
}

void gd__count_setup_failure(struct gd__sched *s, unsigned i, const char *message)
{
    s->workers[i].given_up = true;
    s->counts.setup_failures++;
    s->fx->setup_failed(s->ctx, i, message);
}

static int on_setup_failed(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    if (!s->workers[i].given_up)
        gd__count_setup_failure(s, i, e->message);
    if (s->workers[i].state == GD_WORKER_STARTING)
        gd__worker_stop(s, e->now, i, s->config.cancel_grace_ns);
    return 0;
}

static int on_ignored(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    (void)s, (void)i, (void)e;
    return 0;
}

static int on_begun(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    return gd__inflight_begun(s, e->now, i, e->begin);
}

static int on_exited(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    gd__worker_exited(s, e->now, i, e->death);
    return 0;
}

static int on_kill_failed(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    gd__worker_lost(s, e->now, i);
    return 0;
}

static int on_no_stop(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    gd__worker_no_stop_came(s, e->now, i);
    return 0;
}

/* --- timers --- */

static int on_deadline(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    const uint64_t deadline = gd__head_deadline(s, e->now, i);
    if (deadline > e->now) {
        if (deadline != GD__NEVER)
            gd__worker_arm(s, i, deadline);
        return 0;
    }
    s->workers[i].cancel_asked = false;
    /* If the limit was lowered, the grace period does not begin before that. */
    const uint64_t asked = gd__max64(deadline, s->limit_since);
    gd__worker_cancel_head(s, e->now, i, gd__max64(asked + s->config.cancel_grace_ns, e->now));
    return 0;
}

static int on_try_again(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    struct gd__sched_worker *w = &s->workers[i];
    const uint64_t deadline = gd__head_deadline(s, e->now, i);
    if (deadline > e->now && w->short_until > e->now) {
        gd__arm_short(s, i, deadline);
        return 0;
    }
    gd__worker_set_state(s, e->now, i, GD_WORKER_IDLE);
    return on_deadline(s, i, e);
}

/* A worker that can end its tasks by itself is killed only if it does not do that in time. */
static int on_grace_over(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    struct gd__sched_worker *w = &s->workers[i];
    if (!w->ends_tasks && s->fx->end_tasks && s->fx->end_tasks(s->ctx, i)) {
        w->ends_tasks = true;
        gd__worker_arm(s, i, e->now + s->config.end_wait_ns);
        return 0;
    }
    if (w->loads && w->concurrency > 1)
        w->guilty = gd__window_at(s, w, w->head); /* its load did not stop */
    gd__worker_kill(s, e->now, i, w->cancel_asked ? GD__KILL_CANCELLED : GD__KILL_TIMEOUT);
    return 0;
}

static int on_setup_timeout(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    gd__worker_kill(s, e->now, i, GD__KILL_SETUP_TIMEOUT);
    return 0;
}

static int on_stop_timeout(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    gd__worker_kill(s, e->now, i, GD__KILL_ENDING);
    return 0;
}

static int on_rested(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    gd__worker_start(s, e->now, i);
    return 0;
}

static handler *const table[GD__WORKER_STATES][N_EVENTS] = {
    [GD_WORKER_STARTING] = { [EV_READY] = on_ready,
                             [EV_SETUP_FAILED] = on_setup_failed,
                             [EV_EXITED] = on_exited,
                             [EV_TIMER] = on_setup_timeout },
    [GD_WORKER_IDLE] = { [EV_BEGUN] = on_begun, [EV_EXITED] = on_exited, [EV_TIMER] = on_deadline },
    [GD_WORKER_CANCELLING] = { [EV_BEGUN] = on_begun, [EV_EXITED] = on_exited, [EV_TIMER] = on_grace_over },
    [GD_WORKER_STOPPING] = { [EV_READY] = on_ignored,
                             [EV_SETUP_FAILED] = on_setup_failed,
                             [EV_EXITED] = on_exited,
                             [EV_TIMER] = on_stop_timeout },
    [GD_WORKER_KILLING] = { [EV_READY] = on_ignored,
                            [EV_SETUP_FAILED] = on_ignored,
                            [EV_BEGUN] = on_begun,
                            [EV_EXITED] = on_exited,
                            [EV_TIMER] = on_kill_failed },
    [GD_WORKER_RESTING] = { [EV_TIMER] = on_rested },
    [GD__WORKER_HELD] = { [EV_TIMER] = on_no_stop },
    [GD__WORKER_SHORT] = { [EV_BEGUN] = on_begun, [EV_EXITED] = on_exited, [EV_TIMER] = on_try_again },
};

static int fire(struct gd__sched *s, unsigned i, enum event event, const struct event_data *e)
{
    handler *h = table[s->workers[i].state][event];
    return h ? h(s, i, e) : GD_E_PROTOCOL;
}

int gd__sched_ready(struct gd__sched *s, uint64_t now, unsigned w, unsigned concurrency)
{
    return fire(s, w, EV_READY, &(struct event_data){ .now = now, .concurrency = concurrency });
}

int gd__sched_begun(struct gd__sched *s, uint64_t now, unsigned w, const struct gd__begin *b)
{
    return fire(s, w, EV_BEGUN, &(struct event_data){ .now = now, .begin = b });
}

/* Results are not in the table: there are too many of them, and they mean the same in every state. */
static bool takes_results(unsigned state)
{
    return gd__takes_tasks(state) || state == GD_WORKER_KILLING;
}

int gd__sched_finish(struct gd__sched *s, uint64_t now, unsigned w, unsigned place, uint64_t position,
                     const struct gd__outcome *o)
{
    return takes_results(s->workers[w].state) ? gd__inflight_finished(s, now, w, place, position, o) : GD_E_PROTOCOL;
}

int gd__sched_setup_failed(struct gd__sched *s, uint64_t now, unsigned w, const char *message)
{
    return fire(s, w, EV_SETUP_FAILED, &(struct event_data){ .now = now, .message = message });
}

int gd__sched_result(struct gd__sched *s, uint64_t now, unsigned w, const struct gd__outcome *o, unsigned safe_batch)
{
    return takes_results(s->workers[w].state) ? gd__attempt_ended(s, now, w, o, safe_batch) : GD_E_PROTOCOL;
}

void gd__sched_exited(struct gd__sched *s, uint64_t now, unsigned w, const struct gd__death *d)
{
    (void)fire(s, w, EV_EXITED, &(struct event_data){ .now = now, .death = d });
}

void gd__sched_broken(struct gd__sched *s, uint64_t now, unsigned w)
{
    const unsigned state = s->workers[w].state;
    if (state == GD_WORKER_STARTING || gd__takes_tasks(state) || state == GD_WORKER_STOPPING)
        gd__worker_kill(s, now, w, state == GD_WORKER_STOPPING ? GD__KILL_ENDING : GD__KILL_BROKEN);
}

void gd__pool_timer(struct gd__sched *s, uint64_t now, unsigned w)
{
    (void)fire(s, w, EV_TIMER, &(struct event_data){ .now = now });
}
