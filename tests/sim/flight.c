/* Virtual processes that have several tasks in flight. They claim tasks one by one by the same steps as other processes
 * (procs.c), begin each at a random free place, and finish them in any order. With load_ahead, they claim and load tasks
 * before they begin them. A task may kill the process or hang while it is loaded.
 */
#include <signal.h>
#include <stdlib.h>

#include "sim.h"

enum sim_nonsense {
    FINISH_AGAIN,
    FINISH_UNKNOWN,
    FINISH_ELSEWHERE,
    BEGIN_OUT_OF_ORDER,
    BEGIN_AT_BAD_PLACE,
    BEGIN_OCCUPIED,
    NONSENSE_KINDS
};

static bool happens(struct sim *s, unsigned thousandths)
{
    return sim_below(&s->chance, 1000) < thousandths;
}

bool flight_has_room(const struct proc *p)
{
    return p->n_flight < p->concurrency;
}

void flight_open(struct sim *s, struct proc *p)
{
    p->concurrency = 1 + (unsigned)sim_below(&s->chance, s->plan.config.concurrency);
    if (p->concurrency == 1)
        return;
    free(p->flight);
    p->flight = calloc(p->concurrency, sizeof *p->flight);
    if (!p->flight)
        abort();
}

/* Sends a message that no correct process would send now. */
static void say_nonsense(struct sim *s, unsigned w)
{
    const struct proc *p = &s->procs[w];
    struct message m = { .wrong = true, .kind = MESSAGE_RESULT, .attempt = 1 };
    m.place = (unsigned)sim_below(&s->chance, p->concurrency);
    switch (sim_below(&s->chance, NONSENSE_KINDS)) {
    case FINISH_AGAIN: /* a result at a place whose task has finished, or of an earlier task there */
        m.position = UINT64_MAX;
        break;
    case FINISH_UNKNOWN:
        m.position = p->tail + sim_below(&s->chance, 3);
        break;
    case FINISH_ELSEWHERE:
        m.place = p->concurrency + (unsigned)sim_below(&s->chance, 3);
        break;
    case BEGIN_OUT_OF_ORDER:
        m.kind = MESSAGE_BEGUN;
        m.position = p->started + 1 + sim_below(&s->chance, 3);
        break;
    case BEGIN_AT_BAD_PLACE:
        m.kind = MESSAGE_BEGUN;
        m.position = p->started;
        m.place = p->concurrency;
        break;
    default:
        m.kind = MESSAGE_BEGUN;
        m.position = p->started > 0 ? p->started - 1 : UINT64_MAX; /* begun already */
    }
    proc_say(s, w, &m);
}

static unsigned free_place(struct sim *s, const struct proc *p)
{
    unsigned place = (unsigned)sim_below(&s->chance, p->concurrency);
    while (p->flight[place].used)
        place = (place + 1) % p->concurrency;
    return place;
}

/* Whether the task does in load what its kind says, and not after its begin. */
static bool acts_in_load(const struct sim *s, uint64_t id)
{
    return s->plan.load_ahead > 0 && sim_mix(s->run_seed ^ 0x6c6f6164, id) % 3 == 0;
}

static bool a_suspect_runs(const struct proc *p)
{
    for (unsigned i = 0; i < p->concurrency; i++)
        if (p->flight[i].used && p->flight[i].slot.solo)
            return true;
    return false;
}

void flight_begin(struct sim *s, unsigned w)
{
    struct proc *p = &s->procs[w];
    const struct ring_slot slot = *proc_slot(s, p, p->started);
    const enum sim_task_kind kind = sim_task_kind(s, slot.task_id);
    const unsigned place = free_place(s, p);
    struct sim_task *t = &s->tasks[slot.task_id];
    SIM_MUST(s, p->n_flight == 0 || (!slot.solo && !a_suspect_runs(p)), "task %llu runs beside a suspect",
             (unsigned long long)slot.task_id);
    p->flight[place] = (struct sim_flight){ .used = true, .position = p->started, .slot = slot, .start_ns = s->now };
    p->n_flight++;
    p->started++;
    p->start_ns = s->now;
    t->starts++;
    check_control_start(s, w);
    sim_trace(s, "process %u begins %llu (task %llu) at place %u", w, (unsigned long long)p->started - 1,
              (unsigned long long)slot.task_id, place);
    if (proc_meets_fate(s, w, FATE_AFTER_LOOK))
        return; /* begun, but the dispatcher does not learn of it */
    proc_say(s, w,
             &(struct message){ .kind = MESSAGE_BEGUN,
                                .position = p->started - 1,
                                .attempt = slot.attempt,
                                .place = place,
                                .outcome.start_ns = s->now });
    if (proc_meets_fate(s, w, FATE_AFTER_START))
        return;
    if (p->cancel > p->started - 1 && p->loaded > 0) { /* it was asked to stop before it has begun */
        p->flight[place].cancelled = true;
        flight_finish(s, w, place, p->started - 1);
        return;
    }
    const bool hangs = !acts_in_load(s, slot.task_id) && (kind == TASK_HANGS || kind == TASK_HANGS_OBEDIENT ||
                                                          (kind == TASK_HANGS_ONCE && t->starts == 1));
    p->flight[place].obeys = kind != TASK_HANGS && kind != TASK_POISON;
    if (kind == TASK_POISON) {
        p->poisoned = true;
        sim_at(s, proc_soon(s, proc_task_ns(s, slot.task_id)), EVENT_DIE, w);
    } else if (!hangs) {
        sim_at_place(s, proc_soon(s, proc_task_ns(s, slot.task_id)), w, place, p->started - 1);
    }
}

