/* SPDX-License-Identifier: MIT
 *
 * The functions that run inside a worker process.
 *
 * A worker is a separate process that uses one device, or one group of devices. You fill a table of functions. The
 * library calls setup() once, then process() for each task, then cleanup():
 *
 *     static int setup(struct gd_worker *w, const struct gd_setup *s)
 *     {
 *         return load_model(s->args) ? 0 : gd_worker_error(w, "no model at %s", (const char *)s->args);
 *     }
 *     static int process(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
 *     {
 *         float *out = gd_result_alloc(r, 4096);      // shared with the dispatcher: no copy
 *         return out ? infer(t->data, t->size, out) : GD_E_NO_MEMORY;
 *     }
 *     static const struct gd_worker_ops ops = {
 *         .size = sizeof ops, .setup = setup, .process = process };
 *
 *     int main(int argc, char **argv)
 *     {
 *         if (gd_worker_main(&argc, argv, &ops) < 0)  // at the start of main(); does not return in a worker
 *             return 1;
 *         return dispatch();                          // see dispatcher.h
 *     }
 *
 * A worker can also be a plugin: a .so file that exports gd_plugin_worker() (below). Set gd_options.plugin to its path.
 *
 * A worker that has many tasks in flight at once (an engine that forms its own batches, an asynchronous client) has the
 * function begin() instead of process(). begin() starts a task and returns. gd_result_finish() finishes the task later,
 * on any thread. Tasks may be finished in any order:
 *
 *     static int begin(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
 *     {
 *         return engine_add(gd_worker_user(w), t->data, t->size, r) ? 0 : gd_result_error(r, "the engine is full");
 *     }
 *     static void on_engine_done(void *request, const char *text, size_t size)  // on a thread of the engine
 *     {
 *         struct gd_result *r = request;
 *         if (gd_result_cancel_requested(r))
 *             gd_result_cancelled(r);
 *         else if (gd_result_set(r, text, size) < 0)
 *             gd_result_error(r, "%s", gd_error_text());
 *         gd_result_finish(r);                        // do not use r or its task after this
 *     }
 *     static int setup_engine(struct gd_worker *w, const struct gd_setup *s)
 *     {
 *         gd_worker_set_user(w, engine_start(s->args, on_engine_done));
 *         return gd_worker_set_concurrency(w, 64) < 0 ? GD_E_FAILED : 0;
 *     }
 *     static const struct gd_worker_ops engine_ops = {
 *         .size = sizeof engine_ops, .setup = setup_engine, .begin = begin };
 *
 * Threads: setup(), process(), process_batch(), begin() and cleanup() run on the worker's main thread. load() runs on
 * I/O threads. interrupt() and cancel() run on a thread of the library. A function that takes a struct gd_result must
 * be called on the thread that was given this result. A worker with begin() may pass the result to any other thread,
 * but only one thread at a time may use the result. gd_task_cancelled(), gd_result_cancel_requested() and the functions
 * that read from a struct gd_worker may be called on any thread.
 *
 * If one of your functions crashes, exits or hangs, only the attempts that run in this process are lost.
 */
#ifndef GPU_DISPATCH_WORKER_H
#define GPU_DISPATCH_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/error.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#if defined(__GNUC__)
#define GD_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define GD_PRINTF(fmt, args)
#endif

struct gd_worker; /* this worker process */
struct gd_result; /* the result of one task, filled by the worker */

struct gd_setup {
    size_t size;      /* sizeof(struct gd_setup) in the library */
    int worker_id;    /* index of the worker: 0, 1, ... */
    int gpu_id;       /* the dispatcher's number of the (first) device; in this process the device is number 0 */
    uint64_t seed;    /* base_seed + gpu_id */
    const void *args; /* gd_options.setup_args, the same for every worker; valid until the process ends */
    size_t args_size;
    unsigned restarts;   /* number of earlier processes of this worker */
    unsigned batch_size; /* the most tasks that process_batch() gets at once */
    /* Numbers of all devices of this worker in the dispatcher; the first is gpu_id. Inside this process, these devices
     * have the numbers 0 to n_gpus - 1, in this order. */
    const int *gpu_ids;
    size_t n_gpus;
    unsigned concurrency; /* the most tasks that may be in flight at once; 0: no limit is set */
};

