/* All steps of one run. gd_launch_run() and the commands `gpu-dispatch run` and `gpu-dispatch transcribe` are thin
 * layers over this.
 *
 * The steps in the middle column are done by run.c and are the same for every run. The right column lists the parts
 * that the caller supplies (struct gd__run_parts).
 *
 *   step         run.c                                         the caller's part
 *   options                                                    prepare(): devices, worker, limits, callbacks; opens
 *                                                              what the options point to (program, journal, files)
 *   dispatcher   opens it, which checks devices and options
 *   source                                                     open_source(), if it was not opened before
 *   figures      lists the workers, opens the balancer
 *   views                                                      open_views(): outputs, displays, signals
 *   run          gd_dispatcher_run(), on the caller's thread   the callbacks in the options
 *   stop         gd__run_shutdown(), gd__run_abort()           decides when: a signal, --halt, an output that is gone
 *   end                                                        ended(): waits for outputs
 *   teardown                                                   close_views(): nothing reads the dispatcher any more
 *                                                              report(): the error and the summary (*)
 *                closes the dispatcher
 *                                                              conclude(): ends journal and files (*)
 *                closes balancer and list of workers
 *                                                              close(): releases everything that the parts made
 *   exit status  returns the result of the run                 turns the result into an exit status
 *
 *   (*) only after a run. If a step before the run fails, the rest of the teardown is done as after a run.
 *
 * Ownership: struct gd__run owns the dispatcher, the list of workers and the balancer. The caller owns everything else
 * (source, journal, outputs), and closes it after the dispatcher is closed. Only views are closed before the
 * dispatcher, because they read it (close_views()).
 *
 * Threads: the parts and all callbacks are called on the thread that called gd__run_execute(). Only the source runs on
 * another thread.
 */
#ifndef GD_LAUNCH_RUN_H
#define GD_LAUNCH_RUN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <gpu_dispatch/dispatcher.h>
#include <gpu_dispatch/launch.h>

struct gd__run;
struct gd__setup_failures;

/* All parts except prepare(), failed() and say() may be NULL. A part that returns an int returns 0 or a negative code.
 * Before it returns a negative code it reports the error itself. */
struct gd__run_parts {
    int (*prepare)(void *user, struct gd_options *o); /* o contains the defaults */
    int (*open_source)(void *user); /* calls gd__run_set_total(), if total_tasks is not in the options */
    int (*open_views)(void *user);

    int (*ended)(void *user, int result); /* returns the result for the parts below and for gd__run_execute() */
    void (*close_views)(void *user);
    void (*report)(void *user, int result);
    void (*conclude)(void *user, int result);
    void (*close)(void *user);

    /* Called if a step of run.c failed. Reports gd_error_text(). */
    void (*failed)(void *user, int code);

    /* Reports an event of a worker or a device to the user: what is "worker 0 on GPU 0 failed to set up", for example.
     * If several workers fail to set up with the same error, the first is reported at once, and the number of the
     * others at the end of the run. */
    void (*say)(void *user, const char *what, const char *why);

    /* The playing time of the input of a task that succeeded, for the real-time factor; 0: unknown. */
    double (*media_seconds)(void *user, const struct gd_report *report);
};

/* Zeroed by gd__run_execute(). The parts may read it. They may write the fields marked "written by". */
struct gd__run {
    const struct gd__run_parts *parts;
    void *user;
    struct gd_dispatcher *d;
    struct gd_worker_stats *workers; /* indexed by worker id; as they are before the run */
    size_t n_workers;
    struct gd_balancer *balancer; /* counts every end of a task before the program's callback */
    uint64_t total;               /* 0: unknown */
    bool has_journal;
    bool say_replaced; /* written by prepare(): workers that are replaced are reported too */
    bool *no_setup;    /* for each worker: its setup failed */
    struct gd__setup_failures *setup_failures;
    int result;           /* the value of gd_dispatcher_run() */
    _Atomic bool aborted; /* gd__run_abort() was called */
    bool left_behind; /* written by close_views() or conclude(): a thread that cannot be ended still uses the run and
                         the caller's parts. Nothing is released after that, and the process has to end. */
};

/* Makes all steps above. *run must stay valid until this returns or, if left_behind is set, until the process ends.
 * Returns the result of ended(), or the code of the step that failed. */
int gd__run_execute(struct gd__run *run, const struct gd__run_parts *parts, void *user);

/* Called by open_source(). 0: unknown. In a run with a shard, gd__run_set_total() sets the total of the whole list, which
 * is not shown, and gd__run_set_shard_total() that of the shard. */
void gd__run_set_total(struct gd__run *run, uint64_t total);
void gd__run_set_shard_total(struct gd__run *run, uint64_t total);

/* May be called on any thread between open_views() and close_views(). gd__run_shutdown() lets running tasks finish.
 * gd__run_abort() kills the workers; after that, failures of their cleanup are not reported. reason: for the error messages
 * of tasks that are not done. */
void gd__run_shutdown(struct gd__run *run, const char *reason);
void gd__run_abort(struct gd__run *run, const char *reason);

/* Prints the summary. Called by report(). Leaves out tasks that were skipped because of a journal. Prints nothing if no
 * worker could be set up, because the error message reports that. what: "files" or "tasks". Returns 0, or a negative
 * code if the summary could not be written. */
int gd__run_print_summary(struct gd__run *run, FILE *to, const char *what);

#endif
