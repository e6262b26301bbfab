/* The loop of a worker with tasks in flight. Only the main thread runs it.
 *
 * It begins tasks while there are free places and claimed tasks (claim.c). It also commits what other threads have
 * posted: results of finished tasks, and partial results. If there is nothing to do, it sleeps until the dispatcher
 * rings (a socket) or another thread posts something (an eventfd).
 *
 * A STARTED record is committed, and the dispatcher woken for it, before begin() is called. So the dispatcher knows
 * which tasks had begun if begin() crashes, and can limit their time.
 */
#include "worker/flight/flight.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"

enum {
    SPINS_PER_CLOCK = 32 /* checks between two reads of the clock */
};

/* ---- opening ---- */

int gd__flight_open(struct gd_worker *w, unsigned concurrency)
{
    struct gd__flight *f = gd__calloc(1, sizeof *f);
    if (!f)
        return gd__error_errno("no memory for tasks in flight");
    f->pipe = w->ops.begin ? NULL : w->pipe->flight;
    f->announced = w->announced ? w->announced : concurrency;
    f->concurrency = concurrency;
    f->serial = concurrency == 1;
    f->main_thread = pthread_self();
    const bool made = gd__flight_make_entries(w, f) == 0;
    f->ids = f->pipe ? gd__ids_open(f->n_entries) : NULL;
    f->wake_fd = GD__FAULT("eventfd") ? -1 : gd__fd_above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!made || f->wake_fd < 0 || (f->pipe && !f->ids)) {
        const int code = gd__error_errno("no memory or descriptor for %u tasks in flight", concurrency);
        gd__fd_close(&f->wake_fd);
        gd__free(f->ids);
        gd__flight_free_entries(f);
        gd__free(f);
        return code;
    }
    pthread_cond_init(&f->changed, NULL);
    gd__flight_room_init(f);
    gd__port_use_socket(&w->port);
    atomic_store_explicit(&w->flight, f, memory_order_release); /* the guardian may use it from now on */
    return 0;
}

/* ---- committing ---- */

/* Commits the result of a finished task and frees its place. */
static void put_result(struct gd_worker *w, struct gd__flight_entry *e)
{
    struct gd__flight *f = gd__flight_of(w);
    GD__KILL_POINT("processed");
    gd__entry_unload(w, &e->e);
    /* The two times come from two clocks that may differ a little. */
    e->e.end_ns = e->finished_ns > e->e.start_ns ? e->finished_ns : e->e.start_ns;
    gd__record_put_at(w, e->e.result.kind, &e->e, &e->e.result, gd__flight_place(e));
    f->lost |= e->e.result.kind == GD__R_DEVICE_LOST;
    atomic_store_explicit(&e->state, 0, memory_order_release);
    gd__flight_leave(f, e);
}

static void leave_if_lost(struct gd_worker *w, const struct gd__flight *f)
{
    if (__builtin_expect(f->lost, 0))
        gd__host_leave_device(w);
}

static void put_partial(struct gd_worker *w, struct gd__flight_entry *e)
{
    gd__record_put_at(w, GD__R_PARTIAL, &e->e, &e->part, gd__flight_place(e));
    gd__flight_part_done(w, e);
}

void gd__flight_put_answer(struct gd_worker *w, struct gd__flight_entry *e)
{
    e->finished_ns = gd__flight_of(w)->answered_ns;
    put_result(w, e);
    leave_if_lost(w, gd__flight_of(w));
}

static struct gd__post *reversed(struct gd__post *list)
{
    struct gd__post *out = NULL;
    while (list) {
        struct gd__post *next = list->next;
        list->next = out;
        out = list;
        list = next;
    }
    return out;
}

static bool has_posts(const struct gd__flight *f)
{
    return atomic_load_explicit(&f->posts, memory_order_relaxed) != NULL;
}

bool gd__flight_commit(struct gd_worker *w)
{
    struct gd__flight *f = gd__flight_of(w);
    if (!has_posts(f))
        return false;
    struct gd__post *post = reversed(atomic_exchange_explicit(&f->posts, NULL, memory_order_acquire));
    while (post) {
        struct gd__post *next = post->next; /* the post may be used again as soon as it is committed */
        if (post == &post->entry->partial)
            put_partial(w, post->entry);
        else
            put_result(w, post->entry);
        post = next;
    }
    leave_if_lost(w, f);
    return true;
}

/* ---- beginning ---- */

