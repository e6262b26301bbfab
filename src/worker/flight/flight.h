/* Tasks in flight: a worker whose tasks begin in the order of positions and are finished later, in any order.
 *
 *   flight.c   the loop of the main thread: begin, commit, sleep
 *   claim.c    claiming tasks, and loading them before they begin
 *   finish.c   gd_result_finish() and gd_result_partial(), which any thread may call
 *   cancel.c   cancelling one of the tasks in flight
 *   room.c     room for result bytes, for which any thread may wait
 *   lines.c    tasks in flight in another program, which exchanges lines with this process
 *
 * Each claimed task has an entry until its result is committed, and each task in flight also has a place. A task's slot
 * in the ring is free as soon as the task has begun, so the entry has a copy of it, including a payload that was in the
 * slot. Without load(), there are as many entries as places. With load(), there are more: tasks are claimed and loaded
 * while all places are taken.
 *
 * The state of an entry is a set of bits (0: free, or claimed and not begun):
 *
 *   BEGINNING             begin() is running
 *   HELD                  begin() has returned: the user's code holds the task
 *   FINISHED              gd_result_finish() was called, or begin() failed. No user code holds the task
 *   CANCELLING            cancel() is running. The entry must not be freed
 *   CANCEL_DUE            cancelled while begin() was running: the main thread calls cancel() after it
 *
 *   begins: BEGINNING --begin returns--> HELD --gd_result_finish()--> HELD FINISHED --result committed--> free
 *
 * gd_result_finish() posts a HELD entry to the main thread, except if cancel() is running for it. In that case the
 * thread that called cancel() posts the entry. If begin() is running, the entry is not posted: the main thread checks
 * it when begin() has returned.
 *
 * Only the main thread uses the rings and the port. Other threads post entries to it, and write to an eventfd if it
 * sleeps. Posts are a list with one lock-free operation for adding, and are committed in the order of posting.
 *
 * A worker with effective concurrency 1 uses the same loop, with the protocol of serial mode (shm/layout.h).
 */
#ifndef GD_WORKER_FLIGHT_FLIGHT_H
#define GD_WORKER_FLIGHT_FLIGHT_H

#include <poll.h>

#include "worker/host.h"

enum gd__flight_bits {
    GD__FLIGHT_BEGINNING = 1,
    GD__FLIGHT_HELD = 2,
    GD__FLIGHT_FINISHED = 4,
    GD__FLIGHT_CANCELLING = 8,
    GD__FLIGHT_CANCEL_DUE = 16,
};

struct gd__flight_entry;

/* Something for the main thread to commit. */
struct gd__post {
    struct gd__post *next;
    struct gd__flight_entry *entry;
};

struct gd__flight_entry {
    struct gd__entry e; /* first, so that a pointer to e is also a pointer to this struct */
    _Atomic unsigned state;
    _Atomic uint16_t place; /* while in flight */
    _Atomic bool may_begin; /* its load() has ended, or there is none */
    bool solo;              /* suspected of crashing: nothing else may be in progress */
    uint64_t finished_ns;   /* not e.end_ns, which the main thread reads when it commits a partial result */
    bool cancel_called;     /* used only by the thread that set CANCELLING, or cleared all bits */
    alignas(16) unsigned char payload[GD__INLINE_MAX];
    struct gd__post finished, partial;
    struct gd_result part; /* the bytes of the partial result that is posted */
    bool part_is_posted;   /* under bytes_lock */
};

struct gd__room_waiter;
struct gd__ids;

enum { GD__FLIGHT_WATCHED = 3 };

