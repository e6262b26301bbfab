/* SPDX-License-Identifier: MIT
 *
 * Observing runs, from the same or from another process.
 *
 * A run that was given a name (gd_options.job) publishes a page of shared memory: its figures, the state of each
 * worker, the tasks that ended last, the last failures and the last requests to the job. Observers only read the page
 * and take no lock, so they do not slow the run down. The terminal panel, the web page, the metrics and `gpu-dispatch
 * top` are observers.
 *
 *     struct gd_observer *o;
 *     if (gd_observer_open(&o, NULL) < 0)          // a process id or a name; NULL: the only job
 *         return fprintf(stderr, "%s\n", gd_error_text()), 1;
 *     const struct gd_snapshot *s;
 *     while (gd_observer_read(o, &s) == 0 && !s->ended) {
 *         printf("%llu done\n", (unsigned long long)s->stats->completed);
 *         sleep(1);
 *     }
 *     gd_observer_close(&o);
 *
 * Pages are files in a private directory of the user: $GPU_DISPATCH_JOBS if it is set, else
 * $XDG_RUNTIME_DIR/gpu-dispatch, else /dev/shm/gpu-dispatch-UID. A page is removed when its run ends. The page of a
 * killed run is removed by the next observer. If the file cannot be created, the run continues, and only
 * gd_observer_attach() can observe it.
 *
 * Threads: an observer may be used by one thread at a time. Several threads may use different observers at once.
 */
#ifndef GPU_DISPATCH_OBSERVE_H
#define GPU_DISPATCH_OBSERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/dispatcher.h>
#include <gpu_dispatch/error.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* --- running jobs --------------------------------------------------- */

struct gd_job {
    size_t size; /* how much of this struct is filled */
    char id[32]; /* "4711", or "4711.2" for the second run of a process; pass it to gd_observer_open() */
    uint64_t pid;
    char name[256]; /* gd_options.job, perhaps shortened */
    double started; /* Unix time */
};

/* Copies the first max running jobs of the user to out, oldest first. Returns how many there are in all. element_size
 * is sizeof(struct gd_job). */
int gd_jobs_list(struct gd_job *out, size_t element_size, size_t max);

/* --- snapshots of a job ------------------------------------------------------------ */

/* Why a worker has nothing to do. */
enum gd_idle_reason {
    GD_IDLE_NOT = 0,        /* it is not idle */
    GD_IDLE_NO_INPUT = 1,   /* the source has nothing more right now */
    GD_IDLE_SETTING_UP = 2, /* it is in setup, or waits for its turn to set up */
    GD_IDLE_LOADING = 3,    /* load() of its next task has not finished */
    GD_IDLE_RESULTS = 4,    /* its results wait: for a slow callback or, if ordered, for an earlier task */
    GD_IDLE_BATCH = 5,      /* tasks are held back for a fuller batch, or because of gd_options.start_gap_ms */
    GD_IDLE_RESTARTING = 6, /* its process died; another will be started */
    GD_IDLE_AT_END = 7,     /* no task is left for it */
    GD_IDLE_PAUSED = 8,     /* tasks wait, but the run is paused */
    GD_IDLE_REMOVED = 9,    /* it was removed, or not added yet */
};
/* Returns the name of a reason: "no input", "loading", ... The string is static. */
const char *gd_idle_reason_name(enum gd_idle_reason idle);

/* The library makes the structs of a snapshot, and you get pointers to them. New fields are only added at the end. */

struct gd_worker_view {
    /* as in struct gd_worker_stats */
    uint64_t worker_id;
    int64_t gpu_id;
    uint64_t state; /* enum gd_worker_state */
    uint64_t pid;
    uint64_t current_task;
    uint64_t handed;
    uint64_t completed, failed, timeouts;
    uint64_t restarts;
    uint64_t last_ns, busy_ns;

    uint64_t idle;       /* enum gd_idle_reason */
    uint64_t since_ns;   /* CLOCK_MONOTONIC: when its task was started, or when it became idle */
    uint64_t device_out; /* 1: its device is out of use */
    /* The task's input, safe to print on a terminal and shortened to fit. A text keeps its beginning. A path keeps its
     * end, after "…", because files of one directory differ at the end. */
    char task[96];
    uint64_t in_flight; /* as in struct gd_worker_stats */
};

struct gd_device_view {
    int64_t gpu_id;
    int64_t vendor; /* enum gd_vendor */
    char name[96];
    char uuid[96];
    /* read from the driver by the observer, about once a second */
    uint64_t known; /* enum gd_device_known: MEMORY, UTILIZATION, TEMPERATURE, POWER */
    uint64_t memory_total, memory_free;
    uint64_t utilization; /* percent */
    int64_t temperature;
    uint64_t power_mw;
    /* The gpu_id of the first device of its group. All devices of a worker have the same value, which is the gpu_id of
     * the worker. A device without a group has its own gpu_id. */
    int64_t group;
};