struct gd_task {
    uint64_t id;      /* number of the task, from 0, in source order */
    const void *data; /* the payload, in read-only shared memory; aligned to 16 bytes if it is longer than 24 bytes.
                         Valid until process() returns, or with begin() until gd_result_finish(). */
    size_t size;
    unsigned attempt; /* 1 for the first attempt */
    void *loaded;     /* set by load() */
};

/* The functions of a worker. process(), process_batch() or begin() must be set. The others may be NULL. A function that
 * returns int returns 0 on success. Any other value is a failure. Set the error message of a failure with
 * gd_worker_error() in setup() and cleanup(), and with gd_result_...() in the other functions. */
struct gd_worker_ops {
    size_t size; /* sizeof(struct gd_worker_ops) */

    /* Called once when the process starts, for example to load a model. If setup() fails, this worker gets no tasks. */
    int (*setup)(struct gd_worker *w, const struct gd_setup *s);

    /* Processes one task. */
    int (*process)(struct gd_worker *w, const struct gd_task *task, struct gd_result *result);

    /* Processes n tasks at once; n <= gd_setup.batch_size. Called instead of process() if gd_options.batch_size > 1 or
     * process is NULL. results[i] belongs to tasks[i]. A task whose result is not set succeeds with an empty result. If
     * the return value is not 0, all tasks of the batch fail. A result that already has an error keeps that error.
     * After GD_E_NO_MEMORY (or gd_result_out_of_memory() on any result) the batch is split in halves and tried again.
     */
    int (*process_batch)(struct gd_worker *w, const struct gd_task *const *tasks, struct gd_result *const *results,
                         size_t n);

    /* Reads and decodes the input of a task before process() or begin() is called, and sets task->loaded to the decoded
     * input. Called on an I/O thread (gd_options.io_threads). If load() fails, the task fails, and process() or begin()
     * is not called. */
    int (*load)(struct gd_worker *w, struct gd_task *task, struct gd_result *result);

    /* Frees task->loaded. Called once on the worker's main thread for each task whose load() succeeded: after process()
     * or gd_result_finish(), or without them if the task is not processed. */
    void (*unload)(struct gd_worker *w, struct gd_task *task);

    /* Called once before the process exits normally. */
    int (*cleanup)(struct gd_worker *w);

    /* Called once, on another thread, when the running task has reached its time limit. gd_task_cancelled() returns
     * true from then on. Set interrupt() if the task cannot call gd_task_cancelled() regularly, but can be stopped from
     * another thread. */
    void (*interrupt)(struct gd_worker *w);

    /* Starts one task and returns without waiting for its end. If begin() returns 0, gd_result_finish() must be called
     * once for the result, later or within begin(). If begin() returns a failure code, the task has failed, and
     * gd_result_finish() must not be called. Tasks begin in the order in which the worker got them. If begin() is set,
     * process(), process_batch() and interrupt() are not called. begin() cannot be combined with gd_options.batch_size
     * > 1. If the worker also has load(), tasks are loaded while others are in flight, and begin in the same order. */
    int (*begin)(struct gd_worker *w, const struct gd_task *task, struct gd_result *result);

    /* Called once when a task in flight has reached its time limit, but not before begin() has returned for this task.
     * gd_result_cancel_requested() returns true from then on. Stop the task and finish it with gd_result_cancelled().
     * The task stays valid until cancel() returns, even if another thread finishes the task meanwhile. */
    void (*cancel)(struct gd_worker *w, const struct gd_task *task);
};

/* Call this function at the start of main(). In the dispatching program, it stores argv and ops and returns 0. Both
 * must stay valid until the program ends. In a process that was started as a worker, it runs the worker and does not
 * return. */
int gd_worker_main(const int *argc, char **argv, const struct gd_worker_ops *ops);

/* A plugin exports this function, which returns a table. The table must stay valid until the process ends. */
#define GD_PLUGIN_SYMBOL "gd_plugin_worker"
const struct gd_worker_ops *gd_plugin_worker(void);

/* --- the worker ------------------------------------------------------- */

int gd_worker_id(const struct gd_worker *w);
int gd_worker_gpu_id(const struct gd_worker *w);

/* Returns the numbers of all devices of this worker, like gd_setup.gpu_ids, and sets *n to how many there are. The
 * array is valid until the process ends. */