static void report_start(struct gd_worker *w, const struct gd__flight *f, struct gd__flight_entry *e)
{
    e->e.start_ns = gd__ticks_now(&w->clock);
    atomic_store_explicit(&e->state, GD__FLIGHT_BEGINNING, memory_order_release);
    gd__port_started(&w->port, e->e.position + 1, e->e.start_ns); /* after this the slot in the ring may be reused */
    GD__KILL_POINT("started");
    if (!f->serial || w->port.config.report_start)
        gd__record_put_at(w, GD__R_STARTED, &e->e, NULL, gd__flight_place(e));
    if (!f->pipe) /* with a pipe, the flush comes later, before the line with the task is sent to the program */
        gd__host_flush(w);
}

/* The task has failed in load() or begin(), or was cancelled before it has begun. */
static void fail_begin(struct gd_worker *w, struct gd__flight_entry *e, int code)
{
    (void)w;
    if (atomic_load(&e->state) & GD__FLIGHT_FINISHED)
        gd__flight_misuse(
            "begin() returned %d for task %llu, although gd_result_finish() was called for this task: it must return 0",
            code, (unsigned long long)e->e.task.id);
    gd__result_settle(&e->e.result, code, "begin");
    gd__message_forget();
    gd__result_place(&e->e.result);
    e->finished_ns = gd__now_ns();
    atomic_fetch_or(&e->state, GD__FLIGHT_FINISHED);
}

static void call_begin(struct gd_worker *w, struct gd__flight *f, struct gd__flight_entry *e)
{
    int code;
    if (__builtin_expect(e->e.state == GD__ENTRY_DONE, 0))
        code = GD_E_FAILED; /* the result has the error message of load() */
    else if (__builtin_expect(gd__flight_is_cancelled(w, e), 0))
        code = gd_result_cancelled(&e->e.result);
    else if (f->pipe)
        code = gd__lines_begin(w, f, e);
    else
        code = w->ops.begin(w, &e->e.task, &e->e.result);
    gd__host_check_fork(w);
    if (code)
        fail_begin(w, e, code);
    /* BEGINNING becomes HELD. An addition is one instruction, and an exclusive or would be a loop. */
    const unsigned state = atomic_fetch_add(&e->state, GD__FLIGHT_HELD - GD__FLIGHT_BEGINNING);
    if (state & GD__FLIGHT_FINISHED) {
        gd__flight_commit(w); /* a partial result of this task may have been posted */
        put_result(w, e);
        leave_if_lost(w, f);
    } else if (state & GD__FLIGHT_CANCEL_DUE) {
        atomic_fetch_and(&e->state, ~(unsigned)GD__FLIGHT_CANCEL_DUE);
        gd__flight_cancel_one(w, e);
    }
}

static bool begin_one(struct gd_worker *w, struct gd__flight *f)
{
    gd__flight_claim(w, f);
    struct gd__flight_entry *e = gd__flight_next(w, f);
    if (!e)
        return false;
    gd__flight_enter(f, e);
    report_start(w, f, e);
    call_begin(w, f, e);
    return true;
}

/* ---- waiting ---- */

static bool room_was_released(const struct gd_worker *w, struct gd__flight *f)
{
    return atomic_load(&f->n_waiters) > 0 && atomic_load_explicit(&w->port.in->released, memory_order_acquire) !=
                                                 atomic_load_explicit(&f->released, memory_order_relaxed);
}

/* Whether no task is claimed or in flight. */
static bool is_empty(const struct gd_worker *w, const struct gd__flight *f)
{
    return f->in_flight == 0 && f->begun == w->port.next;
}

/* Which events end a wait: released room and posts, or every event. */
enum wait_for { WAIT_ROOM, WAIT_ANY };

static bool has_work(struct gd_worker *w, struct gd__flight *f, enum wait_for what)
{
    if (has_posts(f) || room_was_released(w, f))
        return true;
    if (what == WAIT_ROOM)
        return atomic_load_explicit(&f->dropped, memory_order_relaxed);
    return atomic_load_explicit(&f->cancel_due, memory_order_relaxed) || gd__flight_next(w, f) ||
           (gd__flight_may_claim(w, f) && gd__port_poll(&w->port)) || (is_empty(w, f) && gd__port_stopped(&w->port));
}

