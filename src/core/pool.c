/* Workers: one table says what each event does in each state.
 *
 *              ready     setup failed  result    exited       timer
 *   OFF        .         .             .         .            .
 *   STARTING   serve     leave         .         died          setup took too long: kill
 *   IDLE       .         .             take it   died          a deadline may have passed
 *   CANCELLING .         .             take it   died          grace is over: kill
 *   STOPPING   ignore    leave         .         gone          too slow: kill
 *   KILLING    ignore    ignore        take it   died          it won't die: lost
 *   RESTING    .         .             .         .             start again
 *   HELD       .         .             .         .             no stop came: it has died
 *   SHORT      .         .             take it   died          it may be handed tasks again
 *   FINISHED, FAILED, LOST: nothing comes any more.
 *
 * A dot is an event that a worker in that state cannot cause: it has broken the protocol. (IDLE means "ready". With
 * tasks in its window the worker is shown as BUSY.)
 *
 * Deadlines are lazy, so that a task costs no timer operation: a worker's timer is armed when its window gets its first
 * task, and only when it fires is the real start of the task at head looked up.
 */
#include <signal.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "core/internal.h"

#define RESTART_DELAY_MAX GD__NS_PER_S
enum { DEVICE_LOST_LIMIT = 2 };

enum event { EV_READY, EV_SETUP_FAILED, EV_RESULT, EV_EXITED, EV_TIMER, N_EVENTS };

struct event_data {
    uint64_t now;
    const char *words;
    const struct gd__outcome *outcome;
    const struct gd__death *death;
    unsigned safe_batch;
};

typedef int handler(struct gd__sched *s, unsigned i, const struct event_data *e);

static void start_worker(struct gd__sched *s, uint64_t now, unsigned i);

/* --- changes of state --- */

static bool is_terminal(unsigned state)
{
    return state == GD_WORKER_FINISHED || state == GD_WORKER_FAILED || state == GD_WORKER_LOST;
}

/* Such a worker may still get a process. */
static bool has_no_process(unsigned state)
{
    return state == GD_WORKER_OFF || state == GD_WORKER_RESTING || state == GD__WORKER_HELD;
}

static bool takes_tasks(unsigned state)
{
    return state == GD_WORKER_IDLE || state == GD_WORKER_CANCELLING || state == GD__WORKER_SHORT;
}

static void start_next_in_line(struct gd__sched *s, uint64_t now)
{
    for (unsigned i = 0; i < s->config.n_workers && !s->stopping && !s->workers_stopped; i++)
        if (s->workers[i].wants_start)
            start_worker(s, now, i);
}

/* Ends the run if its last worker is out of use while tasks are left. */
static void no_worker_left(struct gd__sched *s)
{
    const bool over = s->stopping || s->workers_stopped;
    if (over)
        return;
    s->end = s->counts.setup_failures == s->config.n_workers ? GD__END_SETUP : GD__END_NO_WORKERS;
    s->stopping = true;
    gd__cancel_waiting(s);
}

/* Reports, once, that a device has no worker left. The end of the run does not count. */
static void check_device(struct gd__sched *s, unsigned i)
{
    const unsigned device = s->workers[i].device;
    if (s->workers[device].device_out || s->stopping || s->workers_stopped)
        return;
    for (unsigned k = device; k < s->config.n_workers && s->workers[k].device == device; k++)
        if (!is_terminal(s->workers[k].state))
            return;
    s->workers[device].device_out = true;
    s->fx->device_out(s->ctx, i, NULL);
}

