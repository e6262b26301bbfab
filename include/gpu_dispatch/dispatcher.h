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
 *     o.user = &my_state;             // passed to all callbacks
 *     if (gd_run(&o) < 0)
 *         fprintf(stderr, "%s\n", gd_error_text());
 *
 * For each task from the source, exactly one of on_success, on_error and on_timeout is called, whatever happens to the
 * workers. If the journal already has the task's result, on_skip is called instead.
 *
 * Threads: gd_run() and gd_dispatcher_run() block. Every on_... callback except on_skip runs on the thread that called
 * one of these two functions. The source and on_skip run on a thread of the library, one call at a time. All signals
 * are blocked on that thread, and also in processes that the source starts. gd_dispatcher_shutdown(), _abort(),
 * _suspend(), _resume(), _stats(), _worker_stats(), _set_total() and _set_work() may be called from any thread and from
 * callbacks. The same is true for the functions that control a running job, from gd_dispatcher_pause() to
 * gd_dispatcher_remove_workers(). Several dispatchers may run at once in one process, each on its own thread.
 *
 * Several runs with the same workers: see gd_dispatcher_run_source().
 */
#ifndef GPU_DISPATCH_DISPATCHER_H
#define GPU_DISPATCH_DISPATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/error.h>
#include <gpu_dispatch/shard.h>
#include <gpu_dispatch/worker.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

struct gd_dispatcher;
struct gd_journal;
struct gd_queue_options;

/* --- the source --------------------------------------------------------- */

#define GD_PRIORITY_MIN (-4)
#define GD_PRIORITY_MAX 3

/* A task from the source. The library makes the struct and the source fills it. */
struct gd_item {
    const void *data;  /* the payload; copied when the source returns. Do not set it after gd_item_alloc(). */
    size_t size;       /* may be 0 */
    uint64_t weight;   /* the amount of work, for GD_PLACE_BY_SIZE; 0: the same as size */
    void *reserved[4]; /* used by the library */
    int priority;      /* GD_PRIORITY_MIN to GD_PRIORITY_MAX; waiting tasks of a higher priority start first */
    /* The task's own time limit; 0: gd_options.task_timeout_ms. A batch gets the shortest limit of its tasks. */
    unsigned timeout_ms;
};

/* Fills *item with the next task and returns 1. Returns 0 at the end of the stream. On failure returns the value of
 * gd_item_error(). */
typedef int gd_source_fn(void *user, struct gd_item *item);

/* Allocates memory for a payload in shared memory. The source writes the payload there, so the library need not copy
 * it. Waits until queue_bytes allows the allocation. Returns NULL if memory ran out or the run is being shut down. In
 * both cases the source should end: it returns the value of gd_item_error(), or 0. */
void *gd_item_alloc(struct gd_item *item, size_t size);

/* Sets the error message of a failed source. Returns GD_E_SOURCE, which the source must return. The earlier tasks are
 * still processed. Then the run ends with GD_E_SOURCE. */
int gd_item_error(struct gd_item *item, const char *format, ...) GD_PRINTF(2, 3);

/* --- arguments of callbacks --------------------------------------- */

/* Why a task failed. */
enum gd_failure {
    GD_FAILURE_NONE = 0,
    GD_FAILURE_ERROR = 1,         /* the worker reported an error, for example with gd_result_error() */
    GD_FAILURE_TIMEOUT = 2,       /* the task ran longer than its time limit */
    GD_FAILURE_CRASH = 3,         /* the task killed its worker crash_limit times */
    GD_FAILURE_OUT_OF_MEMORY = 4, /* the worker ran out of memory with this task alone, not in a batch */
    GD_FAILURE_DEVICE_LOST = 5,   /* the worker reported that its device is lost: gd_result_device_lost() */
    /* The task had not ended when the run was shut down, or failed after the shutdown. Then the error message is "not
     * done: " and the reason: the run was shut down, aborted, drained, interrupted by a signal, and so on. Or
     * gd_dispatcher_cancel_task() cancelled the task. Then the error message is "cancelled on request". */
    GD_FAILURE_CANCELLED = 6,
    GD_FAILURE_NO_WORKER = 7, /* no worker was left to run the task */
};

/* Returns the name of a failure: "error", "timeout", ... The string is static. */
const char *gd_failure_name(enum gd_failure failure);

/* How a task ended. The report and everything it points to are borrowed until the callback returns. New fields are only
 * added at the end. */
