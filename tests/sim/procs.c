/* Virtual worker processes, and the effects through which the scheduler controls them.
 *
 * A process claims tasks by the handshake of shm/layout.h: it reads limit, stores claimed, and reads limit again. In
 * plans with claim_races each of these steps is a separate event, so that a take_back can come between any two.
 * With load_ahead a loader claims tasks ahead of processing. Messages of a process reach the dispatcher with random
 * delays, but in order. Messages that a process sent before it died arrive before its death is noticed.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "sim/check/check.h"

uint64_t proc_soon(struct sim *s, uint64_t mean_ns)
{
    return s->now + sim_spread(&s->chance, mean_ns);
}

static bool happens(struct sim *s, unsigned thousandths)
{
    return sim_below(&s->chance, 1000) < thousandths;
}

enum sim_task_kind sim_task_kind(const struct sim *s, uint64_t id)
{
    const uint64_t x = sim_mix(s->run_seed ^ 0x7461736b, id);
    if (x % 1000 < s->plan.poison)
        return TASK_POISON;
    if ((x >> 16) % 1000 < s->plan.hangs)
        return (enum sim_task_kind)(TASK_HANGS + (x >> 32) % 3);
    return TASK_FINE;
}

uint64_t proc_task_ns(const struct sim *s, uint64_t id)
{
    return s->plan.change_at && id >= s->plan.change_at ? s->plan.changed_ns : s->plan.task_ns;
}

bool proc_is_stuck(const struct proc *p)
{
    return p->frozen && p->immortal;
}

struct ring_slot *proc_slot(struct sim *s, struct proc *p, uint64_t position)
{
    return &p->ring[position & (s->plan.config.window_max - 1)];
}

/* --- messages --- */

void proc_say(struct sim *s, unsigned w, const struct message *m)
{
    struct proc *p = &s->procs[w];
    if (p->out_head + p->out_count == p->out_room) {
        if (p->out_head > 0) {
            memmove(p->outbox, p->outbox + p->out_head, p->out_count * sizeof *p->outbox);
            p->out_head = 0;
        } else {
            p->out_room = p->out_room ? 2 * p->out_room : 8;
            p->outbox = realloc(p->outbox, p->out_room * sizeof *p->outbox);
            if (!p->outbox)
                abort();
        }
    }
    p->outbox[p->out_head + p->out_count++] = *m;
    const uint64_t at = proc_soon(s, s->plan.message_ns);
    p->last_arrival = gd__max64(p->last_arrival, at);
    sim_at(s, p->last_arrival, EVENT_MESSAGE, w);
}

/* Sends a message that no correct process would send now. */
static void say_nonsense(struct sim *s, unsigned w)
{
    struct proc *p = &s->procs[w];
    struct message m = { .wrong = true };
    switch (sim_below(&s->chance, 5)) {
    case 0: /* a second READY, or SETUP_FAILED after READY */
        m.kind = p->ready_told ? MESSAGE_READY : MESSAGE_RESULT;
        break;
    case 1:
        m.kind = p->ready_told ? MESSAGE_SETUP_FAILED : MESSAGE_RESULT;
        break;
    case 2: /* the same result again */
        m.kind = MESSAGE_RESULT;
        m.position = p->done > 0 ? p->done - 1 : UINT64_MAX;
        m.attempt = 1;
        break;
    case 3: /* a result of a task that it never had */
        m.kind = MESSAGE_RESULT;
        m.position = UINT64_MAX / 2 + sim_below(&s->chance, 3);
        m.attempt = 1;
        break;
    default: /* a result of another attempt */
        m.kind = MESSAGE_RESULT;
        m.position = p->done;
        m.attempt = 1000;
    }
    proc_say(s, w, &m);
}

/* --- what a process does --- */

static bool may_load(struct sim *s, struct proc *p)
{
    if (p->concurrency > 1)
        return flight_may_load(s, p);
    return p->claimed < p->limit && p->claimed - p->done < s->plan.load_ahead + s->plan.config.batch_size;
}

