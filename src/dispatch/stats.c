/* Snapshots of a run for other threads. The monitor copies its figures under a lock, before it sleeps and otherwise at
 * most once a millisecond. In a callback, which runs on the monitor's thread, they are brought up to date first. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "dispatch/internal.h"
#include "stats/work.h"

enum { LOOK_MOST = 32 };

static const char *const state_names[] = {
    [GD_WORKER_OFF] = "off",
    [GD_WORKER_STARTING] = "starting",
    [GD_WORKER_IDLE] = "idle",
    [GD_WORKER_BUSY] = "busy",
    [GD_WORKER_CANCELLING] = "cancelling",
    [GD_WORKER_KILLING] = "killing",
    [GD_WORKER_RESTING] = "resting",
    [GD_WORKER_STOPPING] = "stopping",
    [GD_WORKER_FINISHED] = "finished",
    [GD_WORKER_FAILED] = "failed",
    [GD_WORKER_LOST] = "lost",
};

const char *gd_worker_state_name(enum gd_worker_state state)
{
    const size_t n = sizeof state_names / sizeof *state_names;
    return (size_t)state < n ? state_names[state] : "unknown";
}

int gd__stats_open(struct gd_dispatcher *d)
{
    d->worker_stats = gd__calloc(d->n_workers, sizeof *d->worker_stats);
    if (!d->worker_stats)
        return gd__error(GD_E_NO_MEMORY, "no memory for statistics");
    d->stats.size = sizeof d->stats;
    d->stats.total = d->shard.count > 1 ? 0 : d->o.total_tasks;
    d->stats.n_workers = d->n_workers;
    for (unsigned i = 0; i < d->n_workers; i++) {
        d->worker_stats[i].worker_id = i;
        d->worker_stats[i].gpu_id = d->copy.gpu_ids[i];
        d->worker_stats[i].current_task = UINT64_MAX;
    }
    return 0;
}

static void collect(const struct gd_dispatcher *d, struct gd_stats *out, uint64_t now)
{
    const struct gd__sched *s = &d->sched;
    /* Tasks taken from the source that the monitor has not read yet. */
    const uint64_t queued = d->feeder ? gd__feeder_queued(d->feeder) : 0;
    out->taken = s->counts.taken + queued;
    out->running = s->running;
    out->pending = queued + s->outstanding - (s->running < s->outstanding ? s->running : s->outstanding);
    out->completed = s->counts.completed;
    out->failed = s->counts.failed;
    out->timeouts = s->counts.timeouts;
    out->cancelled = s->counts.cancelled;
    out->retried = s->counts.retried;
    out->setup_failures = s->counts.setup_failures;
    out->restarts = s->counts.restarts;
    out->crashes = s->counts.crashes;
    out->now_ns = now;
    out->source_done = s->source_ended;
    out->paused = s->paused;
    out->draining = s->draining;
    out->task_timeout_ms = d->o.task_timeout_ms;
    out->skipped = d->o.journal ? gd__journal_skipped(d->o.journal) : d->skipped;
    out->between_runs = gd__runs_resting(d);
}

static void collect_worker(const struct gd_dispatcher *d, unsigned i, struct gd_worker_stats *out)
{
    const struct gd__sched_worker *w = &d->sched.workers[i];
    const struct gd__task *t = gd__sched_oldest(&d->sched, i);
    out->state = gd__sched_worker_state(&d->sched, i);
    out->pid = (uint64_t)d->seats[i].child.pid;
    out->current_task = t ? gd__task_number(t) : UINT64_MAX;
    out->handed = w->tail - w->head + w->n_flight;
    out->in_flight = w->n_flight;
    out->completed = w->completed;
    out->failed = w->failed;
    out->timeouts = w->timeouts;
    out->restarts = w->restarts - w->restarts_before;
    out->last_ns = w->last_ns;
    out->busy_ns = w->busy_ns;
}

static void collect_all(struct gd_dispatcher *d, uint64_t now)
{
    collect(d, &d->stats, now);
    for (unsigned i = 0; i < d->n_workers; i++)
        collect_worker(d, i, &d->worker_stats[i]);
}

static void publish_figures(struct gd_dispatcher *d, uint64_t now, bool wait)
{
    if (wait)
        pthread_mutex_lock(&d->stats_lock);
    else if (pthread_mutex_trylock(&d->stats_lock) != 0)
        return;
    collect_all(d, now);
    const struct gd_stats stats = d->stats;
    const struct gd__work work = d->work;
    pthread_mutex_unlock(&d->stats_lock);
    d->stats_at = now;
    d->stats_stale = false;
    d->look_in = d->look_every = 1;
    gd__publish(d, &stats, &work);
}