/* --- loading --- */

bool flight_may_load(struct sim *s, struct proc *p)
{
    if (p->claimed >= p->limit || p->n_flight + (p->claimed - p->started) >= p->concurrency + s->plan.load_ahead)
        return false;
    const bool first = p->n_flight == 0 && p->claimed == p->started;
    const bool beside = p->claimed > p->started && proc_slot(s, p, p->claimed - 1)->solo;
    return first || (!proc_slot(s, p, p->claimed)->solo && !beside && !a_suspect_runs(p));
}

void flight_load(struct sim *s, unsigned w)
{
    struct proc *p = &s->procs[w];
    const uint64_t id = proc_slot(s, p, p->started)->task_id;
    const enum sim_task_kind kind = sim_task_kind(s, id);
    const bool poison = acts_in_load(s, id) && kind == TASK_POISON;
    if (!flight_has_room(p))
        return;
    if (s->plan.load_ahead == 0 || p->loaded > p->started) { /* it is loaded */
        flight_begin(s, w);
        proc_wake(s, w);
        return;
    }
    p->loaded = p->started + 1;
    p->load_hangs =
        poison || (acts_in_load(s, id) && kind >= TASK_HANGS && (kind != TASK_HANGS_ONCE || !s->tasks[id].starts));
    sim_trace(s, "process %u loads %llu (task %llu)%s", w, (unsigned long long)p->started, (unsigned long long)id,
              p->load_hangs ? " and hangs" : "");
    if (poison) {
        p->poisoned = true;
        sim_at(s, proc_soon(s, s->plan.task_ns), EVENT_DIE, w);
    } else if (p->load_hangs) {
        flight_stop_load(s, w);
    } else {
        p->step_due = true;
        sim_at(s, proc_soon(s, s->plan.task_ns / 4), EVENT_STEP, w);
    }
}

void flight_stop_load(struct sim *s, unsigned w)
{
    struct proc *p = &s->procs[w];
    if (p->state != PROC_LIVE || p->frozen || !p->load_hangs || p->cancel <= p->started)
        return;
    const enum sim_task_kind kind = sim_task_kind(s, proc_slot(s, p, p->started)->task_id);
    if (kind == TASK_HANGS || kind == TASK_POISON)
        return;
    p->load_hangs = false;
    p->step_due = true;
    sim_at(s, proc_soon(s, s->plan.config.cancel_grace_ns / 2), EVENT_STEP, w);
}

void flight_cancel(struct sim *s, unsigned w, unsigned place, uint64_t position)
{
    struct proc *p = &s->procs[w];
    if (p->state != PROC_LIVE || p->frozen || place >= p->concurrency)
        return;
    struct sim_flight *f = &p->flight[place];
    if (!f->used || f->position != position || !f->obeys)
        return;
    f->cancelled = true;
    sim_at_place(s, proc_soon(s, s->plan.config.cancel_grace_ns / 2), w, place, position);
}

void flight_finish(struct sim *s, unsigned w, unsigned place, uint64_t position)
{
    struct proc *p = &s->procs[w];
    if (p->state != PROC_LIVE || p->frozen || !p->flight[place].used || p->flight[place].position != position)
        return; /* the task has finished before */
    struct sim_flight *f = &p->flight[place];
    struct message m = { .kind = MESSAGE_RESULT, .position = position, .attempt = f->slot.attempt, .place = place };
    p->cancelled = f->cancelled;
    proc_draw_outcome(s, w, &m);
    m.outcome.start_ns = f->start_ns;
    f->used = false;
    p->n_flight--;
    proc_say(s, w, &m);
    if (proc_meets_fate(s, w, FATE_AFTER_RESULT))
        return;
    if (p->bad && happens(s, 250))
        say_nonsense(s, w);
    proc_wake(s, w);
}