void proc_wake(struct sim *s, unsigned w)
{
    struct proc *p = &s->procs[w];
    if (p->state != PROC_LIVE || p->frozen)
        return;
    const bool loads = s->plan.load_ahead > 0;
    if (loads && !p->load_due && may_load(s, p)) {
        p->load_due = true;
        sim_at(s, proc_soon(s, s->plan.task_ns / 8), EVENT_LOAD, w);
    }
    /* A batch may have been claimed by a size that was read before it was taken back and replaced by smaller ones. */
    const bool work =
        flight_has_room(p) && !p->load_hangs && (p->started < p->claimed || (!loads && p->claimed < p->limit));
    if (p->phase == PHASE_IDLE && !p->step_due && (work || (p->stop && p->claimed >= p->limit))) {
        p->step_due = true;
        sim_at(s, s->plan.claim_races ? proc_soon(s, s->plan.message_ns) : s->now, EVENT_STEP, w);
    }
}

static void step_at(struct sim *s, unsigned w, uint64_t at)
{
    s->procs[w].step_due = true;
    sim_at(s, at, EVENT_STEP, w);
}

bool proc_meets_fate(struct sim *s, unsigned w, enum proc_fate here)
{
    struct proc *p = &s->procs[w];
    if (p->fate != here || p->fate_after-- > 0)
        return false;
    if (happens(s, s->plan.stops)) {
        sim_trace(s, "process %u stops", w);
        p->frozen = true;
        return true;
    }
    const bool by_signal = sim_below(&s->chance, 2);
    proc_die(s, w, !by_signal ? 0 : happens(s, s->plan.by_stop_signal) ? SIGHUP : SIGSEGV, by_signal ? 0 : 3);
    return true;
}

void proc_die(struct sim *s, unsigned w, int signal, int exit_code)
{
    struct proc *p = &s->procs[w];
    if (p->state == PROC_NONE || p->state == PROC_DEAD)
        return;
    p->state = PROC_DEAD;
    p->death = (struct gd__death){ .started = p->started,
                                   .loading = p->loading,
                                   .start_ns = p->start_ns,
                                   .signal = signal,
                                   .exit_code = exit_code,
                                   .message = "it died" };
    if (p->lying) { /* wrong values; the dispatcher can only limit them to the window */
        p->death.started = sim_below(&s->chance, p->tail + 2);
        p->death.loading = sim_below(&s->chance, p->tail + 2);
    }
    sim_trace(s, "process %u dies (signal %d, code %d): claimed %llu started %llu loading %llu done %llu", w, signal,
              exit_code, (unsigned long long)p->claimed, (unsigned long long)p->started, (unsigned long long)p->loading,
              (unsigned long long)p->done);
    sim_at(s, gd__max64(p->last_arrival, proc_soon(s, s->plan.exit_ns)), EVENT_EXIT, w);
}

void proc_setup_done(struct sim *s, unsigned w)
{
    struct proc *p = &s->procs[w];
    const struct sim_plan *plan = &s->plan;
    if (p->state != PROC_SETUP || p->frozen)
        return;
    if (p->bad && sim_below(&s->chance, 4) == 0)
        say_nonsense(s, w);
    if (happens(s, plan->setup_hangs)) {
        sim_trace(s, "process %u hangs in setup", w);
    } else if (happens(s, plan->setup_dies)) {
        proc_die(s, w, happens(s, plan->by_stop_signal) ? SIGTERM : SIGABRT, 0);
    } else if (happens(s, plan->setup_fails)) {
        proc_say(s, w, &(struct message){ .kind = MESSAGE_SETUP_FAILED });
        if (!happens(s, plan->lingers))
            proc_die(s, w, 0, 1);
    } else {
        p->state = PROC_LIVE;
        flight_open(s, p);
        proc_say(s, w, &(struct message){ .kind = MESSAGE_READY, .concurrency = p->concurrency });
        p->ready_told = true;
        if (!proc_meets_fate(s, w, FATE_AFTER_READY))
            proc_wake(s, w);
    }
}