void gd__worker_set_state(struct gd__sched *s, uint64_t now, unsigned i, unsigned state)
{
    struct gd__sched_worker *w = &s->workers[i];
    const unsigned old = w->state;
    w->state = (uint8_t)state;
    s->n_ready += (unsigned)takes_tasks(state) - (unsigned)takes_tasks(old);
    s->n_starting += (unsigned)(state == GD_WORKER_STARTING) - (unsigned)(old == GD_WORKER_STARTING);
    gd__update_hunger(s, i);
    if (is_terminal(state)) {
        s->n_alive--;
        gd__place_release(s, i);
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

static void start_worker(struct gd__sched *s, uint64_t now, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    w->wants_start = s->config.setup_jobs > 0 && s->n_starting >= s->config.setup_jobs;
    if (w->wants_start)
        return;
    w->kill_reason = GD__KILL_NONE;
    w->productive = w->solo = w->no_steal = false;
    w->head = w->tail = w->cancel_below = w->run_position = 0;
    w->batch_left = 0;
    gd__worker_set_state(s, now, i, GD_WORKER_STARTING);
    if (s->config.setup_timeout_ns > 0)
        gd__worker_arm(s, i, now + s->config.setup_timeout_ns);
    s->fx->spawn(s->ctx, i);
}

void gd__pool_start(struct gd__sched *s, uint64_t now)
{
    for (unsigned i = 0; i < s->config.n_workers; i++)
        start_worker(s, now, i);
}

/* --- the window --- */

void gd__window_changed(struct gd__sched *s, unsigned i, uint64_t old_length)
{
    const struct gd__sched_worker *w = &s->workers[i];
    const uint64_t batch = s->config.batch_size;
    s->running += gd__min64(gd__window_length(w), batch);
    s->running -= gd__min64(old_length, batch);
    gd__update_allowed(s);
    gd__update_hunger(s, i);
}

/* --- handlers --- */

static int on_ready(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    struct gd__sched_worker *w = &s->workers[i];
    w->setup_tries = 0;
    s->short_since = w->shortages = 0; /* the shortage is over: this worker could be started */
    gd__heap_disarm(&s->heap, &w->timer);
    gd__worker_set_state(s, e->now, i, GD_WORKER_IDLE);
    return 0;
}

static void count_setup_failure(struct gd__sched *s, unsigned i, const char *words)
{
    s->workers[i].given_up = true;
    s->counts.setup_failures++;
    s->fx->setup_failed(s->ctx, i, words);
}

static int on_setup_failed(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    if (!s->workers[i].given_up)
        count_setup_failure(s, i, e->words);
    if (s->workers[i].state == GD_WORKER_STARTING)
        gd__worker_stop(s, e->now, i, s->config.cancel_grace_ns);
    return 0;
}

static int on_ignored(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    (void)s, (void)i, (void)e;
    return 0;
}

static int on_result(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    return gd__attempt_ended(s, e->now, i, e->outcome, e->safe_batch);
}

/* --- devices --- */

static void take_device_out(struct gd__sched *s, uint64_t now, unsigned device, const char *words)
{
    if (!s->workers[device].device_out && !s->stopping && !s->workers_stopped) {
        s->workers[device].device_out = true;
        s->fx->device_out(s->ctx, device, words);
    }
    unsigned end = device; /* mark all before stopping any: the end of one lets another start */
    for (; end < s->config.n_workers && s->workers[end].device == device; end++) {
        s->workers[end].given_up = true;
        s->workers[end].wants_start = false;
    }
    for (unsigned k = device; k < end; k++) {
        struct gd__sched_worker *w = &s->workers[k];
        if (has_no_process(w->state)) {
            gd__heap_disarm(&s->heap, &w->timer);
            gd__worker_set_state(s, now, k, GD_WORKER_FAILED);
        } else if (takes_tasks(w->state) || w->state == GD_WORKER_STARTING) {
            gd__worker_kill(s, now, k, GD__KILL_DEVICE_LOST);
        }
    }
}

/* A device that is lost twice, with no success in between, is taken out of use with all its workers. */
void gd__device_lost(struct gd__sched *s, uint64_t now, unsigned i)
{
    const unsigned device = s->workers[i].device;
    if (++s->workers[device].lost_in_row >= DEVICE_LOST_LIMIT)
        take_device_out(s, now, device, "its workers lost it twice in a row");
    else
        gd__worker_kill(s, now, i, GD__KILL_DEVICE_LOST);
}

void gd__sched_device_failed(struct gd__sched *s, uint64_t now, unsigned w, const char *words)
{
    take_device_out(s, now, s->workers[w].device, words);
    gd__check_done(s, now);
}

/* A worker that is still in setup is left alone: if the error concerns it, its setup fails. */
void gd__sched_device_restart(struct gd__sched *s, uint64_t now, unsigned w)
{
    const unsigned device = s->workers[w].device;
    for (unsigned k = device; k < s->config.n_workers && s->workers[k].device == device; k++)
        if (takes_tasks(s->workers[k].state))
            gd__worker_kill(s, now, k, GD__KILL_DEVICE_ERROR);
}

/* --- death --- */

static uint64_t restart_delay(const struct gd__sched *s, unsigned deaths)
{
    if (deaths <= 1)
        return 0;
    const unsigned doublings = deaths - 2 > 10 ? 10 : deaths - 2;
    return gd__min64(s->config.restart_delay_ns << doublings, RESTART_DELAY_MAX);
}

static void start_again(struct gd__sched *s, uint64_t now, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    const uint64_t delay = restart_delay(s, w->setup_tries + w->deaths_in_row);
    w->restarts++;
    s->counts.restarts++;
    gd__worker_set_state(s, now, i, GD_WORKER_RESTING);
    if (delay == 0)
        start_worker(s, now, i);
    else
        gd__worker_arm(s, i, now + delay);
}

/* The worker could not be started because of a shortage. Tries again later and charges nothing. */
static void start_later(struct gd__sched *s, uint64_t now, unsigned i)
{
    gd__worker_set_state(s, now, i, GD_WORKER_RESTING);
    s->workers[i].restarts++;
    s->counts.restarts++;
    gd__worker_arm(s, i, now + gd__shortage_delay(&s->workers[i]));
}

/* Decides whether a worker whose process died unexpectedly gets another process. */
static void replace(struct gd__sched *s, uint64_t now, unsigned i, bool in_setup, const char *words)
{
    struct gd__sched_worker *w = &s->workers[i];
    bool setup_over = false;
    if (in_setup) {
        setup_over = ++w->setup_tries >= s->config.setup_attempts;
    } else if (w->productive) {
        w->deaths_in_row = 0;
    } else {
        w->given_up = w->given_up || ++w->deaths_in_row >= s->config.death_limit;
    }
    const bool out = w->given_up || setup_over;
    if (setup_over && !w->given_up)
        count_setup_failure(s, i, words); /* before worker_died: this message says more */
    s->fx->worker_died(s->ctx, i, words, out);
    if (out)
        gd__worker_set_state(s, now, i, GD_WORKER_FAILED);
    else
        start_again(s, now, i);
}

/* Whether that death may come from a stop that was sent to every process of the run and has not reached us yet. Not if
 * we asked the process to end. */
static bool may_be_a_stop(const struct gd__sched *s, unsigned state, const struct gd__death *d)
{
    const bool stops = d->signal == SIGTERM || d->signal == SIGINT || d->signal == SIGHUP;
    const bool unasked = state == GD_WORKER_IDLE || state == GD_WORKER_STARTING || state == GD__WORKER_SHORT;
    return stops && unasked && s->config.signal_wait_ns > 0 && !s->stopping && !s->workers_stopped;
}

static void hold_death(struct gd__sched *s, uint64_t now, unsigned i, bool in_setup, const char *words)
{
    struct gd__sched_worker *w = &s->workers[i];
    gd__free(w->last_words);
    w->last_words = words ? gd__memdup(words, strlen(words) + 1) : NULL;
    w->died_in_setup = in_setup;
    gd__worker_set_state(s, now, i, GD__WORKER_HELD);
    gd__worker_arm(s, i, now + s->config.signal_wait_ns);
}

static int on_no_stop(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    const struct gd__sched_worker *w = &s->workers[i];
    s->counts.crashes++;
    replace(s, e->now, i, w->died_in_setup, w->last_words ? w->last_words : "was ended by a signal");
    gd__check_done(s, e->now);
    return 0;
}

/* The common end of a process: its tasks first, then the worker itself. */
static void process_ended(struct gd__sched *s, uint64_t now, unsigned i, const struct gd__death *d, unsigned last_state)
{
    struct gd__sched_worker *w = &s->workers[i];
    const unsigned state = w->state;
    const bool expected = state == GD_WORKER_STOPPING || w->kill_reason == GD__KILL_ENDING;
    const bool in_setup = state == GD_WORKER_STARTING || w->kill_reason == GD__KILL_SETUP_TIMEOUT;
    const bool timeout = w->kill_reason == GD__KILL_TIMEOUT;
    const bool held = may_be_a_stop(s, state, d);
    const struct gd__outcome o = {
        .failure = timeout ? GD_FAILURE_TIMEOUT : GD_FAILURE_CRASH,
        .by_stop_signal = held,
        .worker = (int)i,
        .signal = timeout ? 0 : d->signal,
        .exit_code = timeout ? 0 : d->exit_code,
        .start_ns = d->start_ns,
        .end_ns = now,
        .bytes = timeout ? NULL : d->words,
        .size = timeout || !d->words ? 0 : strlen(d->words),
    };
    const uint64_t blamed = gd__count_blamed(w, d);
    gd__heap_disarm(&s->heap, &w->timer);
    s->counts.crashes += !expected && !held && !d->shortage;
    if (last_state == GD_WORKER_LOST)
        w->given_up = true;
    gd__worker_set_state(s, now, i, GD_WORKER_RESTING); /* so that it is handed no task meanwhile */
    gd__window_reclaim(s, now, i, blamed, &o);
    if (last_state == GD_WORKER_LOST) {
        s->fx->worker_died(s->ctx, i, d->words, true);
        gd__worker_set_state(s, now, i, GD_WORKER_LOST);
    } else if (expected || s->stopping || s->workers_stopped) {
        gd__worker_set_state(s, now, i, w->given_up ? GD_WORKER_FAILED : GD_WORKER_FINISHED);
    } else if (d->shortage && !w->given_up && !gd__short_of(s, now, i, d->words, d->words ? strlen(d->words) : 0)) {
        start_later(s, now, i);
    } else if (held) {
        hold_death(s, now, i, in_setup, d->words);
    } else {
        replace(s, now, i, in_setup, d->words);
    }
    gd__check_done(s, now);
}

static int on_exited(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    process_ended(s, e->now, i, e->death, GD_WORKER_FINISHED);
    return 0;
}

static int on_kill_failed(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    struct gd__probe p = { 0, 0 };
    s->fx->probe(s->ctx, i, s->workers[i].head, &p);
    s->fx->abandon(s->ctx, i);
    const struct gd__sched_worker *w = &s->workers[i];
    const struct gd__death d = {
        /* The timed-out task may have been loading, not started. It is charged too: otherwise it would go on to hang
         * one worker after the other. */
        .started = w->kill_reason == GD__KILL_TIMEOUT ? gd__max64(p.started, w->cancel_below) : p.started,
        .start_ns = p.start_ns,
        .words = "was killed, but the process does not end (is it stuck in the kernel?); the run goes on without it",
    };
    process_ended(s, e->now, i, &d, GD_WORKER_LOST);
    return 0;
}

/* --- timers --- */

/* When the task at head must have ended. The start time that the worker reports is read once and cannot be later than
 * now, so a worker cannot put off its deadline. A task that has not started is timed from when it became the first, so
 * that a stopped process is found too. */
static uint64_t head_deadline(struct gd__sched *s, uint64_t now, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    const uint64_t first_since = w->head_since + w->frozen_ns; /* as if the run had not stood still */
    if (w->run_position == w->head + 1)
        return w->run_start + s->config.task_timeout_ns;
    struct gd__probe p = { 0, 0 };
    s->fx->probe(s->ctx, i, w->head, &p);
    if (p.started <= w->head)
        return first_since + s->config.task_timeout_ns;
    w->run_position = w->head + 1;
    w->run_start = gd__min64(p.start_ns, now);
    if (w->run_start < w->frozen_until)
        w->run_start += gd__min64(w->frozen_ns, w->frozen_until - w->run_start);
    if (w->run_start < first_since) /* the task can't have begun before it was the first */
        w->run_start = first_since;
    return w->run_start + s->config.task_timeout_ns;
}

void gd__head_changed(struct gd__sched_worker *w, uint64_t now)
{
    w->head_since = now;
    w->frozen_ns = w->frozen_until = 0;
}

/* The timers have been moved already. This moves the times that deadlines are computed from. */
void gd__pool_frozen(struct gd__sched *s, uint64_t now, uint64_t lost_ns)
{
    for (unsigned i = 0; i < s->config.n_workers; i++) {
        struct gd__sched_worker *w = &s->workers[i];
        if (gd__window_length(w) == 0)
            continue;
        w->frozen_ns += lost_ns;
        w->frozen_until = now;
        if (w->run_position == w->head + 1)
            w->run_start += lost_ns;
    }
}

static int on_deadline(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    struct gd__sched_worker *w = &s->workers[i];
    if (gd__window_length(w) == 0 || s->config.task_timeout_ns == 0)
        return 0;
    const uint64_t deadline = head_deadline(s, e->now, i);
    if (deadline > e->now) {
        gd__worker_arm(s, i, deadline);
        return 0;
    }
    const uint16_t batch = s->tasks[gd__window_at(s, w, w->head)].batch;
    w->cancel_below = w->head + batch;
    w->cancel_batch = batch > 1;
    gd__worker_set_state(s, e->now, i, GD_WORKER_CANCELLING);
    gd__worker_arm(s, i, gd__max64(deadline + s->config.cancel_grace_ns, e->now));
    s->fx->cancel(s->ctx, i, w->cancel_below);
    return 0;
}

static int on_try_again(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    struct gd__sched_worker *w = &s->workers[i];
    const bool limited = gd__window_length(w) > 0 && s->config.task_timeout_ns > 0;
    const uint64_t deadline = limited ? head_deadline(s, e->now, i) : GD__NEVER;
    if (deadline > e->now && w->short_until > e->now) {
        gd__arm_short(s, i, deadline);
        return 0;
    }
    gd__worker_set_state(s, e->now, i, GD_WORKER_IDLE);
    return limited ? on_deadline(s, i, e) : 0;
}

static int on_grace_over(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    gd__worker_kill(s, e->now, i, GD__KILL_TIMEOUT);
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

const char *gd__sched_kill_words(const struct gd__sched *s, unsigned w)
{
    static const char *const words[] = {
        [GD__KILL_TIMEOUT] = "was killed because its task did not stop at the time limit",
        [GD__KILL_SETUP_TIMEOUT] = "was killed because its setup took longer than the limit",
        [GD__KILL_BROKEN] = "was killed because it broke the protocol",
        [GD__KILL_DEVICE_LOST] = "was killed because its device was lost",
        [GD__KILL_DEVICE_ERROR] =
            "was killed because its GPU's driver reported an error after which programs must be restarted",
        [GD__KILL_ENDING] = "was killed because the run ended",
    };
    return words[s->workers[w].kill_reason];
}

static int on_rested(struct gd__sched *s, unsigned i, const struct event_data *e)
{
    start_worker(s, e->now, i);
    return 0;
}

static handler *const table[GD__WORKER_STATES][N_EVENTS] = {
    [GD_WORKER_STARTING] = { [EV_READY] = on_ready,
                             [EV_SETUP_FAILED] = on_setup_failed,
                             [EV_EXITED] = on_exited,
                             [EV_TIMER] = on_setup_timeout },
    [GD_WORKER_IDLE] = { [EV_RESULT] = on_result, [EV_EXITED] = on_exited, [EV_TIMER] = on_deadline },
    [GD_WORKER_CANCELLING] = { [EV_RESULT] = on_result, [EV_EXITED] = on_exited, [EV_TIMER] = on_grace_over },
    [GD_WORKER_STOPPING] = { [EV_READY] = on_ignored,
                             [EV_SETUP_FAILED] = on_setup_failed,
                             [EV_EXITED] = on_exited,
                             [EV_TIMER] = on_stop_timeout },
    [GD_WORKER_KILLING] = { [EV_READY] = on_ignored,
                            [EV_SETUP_FAILED] = on_ignored,
                            [EV_RESULT] = on_result,
                            [EV_EXITED] = on_exited,
                            [EV_TIMER] = on_kill_failed },
    [GD_WORKER_RESTING] = { [EV_TIMER] = on_rested },
    [GD__WORKER_HELD] = { [EV_TIMER] = on_no_stop },
    [GD__WORKER_SHORT] = { [EV_RESULT] = on_result, [EV_EXITED] = on_exited, [EV_TIMER] = on_try_again },
};

static int fire(struct gd__sched *s, unsigned i, enum event event, const struct event_data *e)
{
    handler *h = table[s->workers[i].state][event];
    return h ? h(s, i, e) : GD_E_PROTOCOL;
}

int gd__sched_ready(struct gd__sched *s, uint64_t now, unsigned w)
{
    return fire(s, w, EV_READY, &(struct event_data){ .now = now });
}

int gd__sched_setup_failed(struct gd__sched *s, uint64_t now, unsigned w, const char *words)
{
    return fire(s, w, EV_SETUP_FAILED, &(struct event_data){ .now = now, .words = words });
}

int gd__sched_result(struct gd__sched *s, uint64_t now, unsigned w, const struct gd__outcome *o, unsigned safe_batch)
{
    return fire(s, w, EV_RESULT, &(struct event_data){ .now = now, .outcome = o, .safe_batch = safe_batch });
}

void gd__sched_exited(struct gd__sched *s, uint64_t now, unsigned w, const struct gd__death *d)
{
    (void)fire(s, w, EV_EXITED, &(struct event_data){ .now = now, .death = d });
}

void gd__sched_broken(struct gd__sched *s, uint64_t now, unsigned w)
{
    const unsigned state = s->workers[w].state;
    if (state == GD_WORKER_STARTING || takes_tasks(state) || state == GD_WORKER_STOPPING)
        gd__worker_kill(s, now, w, state == GD_WORKER_STOPPING ? GD__KILL_ENDING : GD__KILL_BROKEN);
}

void gd__pool_timer(struct gd__sched *s, uint64_t now, unsigned w)
{
    (void)fire(s, w, EV_TIMER, &(struct event_data){ .now = now });
}

/* --- the end of the run --- */

uint64_t gd__window_take_back(struct gd__sched *s, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    const uint64_t old_tail = w->tail, length = gd__window_length(w);
    if (length == 0)
        return old_tail;
    const uint64_t tail = s->fx->take_back(s->ctx, i, w->head);
    w->tail = gd__max64(gd__min64(tail, old_tail), w->head);
    gd__window_changed(s, i, length);
    return old_tail;
}

/* Takes back what a worker has not begun and reports it as cancelled. */
static void cancel_unclaimed(struct gd__sched *s, unsigned i)
{
    const struct gd__sched_worker *w = &s->workers[i];
    const uint64_t old_tail = gd__window_take_back(s, i);
    for (uint64_t p = w->tail; p < old_tail; p++)
        gd__task_cancel(s, gd__window_at(s, w, p));
}

static void stop_one(struct gd__sched *s, uint64_t now, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    w->wants_start = false;
    switch (w->state) {
    case GD_WORKER_OFF:
    case GD_WORKER_RESTING:
    case GD__WORKER_HELD:
        gd__heap_disarm(&s->heap, &w->timer);
        gd__worker_set_state(s, now, i, GD_WORKER_FINISHED);
        break;
    case GD_WORKER_STARTING: /* a quick setup may still end and clean up; a slow one is not waited for */
        gd__worker_stop(s, now, i, gd__min64(s->config.cleanup_grace_ns, s->config.cancel_grace_ns));
        break;
    case GD_WORKER_IDLE:
    case GD_WORKER_CANCELLING:
    case GD__WORKER_SHORT:
        cancel_unclaimed(s, i);
        if (gd__window_length(w) == 0)
            gd__worker_stop(s, now, i, s->config.cleanup_grace_ns);
        break;
    default:
        break;
    }
}

void gd__pool_stop(struct gd__sched *s, uint64_t now)
{
    for (unsigned i = 0; i < s->config.n_workers; i++)
        stop_one(s, now, i);
}

static void cancel_window(struct gd__sched *s, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    const uint64_t head = w->head, tail = w->tail, length = tail - head;
    w->head = tail;
    gd__window_changed(s, i, length);
    for (uint64_t p = head; p < tail; p++)
        gd__task_cancel(s, gd__window_at(s, w, p));
}

/* The time for running tasks is over: every worker that still has one is killed. Workers that are cleaning up have
 * their own time limit. */
void gd__pool_end_tasks(struct gd__sched *s, uint64_t now)
{
    for (unsigned i = 0; i < s->config.n_workers; i++)
        if (takes_tasks(s->workers[i].state))
            gd__worker_kill(s, now, i, GD__KILL_ENDING);
    for (unsigned i = 0; i < s->config.n_workers; i++)
        cancel_window(s, i);
}

/* All are killed before any task is reported: the callbacks may take longer than the processes take to die. */
void gd__pool_abort(struct gd__sched *s, uint64_t now)
{
    for (unsigned i = 0; i < s->config.n_workers; i++) {
        struct gd__sched_worker *w = &s->workers[i];
        w->wants_start = false;
        if (is_terminal(w->state))
            continue;
        if (has_no_process(w->state)) {
            gd__heap_disarm(&s->heap, &w->timer);
            gd__worker_set_state(s, now, i, GD_WORKER_FINISHED);
        } else if (w->state == GD_WORKER_KILLING) {
            w->kill_reason = GD__KILL_ENDING;
        } else {
            gd__worker_kill(s, now, i, GD__KILL_ENDING);
        }
    }
    for (unsigned i = 0; i < s->config.n_workers; i++)
        cancel_window(s, i);
}
