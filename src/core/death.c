/* The death of a worker's process: what happens to its tasks, and whether the worker gets another process.
 *
 * attempt.c decides which of its tasks are charged. A worker that dies often without finishing a task is given up,
 * unless its tasks explain the deaths (sched.h). Any other worker is started again, after a delay that doubles with
 * each death in a row. A death between two runs counts neither for a task nor for the worker: whatever ended an idle
 * process, it was not its work.
 */
#include <signal.h>
#include <string.h>

#include "base/alloc.h"
#include "core/internal.h"

#define RESTART_DELAY_MAX GD__NS_PER_S

static uint64_t restart_delay(const struct gd__sched *s, unsigned deaths)
{
    if (deaths <= 1)
        return 0;
    const unsigned doublings = deaths - 2 > 10 ? 10 : deaths - 2;
    return gd__min64(s->config.restart_delay_ns << doublings, RESTART_DELAY_MAX);
}

/* Deaths in a row that count. */
static unsigned count_deaths(const struct gd__sched_worker *w)
{
    return w->deaths_in_row + w->n_charged;
}

void gd__death_charge(struct gd__sched *s, unsigned i, struct gd__task *t)
{
    struct gd__sched_worker *w = &s->workers[i];
    t->killed = t->killed == -1 || t->killed == (int)i ? (int16_t)i : GD__KILLED_SEVERAL;
    if (w->n_charged == GD__CHARGED_MOST)
        return; /* the list is full: this death counts, even if the task fails because of it */
    w->charged[w->n_charged++] = t->id;
    w->death_charged = true;
}

void gd__death_explained(struct gd__sched *s, const struct gd__task *t)
{
    if (t->killed != GD__KILLED_SEVERAL && s->n_alive > 1)
        return;
    for (unsigned i = 0; i < s->config.n_workers; i++) {
        struct gd__sched_worker *w = &s->workers[i];
        uint32_t n = 0;
        for (uint32_t k = 0; k < w->n_charged; k++)
            if (w->charged[k] != t->id)
                w->charged[n++] = w->charged[k];
        w->n_charged = n;
    }
}

