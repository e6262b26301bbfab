/* The public calls of a run. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/sized.h"
#include "dispatch/internal.h"
#include "dispatch/source/queue_source.h"
#include "proc/signals.h"
#include "worker/host.h"

#ifndef GD_VERSION
#define GD_VERSION "0.1.0"
#endif
#define SPIN_NS      (30 * GD__NS_PER_US) /* about what a wake-up costs */
#define KILL_WAIT_NS (5 * GD__NS_PER_S)
#define END_WAIT_NS  (5 * GD__NS_PER_S) /* for a worker that ends its task by force: it may have much to copy */
#define STOP_WAIT_NS GD__NS_PER_S       /* how long to wait for a stop request that may have reached a worker first */
enum { WINDOW_MOST = 2048, WINDOW_MOST_MANY = 512, MANY_WORKERS = 16 };

const char *gd_version(void)
{
    return GD_VERSION;
}

/* --- sizes --- */

static unsigned usable_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) < 0)
        return 1;
    return (unsigned)CPU_COUNT(&set);
}

/* Spinning is useful only if there is one processor for the monitor and one for each worker. */
static uint64_t choose_spin(const struct gd_dispatcher *d)
{
    if (d->o.spin_us >= 0)
        return (uint64_t)d->o.spin_us * GD__NS_PER_US;
    return d->crowded ? 0 : SPIN_NS;
}

/* How many tasks a worker that loads is handed: as many as it may load, and another batch. */
static uint64_t least_loaded(const struct gd_options *o)
{
    return gd__load_bound(o->load_ahead, o->io_threads, o->batch_size) + o->batch_size;
}

/* The number of slots in a worker's ring: enough for two batches and to keep the worker busy, but no more than the
 * number of tasks that can wait. */
static unsigned choose_window(const struct gd_dispatcher *d)
{
    const unsigned most = d->n_workers > MANY_WORKERS ? WINDOW_MOST_MANY : WINDOW_MOST;
    uint64_t wanted = d->o.queue_size + d->o.batch_size;
    if (wanted > most)
        wanted = most;
    if (d->o.window > wanted)
        wanted = d->o.window < 65536 ? d->o.window : 65536;
    if (wanted < 2 * (uint64_t)d->o.batch_size)
        wanted = 2 * (uint64_t)d->o.batch_size;
    if (wanted < least_loaded(&d->o))
        wanted = least_loaded(&d->o);
    unsigned window = 4;
    while (window < wanted)
        window *= 2;
    return window;
}

/* The user's function gets the task's number in the source. */
static int place(void *user, uint64_t task_id, uint64_t weight, unsigned n_workers)
{
    const struct gd_dispatcher *d = user;
    (void)task_id;
    return d->o.place(d->o.user, d->adding, weight, n_workers);
}

static int open_sched(struct gd_dispatcher *d)
{
    const struct gd_options *o = &d->o;
    const struct gd__sched_config c = {
        .n_workers = d->n_workers,
        .n_spare = d->n_spare,
        .gpu_ids = d->copy.gpu_ids,
        .queue_size = o->queue_size,
        .total_tasks = o->total_tasks,
        .concurrency = o->concurrency > 0 ? o->concurrency : GD__FLIGHT_UNSET,
        .task_timeout_ns = o->task_timeout_ms * GD__NS_PER_MS,
        .cancel_grace_ns = o->cancel_grace_ms * GD__NS_PER_MS,
        .end_wait_ns = END_WAIT_NS,
        .setup_timeout_ns = o->setup_timeout_ms * GD__NS_PER_MS,
        .stop_grace_ns = o->stop_grace_ms * GD__NS_PER_MS,
        .cleanup_grace_ns = o->cleanup_grace_ms * GD__NS_PER_MS,
        .kill_wait_ns = KILL_WAIT_NS,
        .signal_wait_ns = STOP_WAIT_NS,
        .shortage_wait_ns = o->shortage_wait_ms * GD__NS_PER_MS,
        .retry_delay_ns = o->retry_delay_ms * GD__NS_PER_MS,
        .start_gap_ns = o->start_gap_ms * GD__NS_PER_MS,
        .restart_delay_ns = o->restart_delay_ms * GD__NS_PER_MS,
        .retries = o->retries,
        .retry_timeouts = o->retry_timeouts,
        .crash_limit = o->crash_limit,
        .setup_attempts = o->setup_attempts,
        .setup_jobs = o->setup_jobs,
        .death_limit = o->death_limit,
        .max_tasks = o->max_tasks_per_worker,
        .window = o->window,
        .window_min = (unsigned)least_loaded(o),
        .window_min_is_set = o->load_ahead > 0,
        .window_max = d->window,
        .batch_size = o->batch_size,
        .batch_wait_ns = o->batch_wait_us * GD__NS_PER_US,
        .ordered = o->ordered,
        .keep_workers = o->keep_workers,
        .placement = o->placement,
        .place = o->place ? place : NULL,
        .place_user = d,
    };
    return gd__sched_open(&d->sched, &c, &gd__effects, d);
}