static void leave(struct sim *s, unsigned w)
{
    struct proc *p = &s->procs[w];
    if (p->phase != PHASE_LEAVING) {
        p->phase = PHASE_LEAVING;
        if (proc_meets_fate(s, w, FATE_WHILE_LEAVING))
            return;
        if (happens(s, s->plan.lingers))
            sim_trace(s, "process %u hangs in cleanup", w);
        else
            step_at(s, w, proc_soon(s, s->plan.cleanup_ns));
        return;
    }
    proc_die(s, w, 0, 0);
}

/* A batch that hangs, but checks whether it was cancelled. */
static void obey_cancel(struct sim *s, unsigned w)
{
    struct proc *p = &s->procs[w];
    if (p->state != PROC_LIVE || p->frozen || p->phase != PHASE_HUNG || p->run_begin >= p->cancel || p->step_due)
        return;
    for (uint64_t i = p->run_begin; i < p->started; i++) {
        const enum sim_task_kind kind = sim_task_kind(s, proc_slot(s, p, i)->task_id);
        if (kind == TASK_HANGS || kind == TASK_POISON)
            return;
    }
    p->cancelled = true;
    step_at(s, w, proc_soon(s, s->plan.config.cancel_grace_ns / 2));
}

static void start(struct sim *s, unsigned w)
{
    struct proc *p = &s->procs[w];
    const uint64_t n = proc_slot(s, p, p->started)->batch;
    bool hangs = false, poison = false;
    p->run_begin = p->started;
    p->started = gd__min64(p->started + n, p->claimed);
    p->start_ns = s->now;
    p->cancelled = false;
    for (uint64_t i = p->run_begin; i < p->started; i++) {
        const struct ring_slot *slot = proc_slot(s, p, i);
        const enum sim_task_kind kind = sim_task_kind(s, slot->task_id);
        struct sim_task *t = &s->tasks[slot->task_id];
        SIM_MUST(s, !slot->solo || p->started - p->run_begin == 1, "task %llu is a suspect, but does not run alone",
                 (unsigned long long)slot->task_id);
        t->starts++;
        poison |= kind == TASK_POISON;
        hangs |= kind == TASK_HANGS || kind == TASK_HANGS_OBEDIENT || (kind == TASK_HANGS_ONCE && t->starts == 1);
    }
    check_control_start(s, w);
    sim_trace(s, "process %u starts %llu..%llu (task %llu)%s%s", w, (unsigned long long)p->run_begin,
              (unsigned long long)p->started, (unsigned long long)proc_slot(s, p, p->run_begin)->task_id,
              hangs ? ", hangs" : "", poison ? ", poison" : "");
    p->poisoned = poison;
    p->phase = hangs || poison ? PHASE_HUNG : PHASE_RUNNING;
    if (proc_meets_fate(s, w, FATE_AFTER_START))
        return;
    const uint64_t task_ns = proc_task_ns(s, proc_slot(s, p, p->run_begin)->task_id);
    if (poison)
        sim_at(s, proc_soon(s, task_ns), EVENT_DIE, w);
    if (p->phase == PHASE_RUNNING)
        step_at(s, w, proc_soon(s, task_ns));
    else
        obey_cancel(s, w);
}

static enum gd_failure draw_outcome(struct sim *s, const struct proc *p, bool *final)
{
    const struct sim_plan *plan = &s->plan;
    if (p->cancelled && sim_below(&s->chance, 3) > 0)
        return GD_FAILURE_CANCELLED;
    if (p->bad && sim_below(&s->chance, 16) == 0)
        return GD_FAILURE_CANCELLED; /* without a request, this counts as an error that is not retried */
    if (happens(s, plan->error_final)) {
        *final = true;
        return GD_FAILURE_ERROR;
    }
    return happens(s, plan->error)           ? GD_FAILURE_ERROR
           : happens(s, plan->out_of_memory) ? GD_FAILURE_OUT_OF_MEMORY
           : happens(s, plan->device_lost)   ? GD_FAILURE_DEVICE_LOST
                                             : GD_FAILURE_NONE;
}

