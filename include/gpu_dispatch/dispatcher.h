/* SPDX-License-Identifier: MIT
 *
 * The dispatching side: a source of tasks, a pool of worker processes, and
 * callbacks.
 *
 *     struct gd_options o = GD_OPTIONS_INIT;
 *     const int gpus[] = { 0, 1, 2, 3 };
 *     o.gpu_ids = gpus;
 *     o.n_gpus = 4;
 *     o.source = next_path;           // fills an item and returns 1; 0 at the end
 *     o.on_success = print_result;
 *     o.on_error = print_error;
 *     o.user = &my_state;             // given to all of them
 *     if (gd_run(&o) < 0)
 *         fprintf(stderr, "%s\n", gd_error_text());
 *
 * Each task that the source gives gets exactly one of on_success, on_error and
 * on_timeout, whatever happens to the workers.
 *
 * Threads: gd_run() and gd_dispatcher_run() block; every on_... callback runs
 * on the thread that called them. The source runs on a thread of the library's,
 * one call at a time, with all signals blocked (what it starts inherits that). gd_dispatcher_shutdown(), _abort(),
 * _suspend(), _resume(), _stats(), _worker_stats(), _set_total() and _set_work() may be called from any thread and from
 * callbacks. Several dispatchers may run at once in one process, each on its own thread.
 */
#ifndef GPU_DISPATCH_DISPATCHER_H
#define GPU_DISPATCH_DISPATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/error.h>
#include <gpu_dispatch/worker.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

struct gd_dispatcher;
struct gd_journal;

/* --- the source --------------------------------------------------------- */

/* One task's payload, filled by the source. Made by the library; read its fields only where they say so. */
struct gd_item {
    const void *data;  /* payload: copied when the source returns. Leave it alone after gd_item_alloc(). */
    size_t size;       /* 0 is fine */
    uint64_t weight;   /* how much work it is, for placement by size; 0 means size */
    void *reserved[4]; /* the library's */
};

/* Gives the next task: fills *item and returns 1. Returns 0 at the end of the stream, or gd_item_error(). */
typedef int gd_source_fn(void *user, struct gd_item *item);

/* Room for a payload in the shared arena, to be written in place: no copy. Waits until the byte limit allows it.
 * NULL if there is no memory or the run is being shut down: then return what gd_item_error() gives, or 0. */
void *gd_item_alloc(struct gd_item *item, size_t size);

/* Sets the message of the source's failure. Returns GD_E_SOURCE: return that. The run ends with it, after the tasks
 * that the source gave before have been processed. */
int gd_item_error(struct gd_item *item, const char *format, ...) GD_PRINTF(2, 3);

/* --- what callbacks get ------------------------------------------- */

/* Why a task failed. */
enum gd_failure {
    GD_FAILURE_NONE = 0,
    GD_FAILURE_ERROR = 1,         /* process said so */
    GD_FAILURE_TIMEOUT = 2,       /* past task_timeout_ms */
    GD_FAILURE_CRASH = 3,         /* its worker died of it, crash_limit times */
    GD_FAILURE_OUT_OF_MEMORY = 4, /* process said so, of this task alone */
    GD_FAILURE_DEVICE_LOST = 5,   /* process said so */
    GD_FAILURE_CANCELLED = 6,     /* the run was shut down before it was done; or it failed after that */
    GD_FAILURE_NO_WORKER = 7,     /* no worker was left to run it */
};

/* "error", "timeout", ... Static. */
const char *gd_failure_name(enum gd_failure failure);

