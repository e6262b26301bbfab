/* Several runs of one dispatcher, one after another (gd_options.keep_workers).
 *
 * Between two runs the worker processes stay, with everything that they share with this process: their channels, the
 * arena, the event loop, the locks on the devices, the page. The feeder's thread has ended, and nothing reads events.
 * When the next run begins, it first looks at every worker (gd__monitor_run()).
 *
 * If the last run was stopped, the workers are gone, and the next run starts new ones. If no worker is left that could be
 * used, everything is released at the end of the run, as without keep_workers.
 */
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "dispatch/internal.h"

void gd__runs_open(struct gd_dispatcher *d)
{
    const struct gd_options *o = &d->o;
    d->own = (struct gd_source){ .size = sizeof d->own,
                                 .source = o->source,
                                 .source_cancel = o->source_cancel,
                                 .user = o->user,
                                 .total_tasks = o->total_tasks,
                                 .journal = o->journal };
    d->o.journal = NULL; /* each run sets it */
}

bool gd__runs_forked(const struct gd_dispatcher *d)
{
    return d->runs > 0 && !d->over && d->owner != getpid();
}

bool gd__runs_resting(const struct gd_dispatcher *d)
{
    return d->o.keep_workers && d->runs > 0 && !d->over && gd__sched_finished(&d->sched);
}

/* --- the beginning --- */

static int check_state(const struct gd_dispatcher *d)
{
    if (d->runs > 0 && !d->o.keep_workers)
        return gd__error(GD_E_BUSY, "a dispatcher can run only once: open another one, or set gd_options.keep_workers");
    if (gd__runs_forked(d))
        return gd__error(GD_E_INVALID,
                         "this process is a fork, and the workers belong to process %d: open another "
                         "dispatcher",
                         (int)d->owner);
    if (d->cut_off)
        return gd__error(GD_E_SYSTEM, "this dispatcher has lost its file descriptors: open another one");
    if (d->runs > 0 && (d->over || !gd__sched_can_run_again(&d->sched)))
        return gd__error(GD_E_NO_WORKERS, "no worker of this dispatcher is left: open another one");
    return 0;
}

/* source NULL: there is no run. */
static void take_thread(struct gd_dispatcher *d, const struct gd_source *source, struct gd_shard shard)
{
    d->now = gd__now_ns();
    pthread_mutex_lock(&d->stats_lock); /* another thread may read the stats or set the total at the same time */
    d->thread = pthread_self();
    if (source) {
        d->shard = shard;
        d->o.total_tasks = source->total_tasks;
        d->stats.total = shard.count > 1 ? atomic_load(&d->shard_total) : source->total_tasks;
        d->stats.start_ns = d->now;
    }
    atomic_store(&d->running, true);
    pthread_mutex_unlock(&d->stats_lock);
}

static void set_source(struct gd_dispatcher *d, const struct gd_source *source)
{
    d->o.source = source->source;
    d->o.source_cancel = source->source_cancel;
    d->o.user = source->user;
    d->o.journal = source->journal;
}

int gd__runs_begin(struct gd_dispatcher *d, const struct gd_source *source)
{
    if (atomic_exchange(&d->busy, true))
        return gd__error(GD_E_BUSY, "this dispatcher is running: it can do one run at a time");
    struct gd_shard shard = { .count = 0 };
    int rc = check_state(d);
    if (rc == 0)
        rc = gd__options_shard(&shard, &d->o, source->journal);
    if (rc < 0) {
        atomic_store(&d->busy, false);
        return rc;
    }
    set_source(d, source);
    take_thread(d, source, shard);
    d->source_over = d->shortage_told = false;
    d->feeder_deadline = GD__NEVER;
    d->signalled = false;
    d->skipped = 0;
    if (d->runs++ == 0)
        d->owner = getpid();
    else
        (void)gd__sched_again(&d->sched, d->now); /* check_state() has made sure that it succeeds */
    return 0;
}

/* --- the end --- */

/* The arena is kept with the workers. A source that does not return keeps the feeder, but then there are no workers. */
static void rest_feeder(struct gd_dispatcher *d)
{
    if (d->feeder && gd__feeder_ended(d->feeder))
        gd__feeder_rest(d->feeder);
    else
        gd__feeder_close(&d->feeder);
}

static void release_all(struct gd_dispatcher *d)
{
    gd__devices_unwatch(d);
    gd__strays_close(d);
    gd__supervisor_close(d);
    gd__devices_release(d);
    gd__feeder_close(&d->feeder);
    gd__publish_end(d);
}

void gd__runs_rest(struct gd_dispatcher *d)
{
    if (d->o.journal)
        d->skipped = gd__journal_skipped(d->o.journal);
    d->o.journal = NULL;
    d->over = !d->o.keep_workers || d->cut_off || !gd__sched_can_run_again(&d->sched);
    if (d->over) {
        release_all(d);
        return;
    }
    gd__loop_remove(&d->loop, &d->hook_watch);
    gd__strays_rest(d);
    rest_feeder(d);
}

void gd__runs_end(struct gd_dispatcher *d)
{
    gd__control_free(d); /* these came too late */
    atomic_store(&d->request, GD__REQUEST_NONE);
    gd__free(atomic_exchange(&d->ends_for, NULL));
    d->o.user = d->own.user;
    atomic_store(&d->shard_total, 0);
    atomic_store(&d->running, false);
    atomic_store(&d->busy, false);
}

/* --- without a run --- */

/* Calls the user's callbacks, but no hook: those belong to a run. */
static void stop_workers(struct gd_dispatcher *d)
{
    const struct gd__hooks hooks = d->hooks;
    const struct gd__listener listener = d->listener;
    d->hooks = (struct gd__hooks){ 0 };
    d->listener = (struct gd__listener){ 0 };
    take_thread(d, NULL, d->shard);
    gd_dispatcher_resume(d); /* stopped processes could not clean up */
    gd__monitor_stop_workers(d);
    atomic_store(&d->running, false);
    d->hooks = hooks;
    d->listener = listener;
}

int gd_dispatcher_stop_workers(struct gd_dispatcher *d)
{
    if (!d)
        return gd__error(GD_E_INVALID, "gd_dispatcher_stop_workers: the dispatcher is NULL");
    if (atomic_exchange(&d->busy, true))
        return gd__error(GD_E_BUSY, "the workers can't be stopped while the dispatcher is running");
    if (d->runs > 0 && !d->over && !gd__runs_forked(d) && d->n_live > 0)
        stop_workers(d);
    atomic_store(&d->busy, false);
    return 0;
}
