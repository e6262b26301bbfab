/* SPDX-License-Identifier: MIT
 *
 * The launcher processes a directory of files on every GPU and prints a summary. It has five components. Each can be
 * used alone:
 *
 *   detector      finds the devices: see devices.h
 *   allocator     finds files, estimates the work, sorts and distributes the files
 *   spawner       runs a dispatcher on its own thread; can wait for its end, end it, and inspect its processes
 *   balancer      counts results, per GPU and overall, and prints them
 *   orchestrator  finds devices and files, runs a dispatcher on the caller's thread, and prints the summary
 *
 *     struct gd_options o = GD_OPTIONS_INIT;       // the worker is this program's own (worker.h), or o.plugin
 *     o.handle_signals = true;                     // Ctrl-C ends the launch
 *     struct gd_launch l = GD_LAUNCH_INIT;
 *     l.input_dir = "data/audio";
 *     l.patterns = (const char *const[]){ "*.wav", NULL };
 *     l.options = &o;
 *     return gd_launch_run(&l);                    // an exit status: 0, 1 if anything failed, 130 after Ctrl-C
 *
 * Threads: a struct gd_files, gd_task_queue or gd_balancer may be used by one thread at a time, unless a
 * comment says otherwise. A spawner may be used from any thread. gd_launch_run() blocks, and makes all callbacks on the
 * thread that called it.
 */
#ifndef GPU_DISPATCH_LAUNCH_H
#define GPU_DISPATCH_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <gpu_dispatch/devices.h>
#include <gpu_dispatch/dispatcher.h>
#include <gpu_dispatch/error.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* --- allocator: finding files ------------------------------------------- */

enum gd_file_order {
    GD_FILE_ORDER_SIZE = 0, /* largest first, so that the run ends soonest; files of the same size by name */
    GD_FILE_ORDER_NAME = 1, /* by path, byte by byte */
    GD_FILE_ORDER_NONE = 2, /* in the order in which they are found */
};

/* What to find. Begin with GD_DISCOVER_INIT; zero means default. */
struct gd_discover {
    size_t size;                 /* sizeof(struct gd_discover) */
    const char *const *patterns; /* shell patterns for the base name, NULL-terminated; NULL or none: every file */
    bool recursive;              /* also search subdirectories */
    bool follow;                 /* follow symbolic links to directories; a loop is detected and not entered twice */
    bool hidden;   /* include names that begin with a dot (a pattern that begins with a dot finds them anyway) */
    bool no_sizes; /* do not read file sizes: saves a system call per file */
    /* Called if a directory or file cannot be read. The search continues. NULL: ignored. */
    void (*on_problem)(void *user, const char *path, const char *why);
    void *user;
    /* Called if a name matches but is neither a file nor a directory. what is "a pipe", "a socket" or "a device". NULL:
     * ignored. */
    void (*on_other)(void *user, const char *path, const char *what);
};
#define GD_DISCOVER_INIT                   \
    {                                      \
        .size = sizeof(struct gd_discover) \
    }

/* Called for a file that was found. path is borrowed until the function returns. Returns 0 to continue, or any other
 * value to stop. */
typedef int gd_file_fn(void *user, const char *path, uint64_t size);

/* Calls fn for each regular file (or link to one) in dir as soon as it is found. Memory use grows with the number of
 * directories still to be searched, not with the number of files. If the argument `what` is NULL, the defaults are
 * used. A path is dir, '/', and the path within dir; in a deep tree it may be longer than PATH_MAX. Returns 0, or the
 * value of fn if that was not 0. Returns GD_E_INVALID if dir does not exist, is not a directory or is not readable, or
 * if a pattern is empty or contains a '/'. Returns another negative code if the search could not begin or memory ran
 * out. */
int gd_discover_files(const char *dir, const struct gd_discover *what, gd_file_fn *fn, void *user);

/* --- allocator: lists of files ------------------------------------------ */

struct gd_files;

int gd_files_open(struct gd_files **out); /* an empty list; release with gd_files_close() */
void gd_files_close(struct gd_files **files);
int gd_files_add(struct gd_files *files, const char *path, uint64_t size); /* copied */
/* Adds the files that are found. Adds nothing if the search fails. */
int gd_files_discover(struct gd_files *files, const char *dir, const struct gd_discover *what);
int gd_files_sort(struct gd_files *files, enum gd_file_order order);
size_t gd_files_count(const struct gd_files *files);
const char *gd_files_path(const struct gd_files *files, size_t i); /* borrowed until the list changes */
uint64_t gd_files_size(const struct gd_files *files, size_t i);