/* --- open and close --- */

static int open_eventfd(int *fd)
{
    *fd = GD__FAULT("eventfd") ? -1 : gd__fd_above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return *fd < 0 ? gd__error_errno("cannot create an eventfd") : 0;
}

static int open_parts(struct gd_dispatcher *d)
{
    int rc = open_eventfd(&d->wake_fd);
    if (rc == 0 && d->o.handle_signals)
        rc = open_eventfd(&d->signal_fd);
    if (rc == 0)
        rc = gd__loop_open(&d->loop);
    if (rc == 0)
        rc = gd__stats_open(d);
    if (rc == 0)
        rc = gd__supervisor_open(d);
    if (rc == 0)
        rc = open_sched(d);
    if (rc == 0) {
        d->now = gd__now_ns();
        gd__publish_open(d);
        gd__stats_publish(d, true);
    }
    return rc;
}

int gd_dispatcher_open(struct gd_dispatcher **out, const struct gd_options *o)
{
    if (!out)
        return gd__error(GD_E_INVALID, "gd_dispatcher_open: out is NULL");
    *out = NULL;
    struct gd_dispatcher *d = gd__calloc(1, sizeof *d);
    if (!d)
        return gd__error(GD_E_NO_MEMORY, "no memory for a dispatcher");
    pthread_mutex_init(&d->stats_lock, NULL);
    pthread_mutex_init(&d->child_lock, NULL);
    pthread_mutex_init(&d->queue_lock, NULL);
    pthread_mutex_init(&d->control.lock, NULL);
    static atomic_uint opened;
    d->number = atomic_fetch_add(&opened, 1);
    d->wake_fd = d->signal_fd = d->signal_token = d->loop.fd = d->ended.fd = -1;
    d->health_token = -1;
    d->wake_watch.fd = d->signal_watch.fd = d->hook_watch.fd = d->ended_watch.fd = -1;
    d->feeder_deadline = GD__NEVER;
    d->sleep_number = 1;
    int rc = gd__options_copy(d, o);
    if (rc == 0) {
        gd__runs_open(d);
        d->window = choose_window(d);
        d->crowded = d->n_workers - d->n_spare + 1 > usable_cpus();
        d->spin_ns = choose_spin(d);
        rc = open_parts(d);
    }
    if (rc < 0) {
        gd_dispatcher_close(&d);
        return rc;
    }
    *out = d;
    return 0;
}

void gd_dispatcher_close(struct gd_dispatcher **dp)
{
    struct gd_dispatcher *d = dp ? *dp : NULL;
    if (!d)
        return;
    if (atomic_load(&d->running)) { /* called from a callback: the memory is in use, so only end the run */
        gd_dispatcher_abort(d);
        return;
    }
    *dp = NULL;
    if (gd__runs_forked(d))
        return; /* the workers, and the memory and files that are shared with them, belong to the parent */
    (void)gd_dispatcher_stop_workers(d);
    gd__devices_unwatch(d);
    gd__strays_close(d);
    gd__publish_close(d);
    gd__supervisor_close(d);
    gd__feeder_close(&d->feeder);
    gd__sched_close(&d->sched);
    gd__control_free(d);
    gd__loop_close(&d->loop);
    gd__fd_close(&d->wake_fd);
    gd__fd_close(&d->signal_fd);
    gd__free(atomic_load(&d->ends_for));
    gd__free(d->worker_stats);
    gd__options_free(d);
    pthread_mutex_destroy(&d->stats_lock);
    pthread_mutex_destroy(&d->child_lock);
    pthread_mutex_destroy(&d->queue_lock);
    pthread_mutex_destroy(&d->control.lock);
    gd__free(d);
}