struct gd_report {
    uint64_t task_id;
    int worker_id; /* index of the worker; -1: the task was never given to a worker */
    int gpu_id;
    unsigned attempt;  /* how many times the task was started */
    uint64_t start_ns; /* start of the last attempt, CLOCK_MONOTONIC; 0: never started */
    uint64_t end_ns;   /* CLOCK_MONOTONIC */
    const void *input; /* the payload */
    size_t input_size;
    const void *data; /* the result. After a failure: the data of gd_result_alloc_failed(), usually empty.
                         Validate it if you do not trust the worker. */
    size_t size;
    enum gd_failure failure; /* GD_FAILURE_NONE: the task succeeded */
    const char *error;       /* the error message, if the task failed */
    int signal;              /* after a crash: the signal that killed the worker, or 0 */
    int exit_code;           /* after a crash: the exit code of the worker */
    uint64_t first_start_ns; /* start of the first attempt, like start_ns; 0: never started, or not known */
    unsigned timeout_ms;     /* the time limit of the task: its own, or that of the run; 0: none */
};

/* A task that is not run because the journal has its result. Borrowed until the callback returns. New fields are only
 * added at the end. */
struct gd_skipped {
    uint64_t task_id;
    const void *input; /* the payload from the source */
    size_t input_size;
    uint64_t weight; /* the weight from the source; the size of the payload if the source set none */
};

/* --- placement --------------------------------------------------------- */

enum gd_placement {
    GD_PLACE_DYNAMIC = 0, /* the next task goes to a free worker */
    /* Task i goes to worker i / ceil(total_tasks / workers). Needs total_tasks <= queue_size. With a journal, i counts
     * only the tasks that are run, and total_tasks becomes one smaller each time a task is skipped. Tasks that already
     * have a worker keep it. So if the skipped tasks come late in the source, the first chunks are larger than the
     * later ones. With a shard, i counts only the tasks of the shard. How many these are is estimated from the part of
     * the source that was read. */
    GD_PLACE_CHUNKS = 1,
    GD_PLACE_BY_SIZE = 2, /* the waiting tasks, largest first, are assigned to worker 0, 1, 2, ... in turn */
    GD_PLACE_CUSTOM = 3,  /* the callback gd_options.place chooses the worker */
};

/* Returns the worker (0 .. n_workers - 1) that gets a task, or -1 for any free worker. If that worker is lost, the task
 * goes to any free worker. */
typedef int gd_place_fn(void *user, uint64_t task_id, uint64_t weight, unsigned n_workers);

/* --- options ----------------------------------------------------------- */

enum gd_worker_output {
    GD_OUTPUT_INHERIT = 0, /* workers write to this program's stdout and stderr */
    GD_OUTPUT_DISCARD = 1, /* output is dropped (the end of stderr is still kept for crash reports) */
    GD_OUTPUT_CAPTURE = 2, /* output goes to the callback on_output */
};

/* What to do with processes that a worker started and that outlive it, for example a command in its own session
 * (setsid, timeout). */
enum gd_orphans {
    /* Nothing: they may still run when their task is tried again. */
    GD_ORPHANS_LEAVE = 0,
    /* This process adopts orphans during the run (PR_SET_CHILD_SUBREAPER). When a worker dies, the processes it started
     * are killed before its tasks are started again. Processes that a successful command leaves running are not killed.
     * Your own children are never killed: a worker's processes are recognised by the environment variable
     * GPU_DISPATCH_PROCESS. A process that has cleared its environment is not found. */
    GD_ORPHANS_END = 1,
    /* Like GD_ORPHANS_END, and the run also waits for (reaps) every child of this process that ends. Use it in a
     * program whose only children are its workers, or that is the first process of a container. SIGCHLD must be blocked
     * in all threads of the program. */
    GD_ORPHANS_REAP = 2,
};

/* How CUDA_VISIBLE_DEVICES (on AMD: ROCR_VISIBLE_DEVICES) names the devices of a worker. */
enum gd_visible_devices {
    GD_VISIBLE_UUID = 0, /* by UUID, which means the same device in every process */
    /* By index, for programs that cannot read UUIDs. The devices that this process can open are sorted by PCI bus id
     * and numbered from 0. CUDA numbers them in the same way if CUDA_DEVICE_ORDER is PCI_BUS_ID, so the library sets
     * that variable for the workers too. On AMD, the index is ROCm's own number. MIG instances have no index and are
     * refused. */
    GD_VISIBLE_INDEX = 1,
};

/* The options of a run. Begin with GD_OPTIONS_INIT, which sets the defaults. The comments name every
 * default that is not 0, NULL or false. gd_dispatcher_open() copies everything, including strings and arrays; only the
 * objects behind user and journal must stay valid. */
struct gd_options {
    size_t size; /* sizeof(struct gd_options) */

