/* Tasks and the run as a whole: where a task goes when an attempt ends, in which order results are delivered, and how a
 * run ends. See sched.h for the states.
 *
 * All task slots are allocated once: enough for queue_size waiting tasks and one running batch on every worker. Lists
 * link slots by number. Nothing is allocated during the run.
 */
#include "core/sched.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "core/internal.h"

enum { TAG_TASK = 0x40000000, TAG_BATCH = 0x7ffffffe, TAG_STOP = 0x7fffffff };
#define RETRY_DELAY_MAX (60 * GD__NS_PER_S)

/* --- opening --- */

static uint64_t power_of_two_from(uint64_t n)
{
    uint64_t p = 1;
    while (p < n)
        p *= 2;
    return p;
}

static int open_workers(struct gd__sched *s)
{
    const struct gd__sched_config *c = &s->config;
    s->n_words = (c->n_workers + 63) / 64;
    s->workers = gd__calloc(c->n_workers, sizeof *s->workers);
    s->idle = gd__calloc(s->n_words, sizeof *s->idle);
    s->hungry = gd__calloc(s->n_words, sizeof *s->hungry);
    if (!s->workers || !s->idle || !s->hungry)
        return GD_E_NO_MEMORY;
    s->window_mask = c->window_max - 1;
    s->n_alive = c->n_workers - c->n_spare;
    for (unsigned i = 0; i < c->n_workers; i++) {
        struct gd__sched_worker *w = &s->workers[i];
        w->gpu_id = c->gpu_ids[i];
        w->state = i < s->n_alive ? GD_WORKER_OFF : GD__WORKER_SPARE;
        w->device = i > 0 && s->workers[i - 1].gpu_id == w->gpu_id ? s->workers[i - 1].device : 0;
        while (s->workers[w->device].gpu_id != w->gpu_id) /* ends at i at the latest */
            w->device++;
        w->batch_limit = c->batch_size;
        w->places_limit = c->concurrency;
        w->concurrency = w->places = 1;
        w->guilty = GD__NO_TASK;
        w->timer.tag = i;
        w->window = gd__calloc(c->window_max, sizeof *w->window);
        w->flight = gd__calloc(c->concurrency, sizeof *w->flight);
        if (!w->window || !w->flight)
            return GD_E_NO_MEMORY;
        gd__update_target(s, i);
    }
    return 0;
}

static int open_tasks(struct gd__sched *s)
{
    const struct gd__sched_config *c = &s->config;
    s->tasks = gd__alloc_lines(s->n_slots, sizeof *s->tasks); /* a slot is cleared before its first use */
    if (!s->tasks)
        return GD_E_NO_MEMORY;
    if (c->placement == GD_PLACE_BY_SIZE && !(s->by_size = gd__calloc(s->n_slots, sizeof *s->by_size)))
        return GD_E_NO_MEMORY;
    s->held = gd__calloc(s->n_slots, sizeof *s->held);
    if (!s->held)
        return GD_E_NO_MEMORY;
    if (!c->ordered)
        return 0;
    s->parked_mask = power_of_two_from(s->n_slots) - 1;
    s->parked = gd__calloc(s->parked_mask + 1, sizeof *s->parked);
    if (!s->parked)
        return GD_E_NO_MEMORY;
    memset(s->parked, 0xff, (s->parked_mask + 1) * sizeof *s->parked);
    return 0;
}

