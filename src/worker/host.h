/* The worker host: what its files share, and what the dispatcher reads about this process.
 *
 *   main.c     becoming a worker (boot message, guardian thread) or remembering how to start one
 *   host.c     setup, the loops over tasks and batches, cleanup
 *   loader.c   load() on I/O threads, ahead of process or begin
 *   flight/    begin(): several tasks in flight, finished in any order
 *   pipeline.c passing tasks on to another program (stream.c, with its pipes in program.c)
 *   result.c   gd_result_...() and gd_worker_...(), result records
 *
 * Only the main thread uses the port, except for result bytes (under bytes_lock) and `loading` (under the loader's
 * lock). The guardian thread reads `cancel`, `cancel_at`, `current` and `flight`.
 */
#ifndef GD_WORKER_HOST_H
#define GD_WORKER_HOST_H

#include <gpu_dispatch/worker.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/ticks.h"
#include "binding.h"
#include "shm/channel.h"
#include "worker/pipeline.h"

/* Exit codes of a worker process. 0 is a normal end. */
#define GD__EXIT_SETUP       1  /* setup failed (a record has the reason) */
#define GD__EXIT_BOOT        70 /* the worker could not start: the last line of stderr has the reason */
#define GD__EXIT_DEVICE_LOST 71 /* process reported that the device is lost (a record has the reason) */
#define GD__EXIT_ORPHAN      72 /* the dispatcher is gone, and this is not the leader of its process group */
#define GD__EXIT_PROTOCOL    73 /* the program of this worker broke the protocol: stderr has the details */
#define GD__EXIT_THREAD      74 /* user code ended a thread of the worker, as stderr reports */
#define GD__EXIT_FORK        75 /* used by a fork of a worker that returned into the worker's code */
#define GD__EXIT_SHORTAGE    76 /* no more processes or memory were available: the worker may be started again */

/* Points at which GD_KILL can end a worker, in the order of its life. loading and loaded exist only with load(). See
 * base/fault.h. */
#define GD__KILL_POINTS(X)                                                       \
    X("boot")   /* boot message received, nothing mapped */                      \
    X("mapped") /* shared memory mapped */                                       \
    X("before_setup")                                                            \
    X("after_setup")                                                             \
    X("ready")       /* ready record committed and flushed */                    \
    X("waiting")     /* about to wait for a task */                              \
    X("claimed")     /* task or batch claimed, not started */                    \
    X("loading")     /* on an I/O thread, marked as loading, load not entered */ \
    X("loaded")      /* on an I/O thread, load returned */                       \
    X("started")     /* marked as started, process not entered */                \
    X("processed")   /* process returned, nothing written */                     \
    X("result_half") /* result slot partly filled, not committed */              \
    X("committed")   /* result committed, dispatcher not woken */                \
    X("flushed")     /* dispatcher woken */                                      \
    X("before_cleanup")                                                          \
    X("after_cleanup")                                                           \
    X("before_bye")                                                              \
    X("after_bye")

#define GD__NO_POSITION UINT64_MAX
#define GD__MESSAGE_MAX 65536u /* bytes of an error message; longer ones are cut between two characters */

/* ---- what the dispatcher reads (main.c) ---- */

const struct gd_worker_ops *gd__worker_registered(void); /* NULL: gd_worker_main() was never called */
char *const *gd__worker_argv(void);                      /* the argv of main(); NULL likewise */

/* Makes the worker's tasks go through these functions instead of process. Call it before gd_worker_main(). */
void gd__worker_pipe(const struct gd__pipe_ops *pipe);

/* The worker can end its current task by force: end_task makes process return soon, whatever the task does. It is
 * called on the guardian's thread, after interrupt() and a grace period. The ops must have an interrupt(). Call
 * gd__worker_ends_tasks() before gd_worker_main(). */
void gd__worker_ends_tasks(void (*end_task)(void));
/* Whether end_task() was called for the current task, perhaps before there was anything to end. */
bool gd__task_must_end(const struct gd_worker *w);

/* ---- inside a worker ---- */

/* A success of size bytes (in `bytes`, or at `offset` of the result region), or a failure with its error message in
 * `bytes` or `message`. */
struct gd_result {
    struct gd_worker *worker;
    enum gd__record_kind kind;
    uint64_t size;
    uint64_t offset; /* 0: it uses no room in the region */
    char *message;   /* the error message, owned; NULL: it fits into `bytes` */
    unsigned owner;  /* flight/room.c: the number of the thread that allocated the room; 0: none. Under bytes_lock */
    alignas(16) unsigned char bytes[GD__INLINE_MAX];
};

