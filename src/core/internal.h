/* What the scheduler's files share.
 *
 *   sched.c      tasks: their states, retries, delivery in order
 *   waiting.c    queues of waiting tasks, in the order in which they start
 *   place.c      which worker gets which task
 *   order.c      takes back tasks that would start too late
 *   flight.c     tasks in flight, on workers that can have several
 *   attempt.c    what a result, or a death, means for the tasks of a window
 *   pool.c       workers: what each event does in each state
 *   death.c      the end of a worker's process, and whether it gets another
 *   deadline.c   when the first task of a window must have ended
 *   device.c     all workers of a device
 *   shortage.c   no process can be started
 *   ending.c     the end of the run, and the beginning of the next
 *   control.c    requests from outside: pause, cancel, add and remove workers
 */
#ifndef GD_CORE_INTERNAL_H
#define GD_CORE_INTERNAL_H

#include "base/clock.h"
#include "core/sched.h"

/* Tasks are taken from a busy worker for an idle one only if they are at least this much work. */
#define GD__SHARE_NS (100 * GD__NS_PER_US)

/* Why a process is being killed. This decides how its task ends. */
enum gd__kill_reason {
    GD__KILL_NONE,
    GD__KILL_TIMEOUT,
    GD__KILL_CANCELLED, /* its task was cancelled by a request and did not stop */
    GD__KILL_SETUP_TIMEOUT,
    GD__KILL_BROKEN,
    GD__KILL_DEVICE_LOST,
    GD__KILL_DEVICE_ERROR, /* the device works again, but its programs must be restarted */
    GD__KILL_ENDING,
};

static inline uint64_t gd__min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}
static inline uint64_t gd__max64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}
/* now + ns, where either may be GD__NEVER. */
static inline uint64_t gd__after(uint64_t now, uint64_t ns)
{
    return ns > GD__NEVER - now ? GD__NEVER : now + ns;
}
static inline uint64_t gd__window_length(const struct gd__sched_worker *w)
{
    return w->tail - w->head;
}
/* How many tasks it has, begun or not. */
static inline uint64_t gd__load(const struct gd__sched_worker *w)
{
    return gd__window_length(w) + w->n_flight;
}
/* The first position of w's window that was not asked to stop. A task that was asked to stop must stay, even if it has
 * not begun: if another task got its position, w would stop that task instead. */