int gd__sched_open(struct gd__sched *s, const struct gd__sched_config *c, const struct gd__sched_effects *fx, void *ctx)
{
    memset(s, 0, sizeof *s);
    s->config = *c;
    s->config.crash_limit = c->crash_limit < GD__CRASHES_MAX ? c->crash_limit : GD__CRASHES_MAX;
    s->fx = fx;
    s->ctx = ctx;
    const uint64_t most = c->batch_size > c->concurrency ? c->batch_size : c->concurrency;
    const uint64_t n_slots = c->queue_size + (uint64_t)c->n_workers * most;
    /* The sum may overflow. Also, a slot's number combined with TAG_TASK must not equal one of the other tags. */
    if (c->queue_size >= TAG_TASK || n_slots >= TAG_TASK - 1)
        return gd__error(GD_E_TOO_LARGE, "queue_size %llu is too large: at most about 1000000000",
                         (unsigned long long)c->queue_size);
    s->n_slots = (uint32_t)n_slots;
    s->free_head = 0;
    s->batch_timer.tag = TAG_BATCH;
    s->stop_timer.tag = TAG_STOP;
    s->allowed = c->queue_size;
    s->order_at = GD__NEVER;
    if (open_workers(s) < 0 || open_tasks(s) < 0 || gd__heap_init(&s->heap, n_slots + c->n_workers + 2) < 0) {
        gd__sched_close(s);
        return gd__error(GD_E_NO_MEMORY, "no memory for a queue of %llu tasks on %u workers",
                         (unsigned long long)c->queue_size, c->n_workers);
    }
    /* Only slots that were used are on the free list. Unused slots are taken in order of their number, so memory that
     * no task needs is never touched. */
    s->free_head = GD__NO_TASK;
    return 0;
}

void gd__sched_close(struct gd__sched *s)
{
    for (unsigned i = 0; s->workers && i < s->config.n_workers; i++) {
        gd__free(s->workers[i].window);
        gd__free(s->workers[i].flight);
        gd__free(s->workers[i].last_message);
    }
    gd__free(s->workers);
    gd__free(s->idle);
    gd__free(s->hungry);
    gd__free(s->tasks);
    gd__free(s->by_size);
    gd__free(s->parked);
    gd__free(s->held);
    gd__heap_destroy(&s->heap);
    memset(s, 0, sizeof *s);
}

/* --- a task's end --- */

void gd__update_allowed(struct gd__sched *s)
{
    const uint64_t now_allowed = s->finals + s->config.queue_size + s->running;
    if (now_allowed > s->allowed)
        s->allowed = now_allowed;
}

static void deliver(struct gd__sched *s, uint32_t slot, const struct gd__outcome *o)
{
    struct gd__task *t = &s->tasks[slot];
    if (o->failure == GD_FAILURE_NONE)
        s->counts.completed++;
    else if (o->failure == GD_FAILURE_TIMEOUT)
        s->counts.timeouts++;
    else
        s->counts.failed++;
    s->counts.cancelled += o->failure == GD_FAILURE_CANCELLED;
    s->outstanding--; /* before the callback, which may read these counts: they must add up */
    s->fx->deliver(s->ctx, t, o);
    t->state = GD__TASK_FREE;
    t->next = s->free_head;
    s->free_head = slot;
    s->finals++;
    gd__update_allowed(s);
}

static void hold_outcome(struct gd__sched *s, uint32_t slot, const struct gd__outcome *o)
{
    struct gd__outcome *held = &s->held[slot];
    *held = *o;
    if (!o->kept)
        s->fx->hold(s->ctx, &s->tasks[slot], held);
    held->kept = true;
}

static void deliver_in_order(struct gd__sched *s, uint32_t slot, const struct gd__outcome *o)
{
    struct gd__task *t = &s->tasks[slot];
    if (t->id != s->next_delivery) {
        t->state = GD__TASK_PARKED;
        s->n_parked++;
        s->parked[t->id & s->parked_mask] = slot;
        hold_outcome(s, slot, o);
        return;
    }
    s->next_delivery++;
    deliver(s, slot, o);
    for (;;) {
        uint32_t *next = &s->parked[s->next_delivery & s->parked_mask];
        if (*next == GD__NO_TASK)
            return;
        const uint32_t parked = *next;
        *next = GD__NO_TASK;
        s->n_parked--;
        s->next_delivery++;
        deliver(s, parked, &s->held[parked]);
    }
}

void gd__task_final(struct gd__sched *s, uint32_t slot, const struct gd__outcome *o)
{
    if (o->failure != GD_FAILURE_NONE && (o->failure == GD_FAILURE_CRASH || o->failure == GD_FAILURE_TIMEOUT) &&
        s->tasks[slot].killed != -1)
        gd__death_explained(s, &s->tasks[slot]);
    if (s->config.ordered)
        deliver_in_order(s, slot, o);
    else
        deliver(s, slot, o);
}