/* A task's end. Everything it points to is borrowed until the callback returns. Fields are only added at the end. */
struct gd_report {
    uint64_t task_id;
    int worker_id; /* index of the worker; -1: no worker had it */
    int gpu_id;
    unsigned attempt;  /* how many times it was started */
    uint64_t start_ns; /* CLOCK_MONOTONIC, of the last attempt; 0: never started */
    uint64_t end_ns;
    const void *input; /* the payload it had */
    size_t input_size;
    const void *data; /* the result; of a failure, what gd_result_alloc_failed() left, usually nothing. Trust it no
                         more than the worker */
    size_t size;
    enum gd_failure failure; /* GD_FAILURE_NONE: it succeeded */
    const char *error;       /* the error message of a failure */
    int signal;              /* of a crash: the signal that killed the worker, or 0 */
    int exit_code;           /* of a crash: the code it exited with */
    uint64_t first_start_ns; /* as start_ns, of the first attempt; 0: not told */
};

/* A task that is not run, since the journal has its result. Borrowed until the callback returns; fields are only added
 * at the end. */
struct gd_skipped {
    uint64_t task_id;
    const void *input; /* the payload that the source gave */
    size_t input_size;
    uint64_t weight; /* as the source gave it; the size of the payload if it gave none */
};

/* --- placement --------------------------------------------------------- */

enum gd_placement {
    GD_PLACE_DYNAMIC = 0, /* a free worker gets the next task */
    /* Task i goes to worker i / ceil(total_tasks / workers); needs total_tasks <= queue_size. With a journal i counts
     * the tasks that are run, and what was skipped by then is no part of the total: if all that is skipped comes before
     * the first that is run, chunks are of one size; tasks that are skipped further on make those before them larger,
     * since they were dealt out when nobody knew, and the later ones smaller. */
    GD_PLACE_CHUNKS = 1,
    GD_PLACE_BY_SIZE = 2, /* largest first among the waiting, dealt to the workers in turn */
    GD_PLACE_CUSTOM = 3,  /* gd_options.place decides */
};

/* Returns the worker (0 .. n_workers - 1) that gets a task, or -1 for whichever is free.
 * A task whose worker is lost goes to whichever is free. */
typedef int gd_place_fn(void *user, uint64_t task_id, uint64_t weight, unsigned n_workers);

/* --- options ----------------------------------------------------------- */

enum gd_worker_output {
    GD_OUTPUT_INHERIT = 0, /* workers write to our stdout and stderr */
    GD_OUTPUT_DISCARD = 1, /* nowhere (the end of stderr is still kept for crash reports) */
    GD_OUTPUT_CAPTURE = 2, /* to on_output */
};

/* What becomes of processes that a worker has started and that outlive it, such as a command in a session of its own
 * (setsid, timeout). */
enum gd_orphans {
    /* They run on, beside the next attempt of their task. */
    GD_ORPHANS_LEAVE = 0,
    /* This process adopts orphans while it runs (PR_SET_CHILD_SUBREAPER). What a worker that died had running is killed
     * before its tasks are started again. What a command that succeeded has left running stays. Children of your own
     * are never touched: workers' processes are known by the variable GPU_DISPATCH_PROCESS of their environment. One
     * that has cleared its environment is not found. */
    GD_ORPHANS_END = 1,
    /* The same, and every child that ends is waited for during the run. For a program that has no children but its
     * workers, or is the first process of a container. SIGCHLD must be blocked in all of its threads. */
    GD_ORPHANS_REAP = 2,
};

/* Begin with GD_OPTIONS_INIT, which holds the defaults. All is copied or used by gd_dispatcher_open(); strings and
 * arrays may go afterwards, except what user points to. */
struct gd_options {
    size_t size; /* sizeof(struct gd_options) */