/* How many files there are and how large they are. */
struct gd_workload {
    size_t size; /* set to sizeof(struct gd_workload) before the call */
    uint64_t count;
    uint64_t total_bytes;
    uint64_t largest_bytes, smallest_bytes, median_bytes;
    double mean_bytes, deviation_bytes; /* standard deviation */
};
int gd_estimate_workload(const struct gd_files *files, struct gd_workload *out);

/* Distributes files to n devices: sets gpu_of[i] to the device of file i. GD_DISTRIBUTE_CHUNKS: each device gets
 * ceil(count / n) neighbouring files of the list. GD_DISTRIBUTE_ROUND_ROBIN: file i goes to device i % n.
 * GD_DISTRIBUTE_BALANCED: files are assigned largest first, each to the device that has the fewest bytes so far. */
enum gd_distribution { GD_DISTRIBUTE_ROUND_ROBIN = 0, GD_DISTRIBUTE_CHUNKS = 1, GD_DISTRIBUTE_BALANCED = 2 };
int gd_distribute_workload(const struct gd_files *files, size_t n, enum gd_distribution deal, size_t *gpu_of);

/* A source of tasks: the paths of a list, in its order. files is borrowed until the queue is closed. Set
 *     o.source = gd_task_queue_next; o.user = queue;
 * or call gd_task_queue_next() from your own source. */
struct gd_task_queue;
int gd_task_queue_open(struct gd_task_queue **out, const struct gd_files *files);
void gd_task_queue_close(struct gd_task_queue **queue);
int gd_task_queue_next(void *queue, struct gd_item *item);    /* a gd_source_fn; the weight is the file's size */
size_t gd_task_queue_left(const struct gd_task_queue *queue); /* may be called from any thread */

/* --- spawner ------------------------------------------------------------- */

struct gd_spawner;

/* Starts a run on a new thread. The callbacks are called on that thread. Release with gd_spawner_close(). */
int gd_spawner_start(struct gd_spawner **out, const struct gd_options *o);

/* Waits until the run has ended, and sets *result to the value of gd_dispatcher_run(). result may be NULL. If
 * timeout_ms is negative, there is no limit. Returns 0, or GD_E_BUSY if the run has not ended in time. */
int gd_spawner_wait(struct gd_spawner *s, int timeout_ms, int *result);

void gd_spawner_shutdown(struct gd_spawner *s);  /* running tasks may finish */
void gd_spawner_terminate(struct gd_spawner *s); /* every process is killed */

/* The state of each worker's process: see gd_dispatcher_worker_stats(). */
int gd_spawner_status(struct gd_spawner *s, struct gd_worker_stats *out, size_t element_size, size_t max);
int gd_spawner_stats(struct gd_spawner *s, struct gd_stats *out);

/* Terminates the run if it has not ended, waits for it and frees the spawner. A call from a callback only terminates
 * the run. Then *s stays valid, and must be closed again later. */
void gd_spawner_close(struct gd_spawner **s);

/* --- balancer ------------------------------------------------------------ */

struct gd_balancer;

struct gd_gpu_figures {
    size_t size; /* set to sizeof(struct gd_gpu_figures) before the call */
    int gpu_id;
    uint64_t done, failed; /* tasks; timeouts count as failed */
    uint64_t timeouts;
    uint64_t restarts;
    double busy_seconds;  /* sum of its tasks' times */
    double media_seconds; /* playing time of its inputs (audio, video): the sum given to gd_balancer_add() */
    double mean_seconds;  /* per task */
    double busy_percent;  /* how busy its workers were on average, in percent of the time since the first task began */
    /* Real-time factor: the time in which at least one of its tasks was in flight, divided by media_seconds; 0: not known */
    double rtf;
};

struct gd_balance {
    size_t size;    /* set to sizeof(struct gd_balance) before the call */
    uint64_t total; /* expected number of tasks; 0: not known */
    uint64_t done, failed, timeouts, cancelled, retried, restarts;
    uint64_t errors_kept;
    double seconds; /* since the first task began */
    double busy_seconds;
    double media_seconds;
    double rtf;     /* seconds / media_seconds: below 1 is faster than real time; 0: not known */
    double speedup; /* busy_seconds / seconds: how many tasks ran at the same time, on average */
    double tasks_per_second;
    double eta_seconds; /* < 0: not known */
};

