/* SPDX-License-Identifier: MIT
 *
 * Looking at runs, from inside or from another process.
 *
 * A run that was given a name (gd_options.job) publishes a page of shared memory: its figures, each worker and what it
 * is at, the tasks that ended last, the last failures. Observers only read it and take no lock, so they do not
 * slow the run down. The terminal panel, the web page, the metrics and `gpu-dispatch top` are
 * observers.
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
 * Pages are files in a directory of the user's own ($XDG_RUNTIME_DIR/gpu-dispatch, else /dev/shm/gpu-dispatch-UID; or
 * $GPU_DISPATCH_JOBS alone, where that is set), gone when the run ends; those of killed runs are removed by
 * the next observer. If no file can be made, the run goes on and only gd_observer_attach() can observe it.
 *
 * Threads: an observer may be used by one thread at a time, several by several.
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
    char id[32]; /* "4711", or "4711.2" for the second run of a process: for gd_observer_open() */
    uint64_t pid;
    char name[256]; /* gd_options.job, perhaps shortened */
    double started; /* Unix time */
};

/* The user's running jobs, oldest first: the first max; returns how many there are. element_size is
 * sizeof(struct gd_job). */
int gd_jobs_list(struct gd_job *out, size_t element_size, size_t max);

/* --- snapshots of one ------------------------------------------------------------ */

/* Why a worker has nothing to do. */
enum gd_idle_reason {
    GD_IDLE_NOT = 0,        /* it has */
    GD_IDLE_NO_INPUT = 1,   /* the source has nothing more right now */
    GD_IDLE_SETTING_UP = 2, /* setup, or its turn to set up has not come */
    GD_IDLE_LOADING = 3,    /* load() of its next task is not done */
    GD_IDLE_RESULTS = 4, /* its results wait to be taken: a slow callback; or, ordered, an earlier task is not done */
    GD_IDLE_BATCH = 5,   /* tasks are held back for a fuller batch, or for the gap between starts */
    GD_IDLE_RESTARTING = 6, /* its process died; another will be started */
    GD_IDLE_AT_END = 7,     /* nothing is left for it */
};
/* "no input", "loading", ... Static. */
const char *gd_idle_reason_name(enum gd_idle_reason idle);

/* The structs of a snapshot are made by the library, and you get pointers to them: fields are only added at the end. */

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
    uint64_t since_ns;   /* CLOCK_MONOTONIC: its task was started, or it became idle */
    uint64_t device_out; /* 1: its device is out of use */
    /* The beginning of its task's input, as far as it is text; made fit for a terminal. Of a longer path the end is
     * shown, after "…": files of one directory differ there. */
    char task[96];
};

struct gd_device_view {
    int64_t gpu_id;
    int64_t vendor; /* enum gd_vendor */
    char name[96];
    char uuid[96];
    /* asked of the driver by the observer, about once a second */
    uint64_t known; /* enum gd_device_known: MEMORY, UTILIZATION, TEMPERATURE, POWER */
    uint64_t memory_total, memory_free;
    uint64_t utilization; /* percent */
    int64_t temperature;
    uint64_t power_mw;
};

/* An attempt that ended: of a task that is retried there are several. */
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

    char input[160]; /* likewise */
    char error[512]; /* its beginning */
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
    bool stale;       /* not published for a while though the run is not asleep: a callback takes its time */
    const struct gd_stats *stats;
    /* The lists, of which gd_snapshot_worker(), _device(), _task() and _failure() give the elements: how large these
     * are the library knows. */
    const void *workers;
    size_t n_workers;
    const void *devices;
    size_t n_devices;
    /* Those that ended since this observer's last read, in that order; at its first, those that the page still holds.
     * Of a run of more than some thousand tasks a second it is a sample, of every worker's; the others are counted as
     * missed. Over all reads of an observer tasks and missed add up to all that have ended. */
    const void *tasks;
    size_t n_tasks;
    uint64_t tasks_missed;
    const void *failures; /* likewise, from some hundred a second on */
    size_t n_failures;
    uint64_t failures_missed;
    double work_done, work_total; /* gd_dispatcher_set_work(); total 0: tasks are counted */
};

/* The i-th of a list; NULL past its end. */
const struct gd_worker_view *gd_snapshot_worker(const struct gd_snapshot *s, size_t i);
const struct gd_device_view *gd_snapshot_device(const struct gd_snapshot *s, size_t i);
const struct gd_task_view *gd_snapshot_task(const struct gd_snapshot *s, size_t i);
const struct gd_failure_view *gd_snapshot_failure(const struct gd_snapshot *s, size_t i);

struct gd_observer;

/* A job by its id, its process id, its name or the beginning of that; NULL: the only one. GD_E_NO_JOB if there is none,
 * or if there are several and none was chosen; the message lists them. */
int gd_observer_open(struct gd_observer **out, const char *which);

/* A run of this process, with a job name; between gd_dispatcher_open() and _close(), the observer closed first. */
int gd_observer_attach(struct gd_observer **out, struct gd_dispatcher *d);

/* What an observer wants beside the figures and the workers; the default is everything. Leave tasks out if you do not
 * show them: in a fast run they are nearly all that a read copies. */
enum gd_observed {
    GD_OBSERVED_TASKS = 1,    /* else all tasks are missed */
    GD_OBSERVED_FAILURES = 2, /* else all failures are */
    GD_OBSERVED_DEVICES = 4,  /* else the driver is not asked about them */
};

/* From the next read on. what: of enum gd_observed, 0 for none. */
int gd_observer_select(struct gd_observer *o, unsigned what);

/* Never waits, but asks the driver about the devices if that was more than a second ago. 0; GD_E_NO_JOB when the
 * run was killed, GD_E_CORRUPT when its page was cut short or makes no sense: the snapshot is the last then. */
int gd_observer_read(struct gd_observer *o, const struct gd_snapshot **out);

/* A descriptor that becomes readable when the observed process is gone, for poll(). Borrowed. -1: there is none, as for
 * a run of this process. */
int gd_observer_fd(const struct gd_observer *o);

void gd_observer_close(struct gd_observer **o);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