    /* devices and workers */
    /* "auto", "0,2", "0+1,2+3" (groups), "GPU-8d2f", "free:2", "sim:4", "cpu:8": see gd_devices_open(). Or set gpu_ids.
     */
    const char *gpus;
    const int *gpu_ids; /* device numbers; if the workers need no device, any numbers are accepted */
    size_t n_gpus;
    unsigned workers_per_gpu; /* default 1; 0: as many as fit into the free device memory, with model_bytes each; a
                                 device on which not even one fits is left out */
    uint64_t model_bytes;     /* the device memory that a worker needs; used if workers_per_gpu is 0 */
    bool any_cpu;       /* true: workers run on any CPU; false: on the CPUs near their device, if those are known */
    const char *plugin; /* path of a worker plugin; NULL: this program is the worker too (gd_worker_main) */
    char *const *worker_argv; /* another worker program, which calls gd_worker_main, with arguments; NULL-terminated */
    const char *const *env;   /* extra NAME=value strings for the workers; NULL-terminated, or NULL */
    const void *setup_args;   /* passed to setup() in every worker */
    size_t setup_args_size;
    uint64_t base_seed; /* default 42; the seed of a worker is base_seed + gpu_id */
    enum gd_worker_output output;
    unsigned setup_jobs;       /* how many workers run setup() at the same time; 0: all */
    unsigned setup_timeout_ms; /* 0: no limit */
    unsigned setup_attempts;   /* default 3: how many times a worker that crashes in setup() is started */
    /* Default 10. A worker that dies this many times in a row without finishing a task is not restarted. If a task
     * fails because of crash_limit, the deaths that it caused do not count here, because the task was the cause. But if
     * there are other workers and the task killed only this one, these deaths do count, because this worker may be the
     * cause. */
    unsigned death_limit;
    unsigned restart_delay_ms; /* default 10: delay before the second restart in a row; doubles with each restart, up to
                                  1 s */

    /* tasks */
    size_t queue_size;        /* default 1024: how many tasks are read ahead from the source */
    size_t queue_bytes;       /* default 1 GiB: how many bytes of payloads are read ahead; a payload larger than this is
                                 read when no other payload is in memory */
    size_t arena_bytes;       /* default 64 MiB: payload memory that workers may pin: gd_worker_arena() */
    uint64_t total_tasks;     /* how many tasks there are, for progress displays and GD_PLACE_CHUNKS; 0: unknown. With
                                 a shard: how many the whole list has */
    unsigned task_timeout_ms; /* time limit for each attempt; 0: no limit */
    unsigned cancel_grace_ms; /* default 1000: time between cancelling a task and killing its worker */
    unsigned retries; /* how often a task is retried after an error (with retry_timeouts, also a timeout); 2: 3 tries */
    unsigned retry_delay_ms; /* default 100: delay before the first retry; doubles with each retry, up to a minute */
    unsigned crash_limit;    /* default 3: a task that has killed its worker this many times fails */
    unsigned start_gap_ms;   /* minimum time between the starts of two tasks; if set, workers get one task at a time */
    unsigned window;         /* how many tasks a worker is given ahead; 0: chosen from the duration of the tasks */
    bool ordered;            /* report tasks in the order of the source */
    bool retry_timeouts;     /* true: retry a task after a timeout, as after an error; false: a timeout is final */
    enum gd_placement placement;
    gd_place_fn *place; /* for GD_PLACE_CUSTOM */

    /* batches and loading */
    unsigned batch_size;    /* default 1: the most tasks given to process_batch() at once */
    unsigned batch_wait_us; /* how long to wait for more tasks when a batch is not full */
    unsigned io_threads;    /* default 1: how many threads of a worker run load() */
    /* How many tasks may be loaded but not done, including those that are running. 0: twice the larger of io_threads
     * and batch_size. A worker with begin() can always load as many tasks as it can have in flight. For such a worker,
     * 0 means that number plus two for each I/O thread. */
    unsigned load_ahead;

    /* waiting and stopping */
    int spin_us; /* how long to spin before sleeping; 0: never; -1 (default): about as long as a wake-up takes, if there
                    are enough processors */
    unsigned stop_grace_ms;    /* default 10000: how long running tasks may continue after a shutdown */
    unsigned cleanup_grace_ms; /* default 10000: how long a worker may take to clean up and exit */
    /* true: the first SIGINT or SIGTERM shuts the run down, and a SIGINT after it aborts the run. More SIGTERMs change
     * nothing, because Slurm sends three of them when it preempts a job. */
    bool handle_signals;

