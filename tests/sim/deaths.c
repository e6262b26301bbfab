/* Checks when a worker is given up: after death_limit deaths in a row in which it has finished nothing. Some deaths do
 * not count. If a task has failed because of the deaths that it was charged with, these deaths do not count. There is
 * one exception: only this worker died of the task, although there were other workers. A death with a task that was
 * cancelled on request does not count either, nor does the death of an idle process between two runs.
 *
 * The deaths are counted here from the events alone. If a verdict was put off, this file does not see when it is given.
 * So such a death may count or not. */
#include <signal.h>
#include <stdlib.h>

#include "sim.h"

#define NOBODY  UINT64_MAX
#define REQUEST (UINT64_MAX - 1)
#define SEVERAL (-1)

struct sim_deaths {
    uint64_t pending; /* the task that is charged with the death that was just noticed; NOBODY, or REQUEST */
    bool in_setup;
    uint64_t uncharged;
    uint64_t maybe;         /* deaths in earlier runs that may count or not */
    uint64_t setups;        /* deaths in setup, in a row */
    uint64_t without_short; /* those that were not caused by a shortage, which may count or not */
    uint64_t *charged;      /* task ids */
    uint64_t n, room;
};

void deaths_open(struct sim *s)
{
    s->deaths = calloc(s->plan.config.n_workers, sizeof *s->deaths);
    if (!s->deaths)
        abort();
}

void deaths_close(struct sim *s)
{
    for (unsigned w = 0; s->deaths && w < s->plan.config.n_workers; w++)
        free(s->deaths[w].charged);
    free(s->deaths);
}

/* The counts of a removed worker begin at 0 when it is added again. */
void deaths_forget(struct sim *s, unsigned w)
{
    s->deaths[w].n = s->deaths[w].uncharged = s->deaths[w].maybe = 0;
    deaths_ready(s, w);
}

void deaths_ready(struct sim *s, unsigned w)
{
    s->deaths[w].setups = s->deaths[w].without_short = 0;
}

/* A process of an earlier run may be killed in setup when the thread that started it ends. */
static void note_setup(struct sim *s, unsigned w)
{
    const struct proc *p = &s->procs[w];
    if (s->sched.workers[w].state == GD_WORKER_STARTING && p->older && p->death.signal == SIGKILL)
        return;
    s->deaths[w].setups++;
    s->deaths[w].without_short += !p->death.shortage;
}

/* The setup of w counts as failed, because it said so or because it died too often. */
void deaths_setup_failed(struct sim *s, unsigned w)
{
    SIM_MUST(s, s->procs[w].said_failed || s->deaths[w].setups >= s->plan.config.setup_attempts,
             "the setup of worker %u is given up after %llu deaths", w, (unsigned long long)s->deaths[w].setups);
}

void deaths_spawn(struct sim *s, unsigned w)
{
    SIM_MUST(s, s->deaths[w].without_short < s->plan.config.setup_attempts,
             "worker %u is started after %llu deaths in setup", w, (unsigned long long)s->deaths[w].without_short);
}

void deaths_next_run(struct sim *s, unsigned w)
{
    struct sim_deaths *d = &s->deaths[w];
    for (uint64_t i = 0; i < d->n; i++) {
        const struct sim_task *t = &s->tasks[d->charged[i]];
        d->uncharged += !t->guilty && !t->late_verdict;
        d->maybe += !t->guilty && t->late_verdict;
    }
    d->n = 0;
}

/* An idle process dies between two runs. */
static bool is_nobodys_fault(const struct sim *s, unsigned w)
{
    return s->sched.resting && gd__takes_tasks(s->sched.workers[w].state);
}

void deaths_noticed(struct sim *s, unsigned w)
{
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    if (worker->leaving)
        deaths_forget(s, w);
    s->deaths[w].pending = worker->kill_reason == GD__KILL_CANCELLED || is_nobodys_fault(s, w) ? REQUEST : NOBODY;
    s->deaths[w].in_setup = worker->state == GD_WORKER_STARTING || worker->kill_reason == GD__KILL_SETUP_TIMEOUT;
    if (s->deaths[w].in_setup)
        note_setup(s, w);
}

void deaths_charge(struct sim *s, unsigned w, uint64_t id)
{
    struct sim_task *t = &s->tasks[id];
    s->deaths[w].pending = t->cancel_asked ? REQUEST : id;
    if (t->cancel_asked)
        return;
    t->killed = t->killed == 0 || t->killed == (int)w + 1 ? (int)w + 1 : SEVERAL;
}

void deaths_task_failed(struct sim *s, uint64_t id)
{
    struct sim_task *t = &s->tasks[id];
    t->guilty |= t->killed == SEVERAL || s->sched.n_alive == 1;
}

static void count(struct sim *s, unsigned w)
{
    struct sim_deaths *d = &s->deaths[w];
    if (d->in_setup)
        return;
    if (s->procs[w].productive) {
        d->n = d->uncharged = d->maybe = 0;
    } else if (d->pending == NOBODY) {
        d->uncharged++;
    } else if (d->pending != REQUEST) {
        if (d->n == d->room) {
            d->room = d->room ? 2 * d->room : 8;
            d->charged = realloc(d->charged, d->room * sizeof *d->charged);
            if (!d->charged)
                abort();
        }
        d->charged[d->n++] = d->pending;
    }
}

/* The scheduler reports the death of w. */
void deaths_told(struct sim *s, unsigned w, bool given_up)
{
    const struct sim_deaths *d = &s->deaths[w];
    const uint64_t limit = s->plan.config.death_limit;
    if (s->procs[w].abandoned || s->device_out[s->sched.workers[w].device] || s->setup_failed[w])
        return; /* given up for another reason */
    if (s->sched.workers[w].leaving) {
        deaths_forget(s, w);
        return;
    }
    count(s, w);
    uint64_t least = d->uncharged, most = d->uncharged + d->maybe;
    for (uint64_t i = 0; i < d->n; i++) {
        const struct sim_task *t = &s->tasks[d->charged[i]];
        least += !t->guilty && !t->late_verdict;
        most += !t->guilty;
    }
    SIM_MUST(s, !given_up || most >= limit, "worker %u is given up after %llu deaths that count", w,
             (unsigned long long)most);
    SIM_MUST(s, given_up || d->in_setup || least < limit, "worker %u is used after %llu deaths that count", w,
             (unsigned long long)least);
}