void proc_draw_outcome(struct sim *s, unsigned w, struct message *m)
{
    const struct proc *p = &s->procs[w];
    m->outcome = (struct gd__outcome){
        .worker = (int)w, .start_ns = p->start_ns, .end_ns = s->now, .bytes = "x", .size = 1, .handle = ++s->handles
    };
    m->outcome.failure = draw_outcome(s, p, &m->outcome.final);
    m->outcome.shortage = m->outcome.failure == GD_FAILURE_ERROR && happens(s, s->plan.shortage);
    m->outcome.final &= !m->outcome.shortage;
    m->outcome.by_stop_signal =
        !m->outcome.shortage && m->outcome.failure == GD_FAILURE_ERROR && happens(s, s->plan.by_stop_signal);
}

static void finish(struct sim *s, unsigned w)
{
    struct proc *p = &s->procs[w];
    p->poisoned = false; /* a task that was ended by force no longer kills the process */
    const uint64_t n = p->started - p->run_begin;
    const unsigned safe = n > 1 && happens(s, s->plan.safe_batch) ? 1 + (unsigned)sim_below(&s->chance, n - 1) : 0;
    for (uint64_t i = p->run_begin; i < p->started; i++) {
        const struct ring_slot *slot = proc_slot(s, p, i);
        struct message m = { .kind = MESSAGE_RESULT, .position = i, .attempt = slot->attempt, .safe_batch = safe };
        proc_draw_outcome(s, w, &m);
        proc_say(s, w, &m);
        p->done = i + 1;
        if (proc_meets_fate(s, w, FATE_AFTER_RESULT))
            return;
    }
    if (p->bad && sim_below(&s->chance, 4) == 0)
        say_nonsense(s, w);
    p->phase = PHASE_IDLE;
    proc_wake(s, w);
}

static void look(struct sim *s, unsigned w)
{
    struct proc *p = &s->procs[w];
    if (p->claimed >= p->limit) {
        if (p->stop)
            leave(s, w);
        return;
    }
    if (!flight_has_room(p))
        return;
    p->looked = gd__min64(proc_slot(s, p, p->claimed)->batch, p->limit - p->claimed);
    p->phase = PHASE_LOOKED;
    if (p->concurrency > 1 || !proc_meets_fate(s, w, FATE_AFTER_LOOK))
        step_at(s, w, s->plan.claim_races ? proc_soon(s, s->plan.message_ns) : s->now);
}

static void claim(struct sim *s, unsigned w)
{
    struct proc *p = &s->procs[w];
    p->claimed += p->looked;
    p->phase = PHASE_CLAIMED;
    step_at(s, w, s->plan.claim_races ? proc_soon(s, s->plan.message_ns) : s->now);
}

static void confirm(struct sim *s, unsigned w)
{
    struct proc *p = &s->procs[w];
    if (p->limit < p->claimed) {
        sim_trace(s, "process %u loses its claim", w);
        p->claimed -= p->looked;
        p->phase = PHASE_IDLE;
        proc_wake(s, w);
        return;
    }
    p->phase = PHASE_OWNED;
    for (uint64_t i = p->claimed - p->looked; i < p->claimed; i++)
        check_begin(s, w, proc_slot(s, p, i)->task_id);
    if (!proc_meets_fate(s, w, FATE_AFTER_CLAIM))
        step_at(s, w, s->plan.claim_races ? proc_soon(s, s->plan.task_ns / 8) : s->now);
}

void proc_step(struct sim *s, unsigned w)
{
    struct proc *p = &s->procs[w];
    p->step_due = false;
    if (p->state != PROC_LIVE || p->frozen)
        return;
    switch (p->phase) {
    case PHASE_IDLE:
        if (p->started < p->claimed && p->concurrency > 1)
            flight_load(s, w);
        else if (p->started < p->claimed)
            start(s, w);
        else if (s->plan.load_ahead == 0 || p->claimed >= p->limit) /* otherwise the loader claims */
            look(s, w);
        break;
    case PHASE_LOOKED:
        claim(s, w);
        break;
    case PHASE_CLAIMED:
        confirm(s, w);
        break;
    case PHASE_OWNED:
        if (p->concurrency > 1) {
            p->phase = PHASE_IDLE;
            flight_begin(s, w);
            proc_wake(s, w);
            break;
        }
        start(s, w);
        break;
    case PHASE_RUNNING:
    case PHASE_HUNG:
        finish(s, w);
        break;
    case PHASE_LEAVING:
        leave(s, w);
    }
}

