/* A Run: one gd_dispatcher, with Python behind its source and its callbacks. What run.c and its neighbours share.
 *
 *   run.c      the type, run() and how it ends, shutdown, statistics
 *   options.c  a dict as struct gd_options
 *   source.c   the iterator behind the library's source, on the feeder's thread
 *   call.c     the callbacks, on the run's thread; Python's lock there; signals
 *   journal.c  what is kept on disk of it; key.c: what identifies a task there
 */
#ifndef GD_PYTHON_RUN_H
#define GD_PYTHON_RUN_H

#include <signal.h>
#include <stdatomic.h>

#include "python/native/native.h"

enum call {
    ON_SUCCESS,
    ON_ERROR,
    ON_TIMEOUT,
    ON_SETUP_FAIL,
    ON_CLEANUP_FAIL,
    ON_TASK_START,
    ON_WORKER_EXIT,
    ON_DEVICE_OUT,
    ON_EXIT,
    N_CALLS,
};

struct run {
    PyObject_HEAD
    struct gd_dispatcher *d; /* as long as the Run */
    int *worker_ids;         /* what Python is told for each worker; NULL: the worker's index */
    PyObject *timeout;       /* of a task, in seconds, as it was given */
    bool used;

    /* The run's thread. */
    PyObject *calls[N_CALLS]; /* NULL: none */
    PyThreadState *state;
    bool has_lock;
    PyObject *error;           /* the first that a callback or a signal handler raised */
    uint64_t start_ns, end_ns; /* of the task whose end was told last */
    uint64_t unread;           /* results that could not be read: successes for the library, not for us */
    int wakeup_read, wakeup_write, wakeup_next; /* the pipe of signals, and who had them before; -1: none */

    /* Between the two: the run's thread waits for the lock, so the feeder is not to take it; a futex. */
    _Atomic uint32_t wanted;
    _Atomic uint32_t feeder_waits;

    /* The feeder's thread. It has a reference to the Run while source_held. */
    bool source_begun;
    bool source_held; /* changed under the lock, or before that thread is there */
    bool source_ready;
    sigset_t signals; /* that the caller of run() had blocked */
    PyObject *iterator;
    PyThreadState *source_state;
    PyGILState_STATE source_gil;
    unsigned long source_thread;
    PyObject *source_error; /* that the iterator raised */

    /* The journal, if there is one. */
    struct gd_journal *journal;
    bool kept;           /* there is, or was: for a feeder that is left to itself */
    PyObject *key;       /* the user's; NULL: an item's value is its key */
    PyObject *texts;     /* by task number, what records are to show; of tasks that are not done */
    PyObject *versioned; /* the type of a key with a version */
    PyObject *describe;  /* an item as text */
    PyObject *words;     /* of the last task that was refused */
};

/* With one worker per GPU a worker is known by its GPU's id in Python, otherwise by its index. worker: the library's
 * worker_id; -1 (none) stays -1. */
static inline int run_worker_id(const struct run *r, int worker)
{
    return r->worker_ids && worker >= 0 ? r->worker_ids[worker] : worker;
}

/* options.c: r->d is open then, and r->worker_ids and r->timeout set. */
int options_open(struct run *r, PyObject *options);

/* journal.c. Of the run's thread but for _key and _remember, which are the feeder's. */
PyObject *journal_error(int code); /* as native_error(), with JournalError for what is a journal's */
int journal_open(struct run *r, PyObject *options);
int journal_close(struct run *r);  /* all is on disk then; an exception that is set stays */
void journal_clear(struct run *r); /* what is left; no feeder is there */
int journal_key(struct run *r, struct gd_item *item, PyObject *object); /* 1: set; 0: its payload is its key */
int journal_remember(struct run *r, uint64_t number, PyObject *object);
void journal_note(struct run *r, const struct gd_report *report);                    /* takes the lock */
void journal_failed(struct run *r, const struct gd_report *report, PyObject *words); /* not done, whatever it says */
void journal_drop(const struct gd_report *report);                                   /* not final */

/* key.c: bytes. Of what a key function returned; of an item, or NULL without an exception: the payload is its key. */
PyObject *key_encode(PyObject *key);
PyObject *key_of_item(PyObject *object);

/* source.c */
int source_next(void *user, struct gd_item *item);
void source_hold(void *user);
void source_release(void *user);
void source_leave(struct run *r); /* after the run: a source that is still blocked is asked, in Python's way, to end */

/* call.c */
extern const char *const call_names[N_CALLS];
void call_options(struct gd_options *o); /* all callbacks of the library */
void call_after_round(void *user);
void call_take_lock(struct run *r);
int call_watch_signals(struct run *r); /* on Python's main thread; elsewhere nothing */
void call_unwatch_signals(struct run *r);
void call_readable(void *user);

#endif
