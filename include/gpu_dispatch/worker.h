/* SPDX-License-Identifier: MIT
 *
 * What runs inside a worker process.
 *
 * A worker is a process of its own that owns one device. You fill a table of
 * functions; the library calls setup once, then process for each task, then
 * cleanup:
 *
 *     static int setup(struct gd_worker *w, const struct gd_setup *s)
 *     {
 *         return load_model(s->args) ? 0 : gd_worker_error(w, "no model at %s", (const char *)s->args);
 *     }
 *     static int process(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
 *     {
 *         float *out = gd_result_alloc(r, 4096);      // written where the dispatcher reads it: no copy
 *         return out ? infer(t->data, t->size, out) : GD_E_NO_MEMORY;
 *     }
 *     static const struct gd_worker_ops ops = {
 *         .size = sizeof ops, .setup = setup, .process = process };
 *
 *     int main(int argc, char **argv)
 *     {
 *         if (gd_worker_main(&argc, argv, &ops) < 0)  // first thing in main; in a worker it does not return
 *             return 1;
 *         return dispatch();                          // the dispatching side: see dispatcher.h
 *     }
 *
 * Or, as a plugin: a .so that exports gd_plugin_worker() (below), named in
 * gd_options.plugin.
 *
 * Threads: setup, process, process_batch and cleanup run on the worker's main
 * thread. load runs on I/O threads, interrupt on a thread of the library's.
 * Functions taking a struct gd_result may be called by the thread that was
 * given it. gd_task_cancelled() and gd_worker_...() getters: any thread.
 *
 * A function may crash, exit or hang: that costs the attempt it was making and
 * nothing else.
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
struct gd_result; /* where one task's result goes */

struct gd_setup {
    size_t size;      /* of this struct, as the library knows it */
    int worker_id;    /* index of the worker: 0, 1, ... */
    int gpu_id;       /* as given to the dispatcher; inside this process the device is number 0 */
    uint64_t seed;    /* base_seed + gpu_id */
    const void *args; /* gd_options.setup_args, the same bytes for every worker; valid until the process ends */
    size_t args_size;
    unsigned restarts;   /* how many processes this worker has had before this one */
    unsigned batch_size; /* the most tasks process_batch will be given */
};

struct gd_task {
    uint64_t id;      /* number of the task, from 0, in source order */
    const void *data; /* the payload, read-only shared memory, 16-byte aligned if over 24 bytes; valid until the task's
                         process returns */
    size_t size;
    unsigned attempt; /* 1 for the first try */
    void *loaded;     /* what load() left here */
};

/* Every function but process (or process_batch) may be NULL. Those that return
 * int return 0 on success; anything else is a failure, whose message is
 * set with gd_worker_error() (setup, cleanup) or gd_result_...() (the others). */
struct gd_worker_ops {
    size_t size; /* sizeof(struct gd_worker_ops) */

    /* Once, when the process starts: load the model. A failure takes this worker out of the pool. */
    int (*setup)(struct gd_worker *w, const struct gd_setup *s);

    /* One task. */
    int (*process)(struct gd_worker *w, const struct gd_task *task, struct gd_result *result);

    /* n tasks at once, n <= gd_setup.batch_size; used instead of process when gd_options.batch_size > 1.
     * results[i] belongs to tasks[i]; one that is left untouched is an empty success.
     * A non-zero return fails those tasks of the batch that have no failure of their own; GD_E_NO_MEMORY (or
     * gd_result_out_of_memory() on any) has the batch split and tried again in halves. */
    int (*process_batch)(struct gd_worker *w, const struct gd_task *const *tasks, struct gd_result *const *results,
                         size_t n);

    /* Runs ahead of process on an I/O thread (gd_options.io_threads): read and decode, leave it in task->loaded.
     * A failure is the task's failure and process is not called. */
    int (*load)(struct gd_worker *w, struct gd_task *task, struct gd_result *result);

    /* Frees task->loaded. Called once for each task whose load succeeded, after process or instead of it. */
    void (*unload)(struct gd_worker *w, struct gd_task *task);

    /* Once, before the process ends in good order. */
    int (*cleanup)(struct gd_worker *w);

    /* The running task has passed its time limit: called once, on another thread, beside gd_task_cancelled()
     * turning true, for code that can be stopped but can't poll. */
    void (*interrupt)(struct gd_worker *w);
};

/* Call first thing in main. In the dispatching program it remembers argv and ops (both borrowed for good) and
 * returns 0; in a process started as a worker it does the work and does not return. */
int gd_worker_main(const int *argc, char **argv, const struct gd_worker_ops *ops);

/* A plugin exports this function; it returns a table that stays valid. */
#define GD_PLUGIN_SYMBOL "gd_plugin_worker"
const struct gd_worker_ops *gd_plugin_worker(void);

/* --- the worker ------------------------------------------------------- */

int gd_worker_id(const struct gd_worker *w);
int gd_worker_gpu_id(const struct gd_worker *w);

/* A pointer of yours, kept for you. */
void gd_worker_set_user(struct gd_worker *w, void *user);
void *gd_worker_user(const struct gd_worker *w);

/* Sets the message of a setup or cleanup failure. Returns GD_E_FAILED: return that. */
int gd_worker_error(struct gd_worker *w, const char *format, ...) GD_PRINTF(2, 3);

/* True once the task (or batch) being processed has passed its time limit: stop and return gd_result_cancelled(). What
 * does not return within the grace period is killed. (A shutdown lets running tasks finish: it does not ask.) */
bool gd_task_cancelled(const struct gd_worker *w);

/* The part of the payload arena that is worth pinning: payloads lie in it first. *base is page aligned and mapped
 * read-only (cudaHostRegister wants cudaHostRegisterReadOnly). Valid until the process ends. */
void gd_worker_arena(const struct gd_worker *w, const void **base, size_t *size);

/* --- the result of one task ------------------------------------------- */

/* Room for a result of size bytes in the memory that the dispatcher reads: no copy. Replaces what was there.
 * NULL (GD_E_NO_MEMORY or GD_E_TOO_LARGE) if it can't be had. 16-byte aligned. */
void *gd_result_alloc(struct gd_result *r, size_t size);

/* Makes an allocated result shorter. */
int gd_result_truncate(struct gd_result *r, size_t size);

/* The same by copy. */
int gd_result_set(struct gd_result *r, const void *data, size_t size);

/* Failures. Each returns a negative code, to be returned from process. */
int gd_result_error(struct gd_result *r, const char *format, ...) GD_PRINTF(2, 3); /* retried if retries are left */
int gd_result_error_final(struct gd_result *r, const char *format, ...) GD_PRINTF(2, 3); /* do not retry */
int gd_result_out_of_memory(struct gd_result *r, const char *format, ...) GD_PRINTF(2, 3);
int gd_result_device_lost(struct gd_result *r, const char *format, ...) GD_PRINTF(2, 3); /* this process is replaced */
/* A failure with data: like gd_result_alloc(), but what is written there reaches on_error, beside the message. Return
 * GD_E_FAILED from process then. */
void *gd_result_alloc_failed(struct gd_result *r, size_t size, const char *format, ...) GD_PRINTF(3, 4);
int gd_result_cancelled(struct gd_result *r); /* I saw gd_task_cancelled() and stopped */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