    /* the callbacks; on_success is required */
    void *user; /* passed to every callback */
    gd_source_fn *source;
    /* Makes a blocked source return. Called on the run's thread. After a shutdown, the run waits at most stop_grace_ms
     * for the source to return. After an abort, it waits only for a moment. Then the run returns even if the source has
     * not returned. In that case the object behind `user` must stay valid until the source returns. A task that the
     * source then returns is dropped. */
    void (*source_cancel)(void *user);
    void (*on_success)(void *user, const struct gd_report *report);
    void (*on_error)(void *user, const struct gd_report *report);
    void (*on_timeout)(void *user, const struct gd_report *report); /* NULL: on_error gets timeouts too */
    void (*on_task_start)(void *user, uint64_t task_id, int worker_id, unsigned attempt, uint64_t start_ns);
    void (*on_setup_fail)(void *user, int worker_id, int gpu_id, const char *error);
    void (*on_cleanup_fail)(void *user, int worker_id, int gpu_id, const char *error);
    /* Called when a worker process has ended unexpectedly. The worker gets a new process unless given_up is true. */
    void (*on_worker_exit)(void *user, int worker_id, int gpu_id, const char *why, bool given_up);
    /* Called when a device is no longer used: the device was lost twice in a row, the driver reported an error, or none
     * of its workers is left. In a group, on_device_out is called for the device that the driver named, and
     * on_device_idle for the others. If it is not known which device failed, on_device_out is called for each device of
     * the group. */
    void (*on_device_out)(void *user, int gpu_id, const char *why);
    /* Called when a worker has written text to fd 1 or 2 (GD_OUTPUT_CAPTURE). text is borrowed and has no NUL at its
     * end. */
    void (*on_output)(void *user, int worker_id, int fd, const char *text, size_t length);
    void (*on_exit)(void *user); /* called exactly once in each run, as its last callback, however the run ends */

    /* journal and observers */
    struct gd_journal *journal; /* from gd_journal_open(): skips tasks that are final in it, records others */
    const char *job;            /* publish the run under this name for observers (observe.h); NULL: do not publish */

    enum gd_orphans orphans; /* default GD_ORPHANS_LEAVE */

    /* Default 60000. If the machine cannot start processes (EAGAIN, ENOMEM), tasks wait, and the wait does not count as
     * an attempt. If no task could run for this long, the run ends with an error. */
    unsigned shortage_wait_ms;

    /* Called when a task was skipped because the journal has its result. Runs on the source's thread, between two calls
     * of the source. */
    void (*on_skip)(void *user, const struct gd_skipped *skipped);

    /* How many devices each worker has. Groups of this size are formed from the chosen devices, the best-connected
     * devices first. Each group has workers_per_gpu workers. If workers_per_gpu is 0, each group
     * has as many workers as fit on its device with the least free memory. gpus_per_worker = 0 (default): one device
     * per worker, or the groups that are written in gpus ("0+1,2+3"). */
    unsigned gpus_per_worker;
    enum gd_visible_devices visible_devices;

    /* Called for a device that was chosen and works, but is not used. Possible reasons: the device is left over when
     * groups are formed, not even one worker of model_bytes fits on it, or another device of its group is out of use.
     * If the reason is known when the run begins, this callback comes before all others. */
    void (*on_device_idle)(void *user, int gpu_id, const char *why);

    /* A run locks its devices, so that other runs on this machine see that these devices are in use. The lock is
     * exclusive for "free", and shared for any other list. If another run has an exclusive lock on a device, "auto"
     * leaves the device out. If the device was named ("0", a UUID, gpu_ids), gd_dispatcher_open() fails with GD_E_BUSY.
     * If this option is true, the run takes no locks and ignores the locks of other runs. The option cannot be combined
     * with "free". */
    bool ignore_gpu_locks;

    /* Called by gd_dispatcher_open(), before the run. message is a line for the user. It says that a device is left
     * out, or which devices the call waits for ("free"). A new message is passed when the call waits for
     * other devices, or for other processes that use them. The callback can also end the wait. For this it is called
     * with message = NULL before each sleep, and each time a signal handler has interrupted the sleep. Return 0 to
     * continue. Any other value ends the call with GD_E_INTERRUPTED. If on_device_note is NULL, the messages are
     * dropped, except in gd_launch_run(), which prints them to standard error. */
    int (*on_device_note)(void *user, const char *message);

    /* When this descriptor (an eventfd or a pipe) becomes readable, gd_dispatcher_open() stops waiting for free devices
     * and returns GD_E_INTERRUPTED. So another thread can end the wait. The descriptor is borrowed and not read. 0: no
     * descriptor. */
    int wait_stop_fd;