enum gd__entry_state {
    GD__ENTRY_CLAIMED, /* with load(): waits for an I/O thread */
    GD__ENTRY_LOADING,
    GD__ENTRY_LOADED,
    GD__ENTRY_DONE, /* its result is settled, and will be committed in order */
};

/* A claimed task without a result record. */
struct gd__entry {
    struct gd_task task;
    struct gd_result result;
    uint64_t position;
    uint64_t start_ns;
    uint64_t end_ns; /* 0: not known yet */
    enum gd__entry_state state;
    bool to_unload; /* load succeeded, unload has not been called */
};

struct gd__loader;
struct gd__flight;

struct gd_worker {
    struct gd__port port;
    struct gd_worker_ops ops;
    struct gd_result own; /* the error message of setup or cleanup */
    void *user;
    struct gd__ticks clock; /* for the main thread */
    int lifeline;           /* the boot socket: end of file when the dispatcher is gone */
    int dispatcher;         /* the pidfd of the dispatcher */
    const uint32_t *is_us;  /* 0 in a fork of this process, see gd__host_check_fork() */

    struct gd__entry *entries; /* by position & entry_mask; positions head .. port.next - 1 are in use */
    uint64_t entry_mask;
    uint64_t head;            /* the first position without a result record */
    uint64_t batch_size;      /* >= 1 */
    uint64_t safe_batch;      /* 0: no call has run out of memory yet */
    struct gd__entry **batch; /* scratch of batch_size each, for process_batch */
    const struct gd_task **batch_tasks;
    struct gd_result **batch_results;

    const struct gd__pipe_ops *pipe; /* NULL: tasks are passed to process */
    struct gd__pipeline *pipeline;

    struct gd__loader *loader;  /* NULL: no load() */
    pthread_mutex_t bytes_lock; /* used only with a loader or in flight */

    unsigned announced;                  /* gd_worker_set_concurrency(); 0: not called */
    bool in_setup;                       /* gd_worker_set_concurrency() may be called */
    _Atomic(struct gd__flight *) flight; /* NULL: no begin(), or setup is not over */

    /* The first position that is being processed, or whose load the main thread waits for. If there is an interrupt(),
     * it changes under current_lock, so that no task is interrupted in place of another. */
    _Atomic uint64_t current;
    pthread_mutex_t current_lock;
    uint64_t interrupted;   /* position + 1 for which interrupt() was called */
    void (*end_task)(void); /* NULL: the worker cannot end a task by force */
    _Atomic uint64_t ended; /* position + 1 for which end_task() was called */
};

static inline void gd__before_wait(void)
{
    if (gd__wait_hooks.before)
        gd__wait_hooks.before();
}

static inline void gd__after_wait(void)
{
    if (gd__wait_hooks.after)
        gd__wait_hooks.after();
}

/* Called after user code has returned. If user code forked, the new process must not continue as the worker, because it
 * shares the worker's memory. */
_Noreturn void gd__host_leave_fork(void);
static inline void gd__host_check_fork(const struct gd_worker *w)
{
    if (__builtin_expect(*w->is_us == 0, 0))
        gd__host_leave_fork();
}

/* A handler for pthread_cleanup_push() in threads that call user code. If user code ends the thread, the worker would
 * wait for it for ever. */
_Noreturn void gd__host_thread_left(void *unused);

static inline struct gd__flight *gd__flight_of(const struct gd_worker *w)
{
    return atomic_load_explicit(&w->flight, memory_order_acquire);
}

/* host.c */
int gd__host_wait(struct gd_worker *w);           /* gd__port_wait(), with the hooks */
_Noreturn void gd__host_run(struct gd_worker *w); /* port, ops and lifeline are set */
void gd__entry_unload(struct gd_worker *w, struct gd__entry *e);
void gd__host_flush(struct gd_worker *w); /* wakes the dispatcher for the committed results */
/* Claims up to n more tasks, if there are any, and opens their entries. Returns false if there were none. */
bool gd__host_claim(struct gd_worker *w, uint64_t n);
/* Marks the positions from first to below `below` as started. Call it once for each position. */
void gd__host_begin(struct gd_worker *w, uint64_t first, uint64_t below, uint64_t now_ns);
unsigned gd__host_concurrency(const struct gd_worker *w); /* how many tasks may be in flight, for a worker with begin */
_Noreturn void gd__host_leave_device(struct gd_worker *w); /* the device is lost: ends the process */
/* Commits the settled results below `below`, in order. Does not return if one of them reports that the device is
 * lost. */