static bool spin(struct gd_worker *w, struct gd__flight *f, enum wait_for what)
{
    if (w->port.config.spin_ns == 0 || f->pipe) /* the other program needs the processor */
        return has_work(w, f, what);
    const uint64_t end_ns = gd__now_ns() + w->port.config.spin_ns;
    do {
        for (int i = 0; i < SPINS_PER_CLOCK; i++) {
            if (has_work(w, f, what))
                return true;
            gd__spin_pause();
        }
    } while (gd__now_ns() < end_ns);
    return false;
}

/* Waits for the two bells, and for the program if there is one. Returns whether the dispatcher rang. */
static bool poll_bells(struct gd_worker *w, struct gd__flight *f, enum wait_for what)
{
    enum { BELL, WAKE, PROGRAM };
    struct pollfd all[PROGRAM + GD__FLIGHT_WATCHED] = { { .fd = w->port.task_bell, .events = POLLIN },
                                                        { .fd = f->wake_fd, .events = POLLIN } };
    const bool lines = f->pipe && what == WAIT_ANY; /* else an answer of the program is being read */
    const int wait_ms = lines ? gd__lines_watch(w, f, &all[PROGRAM]) : -1;
    uint64_t rings;
    const int n = poll(all, lines ? PROGRAM + GD__FLIGHT_WATCHED : PROGRAM, wait_ms);
    if (n < 0 && errno != EINTR)
        gd__flight_misuse("cannot wait for tasks: %s", strerror(errno));
    if (n < 0)
        return false;
    if ((all[BELL].revents | all[WAKE].revents) & POLLNVAL)
        gd__flight_misuse("cannot wait for tasks: a descriptor is closed (did the worker's code close file descriptors "
                          "that it had not opened?)");
    if (all[WAKE].revents)
        (void)!read(f->wake_fd, &rings, sizeof rings);
    if (lines)
        gd__lines_take(w, f, &all[PROGRAM], n == 0);
    return all[BELL].revents != 0;
}

/* Whether the dispatcher must ring for new tasks and for the stop. If no more tasks can be claimed, it need not. */
static bool needs_bell(struct gd_worker *w, const struct gd__flight *f)
{
    return gd__flight_may_claim(w, f) || is_empty(w, f);
}

/* Sleeps once, unless there is something to do. May also return without a reason. */
static void sleep_once(struct gd_worker *w, struct gd__flight *f, enum wait_for what)
{
    bool rung = false;
    const bool for_room = atomic_load(&f->n_waiters) > 0;
    atomic_store_explicit(&f->asleep, 1, memory_order_relaxed);
    if (for_room || needs_bell(w, f))
        gd__port_sleep(&w->port, for_room); /* contains a full fence; it also orders the store to f->asleep above */
    else
        gd__full_fence(); /* pairs with the fence of gd__flight_wake() */
    if (!has_work(w, f, what) && (for_room || atomic_load(&f->n_waiters) == 0)) {
        gd__before_wait();
        rung = poll_bells(w, f, what);
        gd__after_wait();
    }
    atomic_store_explicit(&f->asleep, 0, memory_order_relaxed);
    gd__port_awake(&w->port, rung);
}

static void wait_for(struct gd_worker *w, struct gd__flight *f, enum wait_for what)
{
    gd__host_flush(w);
    GD__KILL_POINT("waiting");
    if (f->pipe && what == WAIT_ANY && gd__lines_look_before_sleep(w, f))
        return;
    if (!spin(w, f, what))
        sleep_once(w, f, what);
    if (room_was_released(w, f))
        gd__flight_room_released(w);
}

void gd__flight_await_room(struct gd_worker *w)
{
    struct gd__flight *f = gd__flight_of(w);
    if (!gd__flight_commit(w) && !atomic_exchange(&f->dropped, false))
        wait_for(w, f, WAIT_ROOM);
}

/* ---- the loop ---- */

static bool is_over(struct gd_worker *w, const struct gd__flight *f)
{
    return is_empty(w, f) && gd__port_stopped(&w->port) && !gd__port_poll(&w->port);
}

void gd__flight_loop(struct gd_worker *w)
{
    struct gd__flight *f = gd__flight_of(w);
    for (;;) {
        const bool committed = gd__flight_commit(w);
        if (atomic_load_explicit(&f->cancel_due, memory_order_relaxed) && atomic_exchange(&f->cancel_due, false))
            gd__flight_cancel_scan(w);
        if (begin_one(w, f) || committed) {
            if (f->pipe)
                gd__lines_look_sometimes(w, f);
            continue;
        }
        if (is_over(w, f))
            break;
        wait_for(w, f, WAIT_ANY);
    }
    gd__host_flush(w);
}