    /* How many workers a device may have after gd_dispatcher_add_workers(). Workers that may be added have the highest
     * worker ids. Their state is GD_WORKER_OFF until they are added. 0 (default): as many workers as at the start. */
    unsigned max_workers_per_gpu;
    /* Called when a request to the running job (see gd_dispatcher_pause()) was carried out (code 0) or refused (code
     * negative). `what` is one line for a log, for example "2 workers added to GPU 0". */
    void (*on_control)(void *user, const char *what, int code);

    /* The most tasks that a worker may have in flight: begun and not finished. Only workers with the function begin()
     * (worker.h), and stream programs that announce a concurrency, can have more than one. 0: as many as the worker
     * announces, but at most 256. The maximum is 4096. */
    unsigned concurrency;
    /* Called when a worker has sent a part of a task's result with gd_result_partial(). data is borrowed. The task is
     * still running. It may fail and be started again, so `attempt` tells which attempt sent this part. */
    void (*on_partial)(void *user, uint64_t task_id, int worker_id, unsigned attempt, const void *data, size_t size);

    /* After a process has finished exactly this many tasks, it cleans up, and the worker gets a new process. Use this
     * option for code that leaks. A task that is tried again counts again. 0 (default): never. */
    unsigned max_tasks_per_worker;

    /* Workers, with everything that setup() has loaded, stay when a run has ended, and the next run uses them: see
     * gd_dispatcher_run_source(). If this is true, source may be NULL. */
    bool keep_workers;

    /* Run only the tasks of this shard of the list (shard.h). The other tasks are taken from the source and dropped:
     * there is no callback for them, and they are not counted. The owner of a task is found by its key: that of
     * gd_item_key(), or else the payload. task_id is the position in the whole list, so a task has the same one in all
     * processes whose list has the same order. The shard also holds for gd_dispatcher_run_source(). If the journal was
     * opened with a shard, this must be the same one, or not set: then the journal's is used. count = 0 (default): all
     * tasks. */
    struct gd_shard shard;

    /* Take the tasks from a queue (queue.h), instead of a source: this process is a node of the queue. source must be
     * NULL, and there can be no journal, no shard and no keep_workers. The options are copied. Each task that ends gets a
     * record in the queue, after its callback: success, error, timeout, crash or out_of_memory, with the data of the
     * report as its output. Tasks that are cancelled, or have no worker or device on this node, get no record, and other
     * nodes run them. The run ends when the queue is done, see gd_queue_options.idle_exit_ms. A shutdown gives back what
     * has not begun, and waits until the server has the records of the rest. NULL (default): no queue. */
    const struct gd_queue_options *queue;
    /* A short form for gd_queue_options with only this url; NULL: none. */
    const char *queue_url;
};

#define GD_OPTIONS_INIT                                                                                     \
    {                                                                                                       \
        .size = sizeof(struct gd_options), .workers_per_gpu = 1, .base_seed = 42, .setup_attempts = 3,      \
        .death_limit = 10, .restart_delay_ms = 10, .queue_size = 1024, .queue_bytes = (size_t)1 << 30,      \
        .arena_bytes = (size_t)64 << 20, .cancel_grace_ms = 1000, .retry_delay_ms = 100, .crash_limit = 3,  \
        .batch_size = 1, .io_threads = 1, .spin_us = -1, .stop_grace_ms = 10000, .cleanup_grace_ms = 10000, \
        .shortage_wait_ms = 60000                                                                           \
    }

/* Sets the defaults, like GD_OPTIONS_INIT, for languages without designated initialisers. size is
 * sizeof(struct gd_options). */
void gd_options_init(struct gd_options *o, size_t size);

/* --- running ------------------------------------------------------------ */

/* Opens a dispatcher, runs it and closes it. Returns the value of gd_dispatcher_open() if that failed, else the value
 * of gd_dispatcher_run(). */
int gd_run(const struct gd_options *o);

/* Makes a dispatcher: checks and copies the options, and locks the devices. If gpus is "free" or "free:N", waits until
 * enough devices are free. Starts no process yet. Returns 0 or a negative code. Release with gd_dispatcher_close(). */
int gd_dispatcher_open(struct gd_dispatcher **out, const struct gd_options *o);