void proc_load(struct sim *s, unsigned w)
{
    struct proc *p = &s->procs[w];
    p->load_due = false;
    if (p->state != PROC_LIVE || p->frozen || !may_load(s, p))
        return;
    p->claimed += gd__min64(proc_slot(s, p, p->claimed)->batch, p->limit - p->claimed);
    p->loading = p->claimed;
    if (p->concurrency == 1 || !proc_meets_fate(s, w, FATE_AFTER_CLAIM))
        proc_wake(s, w);
}

void proc_gone(struct sim *s, unsigned w)
{
    struct proc *p = &s->procs[w];
    p->state = PROC_NONE;
    p->out_head = p->out_count = 0;
    p->generation++; /* messages that are still on their way belong to no process now */
}

/* --- the effects --- */

static void fx_spawn(void *ctx, unsigned w)
{
    struct sim *s = ctx;
    struct proc *p = &s->procs[w];
    SIM_MUST(s, p->state == PROC_NONE && !p->abandoned, "worker %u is started while it has a process", w);
    SIM_MUST(s, !s->setup_failed[w], "worker %u is started after its setup failed", w);
    SIM_MUST(s, !s->sched.workers_stopped, "worker %u is started after the end", w);
    SIM_MUST(s, !s->removed[w], "worker %u is started after it was removed", w);
    SIM_MUST(s, !s->device_out[s->sched.workers[w].device], "worker %u is started on a device that is out of use", w);
    SIM_MUST(s, s->now >= s->held_until[w], "worker %u is started again, but a stop may be on its way", w);
    deaths_spawn(s, w);
    s->first_spawns += p->generation == 0 || p->cold;
    s->spawns++;
    *p = (struct proc){ .generation = p->generation + 1,
                        .ring = p->ring,
                        .outbox = p->outbox,
                        .out_room = p->out_room,
                        .flight = p->flight,
                        .concurrency = 1 };
    p->immortal = happens(s, s->plan.immortal);
    p->bad = happens(s, s->plan.bad);
    p->lying = p->bad && sim_below(&s->chance, 2);
    p->ends_tasks = happens(s, s->plan.ends_tasks);
    if (happens(s, s->plan.fate)) {
        p->fate = (enum proc_fate)sim_below(&s->chance, FATE_COUNT);
        p->fate_after = (unsigned)sim_below(&s->chance, sim_below(&s->chance, 2) ? 3 : 40);
        if (p->fate == FATE_AFTER_READY || p->fate == FATE_WHILE_LEAVING)
            p->fate_after = 0;
    }
    sim_trace(s, "spawn %u%s%s fate %d after %u", w, p->immortal ? " immortal" : "", p->bad ? " bad" : "", p->fate,
              p->fate_after);
    p->state = PROC_SETUP;
    p->spawned_at = s->now;
    if (!happens(s, s->plan.spawn_fails)) {
        sim_at(s, proc_soon(s, s->plan.setup_ns), EVENT_SETUP, w);
        return;
    }
    p->state = PROC_DEAD;
    p->death =
        (struct gd__death){ .not_spawned = true, .shortage = happens(s, s->plan.shortage), .message = "no process" };
    sim_at(s, proc_soon(s, s->plan.exit_ns), EVENT_EXIT, w);
}

static void fx_assign(void *ctx, unsigned w, const struct gd__task *t, unsigned attempt)
{
    struct sim *s = ctx;
    struct proc *p = &s->procs[w];
    check_assign(s, w, t, attempt);
    *proc_slot(s, p, p->tail) =
        (struct ring_slot){ .task_id = t->id, .attempt = attempt, .batch = t->batch, .solo = t->solo };
    p->tail++;
}

static void fx_publish(void *ctx, unsigned w)
{
    struct sim *s = ctx;
    struct proc *p = &s->procs[w];
    SIM_MUST(s, p->tail == s->sched.workers[w].tail, "worker %u: published up to %llu, the window ends at %llu", w,
             (unsigned long long)p->tail, (unsigned long long)s->sched.workers[w].tail);
    const uint64_t bound = s->sched.finals + s->sched.config.queue_size + s->sched.running;
    s->peak_allowed = gd__max64(s->peak_allowed, bound);
    p->limit = p->tail;
    SIM_MUST(s, s->last_start == 0 || s->now >= s->last_start + s->plan.config.start_gap_ns,
             "worker %u gets a task too soon after another", w);
    s->last_start = s->now;
    proc_wake(s, w);
}

