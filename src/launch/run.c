/* The steps of a run in their order, and what is counted and reported during the run. See run.h.
 *
 * The end of every task is counted by a listener (dispatch/listener.h), so the caller's callbacks in the options are
 * not replaced.
 */
#include "launch/run.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "binding.h"
#include "dispatch/listener.h"
#include "launch/balancer.h"
#include "launch/setup_failures.h"

enum { WHAT_ROOM = 512, GPUS_MOST = 32 };

/* --- events of the run ------------------------------------------------------------ */

static void task_ended(void *user, const struct gd_report *report)
{
    struct gd__run *run = user;
    const bool has_media = run->parts->media_seconds && report->failure == GD_FAILURE_NONE;
    (void)gd_balancer_add(run->balancer, report, has_media ? run->parts->media_seconds(run->user, report) : 0);
}

/* "GPU 0", "GPUs 0,1" */
static void name_gpus(const struct gd__run *run, int worker_id, char *out, size_t size)
{
    int gpus[GPUS_MOST];
    const int n = gd_dispatcher_worker_gpus(run->d, (unsigned)worker_id, gpus, GPUS_MOST);
    size_t used = (size_t)snprintf(out, size, n > 1 ? "GPUs " : "GPU ");
    for (int i = 0; i < n && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%d", i ? "," : "", gpus[i]);
}

static void report_worker(struct gd__run *run, int worker_id, const char *what, const char *why)
{
    char about[WHAT_ROOM], gpus[WHAT_ROOM / 2];
    name_gpus(run, worker_id, gpus, sizeof gpus);
    snprintf(about, sizeof about, "worker %d on %s %s", worker_id, gpus, what);
    run->parts->say(run->user, about, why);
}

static void setup_failed(void *user, int worker_id, int gpu_id, const char *error)
{
    struct gd__run *run = user;
    (void)gpu_id;
    run->no_setup[worker_id] = true;
    if (gd__setup_failures_add(run->setup_failures, worker_id, error))
        report_worker(run, worker_id, "failed to set up", error);
}

/* Reports nothing if the run was aborted: its workers were killed and had no time to clean up. */
static void cleanup_failed(void *user, int worker_id, int gpu_id, const char *error)
{
    struct gd__run *run = user;
    (void)gpu_id;
    if (!run->aborted)
        report_worker(run, worker_id, "failed to clean up", error);
}

static void worker_exited(void *user, int worker_id, int gpu_id, const char *why, bool given_up)
{
    struct gd__run *run = user;
    if (!given_up)
        gd_balancer_restarted(run->balancer, gpu_id);
    const bool is_news = given_up && !run->no_setup[worker_id]; /* the reason for a failed setup was reported already */
    if (is_news || run->say_replaced)
        report_worker(run, worker_id, given_up ? "will not be restarted" : "is replaced", why);
}

static bool all_setups_failed(const struct gd__run *run, int worker_id)
{
    for (size_t i = 0; i < run->n_workers; i++)
        if (run->workers[i].gpu_id == run->workers[worker_id].gpu_id && !run->no_setup[i])
            return false;
    return true;
}

/* Reports nothing if all workers of the device failed in setup: their errors were reported already. */
static void device_out(void *user, int worker_id, int gpu_id, const char *why)
{
    struct gd__run *run = user;
    char about[WHAT_ROOM];
    if (all_setups_failed(run, worker_id))
        return;
    snprintf(about, sizeof about, "GPU %d is taken out of use", gpu_id);
    run->parts->say(run->user, about, why);
}

static void device_idle(void *user, int gpu_id, const char *why)
{
    struct gd__run *run = user;
    char about[WHAT_ROOM];
    snprintf(about, sizeof about, "GPU %d is not used", gpu_id);
    run->parts->say(run->user, about, why);
}

static void control(void *user, const char *what, int code)
{
    struct gd__run *run = user;
    run->parts->say(run->user, code < 0 ? "request refused" : "request", what);
}

/* --- the steps that are the same for every run --------------------------------------- */

/* In a run with a shard, the total of the whole list says nothing, and the dispatcher does not show it. */
static uint64_t shown_total(const struct gd__run *run)
{
    struct gd_stats s = { .size = sizeof s };
    return gd_dispatcher_stats(run->d, &s) == 0 ? s.total : 0;
}

static int open_dispatcher(struct gd__run *run, const struct gd_options *o)
{
    const int rc = gd_dispatcher_open(&run->d, o);
    if (rc < 0)
        return rc;
    run->total = shown_total(run);
    run->has_journal = o->journal != NULL;
    gd__dispatcher_listen(run->d, &(struct gd__listener){ .user = run,
                                                          .task_ended = task_ended,
                                                          .setup_failed = setup_failed,
                                                          .cleanup_failed = cleanup_failed,
                                                          .worker_exited = worker_exited,
                                                          .device_out = device_out,
                                                          .device_idle = device_idle,
                                                          .control = control });
    return 0;
}

static int list_workers(struct gd__run *run)
{
    const int n = gd_dispatcher_worker_stats(run->d, NULL, sizeof *run->workers, 0);
    if (n < 0)
        return n;
    run->workers = gd__calloc((size_t)n + 1, sizeof *run->workers);
    run->no_setup = gd__calloc((size_t)n + 1, sizeof *run->no_setup);
    run->setup_failures = gd__calloc(1, sizeof *run->setup_failures);
    if (!run->workers || !run->no_setup || !run->setup_failures)
        return gd__error(GD_E_NO_MEMORY, "no memory for a list of %d workers", n);
    run->n_workers = (size_t)gd_dispatcher_worker_stats(run->d, run->workers, sizeof *run->workers, (size_t)n);
    return 0;
}

/* Lists each device once, in the order of the workers, with its number of workers. Returns the number of devices. */
static size_t devices_of(const struct gd__run *run, int *ids, unsigned *workers)
{
    size_t n_ids = 0;
    for (size_t i = 0; i < run->n_workers; i++) {
        const int id = (int)run->workers[i].gpu_id;
        size_t at = 0;
        while (at < n_ids && ids[at] != id)
            at++;
        if (at == n_ids) {
            ids[n_ids] = id;
            workers[n_ids++] = 0;
        }
        workers[at]++;
    }
    return n_ids;
}

static void label_groups(const struct gd__run *run)
{
    for (size_t i = 0; i < run->n_workers; i++) {
        int gpus[GPUS_MOST];
        int64_t all[GPUS_MOST];
        const int n = gd_dispatcher_worker_gpus(run->d, (unsigned)i, gpus, GPUS_MOST);
        for (int k = 0; k < n && k < GPUS_MOST; k++)
            all[k] = gpus[k];
        if (n > 1)
            gd__balancer_label(run->balancer, all, n < GPUS_MOST ? (size_t)n : GPUS_MOST);
    }
}

static int open_balancer(struct gd__run *run)
{
    int *ids = gd__calloc(run->n_workers + 1, sizeof *ids);
    unsigned *workers = gd__calloc(run->n_workers + 1, sizeof *workers);
    int rc;
    if (!ids || !workers) {
        rc = gd__error(GD_E_NO_MEMORY, "no memory for a list of devices");
    } else {
        const size_t n_ids = devices_of(run, ids, workers);
        rc = gd_balancer_open(&run->balancer, ids, n_ids, 1, run->total);
        for (size_t i = 0; rc == 0 && i < n_ids; i++)
            gd_balancer_set_workers(run->balancer, ids[i], workers[i]);
        if (rc == 0)
            label_groups(run);
    }
    gd__free(ids);
    gd__free(workers);
    return rc;
}

/* --- all steps ------------------------------------------------------------------------- */

/* Reports the error if a step of this file failed. */
static int checked(const struct gd__run *run, int rc)
{
    if (rc < 0)
        run->parts->failed(run->user, rc);
    return rc;
}

static int call(const struct gd__run *run, int (*part)(void *user))
{
    return part ? part(run->user) : 0;
}

static int open_run(struct gd__run *run)
{
    struct gd_options o = GD_OPTIONS_INIT;
    int rc = run->parts->prepare(run->user, &o);
    if (rc == 0)
        rc = checked(run, open_dispatcher(run, &o));
    if (rc == 0)
        rc = call(run, run->parts->open_source);
    if (rc == 0)
        rc = checked(run, list_workers(run));
    if (rc == 0)
        rc = checked(run, open_balancer(run));
    return rc == 0 ? call(run, run->parts->open_views) : rc;
}

static bool has_done_any(const struct gd__run *run)
{
    struct gd_balance all = { .size = sizeof all };
    return gd_balancer_overall(run->balancer, &all) == 0 && all.done > 0;
}

/* ran: all steps before the run succeeded, and the run has ended with this result. */
static void tear_down(struct gd__run *run, bool ran, int result)
{
    const struct gd__run_parts *parts = run->parts;
    if (parts->close_views)
        parts->close_views(run->user);
    if (ran && parts->report)
        parts->report(run->user, result);
    if (!run->left_behind)
        gd_dispatcher_close(&run->d);
    if (ran && parts->conclude)
        parts->conclude(run->user, result);
    if (run->left_behind)
        return;
    gd_balancer_close(&run->balancer);
    if (run->setup_failures)
        gd__setup_failures_free(run->setup_failures);
    gd__free(run->setup_failures);
    gd__free(run->no_setup);
    gd__free(run->workers);
    if (parts->close)
        parts->close(run->user);
}

/* If no worker could be set up, the reasons were reported already, so the error message does not repeat them. */
static int run_dispatcher(struct gd__run *run)
{
    const int result = gd_dispatcher_run(run->d);
    gd__setup_failures_report(run->setup_failures, run->parts->say, run->user);
    if (result == GD_E_SETUP && !has_done_any(run))
        return gd__error(GD_E_SETUP, "%s: no task was run", gd_error_description(GD_E_SETUP));
    return result;
}

int gd__run_execute(struct gd__run *run, const struct gd__run_parts *parts, void *user)
{
    *run = (struct gd__run){ .parts = parts, .user = user };
    int result = open_run(run);
    const bool opened = result == 0;
    if (opened)
        result = run->result = run_dispatcher(run);
    if (opened && parts->ended)
        result = parts->ended(user, result);
    tear_down(run, opened, result);
    return result;
}

/* --- for the parts ------------------------------------------------------------------------ */

void gd__run_set_total(struct gd__run *run, uint64_t total)
{
    gd_dispatcher_set_total(run->d, total);
    run->total = shown_total(run);
}

void gd__run_set_shard_total(struct gd__run *run, uint64_t total)
{
    gd__dispatcher_set_shard_total(run->d, total);
    run->total = shown_total(run);
}

void gd__run_shutdown(struct gd__run *run, const char *reason)
{
    gd__dispatcher_end_for(run->d, reason);
    gd_dispatcher_shutdown(run->d);
}

void gd__run_abort(struct gd__run *run, const char *reason)
{
    run->aborted = true;
    gd__dispatcher_end_for(run->d, reason);
    gd_dispatcher_abort(run->d);
}

int gd__run_print_summary(struct gd__run *run, FILE *to, const char *what)
{
    struct gd_stats s = { .size = sizeof s };
    if (run->result == GD_E_SETUP && !has_done_any(run))
        return 0;
    if (gd_dispatcher_stats(run->d, &s) == 0 && (run->has_journal || s.total > 0))
        gd_balancer_set_total(run->balancer, s.total > s.skipped ? s.total - s.skipped : 0);
    return gd_balancer_print(run->balancer, to, what);
}