void gd__task_cancel(struct gd__sched *s, uint32_t slot)
{
    struct gd__task *t = &s->tasks[slot];
    const bool no_worker = (s->end == GD__END_SETUP || s->end == GD__END_NO_WORKERS) && !t->cancel_asked;
    const struct gd__outcome o = {
        .failure = no_worker ? GD_FAILURE_NO_WORKER : GD_FAILURE_CANCELLED,
        .on_request = t->cancel_asked,
        .worker = t->worker,
    };
    if (t->verdict != GD__VERDICT_NONE)
        s->fx->drop(s->ctx, t, &s->held[slot]);
    t->verdict = GD__VERDICT_NONE;
    gd__task_final(s, slot, &o);
}

/* Keeps the data of the attempt. Drops its error message, which only says how the attempt stopped. */
void gd__task_cancelled(struct gd__sched *s, uint32_t slot, const struct gd__outcome *o)
{
    struct gd__outcome end = *o;
    end.failure = GD_FAILURE_CANCELLED;
    end.on_request = true;
    end.signal = end.exit_code = 0;
    end.size = o->data_size;
    gd__task_final(s, slot, &end);
}

static uint64_t retry_delay(const struct gd__sched *s, const struct gd__task *t)
{
    const unsigned doublings = t->errors > 16 ? 16 : t->errors - 1;
    return gd__min64(gd__min64(s->config.retry_delay_ns, RETRY_DELAY_MAX) << doublings, RETRY_DELAY_MAX);
}

void gd__task_began(struct gd__task *t, const struct gd__outcome *o)
{
    if (t->first_start_ns == 0)
        t->first_start_ns = o->start_ns;
    t->has_extras |= o->start_ns != 0;
}

static void count_try(struct gd__sched *s, struct gd__task *t, const struct gd__outcome *o)
{
    s->counts.retried++;
    gd__task_began(t, o);
    if (s->fx->tried)
        s->fx->tried(s->ctx, t, o);
    if (o->kept)
        s->fx->drop(s->ctx, t, o);
}

void gd__task_arm(struct gd__sched *s, uint32_t slot, uint64_t at)
{
    struct gd__timer *timer = &s->tasks[slot].timer;
    timer->tag = TAG_TASK | slot;
    gd__heap_arm(&s->heap, timer, at);
}

static void delay(struct gd__sched *s, uint32_t slot, uint64_t until)
{
    s->tasks[slot].state = GD__TASK_DELAYED;
    gd__task_arm(s, slot, until);
}

/* Returns true if the task is not charged now. Either a stop has begun and the task is cancelled, or a stop may be on
 * its way and the verdict waits. */
static bool is_excused(struct gd__sched *s, uint64_t now, uint32_t slot, const struct gd__outcome *o,
                       enum gd__verdict verdict)
{
    if (s->stopping) {
        gd__task_cancel(s, slot);
        return true;
    }
    if (!o->by_stop_signal || s->config.signal_wait_ns == 0)
        return false;
    s->tasks[slot].verdict = (uint8_t)verdict;
    hold_outcome(s, slot, o);
    s->held[slot].by_stop_signal = false;
    delay(s, slot, now + s->config.signal_wait_ns);
    return true;
}

void gd__task_retry(struct gd__sched *s, uint64_t now, uint32_t slot, const struct gd__outcome *o)
{
    struct gd__task *t = &s->tasks[slot];
    if (is_excused(s, now, slot, o, GD__VERDICT_FAILED))
        return;
    gd__count_for_worker(s, o);
    if (o->final || t->errors >= s->config.retries) {
        gd__task_final(s, slot, o);
        return;
    }
    t->errors++;
    count_try(s, t, o);
    delay(s, slot, now + retry_delay(s, t));
}

void gd__task_timed_out(struct gd__sched *s, uint64_t now, uint32_t slot, const struct gd__outcome *o)
{
    if (s->config.retry_timeouts) {
        gd__task_retry(s, now, slot, o);
    } else if (s->stopping) {
        gd__task_cancel(s, slot);
    } else {
        gd__count_for_worker(s, o);
        gd__task_final(s, slot, o);
    }
}

void gd__task_crashed(struct gd__sched *s, uint64_t now, uint32_t slot, const struct gd__outcome *o)
{
    struct gd__task *t = &s->tasks[slot];
    if (is_excused(s, now, slot, o, GD__VERDICT_CRASHED))
        return;
    gd__count_for_worker(s, o);
    t->crashes++;
    if (t->crashes >= s->config.crash_limit) {
        gd__task_final(s, slot, o);
        return;
    }
    count_try(s, t, o);
    gd__place_again(s, slot);
}