static uint64_t fx_take_back(void *ctx, unsigned w, uint64_t keep)
{
    struct sim *s = ctx;
    struct proc *p = &s->procs[w];
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    SIM_MUST(s, keep >= worker->head && keep <= p->tail, "take_back(%u, %llu) outside the window %llu..%llu", w,
             (unsigned long long)keep, (unsigned long long)worker->head, (unsigned long long)p->tail);
    SIM_MUST(s, p->limit == p->tail, "take_back(%u) before what was assigned has been published", w);
    const uint64_t claimed = p->lying && p->broken ? p->tail : p->claimed;
    p->limit = gd__min64(gd__max64(keep, claimed), p->tail);
    for (uint64_t i = p->limit; i < p->tail; i++)
        s->tasks[proc_slot(s, p, i)->task_id].taken_at = s->now;
    sim_trace(s, "take back %u from %llu of ..%llu: kept below %llu", w, (unsigned long long)keep,
              (unsigned long long)p->tail, (unsigned long long)p->limit);
    return p->tail = p->limit;
}

static void fx_probe(void *ctx, unsigned w, uint64_t head, struct gd__probe *out)
{
    struct sim *s = ctx;
    const struct proc *p = &s->procs[w];
    out->started = gd__max64(head, gd__min64(p->started, p->tail));
    out->start_ns = p->start_ns;
}

static void fx_cancel(void *ctx, unsigned w, uint64_t below)
{
    struct sim *s = ctx;
    struct proc *p = &s->procs[w];
    sim_trace(s, "cancel %u below %llu", w, (unsigned long long)below);
    check_cancel(s, w, below);
    p->cancel = gd__max64(p->cancel, below);
    if (p->concurrency > 1)
        flight_stop_load(s, w);
    else
        obey_cancel(s, w);
}

/* Most processes that can end a task do so in time. */
static bool fx_end_tasks(void *ctx, unsigned w)
{
    struct sim *s = ctx;
    struct proc *p = &s->procs[w];
    if (!p->ends_tasks)
        return false;
    sim_trace(s, "end the tasks of %u", w);
    check_end_tasks(s, w);
    const bool hangs = p->state == PROC_LIVE && !p->frozen && p->phase == PHASE_HUNG && p->run_begin < p->cancel;
    if (hangs && !p->step_due && sim_below(&s->chance, 4) > 0) {
        p->cancelled = true;
        step_at(s, w, proc_soon(s, s->plan.config.end_wait_ns / 2));
    }
    return true;
}

static void fx_cancel_place(void *ctx, unsigned w, unsigned place, uint64_t position)
{
    sim_trace(ctx, "cancel place %u of %u (position %llu)", place, w, (unsigned long long)position);
    check_cancel_place(ctx, w, place, position);
    flight_cancel(ctx, w, place, position);
}

static void fx_kill(void *ctx, unsigned w)
{
    struct sim *s = ctx;
    struct proc *p = &s->procs[w];
    sim_trace(s, "kill %u, reason %d", w, s->sched.workers[w].kill_reason);
    check_kill(s, w);
    p->killed = true;
    p->killed_at = s->now;
    if (p->state == PROC_DEAD)
        return;
    if (p->immortal)
        p->frozen = true; /* stuck in the kernel for ever */
    else
        sim_at(s, proc_soon(s, s->plan.kill_ns), EVENT_DIE, w);
}

static void fx_stop(void *ctx, unsigned w)
{
    struct sim *s = ctx;
    struct proc *p = &s->procs[w];
    sim_trace(s, "stop %u", w);
    SIM_MUST(s, p->state != PROC_NONE && !p->stop && !p->killed, "stop(%u) twice, after a kill or without a process",
             w);
    check_kept(s, w);
    p->stop = true;
    proc_wake(s, w);
}