/* Runs until the source has ended and every task is final. A dispatcher can be run once, or several times with
 * gd_options.keep_workers. Returns 0 if the run ended normally, even if tasks failed. gd_dispatcher_stats() returns the
 * number of failed tasks. Otherwise returns
 *
 *   GD_E_SETUP        setup() failed in all workers. Every task that was not done was reported through on_error.
 *   GD_E_NO_WORKERS   no worker is left. Every task that was not done was reported through on_error.
 *   GD_E_SOURCE       the source failed. Its earlier tasks were processed.
 *   GD_E_SHUTDOWN     gd_dispatcher_shutdown() or _abort() ended the run. Tasks not done were reported as cancelled.
 *   GD_E_INTERRUPTED  SIGINT or SIGTERM ended the run. Tasks not done were reported as cancelled.
 *   GD_E_JOURNAL      the journal could not be written (for example: disk full), so the run was shut down.
 *                     Tasks without a record in the journal will be run again.
 *   GD_E_SYSTEM, GD_E_NO_MEMORY
 *                     the run could not start, or could not continue. Tasks not done were reported as cancelled. */
int gd_dispatcher_run(struct gd_dispatcher *d);

/* The source of one run. Begin with GD_SOURCE_INIT. The fields are as in struct gd_options. */
struct gd_source {
    size_t size; /* sizeof(struct gd_source) */
    gd_source_fn *source;
    void (*source_cancel)(void *user);
    void *user;                 /* passed to every callback of this run */
    uint64_t total_tasks;       /* how many tasks this source has; 0: unknown */
    struct gd_journal *journal; /* a journal can be used for one run: open it again for each run; NULL: none */
};
#define GD_SOURCE_INIT                          \
    {                                           \
        sizeof(struct gd_source), 0, 0, 0, 0, 0 \
    }

/* Like gd_dispatcher_run(), with another source. The fields of *source, which is copied, replace those of gd_options
 * for this run. With gd_options.keep_workers, a dispatcher can run several sources one after another, from any thread:
 *
 *     o.keep_workers = true;
 *     gd_dispatcher_open(&d, &o);
 *     gd_dispatcher_run_source(d, &first);    // starts the workers
 *     gd_dispatcher_run_source(d, &second);   // begins at once: the workers are ready
 *     gd_dispatcher_close(&d);                // the workers clean up and exit
 *
 * The run returns when the source has ended and every task is final. It does not wait for workers that are still in
 * setup(), so a run with an empty source only starts the workers. Each run has its own task ids (from 0), statistics,
 * total, journal and on_exit. A pause, a changed time limit, and workers that were added or removed stay as they are.
 *
 * Between two runs, no thread of the library waits for the workers, and an idle worker uses no CPU time.
 *   - The end of a worker is noticed when the next run begins: on_worker_exit is called, and the worker gets another
 *     process. This death does not count for crash_limit and death_limit. If a process has done max_tasks_per_worker
 *     tasks, its new process is also started then.
 *   - Output of workers is read when the next run begins. A worker that writes more than a pipe holds (64 KiB), for
 *     example in setup(), waits until then.
 *   - Signals have their usual effect on this process, even with handle_signals. If the process ends, its workers end.
 *   - gd_dispatcher_shutdown(), _abort() and all requests (gd_dispatcher_pause() to _remove_workers()) take effect when
 *     the next run begins. There is no control socket. The job stays listed for observers, and gd_stats.between_runs is
 *     1.
 *   - The locks on the devices are kept until gd_dispatcher_close().
 * If the workers must be watched all the time, use a single run with a source that blocks until there is work. A run
 * whose source blocks uses no CPU time.
 *
 * After GD_E_SOURCE, or if a run could not start, the workers are kept. In a run that was shut down, drained, aborted
 * or interrupted, the workers end, and the next run starts new ones. If no worker is left (GD_E_SETUP,
 * GD_E_NO_WORKERS), every further run returns GD_E_NO_WORKERS. A second run without keep_workers, and a run while
 * another one is running, return GD_E_BUSY. In a fork of this process, a second run returns GD_E_INVALID. A run that is
 * refused calls no callback. */
int gd_dispatcher_run_source(struct gd_dispatcher *d, const struct gd_source *source);

/* Between two runs: ends the workers, as at the end of a run without keep_workers. They have cleanup_grace_ms to clean
 * up. Waits for their end. Callbacks get gd_options.user. The next run starts new workers. Does nothing if there are no
 * workers. Returns 0, or GD_E_BUSY during a run. */
int gd_dispatcher_stop_workers(struct gd_dispatcher *d);

/* Shuts a run down, and returns without waiting for it. No more tasks are taken from the source. Running tasks may
 * finish within stop_grace_ms. Waiting tasks are reported as cancelled. Workers clean up. A task that fails after this
 * call is also reported as cancelled, because the signal that stops this program (Ctrl-C, for example) may also have
 * stopped the task. Cancelled tasks are not recorded in a journal, so a resumed run runs them again. */