/* Makes a balancer for n devices with workers_per_gpu workers each. total is the number of tasks, 0 if not known.
 * Release with gd_balancer_close(). */
int gd_balancer_open(struct gd_balancer **out, const int *gpu_ids, size_t n, unsigned workers_per_gpu, uint64_t total);
void gd_balancer_close(struct gd_balancer **b);

/* Counts a task that has ended. Call it from on_success, on_error and on_timeout. media_seconds is the playing time of
 * the input, 0 if it has none. A cancelled task is counted as cancelled, not as failed. */
int gd_balancer_add(struct gd_balancer *b, const struct gd_report *report, double media_seconds);
void gd_balancer_restarted(struct gd_balancer *b, int gpu_id); /* counts a replaced process; for on_worker_exit */
void gd_balancer_set_total(struct gd_balancer *b, uint64_t total);
/* Sets the number of workers of one GPU, if it differs from workers_per_gpu. Used for busy_percent. */
void gd_balancer_set_workers(struct gd_balancer *b, int gpu_id, unsigned workers);

/* Called when a result is added, at most once per interval_ms, and for the last expected result. */
typedef void gd_progress_fn(void *user, const struct gd_balance *now);
void gd_balancer_on_progress(struct gd_balancer *b, gd_progress_fn *fn, void *user, unsigned interval_ms);

int gd_balancer_overall(const struct gd_balancer *b, struct gd_balance *out);
double gd_balancer_rtf(const struct gd_balancer *b);     /* gd_balance.rtf; 0: not known */
double gd_balancer_speedup(const struct gd_balancer *b); /* gd_balance.speedup; 0: not known */
size_t gd_balancer_gpus(const struct gd_balancer *b);
int gd_balancer_gpu(const struct gd_balancer *b, size_t i, struct gd_gpu_figures *out);

/* Returns error i as "INPUT: message" (or "task N: message", if the input has a NUL), or NULL past the end. The first
 * 100 errors are stored. */
const char *gd_balancer_error(const struct gd_balancer *b, size_t i);

/* Prints the summary as lines of text. The argument `what` is a plural noun for the inputs: "files", "tasks". */
int gd_balancer_print(const struct gd_balancer *b, FILE *to, const char *what);

/* --- orchestrator --------------------------------------------------------- */

struct gd_launch {
    size_t size; /* sizeof(struct gd_launch) */
    const char *input_dir;
    const char *const *patterns; /* as in struct gd_discover */
    bool recursive;
    enum gd_file_order order;
    /* See gd_devices_open(); default "auto". It replaces options->gpus and options->gpu_ids. NULL: the devices in
     * options are used, or "auto" if there are none. */
    const char *gpus;
    /* The worker and how to run it; NULL: the defaults, with this program's own worker. The launcher sets source and
     * total_tasks itself. Your callbacks are called in addition to the launcher's, with options->user. on_success may
     * be NULL. */
    const struct gd_options *options;
    double (*media_seconds)(void *user, const struct gd_report *report); /* for the real-time factor; NULL: none */
    gd_progress_fn *on_progress;
    FILE *summary; /* where the summary and error messages are printed; NULL: stderr */
    bool quiet;    /* print error messages only, no summary */
};
#define GD_LAUNCH_INIT                                   \
    {                                                    \
        .size = sizeof(struct gd_launch), .gpus = "auto" \
    }

/* Finds devices and files, processes every file, prints the summary. Returns the exit code for a program: 0 if every
 * file succeeded; 1 if a file failed, a directory could not be read, no file was found or the run could not start; 130
 * if a signal ended the run (options->handle_signals).
 *
 * With options->shard, only the files of this shard are processed. A file is then identified by its path within
 * input_dir, which may have another name on each machine. If options->journal was opened with the same shard, the files
 * are divided so that each shard gets about the same number of bytes: the first shard writes a file beside the journals
 * (run.of-16.deal for run.db), and the others read it. Otherwise, and for files that are added later, the hash of the path
 * decides. */
int gd_launch_run(const struct gd_launch *l);

/* Checks that a launch could start: the directory can be read, the devices exist, the worker's program can be found.
 * Returns 0 or a negative code. */
int gd_launch_validate(const struct gd_launch *l);

/* Fills *out with the number and sizes of the files of a launch. Returns 0, or GD_E_INVALID if the directory cannot be
 * read. */
int gd_launch_workload(const struct gd_launch *l, struct gd_workload *out);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