/* No stop came, so the task is charged according to its verdict. */
static void judge(struct gd__sched *s, uint64_t now, uint32_t slot)
{
    struct gd__task *t = &s->tasks[slot];
    const struct gd__outcome o = s->held[slot]; /* a copy: the outcome may be parked, which overwrites held[slot] */
    const enum gd__verdict verdict = (enum gd__verdict)t->verdict;
    t->verdict = GD__VERDICT_NONE;
    if (verdict == GD__VERDICT_CRASHED)
        gd__task_crashed(s, now, slot, &o);
    else
        gd__task_retry(s, now, slot, &o);
}

static void task_timer(struct gd__sched *s, uint64_t now, uint32_t slot)
{
    if (s->tasks[slot].state == GD__TASK_BEGUN) {
        gd__inflight_timer(s, now, slot);
        return;
    }
    if (s->tasks[slot].verdict == GD__VERDICT_NONE)
        gd__place_again(s, slot);
    else
        judge(s, now, slot);
    if (s->outstanding == 0)
        gd__check_done(s, now);
}

/* --- events --- */

void gd__sched_start(struct gd__sched *s, uint64_t now)
{
    s->resting = false;
    gd__pool_start(s, now);
}

static uint32_t take_slot(struct gd__sched *s)
{
    if (s->free_head == GD__NO_TASK) {
        memset(&s->tasks[s->n_used], 0, sizeof *s->tasks);
        return s->n_used++;
    }
    const uint32_t slot = s->free_head, next = s->tasks[slot].next;
    if (next != GD__NO_TASK) { /* it will be used next */
        __builtin_prefetch(&s->tasks[next], 1);
        __builtin_prefetch(&s->tasks[next].tag, 1);
    }
    s->free_head = next;
    return slot;
}

uint64_t gd__sched_add(struct gd__sched *s, uint64_t now, const struct gd__new_task *task)
{
    const uint32_t slot = take_slot(s);
    struct gd__task *t = &s->tasks[slot];
    t->id = s->next_id++;
    memcpy(t->payload, task->payload, sizeof t->payload);
    t->attempt = t->errors = 0;
    t->crashes = (uint16_t)(task->crashes < s->config.crash_limit ? task->crashes : s->config.crash_limit - 1);
    t->worker = -1;
    t->priority = (signed char)task->priority;
    t->has_extras = task->tag != 0 || task->timeout_ns != 0;
    t->tag = task->tag;
    t->weight = task->weight;
    t->waiting_since = now;
    t->timeout_ns = task->timeout_ns;
    t->first_start_ns = 0;
    t->home = t->solo_on = t->killed = -1;
    t->verdict = GD__VERDICT_NONE;
    t->group_deaths = 0;
    t->asked_to_stop = t->solo = t->cancel_asked = false;
    s->has_limits |= task->timeout_ns > 0;
    s->outstanding++;
    s->counts.taken++;
    if (s->stopping)
        gd__task_cancel(s, slot);
    else
        gd__place_new(s, slot);
    return s->next_id - 1;
}

void gd__check_done(struct gd__sched *s, uint64_t now)
{
    const bool nothing_left = s->source_ended && s->outstanding == 0;
    if (!nothing_left || s->workers_stopped || s->resting)
        return;
    if (s->config.keep_workers && !s->stopping) {
        s->resting = true;
        return;
    }
    s->workers_stopped = true;
    gd__pool_stop(s, now);
}

void gd__sched_source_end(struct gd__sched *s, uint64_t now)
{
    s->source_ended = true;
    gd__check_done(s, now);
}

/* Cancels every task that is not in a worker's window. */
void gd__cancel_waiting(struct gd__sched *s)
{
    for (uint32_t slot = 0; slot < s->n_used && s->outstanding > 0; slot++) {
        struct gd__task *t = &s->tasks[slot];
        if (t->state != GD__TASK_WAITING && t->state != GD__TASK_DELAYED)
            continue;
        gd__heap_disarm(&s->heap, &t->timer);
        gd__task_cancel(s, slot);
    }
    s->solo.count = s->by_size_count = s->n_placed = s->n_suspects = 0;
    gd__waiting_clear(&s->backlog);
    for (unsigned i = 0; i < s->config.n_workers; i++) {
        gd__waiting_clear(&s->workers[i].placed);
        s->workers[i].suspects.count = 0;
    }
}