    /* devices and workers */
    const char *gpus;   /* "auto", "0,2", "GPU-8d2f", "sim:4", "cpu:8": as gd_devices_open() takes it; or */
    const int *gpu_ids; /* numbers: of devices that are there, or any for workers that need none */
    size_t n_gpus;
    unsigned workers_per_gpu; /* 1; 0: as many as there is free device memory for, at model_bytes each */
    uint64_t model_bytes;
    bool any_cpu;             /* workers run on any CPU; else on those near their device, where that is known */
    const char *plugin;       /* a worker plugin; NULL: this program's own worker (gd_worker_main) */
    char *const *worker_argv; /* or: a program of yours that calls gd_worker_main; NULL-terminated */
    const char *const *env;   /* extra NAME=value for the workers; NULL-terminated, or NULL */
    const void *setup_args;   /* given to every worker's setup */
    size_t setup_args_size;
    uint64_t base_seed; /* 42; a worker's seed is base_seed + gpu id */
    enum gd_worker_output output;
    unsigned setup_jobs;       /* how many workers set up at once; 0: all */
    unsigned setup_timeout_ms; /* 0: none */
    unsigned setup_attempts;   /* 3: how often a worker that crashes in setup is started */
    unsigned death_limit;      /* 10: deaths in a row without a task done, after which a worker is given up */
    unsigned restart_delay_ms; /* 10: before the second restart in a row; doubles, up to a second */

    /* tasks */
    size_t queue_size;        /* 1024: how many tasks the source may be ahead */
    size_t queue_bytes;       /* 1 GiB: and how many payload bytes; one larger payload passes alone */
    size_t arena_bytes;       /* 64 MiB: the part of the arena that workers may pin */
    uint64_t total_tasks;     /* a hint for progress; 0: unknown */
    unsigned task_timeout_ms; /* 0: none */
    unsigned cancel_grace_ms; /* 1000: from asking a task to stop to killing its worker */
    unsigned retries;         /* 0: for ordinary errors (and, with retry_timeouts, for time limits that were passed) */
    unsigned retry_delay_ms;  /* 100: doubles with each retry, up to a minute */
    unsigned crash_limit;     /* 3: how often a task is started that kills its worker */
    unsigned start_gap_ms;    /* 0: least time from handing out one task to the next; not 0: one at a time per worker */
    unsigned window;          /* 0: chosen by task length; how many tasks a worker is handed at once */
    bool ordered;             /* deliver in source order */
    bool retry_timeouts; /* a task that passed its time limit is run again as one that failed is; else it is final */
    enum gd_placement placement;
    gd_place_fn *place;

    /* batches and loading */
    unsigned batch_size;    /* 1 */
    unsigned batch_wait_us; /* 0: how long tasks are held back for a fuller batch */
    unsigned io_threads;    /* 1: for load() */
    unsigned load_ahead;    /* 0: twice io_threads or batch_size; how many tasks may be loaded and not done, the running
                               one included */

    /* the end */
    int spin_us;            /* -1: spin before sleeping, for about as long as a wake-up costs, if there are processors
                               enough; 0: never; otherwise for so long */
    unsigned stop_grace_ms; /* 10000: how long running tasks may take after a shutdown */
    unsigned cleanup_grace_ms; /* 10000: how long a worker may take to clean up and exit */
    bool handle_signals;       /* false; true: SIGINT and SIGTERM shut the run down, a second one ends it at once */

    /* the callbacks; on_success is required */
    void *user;
    gd_source_fn *source;
    /* From the run's thread: make a blocked source return. One that has not returned stop_grace_ms after a shutdown
     * (a moment after an abort) is left to itself: the run returns, user must stay valid until the source does, and
     * what it gives then is dropped. */
    void (*source_cancel)(void *user);
    void (*on_success)(void *user, const struct gd_report *report);
    void (*on_error)(void *user, const struct gd_report *report);
    void (*on_timeout)(void *user, const struct gd_report *report); /* NULL: on_error gets timeouts too */
    void (*on_task_start)(void *user, uint64_t task_id, int worker_id, unsigned attempt, uint64_t start_ns);
    void (*on_setup_fail)(void *user, int worker_id, int gpu_id, const char *error);
    void (*on_cleanup_fail)(void *user, int worker_id, int gpu_id, const char *error);
    /* A worker process ended before it should have; it is replaced unless given_up. */
    void (*on_worker_exit)(void *user, int worker_id, int gpu_id, const char *why, bool given_up);
    /* A device is taken out of use: lost twice in a row, an error that the driver reported, or no worker of it left. */
    void (*on_device_out)(void *user, int gpu_id, const char *why);
    void (*on_output)(void *user, int worker_id, int fd, const char *text, size_t length);
    void (*on_exit)(void *user); /* always, exactly once, last */