const int *gd_worker_gpu_ids(const struct gd_worker *w, size_t *n);

/* Store and return a pointer for your own use. The library does not use this pointer. */
void gd_worker_set_user(struct gd_worker *w, void *user);
void *gd_worker_user(const struct gd_worker *w);

/* Sets the error message of a failed setup() or cleanup(). Returns GD_E_FAILED, which setup() or cleanup() should
 * return. */
int gd_worker_error(struct gd_worker *w, const char *format, ...) GD_PRINTF(2, 3);

/* Sets how many tasks this worker can have in flight at once. Call this function in the setup() of a worker with
 * begin(). The limit is gd_setup.concurrency, or 256 if that is 0. Returns the number that will be used: the smaller of
 * n and the limit. Returns a negative code if n is 0, the worker has no begin(), or setup() is over. A worker that does
 * not call this function can have gd_setup.concurrency tasks in flight, or 1 if that is 0. */
int gd_worker_set_concurrency(struct gd_worker *w, unsigned n);

/* Returns true after the current task (or batch) has reached its time limit. Then stop and return
 * gd_result_cancelled(). A worker that does not return within the grace period is killed. A shutdown does not cancel
 * the current task. In a worker with begin(), which has no current task, this function returns false: use
 * gd_result_cancel_requested(). */
bool gd_task_cancelled(const struct gd_worker *w);

/* Returns the part of the payload memory that a worker should pin: payloads are placed there first. *base is aligned to
 * a page and mapped read-only (so cudaHostRegister needs cudaHostRegisterReadOnly). Valid until the process ends. */
void gd_worker_arena(const struct gd_worker *w, const void **base, size_t *size);

/* --- the result of one task ------------------------------------------- */

/* Allocates size bytes for the result in the memory that the dispatcher reads, so that the result need not be copied.
 * The memory is aligned to 16 bytes. Replaces an earlier result. Returns NULL on failure (GD_E_NO_MEMORY or
 * GD_E_TOO_LARGE). */
void *gd_result_alloc(struct gd_result *r, size_t size);

/* Makes an allocated result shorter. */
int gd_result_truncate(struct gd_result *r, size_t size);

/* Sets the result to a copy of data. Replaces an earlier result. */
int gd_result_set(struct gd_result *r, const void *data, size_t size);

/* Failures. Each sets the error message and returns a negative code, which process() (or load()) should return. */
int gd_result_error(struct gd_result *r, const char *format, ...) GD_PRINTF(2, 3); /* is retried if retries are left */
int gd_result_error_final(struct gd_result *r, const char *format, ...) GD_PRINTF(2, 3); /* is not retried */
int gd_result_out_of_memory(struct gd_result *r, const char *format, ...) GD_PRINTF(2, 3);
int gd_result_device_lost(struct gd_result *r, const char *format, ...) GD_PRINTF(2, 3); /* the process is replaced */
/* Reports a failure with data. Allocates memory for the data, like gd_result_alloc(). on_error gets the data together
 * with the message. process() should then return GD_E_FAILED. */
void *gd_result_alloc_failed(struct gd_result *r, size_t size, const char *format, ...) GD_PRINTF(3, 4);
/* Reports that the task stopped because of gd_task_cancelled() or gd_result_cancel_requested(). */
int gd_result_cancelled(struct gd_result *r);

/* Finishes a task that begin() has started. The result is the one that was set last. If no result was set, the task
 * succeeds with an empty result. Any thread may call this function, also within begin(). After this call, the result,
 * the task and its payload must not be used. A second call for the same task, or a call for a result that does not
 * belong to a task in flight, ends the process with an error message. Returns 0, or GD_E_INVALID if r is NULL. */
int gd_result_finish(struct gd_result *r);

/* Returns true after the task of this result has reached its time limit. Then finish the task with
 * gd_result_cancelled(). A worker that does not finish the task within the grace period is killed. This function may be
 * used in process() too. */
bool gd_result_cancel_requested(const struct gd_result *r);

/* Sends data as a part of the task's result while the task is running. The data is copied. May be called any number of
 * times before the task is finished. Waits until the dispatcher has room for the data. Does not change the result. Not
 * available in load() and process_batch(). */
int gd_result_partial(struct gd_result *r, const void *data, size_t size);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