void gd__dispatcher_hook(struct gd_dispatcher *d, const struct gd__hooks *hooks)
{
    d->hooks = *hooks;
    if (hooks->without_task_start)
        d->o.on_task_start = NULL;
    if (hooks->without_timeout)
        d->o.on_timeout = NULL;
}

void gd__dispatcher_listen(struct gd_dispatcher *d, const struct gd__listener *listener)
{
    d->listener = *listener;
}

void gd__dispatcher_hold(struct gd_dispatcher *d, bool on)
{
    atomic_store(&d->hold_wanted, on);
    gd__dispatcher_wake(d);
}

/* --- running --- */

static int prepare_feeder(struct gd_dispatcher *d)
{
    struct gd__feeder_spec spec = {
        .source = d->o.source,
        .source_cancel = d->o.source_cancel,
        .on_skip = d->o.on_skip,
        .source_hold = d->hooks.source_hold,
        .source_release = d->hooks.source_release,
        .user = d->hooks.source_user ? d->hooks.source_user : d->o.user,
        .queue_bytes = d->o.queue_bytes,
        .arena_bytes = d->o.arena_bytes,
        .max_tasks = d->sched.n_slots,
        .wake_room = d->o.queue_size / 4 + 1,
        .journal = d->o.journal,
        .shard = d->shard,
        .wake_fd = d->wake_fd,
    };
    if (d->queue)
        gd__queue_source(&spec, d->queue);
    if (!d->feeder)
        return gd__feeder_open(&d->feeder, &spec);
    gd__feeder_reopen(d->feeder, &spec);
    return 0;
}

/* The run's return value. If there are several causes, the most important one is reported. */
static int conclude(struct gd_dispatcher *d)
{
    const char *message;
    int source = 0;
    if (gd__feeder_ended(d->feeder))
        source = gd__feeder_result(d->feeder, &message);
    if (d->cut_off)
        return gd__error(GD_E_SYSTEM, "the run can no longer wait for its workers: a callback, or another thread, "
                                      "closed file descriptors that it had not opened");
    switch (d->sched.end) {
    case GD__END_SETUP:
        return gd__error(GD_E_SETUP, "%s%s%s", gd_error_description(GD_E_SETUP), d->setup_error[0] ? ": " : "",
                         d->setup_error);
    case GD__END_NO_WORKERS:
        return gd__error(GD_E_NO_WORKERS, "no workers are left: %llu failed during setup, the others died too often",
                         (unsigned long long)d->sched.counts.setup_failures);
    case GD__END_SHORTAGE:
        return gd__error(GD_E_SYSTEM,
                         "no worker process could be started for %.3g s, and none is running: raise the process limit "
                         "(ulimit -u, or the cgroup's pids.max) or free memory, and run it again",
                         d->o.shortage_wait_ms / 1000.0);
    case GD__END_SHUTDOWN:
        return d->signalled ? gd__error(GD_E_INTERRUPTED, "interrupted by a signal")
                            : gd__error(GD_E_SHUTDOWN, "the run was shut down before its end");
    default:
        return source == 0 ? 0 : gd__error(GD_E_SOURCE, "%s%s", d->queue ? "" : "the source failed: ", message);
    }
}

static void journal_failed(void *user)
{
    gd__dispatcher_end_for(user, "the journal could not be written");
    gd_dispatcher_shutdown(user);
}

static int begin_journal(struct gd_dispatcher *d)
{
    const uint64_t total = d->shard.count > 1 ? atomic_load(&d->shard_total) : d->o.total_tasks;
    const struct gd__journal_run run = { .failed = journal_failed, .user = d, .total = total };
    return d->o.journal ? gd__journal_begin(d->o.journal, &run) : 0;
}

/* Writes all records to the disk. Returns rc, or the journal's error if writing failed. */
static int end_journal(struct gd_dispatcher *d, int rc)
{
    static const struct {
        int code;
        const char *how;
    } endings[] = {
        { 0, "finished" },
        { GD_E_SETUP, "setup failed" },
        { GD_E_NO_WORKERS, "no workers" },
        { GD_E_SOURCE, "source failed" },
        { GD_E_SHUTDOWN, "shut down" },
        { GD_E_INTERRUPTED, "interrupted" },
    };
    const char *how = "failed";
    if (!d->o.journal)
        return rc;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (endings[i].code == rc)
            how = endings[i].how;
    const int kept = gd__journal_end(d->o.journal, how);
    return kept < 0 ? kept : rc;
}