void gd_dispatcher_shutdown(struct gd_dispatcher *d);

/* Kills all workers and ends the run. Running tasks do not finish, and workers do not clean up. Returns at once. */
void gd_dispatcher_abort(struct gd_dispatcher *d);

/* gd_dispatcher_suspend() stops every worker and the processes it started, as SIGSTOP does. gd_dispatcher_resume()
 * continues them. A program needs them to handle Ctrl-Z (SIGTSTP): workers are in their own process groups, so the
 * terminal does not stop them. The time until the resume does not count for time limits, grace periods and delays. A
 * shutdown waits for gd_dispatcher_resume(), an abort does not. If this process is killed, stopped workers end too. */
void gd_dispatcher_suspend(struct gd_dispatcher *d);
void gd_dispatcher_resume(struct gd_dispatcher *d);

/* --- control of a running job ------------------------------------------- */

/* These functions change a run without ending it. They return at once, and the run's thread carries out the requests in
 * their order. They return 0, or a negative code if the request makes no sense for this run. on_control gets the
 * outcome of each request, which is known only later: a task to cancel may already have ended, for example. Requests
 * made before the run are carried out when the run begins. Requests made after its end have no effect, or wait for
 * the next run if there is one (keep_workers). Other processes
 * of the same user can make the same requests through the control socket of a job: see docs/control.md. */

/* Starts no more tasks until gd_dispatcher_unpause(). Running tasks go on, with their time limits. Tasks that a worker
 * has begun to load count as running. */
int gd_dispatcher_pause(struct gd_dispatcher *d);
int gd_dispatcher_unpause(struct gd_dispatcher *d);

/* Like gd_dispatcher_shutdown(), but running tasks may take as long as they need: stop_grace_ms does not apply.
 * gd_dispatcher_shutdown() and _abort() may still be called after gd_dispatcher_drain(). */
int gd_dispatcher_drain(struct gd_dispatcher *d);

/* Cancels one task. The task ends as GD_FAILURE_CANCELLED with the message "cancelled on request", and is not retried.
 * If the task is running, it is asked to stop, as after its time limit. If it has not stopped after cancel_grace_ms,
 * its worker is killed. If the task delivers a result within this time, the result is reported. If the task is part of
 * a batch, the whole batch is asked to stop, and the other tasks of the batch are run again. A journal has no record of
 * a cancelled task, so a resumed run runs it again. */
int gd_dispatcher_cancel_task(struct gd_dispatcher *d, uint64_t task_id);

/* Changes gd_options.task_timeout_ms; 0: no limit. The new limit also applies to running tasks, and counts from their
 * start. Tasks with their own limit keep that limit. */
int gd_dispatcher_set_timeout(struct gd_dispatcher *d, unsigned task_timeout_ms);

/* Adds or removes workers of a device, or of the group that the device belongs to. A worker that is removed gets no
 * more tasks, finishes the tasks that it has begun, and cleans up. The last worker of a run can't be removed. Workers
 * can be added up to max_workers_per_gpu, or in place of removed workers. */
int gd_dispatcher_add_workers(struct gd_dispatcher *d, int gpu_id, unsigned n);
int gd_dispatcher_remove_workers(struct gd_dispatcher *d, int gpu_id, unsigned n);

/* --- the end of a dispatcher -------------------------------------------- */

/* Calls gd_dispatcher_stop_workers(), frees *d and sets it to NULL. Must not be called while the dispatcher runs. NULL
 * is allowed. In a fork of a process that has kept its workers, only sets *d to NULL. */
void gd_dispatcher_close(struct gd_dispatcher **d);

/* --- statistics --------------------------------------------------------- */