    /* keeping and showing */
    struct gd_journal *journal; /* gd_journal_open(): what is final there is skipped, what ends is recorded */
    const char *job;            /* publish the run under this name for observers (observe.h); NULL: don't */

    enum gd_orphans orphans; /* GD_ORPHANS_LEAVE */

    /* 60000: if the machine can start no process (EAGAIN, ENOMEM) tasks wait, uncharged. If nothing could run for this
     * long, the run ends with an error. */
    unsigned shortage_wait_ms;

    /* A task was skipped (see journal). Called on the source's thread, between two calls of the source. */
    void (*on_skip)(void *user, const struct gd_skipped *skipped);
};

#define GD_OPTIONS_INIT                                                                                     \
    {                                                                                                       \
        .size = sizeof(struct gd_options), .workers_per_gpu = 1, .base_seed = 42, .setup_attempts = 3,      \
        .death_limit = 10, .restart_delay_ms = 10, .queue_size = 1024, .queue_bytes = (size_t)1 << 30,      \
        .arena_bytes = (size_t)64 << 20, .cancel_grace_ms = 1000, .retry_delay_ms = 100, .crash_limit = 3,  \
        .batch_size = 1, .io_threads = 1, .spin_us = -1, .stop_grace_ms = 10000, .cleanup_grace_ms = 10000, \
        .shortage_wait_ms = 60000                                                                           \
    }

/* The same for languages without designated initialisers. */
void gd_options_init(struct gd_options *o, size_t size);

/* --- running ------------------------------------------------------------ */

/* Opens a dispatcher, runs it, closes it. */
int gd_run(const struct gd_options *o);

/* Checks and copies the options. No process is started yet. Release with gd_dispatcher_close(). */
int gd_dispatcher_open(struct gd_dispatcher **out, const struct gd_options *o);

/* Runs until the source is at its end and every task is final; once per dispatcher.
 * 0 when it came to its natural end (tasks may have failed: that is data, see stats), else
 * GD_E_SETUP       all workers failed during setup; every task not done was reported through on_error
 * GD_E_NO_WORKERS  all workers were given up; likewise
 * GD_E_SOURCE      the source failed; what it gave before was processed
 * GD_E_SHUTDOWN    gd_dispatcher_shutdown() or _abort() ended it; what was not done was reported as cancelled
 * GD_E_INTERRUPTED SIGINT or SIGTERM did; likewise
 * GD_E_JOURNAL     the journal could not be written (a full disk): the run was shut down; what it does not hold will be
 *                  run again
 * GD_E_SYSTEM, GD_E_NO_MEMORY  the run could not be set up, or broke; likewise */
int gd_dispatcher_run(struct gd_dispatcher *d);

/* Ends a run: no more is taken from the source, running tasks may finish (stop_grace_ms), waiting ones are
 * reported as cancelled, workers clean up. What fails after this is cancelled too, since a signal may have reached its
 * worker: a stop uses up no tries. Returns at once. */
void gd_dispatcher_shutdown(struct gd_dispatcher *d);

/* The same without waiting for anything: workers are killed. */
void gd_dispatcher_abort(struct gd_dispatcher *d);

/* Stops every worker with all that it has started, as SIGSTOP does, and has them go on. For a program that is itself
 * about to be stopped by Ctrl-Z (SIGTSTP): workers are in process groups of their own, which a terminal does not stop.
 * No time limit, grace or delay runs meanwhile. A shutdown waits for gd_dispatcher_resume(), an abort does not; if this
 * process is killed, stopped workers end too. */
void gd_dispatcher_suspend(struct gd_dispatcher *d);
void gd_dispatcher_resume(struct gd_dispatcher *d);

/* Frees *d and sets it to NULL. Not while it runs. NULL is fine. */
void gd_dispatcher_close(struct gd_dispatcher **d);

/* --- statistics --------------------------------------------------------- */

