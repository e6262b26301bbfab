/* SPDX-License-Identifier: MIT
 *
 * A thread that runs jobs in order: see lane.h. The thread takes all waiting jobs at once and runs them one by one. It
 * is woken only if it sleeps, so a busy lane costs one lock for each job.
 *
 * A thread that is blocked in write() cannot be stopped safely from outside, because it may hold resources. With a
 * network disk it perhaps cannot be stopped at all. So the thread is left running. The lane is marked as given up, no
 * further job is started, and the process exits without waiting for the thread.
 */
#include "cli/output/lane.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/failure.h"
#include "base/thread.h"

/* How long to wait without progress, by the number of signals. Without a signal there is no limit. */
static const unsigned patience_ms[] = { UINT_MAX, 5000, 1000, 0 };
enum { MOST_SIGNALS = sizeof patience_ms / sizeof *patience_ms - 1 };

/* The thread changes GOING to COMMITTING and back. A waiting thread changes GOING to GIVEN_UP. */
enum state { GOING, COMMITTING, GIVEN_UP };

struct cli_lane {
    struct cli_lane_options o;
    pthread_t thread;
    _Atomic int state;            /* enum state */
    atomic_bool end_awaited;      /* a thread waits for the end of COMMITTING */
    atomic_uint_fast64_t went_ns; /* when the last job or commit ended, or the last signal came */
    pthread_mutex_t lock;         /* protects the fields below */
    pthread_cond_t work;          /* wakes the thread */
    pthread_cond_t moved;         /* wakes threads that wait for progress */
    struct cli_job *first, **last;
    uint64_t added, done;
    size_t bytes;
    unsigned signals;
    bool sleeping; /* the thread waits for work */
    bool is_full;
    bool closing;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static bool is_given_up(const struct cli_lane *l)
{
    return atomic_load(&l->state) == GIVEN_UP;
}

/* --- the thread --------------------------------------------------------------------- */

static void tell_full(struct cli_lane *l)
{
    const bool full = l->is_full ? l->bytes > l->o.limit / 2 : l->bytes > l->o.limit;
    if (full == l->is_full || is_given_up(l)) /* given up: l->o.user may no longer exist */
        return;
    l->is_full = full;
    if (l->o.full)
        l->o.full(l->o.user, full);
}

/* Takes all waiting jobs. NULL at the end. */
static struct cli_job *take_all(struct cli_lane *l)
{
    while (!l->first && !l->closing && !is_given_up(l)) {
        l->sleeping = true;
        pthread_cond_wait(&l->work, &l->lock);
        l->sleeping = false;
    }
    struct cli_job *jobs = is_given_up(l) ? NULL : l->first;
    if (jobs) {
        l->first = NULL;
        l->last = &l->first;
    }
    return jobs;
}

static void job_done(struct cli_lane *l, size_t bytes)
{
    l->done++;
    l->bytes -= bytes;
    l->went_ns = now_ns();
    tell_full(l);
    pthread_cond_broadcast(&l->moved);
}

static void *do_jobs(void *arg)
{
    struct cli_lane *l = arg;
    pthread_mutex_lock(&l->lock);
    for (struct cli_job *job = NULL, *next; (job = job ? job : take_all(l)) && !is_given_up(l); job = next) {
        next = job->next;
        const size_t bytes = job->bytes;
        pthread_mutex_unlock(&l->lock);
        job->run(job);
        pthread_mutex_lock(&l->lock);
        job_done(l, bytes);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* --- for other threads ---------------------------------------------------------------- */

int cli_lane_open(struct cli_lane **out, const struct cli_lane_options *o)
{
    pthread_condattr_t attr;
    struct cli_lane *l = calloc(1, sizeof *l);
    if (!l)
        return gd__fail("out of memory");
    l->o = *o;
    l->last = &l->first;
    l->went_ns = now_ns();
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->moved, &attr);
    pthread_condattr_destroy(&attr);
    const int code = gd__thread_start(&l->thread, o->name, do_jobs, l);
    if (code != 0) {
        free(l);
        return gd__fail("cannot start a thread: %s", strerror(code));
    }
    *out = l;
    return 0;
}

static bool add(struct cli_lane *l, struct cli_job *job, bool always, uint64_t *number)
{
    pthread_mutex_lock(&l->lock);
    const bool fits = always || l->bytes <= l->o.limit;
    if (fits) {
        job->next = NULL;
        *l->last = job;
        l->last = &job->next;
        l->bytes += job->bytes;
        *number = ++l->added;
        tell_full(l);
    }
    const bool wake = fits && l->sleeping;
    l->sleeping = l->sleeping && !wake; /* one wake-up is enough */
    pthread_mutex_unlock(&l->lock);
    if (wake)
        pthread_cond_signal(&l->work);
    return fits;
}

uint64_t cli_lane_add(struct cli_lane *l, struct cli_job *job)
{
    uint64_t number = 0;
    (void)add(l, job, true, &number);
    return number;
}

bool cli_lane_try_add(struct cli_lane *l, struct cli_job *job)
{
    uint64_t number;
    return add(l, job, false, &number);
}

uint64_t cli_lane_last(struct cli_lane *l)
{
    pthread_mutex_lock(&l->lock);
    const uint64_t number = l->added;
    pthread_mutex_unlock(&l->lock);
    return number;
}

/* Waits for progress until the given time (UINT64_MAX: without limit). Returns false if the time is over. */
static bool wait_until(struct cli_lane *l, uint64_t until_ns)
{
    const struct timespec t = { .tv_sec = (time_t)(until_ns / 1000000000), .tv_nsec = (long)(until_ns % 1000000000) };
    if (until_ns == UINT64_MAX)
        pthread_cond_wait(&l->moved, &l->lock);
    else
        pthread_cond_timedwait(&l->moved, &l->lock, &t);
    return now_ns() < until_ns;
}

static uint64_t after(uint64_t ns, unsigned ms)
{
    return ms == UINT_MAX ? UINT64_MAX : ns + (uint64_t)ms * 1000000;
}

void cli_lane_reach(struct cli_lane *l, uint64_t job, unsigned ms)
{
    const uint64_t until = after(now_ns(), ms);
    pthread_mutex_lock(&l->lock);
    while (l->done < job && !is_given_up(l) && wait_until(l, until))
        ;
    pthread_mutex_unlock(&l->lock);
}

void cli_lane_hurry(struct cli_lane *l, unsigned signals)
{
    pthread_mutex_lock(&l->lock);
    l->signals = signals < MOST_SIGNALS ? signals : MOST_SIGNALS;
    l->went_ns = now_ns();
    pthread_cond_broadcast(&l->moved);
    pthread_mutex_unlock(&l->lock);
}

/* Called with the lock held. If the thread is committing, waits for the end of the commit instead. */
static void give_up(struct cli_lane *l)
{
    int going = GOING;
    l->end_awaited = true; /* before the state: pairs with cli_lane_committed() */
    if (!atomic_compare_exchange_strong(&l->state, &going, GIVEN_UP) && going == COMMITTING)
        pthread_cond_wait(&l->moved, &l->lock);
    l->end_awaited = false;
}

bool cli_lane_wait(struct cli_lane *l)
{
    pthread_mutex_lock(&l->lock);
    const uint64_t begun = now_ns();
    while (l->done < l->added && !is_given_up(l)) {
        const uint64_t went = l->went_ns, since = went > begun ? went : begun;
        const uint64_t until = after(since, patience_ms[l->signals]);
        if (now_ns() >= until)
            give_up(l);
        else
            (void)wait_until(l, until);
    }
    const bool all = !is_given_up(l);
    pthread_cond_broadcast(&l->moved);
    pthread_mutex_unlock(&l->lock);
    return all;
}

bool cli_lane_commit(struct cli_lane *l)
{
    int going = GOING;
    return atomic_compare_exchange_strong(&l->state, &going, COMMITTING);
}

void cli_lane_committed(struct cli_lane *l)
{
    l->went_ns = now_ns();
    atomic_store(&l->state, GOING);
    if (!l->end_awaited)
        return;
    pthread_mutex_lock(&l->lock);
    pthread_cond_broadcast(&l->moved);
    pthread_mutex_unlock(&l->lock);
}

void cli_lane_close(struct cli_lane **lane)
{
    struct cli_lane *l = *lane;
    if (!l)
        return;
    *lane = NULL;
    if (!cli_lane_wait(l)) {
        pthread_detach(l->thread);
        return;
    }
    pthread_mutex_lock(&l->lock);
    l->closing = true;
    pthread_cond_signal(&l->work);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    pthread_cond_destroy(&l->work);
    pthread_cond_destroy(&l->moved);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