struct gd_stats {
    size_t size;             /* set to sizeof(struct gd_stats) before the call */
    uint64_t total;          /* gd_options.total_tasks: all tasks, including skipped ones. The number of final tasks
                           is skipped + completed + failed + timeouts. With a shard: the tasks of the shard, which are
                           known when the source has ended; 0 until then. */
    uint64_t taken;          /* tasks taken from the source so far */
    uint64_t pending;        /* tasks taken that wait for a worker */
    uint64_t running;        /* tasks being processed; a worker has one task, one batch, or several tasks in flight */
    uint64_t completed;      /* tasks reported to on_success */
    uint64_t failed;         /* tasks reported to on_error */
    uint64_t timeouts;       /* tasks reported to on_timeout */
    uint64_t retried;        /* second and later attempts of tasks */
    uint64_t setup_failures; /* workers whose setup() failed */
    uint64_t restarts;       /* second and later processes of workers */
    uint64_t crashes;        /* processes that ended unexpectedly */
    uint64_t start_ns;       /* start of the run, CLOCK_MONOTONIC; 0: not started */
    uint64_t now_ns;         /* time of this snapshot, CLOCK_MONOTONIC */
    uint64_t source_done;    /* 1: no more tasks will be taken */
    uint64_t n_workers;
    uint64_t skipped;   /* tasks that were already final in the journal; not counted in taken */
    uint64_t cancelled; /* how many of `failed` were cancelled, mostly because the run ended (GD_FAILURE_CANCELLED) */
    uint64_t paused;    /* 1: gd_dispatcher_pause() was called, and nothing new starts */
    uint64_t draining;  /* 1: gd_dispatcher_drain() was called, and the run ends after its running tasks */
    uint64_t task_timeout_ms; /* the time limit of a task now; 0: none */
    /* 1: the last run has ended, and another one may follow (gd_options.keep_workers). Everything in this struct is about
     * the last run, except setup_failures, which counts all workers that are out of use because setup() failed. */
    uint64_t between_runs;
};

enum gd_worker_state {
    GD_WORKER_OFF = 0,      /* not started yet, or removed */
    GD_WORKER_STARTING = 1, /* process started, in setup() */
    GD_WORKER_IDLE = 2,
    GD_WORKER_BUSY = 3,
    GD_WORKER_CANCELLING = 4, /* its task was cancelled and has not stopped yet */
    GD_WORKER_KILLING = 5,    /* SIGKILL was sent, the process has not ended yet */
    GD_WORKER_RESTING = 6,    /* died, waits to be started again */
    GD_WORKER_STOPPING = 7,   /* no more tasks: in cleanup() */
    GD_WORKER_FINISHED = 8,
    GD_WORKER_FAILED = 9, /* setup() failed, or the worker died too often */
    GD_WORKER_LOST = 10,  /* was killed but does not end; no longer used */
};

/* Returns the name of a state: "idle", "busy", ... The string is static. */
const char *gd_worker_state_name(enum gd_worker_state state);

struct gd_worker_stats {
    uint64_t worker_id;
    int64_t gpu_id;
    uint64_t state;        /* enum gd_worker_state */
    uint64_t pid;          /* 0: no process */
    uint64_t current_task; /* UINT64_MAX: none */
    uint64_t handed;       /* tasks given to the worker and not finished */
    uint64_t completed;
    uint64_t failed;   /* attempts that failed: a retried task counts each time */
    uint64_t timeouts; /* attempts that timed out */
    uint64_t restarts;
    uint64_t last_ns; /* duration of the worker's last task */
    /* Sum of the durations of all its tasks. In a worker that can have several tasks in flight: the time in which at
     * least one was in flight. */
    uint64_t busy_ns;
    /* Tasks begun and not finished, in a worker that can have several. current_task is the oldest of them. */
    uint64_t in_flight;
};

/* Fills *out with a consistent snapshot, at most a few milliseconds old. */
int gd_dispatcher_stats(struct gd_dispatcher *d, struct gd_stats *out);

/* Copies the figures of the first max workers to out. Returns the number of all workers. element_size is sizeof(struct
 * gd_worker_stats). */
int gd_dispatcher_worker_stats(struct gd_dispatcher *d, struct gd_worker_stats *out, size_t element_size, size_t max);

/* Copies the numbers of the first max devices of a worker to out. Returns how many devices the worker has. The first
 * number is its gpu_id. May be called from any thread. */
int gd_dispatcher_worker_gpus(const struct gd_dispatcher *d, unsigned worker_id, int *out, size_t max);

/* Sets total_tasks after the dispatcher was opened. May be called from any thread. A call before gd_dispatcher_run()
 * has the same effect as gd_options.total_tasks, so GD_PLACE_CHUNKS uses the new total. */
void gd_dispatcher_set_total(struct gd_dispatcher *d, uint64_t total_tasks);

/* Sets how much work is done and how much work there is in all. Call this function if tasks differ much in size. You
 * choose the unit, for example seconds of audio or bytes. Observers compute the progress and the remaining time from
 * these figures instead of the number of tasks. Do not count skipped tasks in either figure. If total is 0 (unknown),
 * observers count tasks. May be called from any thread and from callbacks. */
void gd_dispatcher_set_work(struct gd_dispatcher *d, double done, double total);

/* Reads the last values of gd_dispatcher_set_work(). Both are 0 if that function was not called. done or total may be
 * NULL. May be called from any thread. */
void gd_dispatcher_work(struct gd_dispatcher *d, double *done, double *total);

/* Returns the version of the library: "0.1.0". */
const char *gd_version(void);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