static void fx_abandon(void *ctx, unsigned w)
{
    struct sim *s = ctx;
    struct proc *p = &s->procs[w];
    sim_trace(s, "abandon %u", w);
    SIM_MUST(s, p->state != PROC_NONE && p->killed, "abandon(%u) of a process that was not killed", w);
    SIM_MUST(s, s->now >= p->killed_at + s->plan.config.kill_wait_ns, "abandon(%u) too early", w);
    p->abandoned = true;
    struct gd__probe last;
    fx_probe(ctx, w, s->sched.workers[w].head, &last);
    check_before_exit(s, w, &(struct gd__death){ .started = last.started });
    proc_gone(s, w);
}

static void fx_deliver(void *ctx, const struct gd__task *t, const struct gd__outcome *o)
{
    struct sim *s = ctx;
    sim_trace(s, "deliver task %llu: %d", (unsigned long long)t->id, o->failure);
    check_deliver(s, t, o);
}

static void fx_hold(void *ctx, const struct gd__task *t, struct gd__outcome *o)
{
    struct sim *s = ctx;
    struct sim_task *task = &s->tasks[t->id];
    SIM_MUST(s, !task->held, "task %llu held twice", (unsigned long long)t->id);
    SIM_MUST(s, s->plan.config.ordered || task->put_off, "task %llu held for nothing", (unsigned long long)t->id);
    task->held = true;
    o->handle = ~o->handle; /* deliver must get this changed handle */
}

static void fx_drop(void *ctx, const struct gd__task *t, const struct gd__outcome *o)
{
    struct sim *s = ctx;
    struct sim_task *task = &s->tasks[t->id];
    (void)o;
    SIM_MUST(s, task->held, "task %llu: dropped a result that was not held", (unsigned long long)t->id);
    task->held = false;
}

static void fx_shortage(void *ctx, unsigned w, const char *words, uint64_t size)
{
    (void)words, (void)size;
    sim_trace(ctx, "worker %u is short of processes", w);
}

static void fx_tried(void *ctx, const struct gd__task *t, const struct gd__outcome *o)
{
    check_tried(ctx, t, o);
}

static void fx_setup_failed(void *ctx, unsigned w, const char *words)
{
    struct sim *s = ctx;
    (void)words;
    sim_trace(s, "setup of %u failed", w);
    SIM_MUST(s, !s->setup_failed[w], "setup_failed(%u) twice", w);
    deaths_setup_failed(s, w);
    s->setup_failed[w] = true;
    s->setup_failures_told++;
}

static void fx_worker_died(void *ctx, unsigned w, const char *words, bool given_up)
{
    struct sim *s = ctx;
    (void)words;
    sim_trace(s, "worker %u died%s", w, given_up ? ", given up" : "");
    SIM_MUST(s, s->now >= s->held_until[w], "worker %u is reported as dead, but a stop may be on its way", w);
    deaths_told(s, w, given_up);
    s->deaths_told++;
}

static void fx_device_out(void *ctx, unsigned w, const char *words)
{
    struct sim *s = ctx;
    const unsigned device = s->sched.workers[w].device;
    sim_trace(s, "the device of worker %u is out of use (%s)", w, words ? words : "no worker left");
    SIM_MUST(s, !s->device_out[device], "the device of worker %u is reported as out of use twice", w);
    SIM_MUST(s, !s->sched.stopping && !s->sched.workers_stopped, "a device is reported as out of use after the end");
    s->device_out[device] = true;
}

const struct gd__sched_effects sim_effects = {
    .spawn = fx_spawn,
    .assign = fx_assign,
    .publish = fx_publish,
    .take_back = fx_take_back,
    .probe = fx_probe,
    .cancel = fx_cancel,
    .end_tasks = fx_end_tasks,
    .cancel_place = fx_cancel_place,
    .kill = fx_kill,
    .stop = fx_stop,
    .abandon = fx_abandon,
    .deliver = fx_deliver,
    .hold = fx_hold,
    .drop = fx_drop,
    .shortage = fx_shortage,
    .tried = fx_tried,
    .setup_failed = fx_setup_failed,
    .worker_died = fx_worker_died,
    .device_out = fx_device_out,
};