static int run_all(struct gd_dispatcher *d)
{
    int rc = gd__options_check_placement(&d->o); /* the total may have changed since the dispatcher was opened */
    d->sched.config.total_tasks = d->o.total_tasks;
    if (rc == 0)
        rc = gd__queue_begin(d);
    if (rc == 0)
        rc = prepare_feeder(d);
    if (rc == 0)
        rc = gd__monitor_open(d);
    if (rc == 0 && d->o.handle_signals) {
        d->signal_token = gd__signals_subscribe(d->signal_fd);
        rc = d->signal_token < 0 ? d->signal_token : 0;
    }
    if (rc == 0)
        rc = gd__strays_open(d);
    if (rc == 0)
        rc = begin_journal(d);
    const bool begun = rc == 0;
    if (rc == 0)
        rc = gd__feeder_start(d->feeder);
    if (rc == 0) {
        if (d->runs == 1)
            gd__devices_report_unused(d);
        gd__devices_watch(d);
        gd__control_listen(d);
        gd__monitor_run(d);
        gd__control_hang_up(d);
        /* The end of the run may take long and must not look like a callback that does not return. */
        gd__publish_awake(d, 0);
        if (d->hooks.before_end)
            d->hooks.before_end(d->hooks.user);
        rc = gd__queue_finish(d, conclude(d));
    }
    if (begun)
        rc = end_journal(d, rc);
    gd__signals_unsubscribe(d->signal_token);
    d->signal_token = -1;
    return rc;
}

static int run_source(struct gd_dispatcher *d, const struct gd_source *source)
{
    int rc = gd__runs_begin(d, source);
    if (rc < 0)
        return rc;
    rc = run_all(d);
    gd__runs_rest(d);
    gd__queue_end(d);
    if (d->o.on_exit)
        d->o.on_exit(d->o.user);
    gd__runs_end(d);
    return rc;
}

int gd_dispatcher_run(struct gd_dispatcher *d)
{
    if (!d)
        return gd__error(GD_E_INVALID, "gd_dispatcher_run: the dispatcher is NULL");
    if (!d->own.source && !d->copy.queue)
        return gd__error(GD_E_INVALID,
                         "no source is set: set gd_options.source, or call gd_dispatcher_run_source() instead");
    return run_source(d, &d->own);
}

int gd_dispatcher_run_source(struct gd_dispatcher *d, const struct gd_source *source)
{
    struct gd_source copy = GD_SOURCE_INIT;
    if (!d || !source)
        return gd__error(GD_E_INVALID, "gd_dispatcher_run_source: the dispatcher or the source is NULL");
    const int rc = gd__sized_read(&copy, sizeof copy, source, "gd_source");
    if (rc < 0)
        return rc;
    if (!copy.source)
        return gd__error(GD_E_INVALID, "no source is set: set gd_source.source");
    if (d->copy.queue)
        return gd__error(GD_E_INVALID,
                         "this dispatcher takes its tasks from a queue: call gd_dispatcher_run() instead");
    return run_source(d, &copy);
}

int gd_run(const struct gd_options *o)
{
    struct gd_dispatcher *d;
    int rc = gd_dispatcher_open(&d, o);
    if (rc < 0)
        return rc;
    rc = gd_dispatcher_run(d);
    gd_dispatcher_close(&d);
    return rc;
}

/* --- ending --- */

void gd__dispatcher_wake(struct gd_dispatcher *d)
{
    const uint64_t one = 1;
    while (write(d->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

static void request(struct gd_dispatcher *d, enum gd__request wanted)
{
    if (!d)
        return;
    int present = atomic_load(&d->request);
    while (present < (int)wanted && !atomic_compare_exchange_weak(&d->request, &present, wanted))
        ;
    gd__dispatcher_wake(d);
}

/* If there is no memory for the copy, the message gives a general reason. */
void gd__dispatcher_end_for(struct gd_dispatcher *d, const char *reason)
{
    char *none = NULL, *copy = atomic_load(&d->ends_for) ? NULL : gd__strdup(reason);
    if (copy && !atomic_compare_exchange_strong(&d->ends_for, &none, copy))
        gd__free(copy);
}

void gd_dispatcher_shutdown(struct gd_dispatcher *d)
{
    request(d, GD__REQUEST_SHUTDOWN);
}

void gd_dispatcher_abort(struct gd_dispatcher *d)
{
    request(d, GD__REQUEST_ABORT);
}