/* Tasks that are passed to another program instead of begin(). All functions are called on the main thread. */
struct gd__flight_pipe {
    bool (*has_room)(struct gd_worker *w); /* another task may be put */
    /* Puts a task into the buffer that is sent. If that is impossible, sets e->result to the reason and returns false.
     * Later the task is finished with gd__lines_answered(). */
    bool (*put)(struct gd_worker *w, struct gd__flight_entry *e);
    void (*cancel)(struct gd_worker *w, const struct gd__flight_entry *e);
    void (*flush)(struct gd_worker *w); /* sends a flush line: no more tasks follow for now */
    /* watch sends what the program takes, sets what to wait for, and returns the longest wait in ms (-1: no limit).
     * take does what poll() found. late is called if the wait was too long. Both end the process if the program broke
     * the protocol or has ended. */
    int (*watch)(struct gd_worker *w, struct pollfd fds[GD__FLIGHT_WATCHED]);
    void (*take)(struct gd_worker *w, const struct pollfd fds[GD__FLIGHT_WATCHED]);
    /* Does the same without poll() and without waiting. Returns false if the program had answered nothing. */
    bool (*look)(struct gd_worker *w);
    void (*late)(struct gd_worker *w);
};

/* Numbers that are free. The one that was used longest ago is taken first, so that a late use of an old result is
 * noticed. */
struct gd__free_list {
    uint16_t *numbers;
    unsigned size;
    uint64_t taken, put; /* counts: numbers[taken % size] is next */
};

struct gd__flight {
    struct gd__flight_entry *entries;
    unsigned n_entries;
    unsigned concurrency;
    bool serial; /* concurrency is 1 */

    /* Used only by the main thread. */
    pthread_t main_thread;
    unsigned in_flight;
    bool lost;                         /* a task reported that the device is lost */
    bool solo;                         /* a task is claimed or in flight that is suspected of crashing */
    uint64_t begun;                    /* positions below this have begun; those up to port.next are claimed */
    uint64_t handed;                   /* with load(): positions below this were passed to the loader */
    struct gd__flight_entry **claimed; /* by position & claimed_mask */
    uint64_t claimed_mask;
    struct gd__free_list free_entries, free_places;

    /* Only with a pipe. */
    const struct gd__flight_pipe *pipe; /* NULL: begin() is called */
    unsigned announced;                 /* how many tasks the program could have; may be more than concurrency */
    unsigned n_put;                     /* tasks since the program was last looked at */
    bool unflushed;                     /* tasks were put since the last flush */
    int watch_ms;                       /* what pipe->watch returned last */
    struct gd__ids *ids;                /* finds tasks in flight by their ids */
    uint64_t last_put_ns, answered_ns;  /* when a task was last put, and answers were last read */
    _Atomic bool cancel_due;            /* a task may have been cancelled since the last check */

    _Atomic(struct gd__post *) posts; /* the newest first */
    _Atomic int asleep;               /* 1: the main thread sleeps, or is about to; write wake_fd */
    int wake_fd;                      /* an eventfd */

    /* Under bytes_lock. `changed` is signalled when there may be room, and when a partial result was committed. */
    pthread_cond_t changed;
    struct gd__room_waiter *waiters;
    unsigned partial_waiters;
    unsigned main_number;       /* the number of the main thread: see room.c */
    _Atomic unsigned n_waiters; /* the length of `waiters` */
    _Atomic bool dropped;       /* room was dropped while a thread waited for it; for the main thread */
    _Atomic uint64_t released;  /* the value of `released` for which blocks were last freed */
};

/* flight.c */
int gd__flight_open(struct gd_worker *w, unsigned concurrency); /* after setup */
void gd__flight_loop(struct gd_worker *w);                      /* returns after a stop was requested */
/* Commits everything that was posted. Returns false if nothing was. Main thread only. */
bool gd__flight_commit(struct gd_worker *w);
/* Commits the result of a task that is not in user code. Only with a pipe, where no other thread finishes tasks. */
void gd__flight_put_answer(struct gd_worker *w, struct gd__flight_entry *e);
/* Waits until something was posted or there may be room for result bytes. Main thread only. */
void gd__flight_await_room(struct gd_worker *w);

/* claim.c */
int gd__flight_make_entries(struct gd_worker *w, struct gd__flight *f); /* concurrency is set */
void gd__flight_free_entries(struct gd__flight *f);
/* Whether a task may be claimed now, if there is one. */
bool gd__flight_may_claim(struct gd_worker *w, const struct gd__flight *f);
void gd__flight_claim(struct gd_worker *w, struct gd__flight *f); /* as many tasks as possible; does not wait */
/* The claimed task that begins next; NULL: there is none, or it may not begin yet. */
struct gd__flight_entry *gd__flight_next(struct gd_worker *w, const struct gd__flight *f);
void gd__flight_enter(struct gd__flight *f, struct gd__flight_entry *e); /* gives it a place */
void gd__flight_leave(struct gd__flight *f, struct gd__flight_entry *e); /* frees its place and the entry */