static void start_again(struct gd__sched *s, uint64_t now, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    const uint64_t delay = restart_delay(s, w->setup_tries + count_deaths(w));
    w->restarts++;
    s->counts.restarts++;
    gd__worker_set_state(s, now, i, GD_WORKER_RESTING);
    if (delay == 0)
        gd__worker_start(s, now, i);
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
static void replace(struct gd__sched *s, uint64_t now, unsigned i, bool in_setup, const char *message)
{
    struct gd__sched_worker *w = &s->workers[i];
    bool setup_over = false;
    if (w->leaving && !w->given_up) {
        s->fx->worker_died(s->ctx, i, message, true);
        gd__worker_left(s, now, i);
        return;
    }
    if (in_setup) {
        w->setup_tries += !w->death_charged;
        setup_over = w->setup_tries >= s->config.setup_attempts;
    } else if (w->productive) {
        w->deaths_in_row = w->n_charged = 0;
    } else {
        w->deaths_in_row += !w->death_charged;
        w->given_up = w->given_up || count_deaths(w) >= s->config.death_limit;
    }
    const bool out = w->given_up || setup_over;
    if (setup_over && !w->given_up)
        gd__count_setup_failure(s, i, message); /* before worker_died(), because this message is more exact */
    s->fx->worker_died(s->ctx, i, message, out);
    if (out)
        gd__worker_set_state(s, now, i, GD_WORKER_FAILED);
    else
        start_again(s, now, i);
}

/* Whether the death may come from a stop that was sent to every process of the run and has not reached the dispatcher
 * yet. A process that the scheduler is ending does not count. */
static bool may_be_a_stop(const struct gd__sched *s, unsigned state, const struct gd__death *d)
{
    const bool stops = d->signal == SIGTERM || d->signal == SIGINT || d->signal == SIGHUP;
    const bool unasked = state == GD_WORKER_IDLE || state == GD_WORKER_STARTING || state == GD__WORKER_SHORT;
    return stops && unasked && s->config.signal_wait_ns > 0 && !s->stopping && !s->workers_stopped && !s->resting;
}

/* Whether nobody is to blame for the death. Between two runs, that is the death of a process without tasks. Another
 * case is a process that was started in an earlier run and is killed in setup. Until its guardian runs (worker/main.c),
 * the kernel kills a process when the thread that started it ends, and each run may be on another thread. */
static bool is_nobodys_fault(const struct gd__sched *s, const struct gd__sched_worker *w, const struct gd__death *d)
{
    if (w->kill_reason == GD__KILL_CANCELLED)
        return true;
    if (w->state == GD_WORKER_STARTING)
        return w->is_older && d->signal == SIGKILL;
    return s->resting && gd__takes_tasks(w->state);
}

static void hold_death(struct gd__sched *s, uint64_t now, unsigned i, bool in_setup, const char *message)
{
    struct gd__sched_worker *w = &s->workers[i];
    gd__free(w->last_message);
    w->last_message = message ? gd__memdup(message, strlen(message) + 1) : NULL;
    w->died_in_setup = in_setup;
    gd__worker_set_state(s, now, i, GD__WORKER_HELD);
    gd__worker_arm(s, i, now + s->config.signal_wait_ns);
}

void gd__worker_no_stop_came(struct gd__sched *s, uint64_t now, unsigned i)
{
    const struct gd__sched_worker *w = &s->workers[i];
    s->counts.crashes++;
    replace(s, now, i, w->died_in_setup, w->last_message ? w->last_message : "was ended by a signal");
    gd__check_done(s, now);
}

/* The outcome of the attempts that this death ended. */
static struct gd__outcome outcome_of(const struct gd__sched *s, uint64_t now, unsigned i, const struct gd__death *d)
{
    const struct gd__sched_worker *w = &s->workers[i];
    const bool timeout = w->kill_reason == GD__KILL_TIMEOUT;
    return (struct gd__outcome){
        .failure = timeout ? GD_FAILURE_TIMEOUT : GD_FAILURE_CRASH,
        .by_stop_signal = may_be_a_stop(s, w->state, d),
        .worker = (int)i,
        .signal = timeout ? 0 : d->signal,
        .exit_code = timeout ? 0 : d->exit_code,
        .start_ns = d->start_ns,
        .end_ns = now,
        .bytes = timeout ? NULL : d->message,
        .size = timeout || !d->message ? 0 : strlen(d->message),
    };
}

/* Handles the end of a process: its tasks first, then the worker itself. is_lost: the process does not end, and is
 * abandoned. */
static void end_process(struct gd__sched *s, uint64_t now, unsigned i, const struct gd__death *d, bool is_lost)
{
    struct gd__sched_worker *w = &s->workers[i];
    const bool expected = w->state == GD_WORKER_STOPPING || w->kill_reason == GD__KILL_ENDING;
    const bool in_setup = w->state == GD_WORKER_STARTING || w->kill_reason == GD__KILL_SETUP_TIMEOUT;
    const struct gd__outcome o = outcome_of(s, now, i, d);
    const uint64_t blamed = gd__count_blamed(w, d);
    gd__heap_disarm(&s->heap, &w->timer);
    s->counts.crashes += !expected && !o.by_stop_signal && !d->shortage;
    w->given_up = w->given_up || is_lost;
    w->death_charged = is_nobodys_fault(s, w, d);
    gd__worker_set_state(s, now, i, GD_WORKER_RESTING); /* so that it is handed no task meanwhile */
    if (w->concurrency > 1)
        gd__inflight_reclaim(s, now, i, d, &o);
    else
        gd__window_reclaim(s, now, i, blamed, &o);
    if (is_lost) {
        s->fx->worker_died(s->ctx, i, d->message, true);
        gd__worker_set_state(s, now, i, GD_WORKER_LOST);
    } else if (expected && w->leaving && !w->given_up && !s->stopping && !s->workers_stopped) {
        gd__worker_left(s, now, i);
    } else if (expected && w->renew && !w->given_up && !s->stopping && !s->workers_stopped) {
        w->restarts++;
        s->counts.restarts++;
        gd__worker_start(s, now, i);
    } else if (expected || s->stopping || s->workers_stopped) {
        gd__worker_set_state(s, now, i, w->given_up ? GD_WORKER_FAILED : GD_WORKER_FINISHED);
    } else if (d->shortage && !w->given_up && !w->leaving &&
               !gd__short_of(s, now, i, d->message, d->message ? strlen(d->message) : 0)) {
        start_later(s, now, i);
    } else if (o.by_stop_signal) {
        hold_death(s, now, i, in_setup, d->message);
    } else {
        replace(s, now, i, in_setup, d->message);
    }
    gd__check_done(s, now);
}

void gd__worker_exited(struct gd__sched *s, uint64_t now, unsigned i, const struct gd__death *d)
{
    end_process(s, now, i, d, false);
}

void gd__worker_lost(struct gd__sched *s, uint64_t now, unsigned i)
{
    struct gd__probe p = { 0, 0 };
    s->fx->probe(s->ctx, i, s->workers[i].head, &p);
    s->fx->abandon(s->ctx, i);
    const struct gd__sched_worker *w = &s->workers[i];
    const struct gd__death d = {
        /* The timed-out task may have been loading, not started. It is charged too. Otherwise it would make one worker
         * after the other hang. */
        .started = w->concurrency == 1 && (w->kill_reason == GD__KILL_TIMEOUT || w->kill_reason == GD__KILL_CANCELLED)
                       ? gd__max64(p.started, w->cancel_below)
                       : p.started,
        .start_ns = p.start_ns,
        .message = "was killed, but the process does not end (is it stuck in the kernel?); the run goes on without it",
    };
    end_process(s, now, i, &d, true);
}

const char *gd__sched_kill_message(const struct gd__sched *s, unsigned w)
{
    static const char *const messages[] = {
        [GD__KILL_TIMEOUT] = "was killed because its task did not stop at the time limit",
        [GD__KILL_CANCELLED] = "was killed because its task did not stop when it was cancelled",
        [GD__KILL_SETUP_TIMEOUT] = "was killed because its setup took longer than the limit",
        [GD__KILL_BROKEN] = "was killed because it broke the protocol",
        [GD__KILL_DEVICE_LOST] = "was killed because its device was lost",
        [GD__KILL_DEVICE_ERROR] =
            "was killed because its GPU's driver reported an error after which programs must be restarted",
        [GD__KILL_ENDING] = "was killed because the run ended",
    };
    const struct gd__sched_worker *worker = &s->workers[w];
    if (worker->kill_reason == GD__KILL_ENDING && worker->leaving && !s->stopping && !s->workers_stopped)
        return "was killed because it did not stop in time after it was removed";
    if (worker->kill_reason == GD__KILL_ENDING && worker->renew && !s->stopping && !s->workers_stopped)
        return "was killed because its cleanup did not end in time after its last task";
    return messages[worker->kill_reason];
}