/* An attempt that ended. A retried task has several. */
struct gd_task_view {
    uint64_t task_id;
    int64_t worker_id, gpu_id;
    uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC */
    uint32_t attempt;
    uint32_t again;   /* 1: the task will be tried again */
    uint64_t failure; /* enum gd_failure; 0: it succeeded */
};

struct gd_failure_view {
    /* as in struct gd_task_view */
    uint64_t task_id;
    int64_t worker_id, gpu_id;
    uint64_t start_ns, end_ns;
    uint32_t attempt;
    uint32_t again;
    uint64_t failure;

    char input[160]; /* the input, shortened like gd_worker_view.task */
    char error[512]; /* the beginning of the error message */
};

/* A request to the running job: see gd_dispatcher_pause(). */
struct gd_request_view {
    uint64_t at_ns; /* CLOCK_MONOTONIC: when it was carried out or refused */
    int64_t code;   /* 0: it was carried out; negative: it was refused */
    char what[256]; /* one line, as in gd_options.on_control */
};

/* Everything belongs to the observer and is valid until its next read. */
struct gd_snapshot {
    size_t size;
    char job[256];
    char id[32]; /* as in struct gd_job */
    uint64_t pid;
    double started;   /* Unix time */
    uint64_t read_ns; /* CLOCK_MONOTONIC: when this was read; stats.now_ns: when it was published */
    bool ended;       /* the run has ended: these are its last figures */
    bool stale;       /* the run has published nothing for a while although it is not idle: a callback is slow */
    const struct gd_stats *stats;
    /* The lists. Read their elements with gd_snapshot_worker(), _device(), _task(), _failure() and _request(), because
     * the size of an element may differ from that in this header. */
    const void *workers;
    size_t n_workers;
    const void *devices;
    size_t n_devices;
    /* The tasks that ended since this observer's last read, in the order in which they ended. The first read returns
     * the tasks that the page still contains. If a run does more than about 2000 tasks a second, this is a sample from
     * every worker, and the other tasks are counted as missed. Over all reads of an observer, n_tasks and tasks_missed
     * add up to all tasks that have ended. */
    const void *tasks;
    size_t n_tasks;
    uint64_t tasks_missed;
    const void *failures; /* like tasks; a sample if there are more than about 128 a second */
    size_t n_failures;
    uint64_t failures_missed;
    double work_done, work_total; /* gd_dispatcher_set_work(); total 0: tasks are counted */
    const void *requests;         /* like tasks; the page contains the last 64 */
    size_t n_requests;
    uint64_t requests_missed;
};

/* Each returns element i of a list, or NULL past its end. */
const struct gd_worker_view *gd_snapshot_worker(const struct gd_snapshot *s, size_t i);
const struct gd_device_view *gd_snapshot_device(const struct gd_snapshot *s, size_t i);
const struct gd_task_view *gd_snapshot_task(const struct gd_snapshot *s, size_t i);
const struct gd_failure_view *gd_snapshot_failure(const struct gd_snapshot *s, size_t i);
const struct gd_request_view *gd_snapshot_request(const struct gd_snapshot *s, size_t i);

struct gd_observer;

/* Opens an observer of a job. The argument `which` is the job's id, its process id, its name or the beginning of its
 * name; NULL: the only job. Returns 0. Returns GD_E_NO_JOB if there is no such job, or if `which` is NULL and there are
 * several jobs. The error message lists the jobs. Release with gd_observer_close(). */
int gd_observer_open(struct gd_observer **out, const char *which);

/* Opens an observer of a run of this process. The run must have a name (gd_options.job). Call this after
 * gd_dispatcher_open(), and close the observer before gd_dispatcher_close(). */
int gd_observer_attach(struct gd_observer **out, struct gd_dispatcher *d);

/* What an observer reads in addition to the figures and the workers. The default is everything. Leave out the tasks if
 * you do not show them, because in a fast run they are most of the data that a read copies. */
enum gd_observed {
    GD_OBSERVED_TASKS = 1,    /* without it, all tasks are only counted, in tasks_missed */
    GD_OBSERVED_FAILURES = 2, /* without it, all failures are only counted, in failures_missed */
    GD_OBSERVED_DEVICES = 4,  /* without it, the driver is not queried */
};

/* Chooses what to read, from the next read on. what: bits of enum gd_observed, or 0. Returns 0 or a negative code. */
int gd_observer_select(struct gd_observer *o, unsigned what);

/* Reads a snapshot. Does not wait for the run. Reads the state of the devices from the driver, at most once a second.
 * Returns 0, or GD_E_NO_JOB if the run was killed, or GD_E_CORRUPT if the page was truncated or is invalid. After such
 * an error *out is the last snapshot. */
int gd_observer_read(struct gd_observer *o, const struct gd_snapshot **out);

/* Returns a descriptor for poll() that becomes readable when the observed process has ended. It belongs to the
 * observer. Returns -1 if there is no descriptor, for example for a run of this process. */
int gd_observer_fd(const struct gd_observer *o);

void gd_observer_close(struct gd_observer **o);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