static inline uint64_t gd__first_unasked(const struct gd__sched_worker *w)
{
    return gd__max64(w->head, w->cancel_below);
}
static inline bool gd__is_innocent_kill(unsigned reason)
{
    return reason == GD__KILL_DEVICE_LOST || reason == GD__KILL_DEVICE_ERROR || reason == GD__KILL_ENDING;
}
/* The slot of the task at that position of the worker's window. */
static inline uint32_t gd__window_at(const struct gd__sched *s, const struct gd__sched_worker *w, uint64_t position)
{
    return w->window[position & s->window_mask];
}
static inline bool gd__is_terminal(unsigned state)
{
    return state == GD_WORKER_FINISHED || state == GD_WORKER_FAILED || state == GD_WORKER_LOST;
}
/* Such a worker has no process and gets none, unless it is SPARE and is added. */
static inline bool gd__is_gone(unsigned state)
{
    return gd__is_terminal(state) || state == GD__WORKER_SPARE;
}
/* Such a worker has no process now, but may get one. */
static inline bool gd__has_no_process(unsigned state)
{
    return state == GD_WORKER_OFF || state == GD_WORKER_RESTING || state == GD__WORKER_HELD;
}
static inline bool gd__takes_tasks(unsigned state)
{
    return state == GD_WORKER_IDLE || state == GD_WORKER_CANCELLING || state == GD__WORKER_SHORT;
}
/* The next process of w begins anew: the failures of earlier ones do not count. */
static inline void gd__worker_forget(struct gd__sched_worker *w)
{
    w->restarts += w->was_used;
    w->setup_tries = w->deaths_in_row = w->n_charged = w->shortages = 0;
}
static inline void gd__bit_set(uint64_t *set, unsigned i)
{
    set[i / 64] |= UINT64_C(1) << (i % 64);
}
static inline void gd__bit_clear(uint64_t *set, unsigned i)
{
    set[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

/* waiting.c: what every task needs */
static inline void gd__list_push_back(struct gd__sched *s, struct gd__list *l, uint32_t slot)
{
    s->tasks[slot].next = GD__NO_TASK;
    if (l->count == 0)
        l->head = slot;
    else
        s->tasks[l->tail].next = slot;
    l->tail = slot;
    l->count++;
}
static inline uint32_t gd__list_pop(struct gd__sched *s, struct gd__list *l)
{
    const uint32_t slot = l->head, next = s->tasks[slot].next;
    if (--l->count > 0)
        __builtin_prefetch(&s->tasks[next]); /* it will be popped next */
    l->head = next;
    return slot;
}
/* Appends a task that comes after all tasks of its priority which were appended before. */
static inline void gd__waiting_append(struct gd__sched *s, struct gd__waiting *q, uint32_t slot)
{
    const int level = s->tasks[slot].priority - GD__PRIORITY_MIN;
    gd__list_push_back(s, &q->fresh[level], slot);
    q->levels |= (uint8_t)(1u << level);
    q->count++;
}
/* The highest priority of the tasks from the source. There must be one. */
static inline unsigned gd__top_level(const struct gd__waiting *q)
{
    return 31u - (unsigned)__builtin_clz(q->levels);
}
static inline uint32_t gd__waiting_pop_fresh(struct gd__sched *s, struct gd__waiting *q)
{
    const unsigned level = gd__top_level(q);
    const uint32_t slot = gd__list_pop(s, &q->fresh[level]);
    if (q->fresh[level].count == 0)
        q->levels &= (uint8_t) ~(1u << level);
    q->count--;
    return slot;
}
/* Takes out the first task. The queue must not be empty. */
static inline uint32_t gd__waiting_pop(struct gd__sched *s, struct gd__waiting *q)
{
    return __builtin_expect(q->n_returned > 0, 0) ? gd__waiting_pop_any(s, q) : gd__waiting_pop_fresh(s, q);
}

/* sched.c */
void gd__task_final(struct gd__sched *s, uint32_t slot, const struct gd__outcome *o);
void gd__task_began(struct gd__task *t, const struct gd__outcome *o); /* records the start of the first attempt */
void gd__task_cancel(struct gd__sched *s, uint32_t slot);             /* ends it as cancelled, or as NO_WORKER */
/* An attempt of a task that gd__sched_cancel_task() has cancelled ended without success. */
void gd__task_cancelled(struct gd__sched *s, uint32_t slot, const struct gd__outcome *o);
void gd__task_retry(struct gd__sched *s, uint64_t now, uint32_t slot, const struct gd__outcome *o);
void gd__task_timed_out(struct gd__sched *s, uint64_t now, uint32_t slot, const struct gd__outcome *o);
void gd__task_crashed(struct gd__sched *s, uint64_t now, uint32_t slot, const struct gd__outcome *o);
void gd__task_arm(struct gd__sched *s, uint32_t slot, uint64_t at);
void gd__update_allowed(struct gd__sched *s);
void gd__cancel_waiting(struct gd__sched *s);
void gd__check_done(struct gd__sched *s, uint64_t now);

/* pool.c */
void gd__pool_start(struct gd__sched *s, uint64_t now);
void gd__pool_timer(struct gd__sched *s, uint64_t now, unsigned w);
void gd__window_changed(struct gd__sched *s, unsigned w); /* called also when the tasks in flight have changed */
/* Takes back the tasks from position keep on that w has not begun. They wait again, or end if they were cancelled or the
 * run is stopping. Returns false if no task could be taken back. */
bool gd__window_take_back(struct gd__sched *s, unsigned w, uint64_t keep);
void gd__worker_set_state(struct gd__sched *s, uint64_t now, unsigned w, unsigned state);
void gd__worker_arm(struct gd__sched *s, unsigned w, uint64_t at);
void gd__worker_start(struct gd__sched *s, uint64_t now, unsigned w); /* now, or later if setup_jobs are in setup */
void gd__worker_stop(struct gd__sched *s, uint64_t now, unsigned w, uint64_t grace);
/* Asks the first task of w, or its batch, to stop. w is killed if the task has not ended at kill_at. */
void gd__worker_cancel_head(struct gd__sched *s, uint64_t now, unsigned w, uint64_t kill_at);
void gd__worker_kill(struct gd__sched *s, uint64_t now, unsigned w, enum gd__kill_reason reason);
void gd__count_setup_failure(struct gd__sched *s, unsigned w, const char *message);

/* death.c */
void gd__death_charge(struct gd__sched *s, unsigned w, struct gd__task *t); /* the death of w is charged to t */
/* t has failed because of the deaths that it was charged with. */
void gd__death_explained(struct gd__sched *s, const struct gd__task *t);
void gd__worker_exited(struct gd__sched *s, uint64_t now, unsigned w, const struct gd__death *d);
void gd__worker_lost(struct gd__sched *s, uint64_t now, unsigned w);         /* it was killed but does not end */
void gd__worker_no_stop_came(struct gd__sched *s, uint64_t now, unsigned w); /* so the death of w counts */

/* deadline.c */
uint64_t gd__limit_of(const struct gd__sched *s, const struct gd__task *t); /* GD__NEVER: no limit */
/* The time limit of the first task of the window, or the shortest limit of the first batch. GD__NEVER: no limit. */
uint64_t gd__head_limit(const struct gd__sched *s, const struct gd__sched_worker *w);
/* When the first task must have ended. GD__NEVER: there is no task, or it has no limit. */
uint64_t gd__head_deadline(struct gd__sched *s, uint64_t now, unsigned w);
/* Makes sure that w's timer fires when a first task that began now would be late. */
void gd__arm_head_limit(struct gd__sched *s, uint64_t now, unsigned w);
void gd__head_changed(struct gd__sched_worker *w, uint64_t now); /* another task has become the first of the window */
void gd__pool_frozen(struct gd__sched *s, uint64_t now, uint64_t lost_ns);

/* device.c */
void gd__device_lost(struct gd__sched *s, uint64_t now, unsigned w); /* a result of w reported the loss */

/* ending.c */
void gd__pool_stop(struct gd__sched *s, uint64_t now);      /* stops each worker, at once or after its tasks */
void gd__pool_abort(struct gd__sched *s, uint64_t now);     /* kills every worker */
void gd__pool_end_tasks(struct gd__sched *s, uint64_t now); /* kills the workers that still have a task */

/* control.c */
/* Another task has become the first of w's window: asks it to stop, if it was cancelled. */
void gd__cancel_unwanted_head(struct gd__sched *s, uint64_t now, unsigned w);
void gd__worker_left(struct gd__sched *s, uint64_t now, unsigned w); /* w was removed, and its process is gone */

/* shortage.c */
/* No process could be started, either by w for a task or for w itself. Returns true if nothing has run for
 * shortage_wait_ns, so that waiting longer is useless. */
bool gd__short_of(struct gd__sched *s, uint64_t now, unsigned w, const char *message, uint64_t size);
void gd__worker_short(struct gd__sched *s, uint64_t now, unsigned w);   /* w is ready, but gets no task for a while */
void gd__arm_short(struct gd__sched *s, unsigned w, uint64_t deadline); /* deadline: of w's first task */
uint64_t gd__shortage_delay(struct gd__sched_worker *w);                /* until the next try; longer each time */

/* attempt.c */
/* How many tasks of w's window, counted from its head, may have caused that death. */
uint64_t gd__count_blamed(const struct gd__sched_worker *w, const struct gd__death *d);
void gd__window_reclaim(struct gd__sched *s, uint64_t now, unsigned w, uint64_t blamed, const struct gd__outcome *o);
/* If the process of w has finished max_tasks tasks, it is replaced. */
void gd__worker_check_worn(struct gd__sched *s, unsigned w);
void gd__count_for_worker(struct gd__sched *s, const struct gd__outcome *o);
/* Reports how long an attempt on w took for each task. */
void gd__note_mean(struct gd__sched *s, unsigned w, uint64_t per_task_ns);
void gd__attempt_settled(struct gd__sched *s, unsigned w, const struct gd__outcome *o); /* what it means for w */
/* Decides what the end of an attempt means for its task. asked: the task was asked to stop. */
void gd__attempt_judge(struct gd__sched *s, uint64_t now, unsigned w, uint32_t slot, const struct gd__outcome *o,
                       bool asked);
/* Handles the result of the task at head. */
int gd__attempt_ended(struct gd__sched *s, uint64_t now, unsigned w, const struct gd__outcome *o, unsigned safe_batch);

/* flight.c */
int gd__inflight_open(struct gd__sched *s, unsigned w, unsigned concurrency); /* w is ready */
int gd__inflight_begun(struct gd__sched *s, uint64_t now, unsigned w, const struct gd__begin *b);
int gd__inflight_finished(struct gd__sched *s, uint64_t now, unsigned w, unsigned place, uint64_t position,
                          const struct gd__outcome *o);
void gd__inflight_timer(struct gd__sched *s, uint64_t now, uint32_t slot); /* of a task in flight */
/* Asks a task in flight to stop, unless that was done before. The worker is killed if the task has not stopped at
 * kill_at. */
void gd__inflight_ask_to_stop(struct gd__sched *s, uint32_t slot, uint64_t kill_at);
void gd__inflight_limit_changed(struct gd__sched *s, uint64_t now, unsigned w); /* the time limit of the run */
void gd__inflight_frozen(struct gd__sched *s, unsigned w, uint64_t lost_ns);
/* Empties window and flight of a process that is gone. */
void gd__inflight_reclaim(struct gd__sched *s, uint64_t now, unsigned w, const struct gd__death *d,
                          const struct gd__outcome *o);
void gd__inflight_cancel_all(struct gd__sched *s, uint64_t now, unsigned w);

/* place.c */
void gd__place_new(struct gd__sched *s, uint32_t slot);    /* a task from the source */
void gd__place_again(struct gd__sched *s, uint32_t slot);  /* a returned task: goes to the front */
void gd__place_remove(struct gd__sched *s, uint32_t slot); /* a waiting task, which leaves its queue */
void gd__place_release(struct gd__sched *s, unsigned w);   /* w is gone: any worker may get the tasks placed on it */
void gd__update_target(struct gd__sched *s, unsigned w);   /* after its mean or its batch limit has changed */
void gd__update_hunger(struct gd__sched *s, unsigned w);

/* order.c */
/* The first position from which on tasks may be taken back from w. */
uint64_t gd__first_spare(const struct gd__sched *s, const struct gd__sched_worker *w);
/* Whether w may hold tasks from that position on that it has not begun. */
bool gd__can_take_from(const struct gd__sched *s, const struct gd__sched_worker *w);
/* Call this after tasks were handed to w. */
void gd__order_note(struct gd__sched *s, uint64_t now, unsigned w);
/* Takes back tasks that wait behind a long one, if it is time to look for them. */
void gd__order_restore(struct gd__sched *s, uint64_t now);
/* The first task with a priority has come: from now on nothing is handed out ahead. */
void gd__order_by_priority(struct gd__sched *s);

#endif