void gd__host_commit(struct gd_worker *w, uint64_t below);

static inline struct gd__entry *gd__entry_at(const struct gd_worker *w, uint64_t position)
{
    return &w->entries[position & w->entry_mask];
}

/* The entry of w->entries to which the result belongs, or NULL. */
struct gd__entry *gd__entry_of(const struct gd_result *r);

/* Fills e with the task at that position, which must be claimed. The payload may be in the ring. */
void gd__entry_open(struct gd_worker *w, struct gd__entry *e, uint64_t position);

/* Whether the task is suspected of crashing. Then no other task may be in progress at the same time. */
static inline bool gd__is_solo(const struct gd_worker *w, uint64_t position)
{
    return gd__port_task(&w->port, position)->flags & GD__TASK_SOLO;
}

/* loader.c */
/* How many tasks may be loaded and not done, including those that are being processed or are in flight. load_ahead: the
 * user's number; 0: not set. */
static inline uint64_t gd__load_bound(uint64_t load_ahead, uint64_t io_threads, uint64_t batch_size)
{
    return load_ahead > 0 ? load_ahead : 2 * (io_threads > batch_size ? io_threads : batch_size);
}
/* The same for this worker. If it has begin(), there is always room for as many tasks as can be in flight, and unless
 * load_ahead is set, others are loaded meanwhile. */
uint64_t gd__loader_bound(const struct gd_worker *w);
int gd__loader_start(struct gd_worker *w); /* with begin(): after gd__flight_open() */
/* Passes claimed tasks to the I/O threads, up to the first one that must not be loaded while the task at head is in
 * progress. Returns the first position that was not passed. */
uint64_t gd__loader_hand(struct gd_worker *w);
/* Passes the task of the next position to the I/O threads. Used instead of gd__loader_hand() with begin(). */
void gd__loader_give(struct gd_worker *w, struct gd__entry *e);
void gd__loader_await(struct gd_worker *w, uint64_t position); /* waits for the end of its load */
/* Reports that the load that the main thread waits for, or will wait for next, was cancelled. Call it from any thread,
 * while there is a current task. */
void gd__loader_cancel(struct gd_worker *w);
/* Ends the I/O threads. Waits for running loads, and unloads the loaded tasks. */
void gd__loader_stop(struct gd_worker *w);

/* flight/claim.c */
uint64_t
gd__flight_claims(const struct gd_worker *w); /* the most tasks that are claimed and not begun; a power of two */
uint64_t gd__flight_begun(const struct gd_worker *w);                 /* positions below this have begun */
void gd__flight_loaded(struct gd_worker *w, struct gd__entry *entry); /* load() has ended; called on the I/O thread */

/* flight/room.c: like take_room() and drop_room() in result.c */
uint64_t gd__flight_take_room(struct gd_result *r, uint64_t size);
void gd__flight_drop_room(struct gd_result *r);

/* flight/cancel.c: calls cancel() for every task in flight that was cancelled since the last call */
void gd__flight_cancel_all(struct gd_worker *w);

/* result.c */
void gd__result_init(struct gd_result *r, struct gd_worker *w); /* once per object */
void gd__result_reset(struct gd_result *r);                     /* makes it an empty success again */
/* Settles a result by the code that the user's function, named `who`, returned. If a failure has no error message, it
 * gets one, if possible the error message of this thread. After the last use call gd__message_forget(), so that a later
 * failure does not get the same message. */
void gd__result_settle(struct gd_result *r, int code, const char *who);
void gd__message_forget(void);
int gd__result_fail(struct gd_result *r, enum gd__record_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Writes and commits a record with the bytes of r (NULL: none) and the position, times and other data of e (NULL:
 * none). */
void gd__record_put(struct gd_worker *w, enum gd__record_kind kind, const struct gd__entry *e, struct gd_result *r);
/* Likewise, in flight mode, for the task at that place. */
void gd__record_put_at(struct gd_worker *w, enum gd__record_kind kind, const struct gd__entry *e, struct gd_result *r,
                       unsigned place);
/* Moves the bytes of r to where the record will refer to them, so that writing the record allocates nothing. */
void gd__result_place(struct gd_result *r);
void gd__thread_is_loading(uint64_t position);           /* this I/O thread loads position (or GD__NO_POSITION) */
bool gd__thread_is_io(void);                             /* whether this is an I/O thread */
size_t gd__message_fit(const char *text, size_t length); /* the length without an incomplete character at the end */

#endif
