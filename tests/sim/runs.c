/* Several runs with the same workers. Between two runs the processes go on: a setup ends, a process that was told to stop
 * exits, some are killed. The dispatcher notices nothing of that before the next run begins. Requests wait too.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "sim/check/check.h"

void sim_runs_draw(struct sim_plan *p, uint64_t *r)
{
    p->n_runs = 1;
    if (sim_below(r, 3) > 0)
        return;
    const bool is_large = p->n_tasks > 600 || p->config.n_workers > 64;
    p->config.keep_workers = true;
    p->n_runs = 1 + (unsigned)sim_below(r, is_large ? 2 : 4);
    const uint64_t unit = p->setup_ns + p->task_ns + p->exit_ns + p->message_ns + GD__NS_PER_US;
    p->rest_ns = sim_below(r, 4) == 0 ? 0 : unit * (1 + sim_below(r, 8));
}

void check_kept(struct sim *s, unsigned w)
{
    SIM_MUST(s,
             !s->plan.config.keep_workers || s->sched.stopping || s->sched.workers_stopped ||
                 s->sched.workers[w].leaving || sim_is_worn(s, w) || s->setup_failed[w],
             "worker %u is told to stop, but should be kept", w);
}

/* --- between two runs --- */

struct held {
    struct event *events;
    uint64_t n, room;
};

static void hold(struct held *h, const struct event *e)
{
    if (h->n == h->room) {
        h->room = h->room ? 2 * h->room : 64;
        h->events = realloc(h->events, h->room * sizeof *h->events);
        if (!h->events)
            abort();
    }
    h->events[h->n++] = *e;
}

static bool is_news_of_process(const struct event *e)
{
    return e->kind == EVENT_MESSAGE || e->kind == EVENT_EXIT;
}

static bool is_request(const struct event *e)
{
    return e->kind == EVENT_SHUTDOWN || e->kind == EVENT_ABORT || e->kind == EVENT_CONTROL ||
           e->kind == EVENT_DEVICE_FAILED;
}

static void put_back(struct sim *s, struct held *h)
{
    for (uint64_t i = 0; i < h->n; i++)
        sim_put(s, &h->events[i]);
    free(h->events);
}

static void drop_source(struct sim *s)
{
    struct held kept = { 0 };
    while (s->n_events > 0) {
        const struct event e = sim_next(s);
        if (e.kind != EVENT_SOURCE && e.kind != EVENT_SOURCE_END)
            hold(&kept, &e);
    }
    put_back(s, &kept);
}

/* Lets time pass. The events that the dispatcher would notice are put aside. */
static void rest(struct sim *s, struct held *h)
{
    const uint64_t until = s->now + sim_spread(&s->chance, s->plan.rest_ns);
    while (s->n_events > 0 && s->events[1].at <= until) {
        const struct event e = sim_next(s);
        s->now = gd__max64(s->now, e.at);
        if (is_news_of_process(&e) || is_request(&e))
            hold(h, &e);
        else
            sim_handle(s, &e);
    }
    s->now = gd__max64(s->now, until);
}

/* --- the next run --- */

static bool is_usable(const struct sim *s, unsigned w)
{
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    const bool removed = worker->leaving && !worker->comes_back;
    return !gd__is_gone(worker->state) || (worker->state == GD_WORKER_FINISHED && !removed && !worker->given_up);
}

static void forget_last_run(struct sim *s)
{
    s->run_seed = sim_mix(s->seed, 1000 + ++s->run);
    for (unsigned w = 0; w < s->plan.config.n_workers; w++) {
        const unsigned state = s->sched.workers[w].state;
        s->procs[w].older = true;
        s->procs[w].cold |= state == GD_WORKER_FINISHED || state == GD_WORKER_RESTING || state == GD_WORKER_OFF;
        if (state == GD_WORKER_FINISHED) {
            deaths_forget(s, w);
            s->held_until[w] = 0;
        } else {
            deaths_next_run(s, w);
        }
    }
    memset(s->tasks, 0, (s->plan.n_tasks + 1) * sizeof *s->tasks);
    memset(s->results, 0, sizeof s->results);
    s->taken = s->next_in_order = s->peak_allowed = s->stop_due = s->spawns = s->first_spawns = 0;
    s->source_waiting = s->source_over = s->source_end_due = s->source_stopped = s->draining = false;
}

static void check_begun(struct sim *s)
{
    SIM_MUST(s, !s->sched.has_priorities && !s->sched.has_limits && !s->sched.has_cancels,
             "the tasks of the last run still have an effect");
    for (unsigned w = 0; w < s->plan.config.n_workers; w++) {
        const struct gd__sched_worker *worker = &s->sched.workers[w];
        SIM_MUST(s, worker->state != GD_WORKER_OFF || worker->wants_start, "worker %u was not started", w);
        SIM_MUST(s, worker->state != GD_WORKER_FINISHED, "worker %u was stopped, and is not used again", w);
        SIM_MUST(s, worker->state != GD__WORKER_HELD || s->held_until[w] > 0,
                 "worker %u died between two runs, but is not started", w);
        SIM_MUST(s, worker->completed + worker->failed + worker->timeouts + worker->busy_ns == 0,
                 "worker %u has figures of the last run", w);
        SIM_MUST(s, worker->mean_ns == 0, "worker %u is handed tasks ahead, but the new tasks may be long", w);
    }
}

/* The dispatcher looks at every process before the run begins. Requests are carried out after that. */
static void catch_up(struct sim *s)
{
    struct held later = { 0 };
    while (s->n_events > 0 && s->events[1].at <= s->now) {
        const struct event e = sim_next(s);
        if (is_news_of_process(&e))
            sim_handle(s, &e);
        else
            hold(&later, &e);
    }
    put_back(s, &later);
}

bool sim_run_again(struct sim *s)
{
    struct held h = { 0 };
    bool usable = false;
    if (s->run + 1 == s->plan.n_runs)
        return false;
    drop_source(s);
    rest(s, &h);
    put_back(s, &h);
    for (unsigned w = 0; w < s->plan.config.n_workers; w++)
        usable |= is_usable(s, w);
    if (usable)
        forget_last_run(s);
    sim_trace(s, "--- run %u ---", s->run);
    s->began_at = s->now;
    const bool again = gd__sched_again(&s->sched, s->now);
    SIM_MUST(s, again == usable, "another run is %s", again ? "possible without workers" : "refused");
    if (!again)
        return false;
    catch_up(s);
    gd__sched_start(&s->sched, s->now);
    check_begun(s);
    sim_plan_source(s);
    sim_settle(s);
    return true;
}

void sim_stop_workers(struct sim *s)
{
    sim_trace(s, "--- stop of the workers ---");
    gd__sched_stop_workers(&s->sched, s->now);
    sim_settle(s);
    sim_finish(s);
    check_end(s);
}
