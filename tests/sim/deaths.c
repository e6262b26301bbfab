/* Checks when a worker is given up: after death_limit deaths in a row in which it has finished nothing. Some deaths do
 * not count. If a task has failed because of the deaths that it was charged with, these deaths do not count. There is
 * one exception: only this worker died of the task, although there were other workers. A death with a task that was
 * cancelled on request does not count either.
 *
 * The deaths are counted here from the events alone. If a verdict was put off, this file does not see when it is given.
 * So such a death may count or not. */
#include <stdlib.h>

#include "sim.h"

#define NOBODY  UINT64_MAX
#define REQUEST (UINT64_MAX - 1)
#define SEVERAL (-1)

struct sim_deaths {
    uint64_t pending; /* the task that is charged with the death that was just noticed; NOBODY, or REQUEST */
    bool in_setup;
    uint64_t uncharged;
    uint64_t *charged; /* task ids */
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
    s->deaths[w].n = s->deaths[w].uncharged = 0;
}

void deaths_noticed(struct sim *s, unsigned w)
{
    const struct gd__sched_worker *worker = &s->sched.workers[w];
    if (worker->leaving)
        deaths_forget(s, w);
    s->deaths[w].pending = worker->kill_reason == GD__KILL_CANCELLED ? REQUEST : NOBODY;
    s->deaths[w].in_setup = worker->state == GD_WORKER_STARTING || worker->kill_reason == GD__KILL_SETUP_TIMEOUT;
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
        d->n = d->uncharged = 0;
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
    uint64_t least = d->uncharged, most = d->uncharged;
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