/* The entry to which the result belongs; NULL: none, in this or another mode. */
static inline struct gd__flight_entry *gd__flight_entry_of(const struct gd_result *r)
{
    const struct gd__flight *f = gd__flight_of(r->worker);
    const uintptr_t first = f ? (uintptr_t)f->entries + offsetof(struct gd__flight_entry, e.result) : 0;
    if (!f || (uintptr_t)r < first || ((uintptr_t)r - first) % sizeof(struct gd__flight_entry) != 0)
        return NULL;
    const size_t number = ((uintptr_t)r - first) / sizeof(struct gd__flight_entry);
    return number < f->n_entries ? &f->entries[number] : NULL;
}

/* The guardian may read it while the main thread begins another task with the same entry. It then looks at the wrong
 * request, which does no harm: it compares positions afterwards. */
static inline uint16_t gd__flight_place(const struct gd__flight_entry *e)
{
    return atomic_load_explicit(&e->place, memory_order_relaxed);
}

static inline uint16_t gd__flight_number(const struct gd__flight *f, const struct gd__flight_entry *e)
{
    return (uint16_t)(e - f->entries);
}

static inline bool gd__flight_on_main(const struct gd__flight *f)
{
    return pthread_equal(pthread_self(), f->main_thread);
}

/* finish.c */
void gd__flight_post(struct gd__flight *f, struct gd__post *post);
void gd__flight_wake(struct gd__flight *f); /* wakes the main thread if it sleeps; call it after a store */
void gd__flight_part_done(struct gd_worker *w, struct gd__flight_entry *e); /* the partial result was committed */
_Noreturn void gd__flight_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* room.c; what result.c uses is in host.h */
void gd__flight_room_init(struct gd__flight *f); /* on the main thread */
void gd__flight_room_released(
    struct gd_worker *w); /* frees the blocks that the dispatcher has released, and wakes waiting threads */

/* cancel.c */
bool gd__flight_is_cancelled(const struct gd_worker *w, const struct gd__flight_entry *e);
void gd__flight_cancel_scan(struct gd_worker *w); /* like gd__flight_cancel_all(), on this thread */
/* Calls cancel() for a HELD entry, if it is cancelled and this is the first time. */
void gd__flight_cancel_one(struct gd_worker *w, struct gd__flight_entry *e);

/* lines.c, only with a pipe */
int gd__lines_begin(struct gd_worker *w, struct gd__flight *f, struct gd__flight_entry *e); /* instead of begin() */
/* Called before the main thread sleeps. Sets fds and returns the longest wait in ms (-1: no limit). */
int gd__lines_watch(struct gd_worker *w, struct gd__flight *f, struct pollfd fds[GD__FLIGHT_WATCHED]);
/* After the wait. timed_out: poll() found nothing in wait_ms, which gd__lines_watch() had returned. */
void gd__lines_take(struct gd_worker *w, struct gd__flight *f, const struct pollfd fds[GD__FLIGHT_WATCHED],
                    bool timed_out);
struct gd__ids *gd__ids_open(unsigned n_entries); /* NULL: no memory. Free it with gd__free() */
/* The task with this id that was put and not answered, or NULL. */
struct gd__flight_entry *gd__lines_find(const struct gd_worker *w, uint64_t id);
void gd__lines_answered(struct gd_worker *w, struct gd__flight_entry *e); /* its result is set: finishes the task */
/* Looks at the program without waiting, every few tasks. */
void gd__lines_look_sometimes(struct gd_worker *w, struct gd__flight *f);
/* Looks at the program without waiting. Returns true if it had answered, so that a sleep is not needed. */
bool gd__lines_look_before_sleep(struct gd_worker *w, struct gd__flight *f);

#endif
