/* A Run: one gd_dispatcher whose source and callbacks are Python objects. Shared by run.c and its neighbours:
 *
 *   run.c      the type, run() and how it ends, shutdown, statistics
 *   options.c  a dict as struct gd_options
 *   source.c   the iterator behind the library's source, on the feeder's thread
 *   call.c     the callbacks and Python's lock (the GIL) on the run's thread; signals
 *   control.c  pause, drain and other requests to the running job
 *   journal.c  its journal; key.c: what identifies a task in it
 */
#ifndef GD_PYTHON_RUN_RUN_H
#define GD_PYTHON_RUN_RUN_H

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
    ON_DEVICE_IDLE,
    ON_CONTROL,
    ON_PARTIAL,
    ON_EXIT,
    N_CALLS,
};

struct run {
    PyObject_HEAD
    struct gd_dispatcher *d; /* lives as long as the Run */
    int *worker_ids;         /* the worker_id that Python gets for each worker; NULL: the worker's index */
    PyObject *timeout;       /* time limit of a task in seconds, as the user gave it */
    unsigned timeout_ms;     /* the same for the library; 0: none */
    PyObject *note;          /* on_device_note; borrowed, and only set while the dispatcher is opened */
    bool used;

    /* The run's thread. */
    PyObject *calls[N_CALLS]; /* NULL: none */
    PyThreadState *state;
    bool has_lock;
    PyObject *error;           /* the first exception of a callback or a signal handler */
    uint64_t start_ns, end_ns; /* times of the task whose end was reported last */
    uint64_t unread;           /* results that could not be read; the library counts them as successes, we do not */
    int wakeup_read, wakeup_write, wakeup_next; /* the pipe for signals, and the previous descriptor; -1: none */

    /* For both threads. Set while the run's thread waits for the lock; the feeder must not take it then. A futex. */
    _Atomic uint32_t wanted;
    _Atomic uint32_t feeder_waits;

    /* The feeder's thread. It owns a reference to the Run while source_held is true. */
    bool source_begun;
    bool source_held; /* changed while holding the lock, or before that thread exists */
    bool source_ready;
    sigset_t signals; /* the signals that the caller of run() had blocked */
    PyObject *iterator;
    PyObject *task; /* the class gpu_dispatch.Task */
    PyThreadState *source_state;
    PyGILState_STATE source_gil;
    unsigned long source_thread;
    PyObject *source_error; /* the exception of the iterator */

    /* The journal, if there is one. A run with a shard uses the keys too. */
    struct gd_journal *journal;
    bool kept;           /* the run has or had a journal; for a feeder that outlives the run */
    bool is_queue;       /* the tasks come from a queue, and the iterator has none */
    bool is_dealt;       /* the run has a shard that is not the whole list */
    PyObject *key;       /* the user's key function; NULL: the value of an item is its key */
    PyObject *texts;     /* the texts for records of unfinished tasks, by task number */
    PyObject *versioned; /* the type of a key with a version */
    PyObject *describe;  /* an item as text */
    PyObject *message;   /* error message of the last task whose result could not be read */
};

/* The worker_id for Python: with one worker per GPU it is the GPU's id, otherwise the worker's index. worker is the
 * library's worker_id; -1 (none) stays -1. */
static inline int run_worker_id(const struct run *r, int worker)
{
    return r->worker_ids && worker >= 0 ? r->worker_ids[worker] : worker;
}

/* run.c: an error of a run as an exception: QueueError, JournalError, or as native_error(). Returns NULL. */
PyObject *run_error(const struct run *r, int code);

/* options.c: opens r->d, and sets r->worker_ids and r->timeout. */
int options_open(struct run *r, PyObject *options);

/* journal.c. For the run's thread, except _key and _remember, which are for the feeder. */
PyObject *journal_error(int code); /* like native_error(), but a JournalError for errors of the journal */
/* o: the shard, and what a wait for the journal calls, are those of the run. */
int journal_open(struct run *r, PyObject *options, const struct gd_options *o);
int journal_use_keys(struct run *r); /* call it if there is a journal or a shard */
int journal_close(struct run *r);    /* writes everything to disk; an exception that is set stays */
void journal_clear(struct run *r);   /* frees the rest; there is no feeder any more */
int journal_key(struct run *r, struct gd_item *item,
                PyObject *object); /* 1: the key is set; 0: the payload is the key */
int journal_remember(struct run *r, uint64_t number, PyObject *object);
void journal_note(struct run *r, const struct gd_report *report); /* takes the lock */
void journal_failed(struct run *r, const struct gd_report *report,
                    PyObject *message);            /* records the task as failed, whatever the report says */
void journal_drop(const struct gd_report *report); /* the task is not finished: no record */

/* key.c: keys as bytes, for the result of a key function and for an item. NULL without an exception for an item: its
 * payload is its key. */
PyObject *key_encode(PyObject *key);
PyObject *key_of_item(PyObject *object);
bool key_is_scalar(PyObject *object); /* its payload does not depend on the process that makes it */

/* source.c */
int source_next(void *user, struct gd_item *item);
void source_hold(void *user);
void source_release(void *user);
void source_leave(struct run *r); /* after the run: raises an exception in a source that is still blocked */

/* control.c: methods of the type. */
PyObject *control_pause(PyObject *self, PyObject *nothing);
PyObject *control_unpause(PyObject *self, PyObject *nothing);
PyObject *control_drain(PyObject *self, PyObject *nothing);
PyObject *control_cancel_task(PyObject *self, PyObject *task_id);
PyObject *control_set_timeout(PyObject *self, PyObject *ms);
PyObject *control_add_workers(PyObject *self, PyObject *args);
PyObject *control_remove_workers(PyObject *self, PyObject *args);

/* call.c */
extern const char *const call_names[N_CALLS];
void call_options(struct gd_options *o); /* sets all callbacks of the library */
void call_after_round(void *user);
void call_take_lock(struct run *r);
int call_watch_signals(struct run *r); /* on Python's main thread only; does nothing elsewhere */
void call_unwatch_signals(struct run *r);
void call_readable(void *user);

#endif