static void begin_stop(struct gd__sched *s, uint64_t now)
{
    s->stopping = true;
    s->end = s->end == GD__END_NATURAL ? GD__END_SHUTDOWN : s->end;
    gd__pool_stop(s, now); /* first: reporting many cancelled tasks may take as long as the grace period */
    gd__cancel_waiting(s);
    gd__check_done(s, now);
}

void gd__sched_shutdown(struct gd__sched *s, uint64_t now)
{
    if ((s->stopping && !s->draining) || s->workers_stopped || s->resting) /* already stopping, or all tasks are done */
        return;
    gd__heap_arm(&s->heap, &s->stop_timer, now + s->config.stop_grace_ns);
    s->draining = false;
    if (!s->stopping)
        begin_stop(s, now);
}

void gd__sched_drain(struct gd__sched *s, uint64_t now)
{
    if (s->stopping || s->workers_stopped || s->resting)
        return;
    s->draining = true;
    begin_stop(s, now);
}

void gd__sched_abort(struct gd__sched *s, uint64_t now)
{
    if (!s->stopping && !s->workers_stopped && !s->resting)
        s->end = GD__END_SHUTDOWN;
    s->stopping = true;
    s->draining = s->resting = false;
    gd__heap_disarm(&s->heap, &s->stop_timer);
    gd__pool_abort(s, now);
    gd__cancel_waiting(s);
    gd__check_done(s, now);
}

static void stop_is_over(struct gd__sched *s, uint64_t now)
{
    gd__pool_end_tasks(s, now);
    gd__check_done(s, now);
}

void gd__sched_frozen(struct gd__sched *s, uint64_t now, uint64_t lost_ns)
{
    gd__heap_shift(&s->heap, lost_ns);
    gd__pool_frozen(s, now, lost_ns);
}

void gd__sched_tick(struct gd__sched *s, uint64_t now)
{
    struct gd__timer *t;
    while ((t = gd__heap_first(&s->heap)) && t->at_ns <= now) {
        gd__heap_disarm(&s->heap, t);
        if (t->tag == TAG_STOP)
            stop_is_over(s, now);
        else if (t->tag == TAG_BATCH)
            ; /* the pump that follows checks the time itself */
        else if (t->tag & TAG_TASK)
            task_timer(s, now, t->tag & ~(uint32_t)TAG_TASK);
        else
            gd__pool_timer(s, now, t->tag);
    }
}

/* --- queries --- */

uint64_t gd__sched_deadline(const struct gd__sched *s)
{
    const struct gd__timer *t = gd__heap_first(&s->heap);
    return t ? t->at_ns : GD__NEVER;
}

bool gd__sched_has_idle(const struct gd__sched *s)
{
    uint64_t idle = 0;
    for (unsigned k = 0; k < s->n_words; k++)
        idle |= s->idle[k];
    return idle != 0;
}

bool gd__sched_finished(const struct gd__sched *s)
{
    return s->source_ended && s->outstanding == 0 && (s->n_alive == 0 || s->resting);
}

const struct gd__task *gd__sched_head(const struct gd__sched *s, unsigned w)
{
    return gd__sched_at(s, w, s->workers[w].head);
}

enum gd_worker_state gd__sched_worker_state(const struct gd__sched *s, unsigned w)
{
    const struct gd__sched_worker *worker = &s->workers[w];
    if (worker->state == GD_WORKER_IDLE && gd__load(worker) > 0)
        return GD_WORKER_BUSY;
    if (worker->state == GD__WORKER_HELD)
        return GD_WORKER_RESTING;
    if (worker->state == GD__WORKER_SPARE)
        return GD_WORKER_OFF;
    if (worker->state == GD__WORKER_SHORT)
        return gd__load(worker) > 0 ? GD_WORKER_BUSY : GD_WORKER_IDLE;
    return (enum gd_worker_state)worker->state;
}
