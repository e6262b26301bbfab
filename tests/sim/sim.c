/* Virtual time: takes the next event, calls the scheduler as the dispatcher would, lets it assign tasks, and runs the
 * checks.
 *
 * This file does the work of the dispatcher. It takes no more tasks than gd__sched_allowed(). It checks the position
 * and attempt of a result before it passes the result on. It drops messages of a process that broke the protocol. It
 * calls tick at gd__sched_deadline(), or later in some plans. It ends the source when the scheduler is stopping. */
#include "sim.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sim/check/check.h"

#define BEGINNING GD__NS_PER_S

/* --- failing and tracing --- */

void sim_fail(struct sim *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(s->words, sizeof s->words, format, args);
    va_end(args);
    longjmp(s->failed, 1);
}

void sim_trace(struct sim *s, const char *format, ...)
{
    if (!s->trace)
        return;
    va_list args;
    printf("%8llu %14.6f  ", (unsigned long long)s->handled, (double)(s->now - BEGINNING) / 1e6);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

/* --- the event queue: a heap, ordered by time; events of the same time keep their order --- */

static bool earlier(const struct event *a, const struct event *b)
{
    return a->at != b->at ? a->at < b->at : a->serial < b->serial;
}

void sim_put(struct sim *s, const struct event *new)
{
    const struct event e = *new;
    if (s->n_events + 2 > s->room) {
        s->room = s->room ? 2 * s->room : 64;
        s->events = realloc(s->events, s->room * sizeof *s->events);
        if (!s->events)
            abort();
    }
    uint64_t i = ++s->n_events;
    for (; i > 1 && earlier(&e, &s->events[i / 2]); i /= 2)
        s->events[i] = s->events[i / 2];
    s->events[i] = e;
}

void sim_at(struct sim *s, uint64_t at, enum event_kind kind, unsigned w)
{
    const struct event e = { .at = at,
                             .serial = s->serial++,
                             .kind = kind,
                             .w = w,
                             .generation = kind < EVENT_SOURCE ? s->procs[w].generation : 0 };
    sim_put(s, &e);
}

void sim_at_place(struct sim *s, uint64_t at, unsigned w, unsigned place, uint64_t position)
{
    const struct event e = { .at = at,
                             .serial = s->serial++,
                             .kind = EVENT_FINISH,
                             .w = w,
                             .generation = s->procs[w].generation,
                             .place = place,
                             .position = position };
    sim_put(s, &e);
}

struct event sim_next(struct sim *s)
{
    const struct event top = s->events[1], last = s->events[s->n_events--];
    uint64_t i = 1;
    for (;;) {
        uint64_t child = 2 * i;
        if (child > s->n_events)
            break;
        if (child < s->n_events && earlier(&s->events[child + 1], &s->events[child]))
            child++;
        if (!earlier(&s->events[child], &last))
            break;
        s->events[i] = s->events[child];
        i = child;
    }
    s->events[i] = last;
    return top;
}

/* --- messages --- */

/* Counts how many tasks of w in a row took at least 4 ms. */
static void note_duration(struct sim *s, unsigned w, const struct gd__outcome *o)
{
    const bool is_long = o->end_ns - o->start_ns >= 4 * GD__NS_PER_MS;
    s->long_in_row[w] = is_long ? s->long_in_row[w] + 1 : 0;
}

/* Records what this result means for the task, by the rules of sched.h. */
static void note_result(struct sim *s, unsigned w, const struct gd__task *t, const struct message *m)
{
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    struct sim_task *task = &s->tasks[t->id];
    const enum gd_failure failure = m->outcome.failure;
    const bool asked = worker->head < worker->cancel_below || s->sched.stopping;
    task->has_result = true;
    task->last = failure == GD_FAILURE_CANCELLED && !asked ? GD_FAILURE_ERROR : failure;
    task->handle = m->outcome.handle;
    if (failure == GD_FAILURE_NONE || task->cancel_asked)
        return;
    if (s->sched.stopping)
        task->after_stop = true;
    else if (m->outcome.shortage && worker->head >= worker->cancel_below)
        return; /* no task is charged */
    else if (failure != GD_FAILURE_DEVICE_LOST && worker->head >= worker->cancel_below && m->outcome.by_stop_signal &&
             s->plan.config.signal_wait_ns > 0)
        check_put_off(s, t, false);
    else if (failure == GD_FAILURE_DEVICE_LOST)
        task->charges++;
    else if (worker->head >= worker->cancel_below)
        task->errors++;
    else if (worker->cancel_batch)
        task->suspect |= !worker->cancel_asked; /* it is known which task of the batch must stop */
    else
        check_timed_out(s, t->id);
}

static int pass_on(struct sim *s, unsigned w, const struct message *m)
{
    struct gd__sched *sched = &s->sched;
    const struct gd__task *t = gd__sched_head(sched, w);
    int rc;
    switch (m->kind) {
    case MESSAGE_READY:
        gd__sched_loads(sched, w, s->plan.load_ahead > 0);
        rc = gd__sched_ready(sched, s->now, w, m->concurrency);
        s->procs[w].ready_seen |= rc == 0;
        if (sched->workers[w].state == GD_WORKER_IDLE && rc == 0)
            deaths_ready(s, w);
        return rc;
    case MESSAGE_SETUP_FAILED:
        s->procs[w].said_failed = true;
        return gd__sched_setup_failed(sched, s->now, w, "no model");
    case MESSAGE_BEGUN:
        if (!t || m->position != sched->workers[w].head || m->attempt != t->attempt + 1)
            return GD_E_PROTOCOL;
        s->tasks[t->id].begin_seen = s->now;
        return gd__sched_begun(
            sched, s->now, w,
            &(struct gd__begin){ .position = m->position, .start_ns = m->outcome.start_ns, .place = m->place });
    case MESSAGE_RESULT:
        if (s->procs[w].concurrency > 1) {
            t = gd__sched_in_flight(sched, w, m->place);
            if (!t || t->position != m->position) /* the scheduler refuses it */
                return gd__sched_finish(sched, s->now, w, m->place, m->position, &m->outcome);
            if (m->attempt != t->attempt + 1)
                return GD_E_PROTOCOL;
            check_flight_result(s, w, t, m);
            note_duration(s, w, &m->outcome);
            s->procs[w].productive |= m->outcome.failure != GD_FAILURE_DEVICE_LOST && !m->outcome.shortage;
            s->procs[w].served += !m->outcome.shortage;
            rc = gd__sched_finish(sched, s->now, w, m->place, m->position, &m->outcome);
            SIM_MUST(s, rc == 0, "the result of a task in flight on worker %u was refused", w);
            return 0;
        }
        if (!t || m->position != sched->workers[w].head || m->attempt != t->attempt + 1)
            return GD_E_PROTOCOL;
        note_result(s, w, t, m);
        note_duration(s, w, &m->outcome);
        s->procs[w].productive |= m->outcome.failure != GD_FAILURE_DEVICE_LOST && !m->outcome.shortage;
        s->procs[w].served += !m->outcome.shortage;
        rc = gd__sched_result(sched, s->now, w, &m->outcome, m->safe_batch);
        SIM_MUST(s, rc == 0, "the result at the head of worker %u was refused", w);
    }
    return 0;
}

static void on_message(struct sim *s, unsigned w)
{
    struct proc *p = &s->procs[w];
    const struct message m = p->outbox[p->out_head++];
    p->out_count--;
    if (p->broken)
        return;
    const unsigned state = s->sched.workers[w].state;
    const bool leaving = state == GD_WORKER_KILLING || state == GD_WORKER_STOPPING;
    sim_trace(s, "worker %u sends %d%s (position %llu, failure %d)", w, m.kind, m.wrong ? ", wrongly" : "",
              (unsigned long long)m.position, m.outcome.failure);
    const int rc = pass_on(s, w, &m);
    SIM_MUST(s, leaving || (rc == GD_E_PROTOCOL) == m.wrong,
             "worker %u sent %d in state %u, and the scheduler returned %d", w, m.kind, state, rc);
    if (rc == 0)
        return;
    p->broken = true;
    gd__sched_broken(&s->sched, s->now, w);
}

static void on_exit_noticed(struct sim *s, unsigned w)
{
    struct proc *p = &s->procs[w];
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    SIM_MUST(s, p->out_count == 0, "worker %u: undrained results (the simulator is wrong)", w);
    struct gd__death d = p->death;
    d.started = gd__max64(worker->head, gd__min64(d.started, worker->tail));
    d.loading = d.loading ? gd__max64(worker->head, gd__min64(d.loading, worker->tail)) : 0;
    sim_trace(s, "exit of %u is noticed", w);
    check_before_exit(s, w, &d);
    proc_gone(s, w); /* before the scheduler, which may start another process at once */
    gd__sched_exited(&s->sched, s->now, w, &d);
}

/* --- the source --- */

uint64_t sim_limit(const struct sim *s, uint64_t id)
{
    const uint64_t x = sim_mix(s->run_seed ^ 0x6c696d69, id);
    return s->plan.own_limits && x % 3 == 0 ? (s->plan.task_ns + GD__NS_PER_US) * (2 + (x >> 8) % 50) : 0;
}

int sim_priority(const struct sim *s, uint64_t id)
{
    if (!s->plan.priorities)
        return 0;
    return GD__PRIORITY_MIN + (int)(sim_mix(s->run_seed ^ 0x7072696f, id) % GD__PRIORITIES);
}

static void on_source(struct sim *s)
{
    const struct sim_plan *p = &s->plan;
    const uint64_t burst = 1 + sim_below(&s->chance, p->source_burst);
    if (s->source_over || s->source_end_due)
        return;
    for (uint64_t i = 0; i < burst && s->taken < p->n_tasks && s->taken < gd__sched_allowed(&s->sched); i++) {
        const uint64_t payload[4] = { sim_mix(s->run_seed, s->taken), 1, 2, 3 };
        const uint64_t expected = s->taken++;
        s->tasks[expected].given_at = s->now;
        const struct gd__new_task task = { .payload = payload,
                                           .weight = sim_mix(s->run_seed, expected) % 1000,
                                           .timeout_ns = sim_limit(s, expected),
                                           .priority = sim_priority(s, expected) };
        const uint64_t id = gd__sched_add(&s->sched, s->now, &task);
        SIM_MUST(s, id == expected, "task %llu was numbered %llu", (unsigned long long)expected,
                 (unsigned long long)id);
        s->peak_slots = gd__max64(s->peak_slots, s->sched.outstanding);
    }
    if (s->taken == p->n_tasks) {
        s->source_end_due = true;
        sim_at(s, s->now + sim_spread(&s->chance, p->source_gap_ns), EVENT_SOURCE_END, 0);
    } else if (s->taken < gd__sched_allowed(&s->sched)) {
        sim_at(s, s->now + sim_spread(&s->chance, p->source_gap_ns), EVENT_SOURCE, 0);
    } else {
        s->source_waiting = true;
    }
}

static void on_source_end(struct sim *s)
{
    if (s->source_over)
        return;
    sim_trace(s, "the source ends after %llu", (unsigned long long)s->taken);
    s->source_over = true;
    gd__sched_source_end(&s->sched, s->now);
}

static void tend_source(struct sim *s)
{
    if (s->sched.stopping && !s->source_over && !s->source_stopped) {
        s->source_stopped = true; /* the source may still give a few tasks before it notices */
        sim_at(s, s->now + sim_spread(&s->chance, s->plan.source_gap_ns), EVENT_SOURCE_END, 0);
    }
    if (s->source_waiting && s->taken < gd__sched_allowed(&s->sched)) {
        s->source_waiting = false;
        sim_at(s, s->now + sim_spread(&s->chance, s->plan.source_gap_ns), EVENT_SOURCE, 0);
    }
}

/* --- the run --- */

static void on_external_kill(struct sim *s)
{
    const unsigned w = (unsigned)sim_below(&s->chance, s->plan.config.n_workers);
    if (!proc_is_stuck(&s->procs[w]))
        proc_die(s, w, sim_below(&s->chance, 1000) < s->plan.by_stop_signal ? SIGTERM : SIGKILL, 0);
    if (--s->kills_left > 0)
        sim_at(s, s->now + 1 + sim_spread(&s->chance, s->plan.external_kill_gap_ns), EVENT_EXTERNAL_KILL, 0);
}

/* Sends a signal to all processes in some order, as systemd and Slurm do. So workers may die of it before the
 * dispatcher gets it. */
static void on_stop_all(struct sim *s)
{
    static const int signals[] = { SIGTERM, SIGINT, SIGHUP };
    const int signal = signals[sim_below(&s->chance, 3)];
    sim_trace(s, "signal %d to all", signal);
    for (unsigned w = 0; w < s->plan.config.n_workers; w++)
        if (!proc_is_stuck(&s->procs[w]) && sim_below(&s->chance, 8) > 0)
            proc_die(s, w, signal, 0);
    sim_at(s, s->now + sim_spread(&s->chance, s->plan.stop_all_gap_ns), EVENT_SHUTDOWN, 0);
}

static void restart_device(struct sim *s, unsigned w)
{
    const unsigned device = s->sched.workers[w].device;
    const bool out = s->device_out[device];
    sim_trace(s, "restart of the workers on the device of worker %u", w);
    gd__sched_device_restart(&s->sched, s->now, w);
    SIM_MUST(s, s->device_out[device] == out, "a restart took the device of worker %u out of use", w);
    for (unsigned k = device; k < s->plan.config.n_workers && s->sched.workers[k].device == device; k++)
        SIM_MUST(s, s->sched.workers[k].state != GD_WORKER_IDLE, "worker %u was not restarted", k);
}

void sim_fail_device(struct sim *s, unsigned w)
{
    sim_trace(s, "the device of worker %u fails", w);
    gd__sched_device_failed(&s->sched, s->now, w, "Xid 79");
    const bool over = s->sched.stopping || s->sched.workers_stopped;
    SIM_MUST(s, over || s->device_out[s->sched.workers[w].device],
             "the device of worker %u failed, but that was not reported", w);
}

static void on_device_failed(struct sim *s)
{
    const unsigned w = (unsigned)sim_below(&s->chance, s->plan.config.n_workers);
    if (sim_below(&s->chance, 2) == 0)
        restart_device(s, w);
    else
        sim_fail_device(s, w);
    if (--s->device_failures_left > 0)
        sim_at(s, s->now + 1 + sim_spread(&s->chance, s->plan.device_failure_gap_ns), EVENT_DEVICE_FAILED, 0);
}

static void later(uint64_t *at, uint64_t by)
{
    if (*at)
        *at += by;
}

/* The dispatcher and all processes are frozen, so every event happens later by this time. */
static void on_freeze(struct sim *s)
{
    const uint64_t by = s->plan.freeze_ns;
    sim_trace(s, "everything is frozen for %llu ns", (unsigned long long)by);
    s->frozen_at = s->now;
    s->now += by;
    for (uint64_t i = 1; i <= s->n_events; i++)
        s->events[i].at += by;
    for (unsigned w = 0; w < s->plan.config.n_workers; w++) {
        struct proc *p = &s->procs[w];
        later(&p->cancelled_at, by);
        later(&p->ending_at, by);
        later(&p->killed_at, by);
        later(&p->spawned_at, by);
        later(&p->last_arrival, by);
        later(&s->held_until[w], by);
    }
    for (uint64_t id = 0; id < s->taken; id++)
        later(&s->tasks[id].put_off, by);
    later(&s->stop_due, by);
    gd__sched_frozen(&s->sched, s->now, by);
}

void sim_handle(struct sim *s, const struct event *e)
{
    if (e->kind < EVENT_SOURCE && s->procs[e->w].generation != e->generation)
        return; /* an event of a process that is gone */
    switch (e->kind) {
    case EVENT_SETUP:
        proc_setup_done(s, e->w);
        break;
    case EVENT_STEP:
        proc_step(s, e->w);
        break;
    case EVENT_FINISH:
        flight_finish(s, e->w, e->place, e->position);
        break;
    case EVENT_LOAD:
        proc_load(s, e->w);
        break;
    case EVENT_DIE:
        if (!proc_is_stuck(&s->procs[e->w]))
            proc_die(s, e->w, SIGKILL, 0);
        break;
    case EVENT_MESSAGE:
        on_message(s, e->w);
        break;
    case EVENT_EXIT:
        on_exit_noticed(s, e->w);
        break;
    case EVENT_SOURCE:
        on_source(s);
        break;
    case EVENT_SOURCE_END:
        on_source_end(s);
        break;
    case EVENT_SHUTDOWN:
        sim_trace(s, "shutdown");
        s->draining = false;
        if (s->stop_due == 0 && !s->sched.workers_stopped)
            s->stop_due = s->now + s->plan.config.stop_grace_ns;
        gd__sched_shutdown(&s->sched, s->now);
        break;
    case EVENT_ABORT:
        sim_trace(s, "abort");
        s->draining = false;
        gd__sched_abort(&s->sched, s->now);
        break;
    case EVENT_STOP_ALL:
        on_stop_all(s);
        break;
    case EVENT_EXTERNAL_KILL:
        on_external_kill(s);
        break;
    case EVENT_DEVICE_FAILED:
        on_device_failed(s);
        break;
    case EVENT_FREEZE:
        on_freeze(s);
        break;
    case EVENT_CONTROL:
        sim_control(s);
        break;
    case EVENT_KINDS:
        break;
    }
}

static void tick(struct sim *s)
{
    gd__sched_tick(&s->sched, s->now);
    const uint64_t deadline = gd__sched_deadline(&s->sched);
    SIM_MUST(s, deadline > s->now, "a timer is in the past after a tick");
}

/* When tick must be called: at the deadline, or some time after it in plans with late ticks. */
static uint64_t tick_time(struct sim *s)
{
    const uint64_t deadline = gd__sched_deadline(&s->sched);
    if (deadline == GD__NEVER || s->plan.late_ns == 0)
        return deadline;
    if (deadline != s->tick_for) {
        s->tick_for = deadline;
        s->tick_at = gd__max64(deadline, s->now) + sim_spread(&s->chance, s->plan.late_ns);
    }
    return s->tick_at;
}

/* The work of the dispatcher after a group of events. */
void sim_settle(struct sim *s)
{
    const bool more_now = s->n_events > 0 && s->events[1].at <= s->now;
    if (s->plan.lazy_pump && more_now)
        return;
    if (s->plan.late_ns == 0 && gd__sched_deadline(&s->sched) <= s->now)
        tick(s);
    check_before_pump(s);
    gd__sched_pump(&s->sched, s->now);
    tend_source(s);
    check_after_event(s);
}

static void advance(struct sim *s)
{
    const uint64_t event_at = s->n_events > 0 ? s->events[1].at : GD__NEVER, tick_at = tick_time(s);
    SIM_MUST(s, event_at != GD__NEVER || tick_at != GD__NEVER, "there are no more events, but the run is not finished");
    s->handled++;
    if (s->progress)
        *s->progress = s->handled;
    if (tick_at < event_at || (tick_at == event_at && s->plan.tick_first)) {
        SIM_MUST(s, tick_at > s->now || ++s->ticks_in_a_row < 1000, "endless ticks");
        s->ticks_in_a_row = tick_at > s->now ? 0 : s->ticks_in_a_row;
        s->now = gd__max64(s->now, tick_at);
        tick(s);
    } else {
        const struct event e = sim_next(s);
        s->ticks_in_a_row = 0;
        s->now = gd__max64(s->now, e.at);
        sim_handle(s, &e);
    }
    sim_settle(s);
}

void sim_plan_source(struct sim *s)
{
    const struct sim_plan *p = &s->plan;
    sim_at(s, s->now + sim_spread(&s->chance, p->source_gap_ns), EVENT_SOURCE, 0);
    if (p->source_cut_at)
        sim_at(s, s->now + p->source_cut_at, EVENT_SOURCE_END, 0);
}

static void plan_ahead(struct sim *s)
{
    const struct sim_plan *p = &s->plan;
    sim_plan_source(s);
    if (p->shutdown_at)
        sim_at(s, s->now + p->shutdown_at, EVENT_SHUTDOWN, 0);
    if (p->abort_at)
        sim_at(s, s->now + p->abort_at, EVENT_ABORT, 0);
    if (p->stop_all_at)
        sim_at(s, s->now + p->stop_all_at, EVENT_STOP_ALL, 0);
    if (p->freeze_at)
        sim_at(s, s->now + p->freeze_at, EVENT_FREEZE, 0);
    for (unsigned w = p->config.n_workers - p->config.n_spare; w < p->config.n_workers; w++)
        s->removed[w] = true;
    s->controls_left = p->controls;
    if (s->controls_left)
        sim_at(s, s->now + p->control_gap_ns, EVENT_CONTROL, 0);
    s->device_failures_left = p->device_failures;
    if (s->device_failures_left)
        sim_at(s, s->now + p->device_failure_gap_ns, EVENT_DEVICE_FAILED, 0);
    s->kills_left = p->external_kills;
    if (s->kills_left)
        sim_at(s, s->now + p->external_kill_gap_ns, EVENT_EXTERNAL_KILL, 0);
}

void sim_finish(struct sim *s)
{
    const uint64_t limit = (200000 + 4000 * (s->plan.n_tasks + s->plan.config.n_workers)) * s->plan.n_runs;
    while (!gd__sched_finished(&s->sched)) {
        SIM_MUST(s, s->handled < limit, "too many events: the run does not end");
        advance(s);
    }
}

static void run(struct sim *s)
{
    SIM_MUST(s, gd__sched_open(&s->sched, &s->plan.config, &sim_effects, s) == 0, "open: %s", gd_error_text());
    s->open = true;
    plan_ahead(s);
    gd__sched_start(&s->sched, s->now);
    sim_settle(s);
    do {
        sim_finish(s);
        check_end(s);
    } while (sim_run_again(s));
    if (s->sched.resting)
        sim_stop_workers(s);
}

static void describe(struct sim *s)
{
    const struct sim_plan *p = &s->plan;
    const struct gd__sched_config *c = &p->config;
    sim_trace(s, "%u workers, %llu tasks (told %llu), queue %llu, window %u/%u/%u, batch %u, placement %d%s",
              c->n_workers, (unsigned long long)p->n_tasks, (unsigned long long)c->total_tasks,
              (unsigned long long)c->queue_size, c->window, c->window_min, c->window_max, c->batch_size, c->placement,
              c->ordered ? ", ordered" : "");
    sim_trace(s, "timeout %llu grace %llu retries %u crash_limit %u setup_attempts %u setup_jobs %u death_limit %u",
              (unsigned long long)c->task_timeout_ns, (unsigned long long)c->cancel_grace_ns, c->retries,
              c->crash_limit, c->setup_attempts, c->setup_jobs, c->death_limit);
}

static void clear(struct sim *s)
{
    if (s->open)
        gd__sched_close(&s->sched);
    for (unsigned i = 0; s->procs && i < s->plan.config.n_workers; i++) {
        free(s->procs[i].ring);
        free(s->procs[i].outbox);
        free(s->procs[i].flight);
    }
    free(s->procs);
    free(s->tasks);
    free(s->setup_failed);
    free(s->device_out);
    free(s->removed);
    free(s->long_in_row);
    free(s->held_until);
    deaths_close(s);
    free(s->events);
    sim_plan_free(&s->plan);
}

static void *room_for(uint64_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    if (!p)
        abort();
    return p;
}

int sim_run(struct sim *s, uint64_t seed, bool trace, volatile uint64_t *progress)
{
    memset(s, 0, sizeof *s);
    s->seed = s->run_seed = seed;
    s->trace = trace;
    s->progress = progress;
    s->chance = sim_mix(seed, 2);
    s->now = s->began_at = BEGINNING;
    sim_plan_draw(&s->plan, seed);
    s->procs = room_for(s->plan.config.n_workers, sizeof *s->procs);
    s->tasks = room_for(s->plan.n_tasks, sizeof *s->tasks);
    s->setup_failed = room_for(s->plan.config.n_workers, sizeof *s->setup_failed);
    s->device_out = room_for(s->plan.config.n_workers, sizeof *s->device_out);
    s->removed = room_for(s->plan.config.n_workers, sizeof *s->removed);
    s->long_in_row = room_for(s->plan.config.n_workers, sizeof *s->long_in_row);
    s->held_until = room_for(s->plan.config.n_workers, sizeof *s->held_until);
    deaths_open(s);
    for (unsigned i = 0; i < s->plan.config.n_workers; i++)
        s->procs[i].ring = room_for(s->plan.config.window_max, sizeof *s->procs[i].ring);
    describe(s);
    const int failed = setjmp(s->failed);
    if (failed == 0)
        run(s);
    clear(s);
    return failed;
}