void gd__stats_publish(struct gd_dispatcher *d, bool now)
{
    d->stats_stale = true;
    if (now || (d->now > d->stats_at && d->now - d->stats_at >= PUBLISH_EVERY_NS))
        publish_figures(d, d->now, now);
}

/* Reads the clock rarely while callbacks are quick, and after every slow callback. */
void gd__stats_look(struct gd_dispatcher *d)
{
    const uint64_t now = gd__now_ns();
    d->look_every = d->look_every < LOOK_MOST ? 2 * d->look_every + 1 : LOOK_MOST;
    d->look_in = d->look_every;
    if (now - d->stats_at >= PUBLISH_EVERY_NS)
        publish_figures(d, now, false);
}

uint64_t gd__stats_before_sleep(struct gd_dispatcher *d, uint64_t until_ns)
{
    if (d->now > d->stats_at && d->now - d->stats_at >= PUBLISH_EVERY_NS)
        gd__stats_publish(d, true);
    const uint64_t due = d->stats_stale ? d->stats_at + PUBLISH_EVERY_NS : gd__publish_look_again(d);
    return due < until_ns ? due : until_ns;
}

static bool is_own_thread(const struct gd_dispatcher *d)
{
    return atomic_load(&d->running) && pthread_equal(d->thread, pthread_self());
}

/* In a callback the figures are brought up to date first. This is safe, because the monitor's thread is the caller. */
static void lock_fresh(struct gd_dispatcher *d)
{
    pthread_mutex_lock(&d->stats_lock);
    if (is_own_thread(d) && d->seats)
        collect_all(d, d->now);
}

int gd_dispatcher_stats(struct gd_dispatcher *d, struct gd_stats *out)
{
    if (!d || !out || out->size < sizeof(size_t))
        return gd__error(GD_E_INVALID, "gd_dispatcher_stats: set stats.size to sizeof(struct gd_stats) first");
    const size_t size = out->size < sizeof d->stats ? out->size : sizeof d->stats;
    lock_fresh(d);
    memcpy((char *)out + sizeof(size_t), (const char *)&d->stats + sizeof(size_t), size - sizeof(size_t));
    pthread_mutex_unlock(&d->stats_lock);
    return 0;
}

void gd_dispatcher_set_total(struct gd_dispatcher *d, uint64_t total_tasks)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->stats_lock);
    if (d->shard.count <= 1) /* otherwise this is the total of all shards */
        d->stats.total = total_tasks;
    if (!atomic_load(&d->running)) /* the value that the run starts with */
        d->own.total_tasks = total_tasks;
    pthread_mutex_unlock(&d->stats_lock);
}

void gd__dispatcher_set_shard_total(struct gd_dispatcher *d, uint64_t total)
{
    pthread_mutex_lock(&d->stats_lock);
    atomic_store(&d->shard_total, total);
    if (d->shard.count > 1)
        d->stats.total = total;
    pthread_mutex_unlock(&d->stats_lock);
}

/* After a callback the loop publishes anyway. A call from another thread has to wake the loop, because it may sleep for
 * hours. */
void gd_dispatcher_set_work(struct gd_dispatcher *d, double done, double total)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->stats_lock);
    gd__work_fit(&d->work.done, &d->work.total, done, total);
    const bool wake = atomic_load(&d->running) && !is_own_thread(d);
    pthread_mutex_unlock(&d->stats_lock);
    if (wake)
        gd__dispatcher_wake(d);
}

void gd_dispatcher_work(struct gd_dispatcher *d, double *done, double *total)
{
    if (!d) {
        if (done)
            *done = 0;
        if (total)
            *total = 0;
        return;
    }
    pthread_mutex_lock(&d->stats_lock);
    if (done)
        *done = d->work.done;
    if (total)
        *total = d->work.total;
    pthread_mutex_unlock(&d->stats_lock);
}

int gd_dispatcher_worker_stats(struct gd_dispatcher *d, struct gd_worker_stats *out, size_t element_size, size_t max)
{
    if (!d || element_size == 0 || (max > 0 && !out))
        return gd__error(GD_E_INVALID, "gd_dispatcher_worker_stats: pass sizeof(struct gd_worker_stats)");
    const size_t n = max < d->n_workers ? max : d->n_workers;
    const size_t size = element_size < sizeof *out ? element_size : sizeof *out;
    lock_fresh(d);
    for (size_t i = 0; i < n; i++)
        memcpy((char *)out + i * element_size, &d->worker_stats[i], size);
    pthread_mutex_unlock(&d->stats_lock);
    return (int)d->n_workers;
}
