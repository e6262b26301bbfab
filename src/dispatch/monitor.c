/* The monitor: the loop on the thread that called gd_dispatcher_run().
 *
 * While it is busy it reads results and hands out tasks. Then its only system call is a check of the event loop every
 * half millisecond. When there is nothing to do, it spins for about as long as a wake-up takes. Then it sleeps until it
 * is woken by a worker, the feeder, the end of a process, a signal or a deadline.
 */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "dispatch/internal.h"
#include "proc/signals.h"

#define LOOK_EVERY_NS   (500 * GD__NS_PER_US)
#define ABORT_FEEDER_NS (200 * GD__NS_PER_MS)
enum { INTAKE_MOST = 4096, BACKLOG_ENOUGH = 2048 };

/* --- tasks and results --- */

/* How many tasks to take now. With GD_PLACE_DYNAMIC any worker may get any task, so a task may wait in the feeder's
 * queue instead of the backlog. Other placements, priorities and a shutdown need all tasks. */
static uint64_t wanted(const struct gd_dispatcher *d)
{
    const uint64_t enough = BACKLOG_ENOUGH + 2 * (uint64_t)d->o.batch_size * d->n_workers;
    const uint64_t have = d->sched.backlog.count;
    if (d->o.placement != GD_PLACE_DYNAMIC || d->sched.stopping || gd__feeder_has_priorities(d->feeder))
        return INTAKE_MOST;
    return have < enough ? enough - have : 0;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* How many tasks of the list belong to this shard. If that is not known, the part of the list that was not read yet is
 * divided evenly. */
static uint64_t shard_total(const struct gd_dispatcher *d, uint64_t skipped)
{
    const uint64_t own = d->sched.next_id + gd__feeder_queued(d->feeder) + skipped;
    const uint64_t left = less(d->o.total_tasks, own + gd__feeder_dropped(d->feeder));
    const uint64_t known = atomic_load(&d->shard_total);
    return known > 0 ? known : own + (left + d->shard.count - 1) / d->shard.count;
}

/* Sets the size of chunks. A chunk counts only tasks that will be run. How many tasks the journal skips, or belong to
 * other shards, is known only for the part of the list that the feeder has read. Waiting for the end of the list could
 * take for ever, because the source may be waiting for results. */
static void size_chunks(struct gd_dispatcher *d)
{
    if (d->o.placement != GD_PLACE_CHUNKS || (!d->o.journal && d->shard.count <= 1))
        return;
    const uint64_t skipped = d->o.journal ? gd__journal_skipped(d->o.journal) : 0;
    const uint64_t run = less(d->shard.count > 1 ? shard_total(d, skipped) : d->o.total_tasks, skipped);
    d->sched.config.total_tasks = run > 0 ? run : 1;
}

static void add_task(struct gd_dispatcher *d, const struct gd__intake_entry *e)
{
    const uint64_t record = gd__keeps_records(d) ? e->word : 0;
    const struct gd__journal_task *t = gd__tagged_record(record);
    struct gd__new_task task = {
        .payload = e->payload, .weight = t ? t->weight : e->word, .tag = record, .crashes = t ? t->crashes : 0
    };
    uint64_t payload[4];
    if (e->payload[0] & GD__INTAKE_HAS_TERMS) {
        const struct gd__intake_terms terms = gd__feeder_terms(d->feeder, e);
        memcpy(payload, e->payload, sizeof payload);
        payload[0] &= ~GD__INTAKE_HAS_TERMS;
        task.payload = payload;
        task.timeout_ns = terms.timeout_ms * GD__NS_PER_MS;
        task.priority = terms.priority;
        if (!d->o.journal && d->shard.count > 0)
            task.tag = gd__number_tag(terms.number);
    }
    d->adding = gd__numbered(d->sched.next_id, task.tag);
    gd__sched_add(&d->sched, d->now, &task);
}

static bool take_new_tasks(struct gd_dispatcher *d, uint64_t most)
{
    const struct gd__intake_entry *e;
    uint64_t n = gd__feeder_next(d->feeder, &e);
    size_chunks(d); /* after gd__feeder_next(), so that tasks skipped before these are counted */
    if (n > most)
        n = most;
    for (uint64_t k = 0; k < n; k++) {
        gd__will_read(&e[k + 2 * GD__AHEAD]); /* may be past the end: it is only a hint */
        add_task(d, &e[k]);
    }
    gd__feeder_taken(d->feeder, n);
    return n > 0;
}

void gd__monitor_take_all(struct gd_dispatcher *d)
{
    while (take_new_tasks(d, INTAKE_MOST))
        ;
}

static bool take_results(struct gd_dispatcher *d)
{
    bool any = false;
    for (unsigned k = 0; k < d->n_live; k++) {
        struct gd__seat *seat = &d->seats[d->live[k]];
        if (!seat->broken && gd__channel_has_result(&seat->channel))
            any |= gd__records_drain(d, seat);
    }
    return any;
}

static uint64_t source_grace(const struct gd_dispatcher *d)
{
    const unsigned own_ms = d->hooks.source_grace_ms, stop_ms = d->o.stop_grace_ms;
    return (own_ms > 0 && own_ms < stop_ms ? own_ms : stop_ms) * GD__NS_PER_MS;
}

/* The whole list was read, so the number of tasks of this shard is known. */
static void tell_shard_total(struct gd_dispatcher *d)
{
    const uint64_t skipped = d->o.journal ? gd__journal_skipped(d->o.journal) : 0;
    const uint64_t total = d->sched.counts.taken + skipped;
    gd__dispatcher_set_shard_total(d, total);
    if (d->o.journal)
        gd__journal_set_total(d->o.journal, total);
}

/* The source is over when the feeder has ended and its queue is empty. It is also over if the feeder was asked to stop
 * and does not stop in time. */
static void check_source(struct gd_dispatcher *d)
{
    if (d->source_over)
        return;
    if (d->sched.stopping) {
        gd__queue_stop(d);
        gd__feeder_stop(d->feeder);
        if (d->feeder_deadline == GD__NEVER)
            d->feeder_deadline = d->now + source_grace(d);
    }
    const bool ended = gd__feeder_ended(d->feeder); /* read this before the queue: the feeder may still fill it */
    const bool given_up = d->now >= d->feeder_deadline && !gd__is_suspended(d);
    if ((!ended && !given_up) || gd__feeder_has_tasks(d->feeder))
        return;
    d->source_over = true;
    if (d->shard.count > 1 && gd__feeder_has_all(d->feeder))
        tell_shard_total(d);
    gd__sched_source_end(&d->sched, d->now);
}

/* --- requests --- */

static void woken(struct gd__watch *w, uint32_t events)
{
    (void)w, (void)events; /* edge-triggered: the loop checks everything when it wakes up */
}

/* The first signal shuts the run down. A SIGINT after it aborts the run. More SIGTERMs change nothing: Slurm sends three
 * when it preempts a job. If both signals came since the last call, SIGINT counts as the later one. */
static void take_signals(struct gd_dispatcher *d)
{
    uint64_t n = 0;
    if (d->signal_fd < 0 || read(d->signal_fd, &n, sizeof n) != sizeof n)
        return;
    const uint64_t interrupts = n % GD__SIGNAL_TERM;
    const bool is_first = !d->signalled, has_term = n >= GD__SIGNAL_TERM;
    d->signalled = true;
    gd__dispatcher_end_for(d, "the run was interrupted by a signal");
    if (is_first)
        gd_dispatcher_shutdown(d);
    if (interrupts > (is_first && !has_term ? 1 : 0))
        gd_dispatcher_abort(d);
}

static void signalled(struct gd__watch *w, uint32_t events)
{
    (void)events;
    take_signals((struct gd_dispatcher *)((char *)w - offsetof(struct gd_dispatcher, signal_watch)));
}

static void hook_readable(struct gd__watch *w, uint32_t events)
{
    (void)events;
    struct gd_dispatcher *d = (struct gd_dispatcher *)((char *)w - offsetof(struct gd_dispatcher, hook_watch));
    d->hooks.readable(d->hooks.user);
}

/* A request that comes between two runs is for the next one. */
static void obey_requests(struct gd_dispatcher *d)
{
    if (d->sched.resting)
        return;
    const int request = atomic_exchange_explicit(&d->request, GD__REQUEST_NONE, memory_order_acquire);
    if (request == GD__REQUEST_SHUTDOWN)
        gd__sched_shutdown(&d->sched, d->now);
    if (request != GD__REQUEST_ABORT)
        return;
    gd__dispatcher_end_for(d, "the run was aborted");
    gd__sched_abort(&d->sched, d->now);
    if (d->feeder_deadline > d->now + ABORT_FEEDER_NS) /* a second request does not extend the deadline */
        d->feeder_deadline = d->now + ABORT_FEEDER_NS;
}

void gd__monitor_obey(struct gd_dispatcher *d)
{
    take_signals(d);
    obey_requests(d);
}

/* A worker may have been started since the last round, so the hold is applied to all workers in each round. */
static void apply_hold(struct gd_dispatcher *d)
{
    const bool hold = atomic_load(&d->hold_wanted);
    if (!hold && !d->held)
        return;
    d->held = hold;
    for (unsigned k = 0; k < d->n_live; k++) {
        gd__output_hold(&d->seats[d->live[k]].out, hold);
        gd__output_hold(&d->seats[d->live[k]].err, hold);
    }
}

/* --- the loop --- */

static void look_at_events(struct gd_dispatcher *d, uint64_t until_ns, uint64_t *looked_at)
{
    gd__sleep(d, until_ns);
    d->now = gd__now_ns();
    *looked_at = d->now;
}

static bool has_something_to_do(const struct gd_dispatcher *d)
{
    if (atomic_load(&d->request) != GD__REQUEST_NONE || atomic_load(&d->device_news) || d->spawn_failures > 0 ||
        atomic_load(&d->control.n) > 0)
        return true;
    const bool ended = gd__feeder_ended(d->feeder); /* read this before the queue: see check_source */
    if (gd__feeder_has_tasks(d->feeder) ? wanted(d) > 0 : ended && !d->source_over)
        return true;
    for (unsigned k = 0; k < d->n_live; k++) {
        const struct gd__seat *seat = &d->seats[d->live[k]];
        if (!seat->broken && gd__channel_has_result(&seat->channel))
            return true;
    }
    return false;
}

static void sleep_until_rung(struct gd_dispatcher *d, uint64_t *looked_at)
{
    if (gd__sched_has_idle(&d->sched))
        gd__feeder_nudge(d->feeder);
    _Atomic uint32_t *sleeping = &gd__feeder_arena_header(d->feeder)->sleeping;
    uint64_t until = gd__sched_deadline(&d->sched);
    if (!d->source_over && d->feeder_deadline < until)
        until = d->feeder_deadline;
    if (gd__is_suspended(d))
        until = GD__NEVER;
    until = gd__stats_before_sleep(d, until);
    /* Each sleep has its own number, so that the bell is rung only once for it: see layout.h. */
    d->sleep_number = d->sleep_number == UINT32_MAX ? 2 : d->sleep_number + 1;
    atomic_store_explicit(sleeping, d->sleep_number, memory_order_seq_cst);
    gd__full_fence(); /* pairs with the fence of the side that publishes */
    gd__publish_awake(d, 0);
    look_at_events(d, has_something_to_do(d) ? 0 : until, looked_at);
    atomic_store_explicit(sleeping, 0, memory_order_relaxed);
    gd__publish_awake(d, d->now);
}

/* Fires the timers that are due, but first handles the events of processes that have ended. Callbacks may have taken
 * long, or this process may have been stopped. A worker that died meanwhile must not be treated like a worker that
 * could not be killed. */
static void fire_timers(struct gd_dispatcher *d)
{
    gd__tell_lost(d);
    if (gd__sched_deadline(&d->sched) > d->now || gd__is_suspended(d))
        return;
    gd__loop_wait(&d->loop, 0);
    gd__sched_tick(&d->sched, d->now);
}

/* Runs one round. Returns true if there was a result or a new task.
 *
 * Requests come first, because after a stop a failed task is reported as cancelled, not as failed. They are read again
 * after the results, because the callbacks may have made a request, and no task may be handed out after that.
 *
 * The clock is read after all steps that may call the user's callbacks, and before all steps that start a time limit.
 * Otherwise a task could exceed its limit as soon as it is handed out.
 */
static bool run_one_round(struct gd_dispatcher *d)
{
    const uint64_t began = d->now;
    const struct gd__sched_counts counts = d->sched.counts;
    obey_requests(d);
    bool moved = take_results(d);
    obey_requests(d);
    gd__control_take(d);
    gd__devices_take_news(d);
    gd__supervisor_tell_failures(d);
    fire_timers(d);
    check_source(d);
    d->now = gd__now_ns();
    if (!moved && !d->sched.stopping && memcmp(&counts, &d->sched.counts, sizeof counts) == 0)
        gd__note_gap(d, began, d->now); /* no callback was called */
    moved |= take_new_tasks(d, wanted(d));
    apply_hold(d);
    if (!d->held)
        gd__sched_pump(&d->sched, d->now);
    gd__feeder_allow(d->feeder, gd__sched_allowed(&d->sched));
    gd__stats_publish(d, false);
    return moved;
}

int gd__monitor_open(struct gd_dispatcher *d)
{
    int rc = 0;
    if (d->wake_watch.fd < 0)
        rc = gd__loop_add(&d->loop, &d->wake_watch, d->wake_fd, EPOLLIN | EPOLLET, woken);
    if (rc == 0 && d->signal_fd >= 0 && d->signal_watch.fd < 0)
        rc = gd__loop_add(&d->loop, &d->signal_watch, d->signal_fd, EPOLLIN, signalled);
    gd__loop_remove(&d->loop, &d->hook_watch);
    if (rc == 0 && d->hooks.readable)
        rc = gd__loop_add(&d->loop, &d->hook_watch, d->hooks.fd, EPOLLIN, hook_readable);
    return rc;
}

/* Until all tasks are final and the workers are gone, or kept for another run. */
static void run_until_finished(struct gd_dispatcher *d)
{
    uint64_t looked_at = 0, moved_at = 0;
    bool gave_way = false;
    while (!gd__sched_finished(&d->sched)) {
        if (d->loop.broken && !d->cut_off)
            gd__supervisor_cut_off(d);
        const bool moved = run_one_round(d);
        if (d->hooks.after_round)
            d->hooks.after_round(d->hooks.user);
        if (gd__sched_finished(&d->sched))
            break;
        if (moved)
            moved_at = d->now;
        const bool give_way = d->crowded && !moved && !gave_way;
        gave_way = give_way || (gave_way && !moved);
        if (moved || give_way || d->now - moved_at < d->spin_ns) {
            if (d->now - looked_at >= LOOK_EVERY_NS)
                look_at_events(d, 0, &looked_at);
            /* A worker may be waiting for this processor. Let it run: taking many results at once costs less than one
             * sleep for each result. */
            if (give_way) {
                const uint64_t since = d->now;
                sched_yield();
                /* Other processes may have run for a long time. Read the clock again, or the time limits of new tasks
                 * would be too short. */
                d->now = gd__now_ns();
                gd__note_gap(d, since, d->now);
            } else {
                gd__spin_pause();
            }
            continue;
        }
        sleep_until_rung(d, &looked_at);
    }
    gd__stats_publish(d, true);
}

/* Nothing has watched the workers since the end of the last run. Some may have become ready, others may have died. */
static void catch_up(struct gd_dispatcher *d)
{
    for (unsigned i = 0; i < d->n_workers; i++) {
        struct gd__seat *seat = &d->seats[i];
        if (!seat->live)
            continue;
        if (!seat->broken)
            gd__records_drain(d, seat);
        if (seat->pid_watch.fd >= 0)
            gd__seat_process_ended(&seat->pid_watch, EPOLLIN);
    }
}

void gd__monitor_run(struct gd_dispatcher *d)
{
    d->now = gd__now_ns();
    gd__publish_awake(d, d->now); /* the first callback may come before the first sleep */
    catch_up(d);
    d->now = gd__now_ns(); /* callbacks may have taken long */
    gd__sched_start(&d->sched, d->now);
    run_until_finished(d);
}

void gd__monitor_stop_workers(struct gd_dispatcher *d)
{
    d->now = gd__now_ns();
    gd__publish_awake(d, d->now);
    gd__sched_stop_workers(&d->sched, d->now);
    run_until_finished(d);
    gd__publish_awake(d, 0);
}