struct gd_stats {
    size_t size;        /* set to sizeof(struct gd_stats) before the call */
    uint64_t total;     /* gd_options.total_tasks: the whole list, with what is skipped; final are skipped + completed
                           + failed + timeouts of it */
    uint64_t taken;     /* from the source so far */
    uint64_t pending;   /* taken, waiting */
    uint64_t running;   /* being processed: at most one (or one batch) per worker */
    uint64_t completed; /* on_success */
    uint64_t failed;    /* on_error */
    uint64_t timeouts;  /* on_timeout */
    uint64_t retried;   /* attempts beyond a task's first */
    uint64_t setup_failures; /* workers that failed setup */
    uint64_t restarts;       /* processes started beyond each worker's first */
    uint64_t crashes;        /* processes that ended before they should have */
    uint64_t start_ns;       /* of the run, CLOCK_MONOTONIC; 0: not begun */
    uint64_t now_ns;         /* of this snapshot */
    uint64_t source_done;    /* 1: nothing more will be taken */
    uint64_t n_workers;
    uint64_t skipped;   /* given by the source, and final in the journal already: not counted as taken */
    uint64_t cancelled; /* of the failed: never done, since the run was ended before (GD_FAILURE_CANCELLED) */
};

enum gd_worker_state {
    GD_WORKER_OFF = 0,      /* not started yet */
    GD_WORKER_STARTING = 1, /* process started, in setup */
    GD_WORKER_IDLE = 2,
    GD_WORKER_BUSY = 3,
    GD_WORKER_CANCELLING = 4, /* its task was asked to stop */
    GD_WORKER_KILLING = 5,
    GD_WORKER_RESTING = 6, /* died, will be started again */
    GD_WORKER_STOPPING = 7,
    GD_WORKER_FINISHED = 8,
    GD_WORKER_FAILED = 9, /* setup failed, or given up */
    GD_WORKER_LOST = 10,  /* killed but will not die: set aside */
};

/* "idle", "busy", ... Static. */
const char *gd_worker_state_name(enum gd_worker_state state);

struct gd_worker_stats {
    uint64_t worker_id;
    int64_t gpu_id;
    uint64_t state;        /* enum gd_worker_state */
    uint64_t pid;          /* 0: no process */
    uint64_t current_task; /* UINT64_MAX: none */
    uint64_t handed;       /* tasks it has been handed and not finished */
    uint64_t completed;
    uint64_t failed; /* attempts, as are timeouts: a task that is retried counts each time */
    uint64_t timeouts;
    uint64_t restarts;
    uint64_t last_ns; /* duration of its last task */
    uint64_t busy_ns; /* sum of its tasks' durations */
};

/* A consistent snapshot, at most a few milliseconds old. */
int gd_dispatcher_stats(struct gd_dispatcher *d, struct gd_stats *out);

/* The first max workers; returns how many there are in all. element_size is sizeof(struct gd_worker_stats). */
int gd_dispatcher_worker_stats(struct gd_dispatcher *d, struct gd_worker_stats *out, size_t element_size, size_t max);

/* gd_options.total_tasks, where that is learned after the dispatcher was opened. Any thread. Before the run it is as if
 * the options had said so: chunks (GD_PLACE_CHUNKS) are of this total then. */
void gd_dispatcher_set_total(struct gd_dispatcher *d, uint64_t total_tasks);

/* Where tasks differ much in size: how much of the whole is done, in whatever unit the caller counts (seconds of audio,
 * bytes). Every view takes how far the run is, and how long it will last, from this instead of from the number of
 * tasks. What is skipped belongs to neither. total 0: not known, tasks are counted. Any thread, callbacks too. */
void gd_dispatcher_set_work(struct gd_dispatcher *d, double done, double total);

/* What gd_dispatcher_set_work() was last given; both 0: nothing. Any thread. NULL: not wanted. */
void gd_dispatcher_work(struct gd_dispatcher *d, double *done, double *total);

/* "0.1.0" */
const char *gd_version(void);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
