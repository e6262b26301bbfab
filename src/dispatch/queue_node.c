/* A run that takes its tasks from a queue: this process is a node of the queue. The tasks come from
 * source/queue_source.c, and their ends go back from here. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"
#include "dispatch/internal.h"
#include "dispatch/source/queue_source.h"
#include "queue/connect.h"
#include "worker/host.h"

enum { GPU_TEXT = 256, LOST_MS = 5000 /* how long a run that was stopped tries to reach the server */ };

static void say(void *user, const char *line)
{
    const struct gd_dispatcher *d = user;
    if (d->hooks.queue_note)
        d->hooks.queue_note(d->hooks.user, line);
}

/* For observers: how far the whole queue is, unless the program reports another kind of work. */
static void show_progress(void *user, uint64_t tasks, uint64_t records)
{
    struct gd_dispatcher *d = user;
    double total;
    gd_dispatcher_work(d, NULL, &total);
    if (total > 0 && !d->queue_has_work)
        return;
    d->queue_has_work = true;
    gd_dispatcher_set_work(d, (double)records, (double)tasks);
}

/* How many tasks the workers can have begun, or load in advance. A worker that is not ready yet has not said how many it
 * takes. */
static unsigned count_slots(const struct gd_dispatcher *d)
{
    const unsigned loads = gd__load_bound(d->o.load_ahead, d->o.io_threads, d->o.batch_size);
    unsigned slots = 0;
    for (unsigned i = 0; i < d->n_workers; i++) {
        const struct gd__sched_worker *w = &d->sched.workers[i];
        const unsigned tasks = w->places > d->o.batch_size ? w->places : d->o.batch_size;
        const bool is_used = i < d->n_workers - d->n_spare || w->was_used;
        slots += is_used && !w->given_up && !w->leaving ? tasks + (w->loads ? loads : 0) : 0;
    }
    return slots > 0 ? slots : 1;
}

void gd__queue_count_slots(struct gd_dispatcher *d)
{
    if (d->queue)
        gd__queue_run_set_slots(d->queue, count_slots(d));
}

/* Observers may ask for the queue at any time. */
static void set_queue(struct gd_dispatcher *d, struct gd__queue_run *queue)
{
    pthread_mutex_lock(&d->queue_lock);
    d->queue = queue;
    pthread_mutex_unlock(&d->queue_lock);
}

int gd__queue_begin(struct gd_dispatcher *d)
{
    if (!d->copy.queue)
        return 0;
    const struct gd__queue_run_spec spec = { .queue = d->copy.queue,
                                             .connect = gd__queue_run_connect,
                                             .workers = d->n_workers - d->n_spare,
                                             .slots = count_slots(d),
                                             .crash_limit = d->o.crash_limit,
                                             .http = d->queue_page,
                                             .say = say,
                                             .counted = show_progress,
                                             .user = d };
    struct gd__queue_run *queue;
    const int rc = gd__queue_run_open(&queue, &spec);
    if (rc == 0)
        set_queue(d, queue);
    return rc;
}

void gd__queue_secrets_warning(const struct gd_queue_options *o, char *out, size_t room)
{
    gd__queue_find_warning(o, out, room);
}

uint64_t gd__dispatcher_queue_failed(const struct gd_dispatcher *d)
{
    return d->queue_failed;
}

int gd__dispatcher_queue_nodes(struct gd_dispatcher *d, struct gd__queue_summary *out,
                               int (*fn)(void *user, const struct gd_queue_node *node), void *user)
{
    struct gd__queue_run_figures f;
    *out = (struct gd__queue_summary){ .tasks = 0 };
    pthread_mutex_lock(&d->queue_lock);
    struct gd__queue_run *queue = d->queue;
    if (queue)
        gd__queue_run_share(queue);
    pthread_mutex_unlock(&d->queue_lock);
    if (!queue)
        return 0;
    gd__queue_run_figures(queue, &f);
    *out = (struct gd__queue_summary){
        .connected = f.connected, .tasks = f.tasks, .records = f.records, .unpublished = f.unpublished
    };
    const int rc = gd__queue_run_nodes(queue, fn, user);
    gd__queue_run_unshare(queue);
    return rc;
}

void gd__dispatcher_queue_page(struct gd_dispatcher *d, const char *address)
{
    snprintf(d->queue_page, sizeof d->queue_page, "%s", address);
}

void gd__queue_stop(struct gd_dispatcher *d)
{
    if (!d->queue || d->queue_stopped)
        return;
    d->queue_stopped = true;
    const char *asked = atomic_load(&d->ends_for);
    const char *no_workers = d->device_error[0] ? d->device_error : "no workers are left";
    const char *why = d->sched.end == GD__END_SETUP        ? d->setup_error
                      : d->sched.end == GD__END_NO_WORKERS ? no_workers
                      : d->sched.end == GD__END_SHORTAGE   ? "no worker process could be started"
                      : asked                              ? asked
                                                           : "the run was shut down";
    gd__queue_run_cancel(d->queue, why);
}

int gd__queue_finish(struct gd_dispatcher *d, int rc)
{
    char why[GD__SETUP_ERROR_MAX];
    if (!d->queue)
        return rc;
    snprintf(why, sizeof why, "%s", rc < 0 ? gd_error_text() : "");
    struct gd__queue_run_figures figures;
    const int left = gd__queue_run_finish(d->queue, LOST_MS);
    gd__queue_run_figures(d->queue, &figures);
    d->queue_failed = figures.failed_unrun;
    if (left < 0 && rc < 0 && rc != GD_E_SOURCE)
        say(d, gd_error_text()); /* the run has another result, but the user must know about the records */
    return rc == 0 ? left : gd__error(rc, "%s", why);
}

void gd__queue_end(struct gd_dispatcher *d)
{
    struct gd__queue_run *queue = d->queue;
    set_queue(d, NULL);
    gd__queue_run_close(&queue);
}

/* --- records --- */

/* Whether other nodes shall run the task: its end says something about this node or this run. A task that has lost its
 * device crash_limit times is different: it may lose the device of every node. */
static bool is_given_back(enum gd_failure failure)
{
    return failure == GD_FAILURE_CANCELLED || failure == GD_FAILURE_NO_WORKER;
}

/* Only what happened to its own attempts counts. The tasks of other workers that were killed with the device are given
 * back without a charge, and what a run that is shut down has seen so far too. */
static uint32_t crashes_of(const struct gd__journal_task *t, enum gd_failure failure)
{
    return failure == GD_FAILURE_NO_WORKER ? t->crashes : 0;
}

static struct gd__queue_text text_of(const char *text)
{
    return (struct gd__queue_text){ text ? text : "", text ? strlen(text) : 0 };
}

/* "0", or "0+1" for a group of devices. */
static struct gd__queue_text name_gpus(const struct gd_dispatcher *d, int worker, char out[GPU_TEXT])
{
    size_t n = 0;
    out[0] = '\0';
    if (worker < 0)
        return text_of(out);
    const struct gd__run_device *device = &d->devices[d->device_of[worker]];
    for (unsigned i = 0; i < device->how.n_gpus && n < GPU_TEXT; i++)
        n += (size_t)snprintf(out + n, GPU_TEXT - n, "%s%d", i > 0 ? "+" : "", d->gpus[device->first_gpu + i].gpu_id);
    if (n == 0)
        snprintf(out, GPU_TEXT, "%d", d->copy.gpu_ids[worker]);
    return text_of(out);
}

/* A time of the monotonic clock as Unix time. */
static uint64_t unix_us(uint64_t ns)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    const uint64_t now = gd__now_ns(), real = (uint64_t)t.tv_sec * GD__NS_PER_S + (uint64_t)t.tv_nsec;
    return ns == 0 || ns > now ? 0 : (real - (now - ns)) / GD__NS_PER_US;
}

static void fill(struct gd__queue_record *out, const struct gd_report *r, const struct gd__record_note *note)
{
    const bool ok = r->failure == GD_FAILURE_NONE;
    *out = (struct gd__queue_record){
        .state = ok ? GD__QUEUE_DONE : GD__QUEUE_FAILED,
        .attempts = r->attempt,
        .started_us = unix_us(r->start_ns),
        .run_us = r->start_ns > 0 && r->end_ns > r->start_ns ? (r->end_ns - r->start_ns) / GD__NS_PER_US : 0,
        .exit_code = note ? note->exit_code : r->exit_code,
        .signal = note ? note->signal : r->signal,
        .failure = ok ? text_of("") : text_of(note && note->failure ? note->failure : gd_failure_name(r->failure)),
        .error = ok ? text_of("") : text_of(r->error),
        .stderr_end = { note && note->stderr_end ? note->stderr_end : "",
                        note && note->stderr_end ? note->stderr_size : 0 },
    };
}

/* Stores the output. A task whose output cannot be stored has failed: without a record it would be run for ever. */
static void store(struct gd_dispatcher *d, struct gd__queue_record *out, const struct gd__queue_given *given,
                  const void *data, size_t size, struct gd__queue_run_output *output)
{
    if (!data && out->state != GD__QUEUE_DONE)
        return;
    const int rc = gd__queue_run_store(d->queue, given, data, size, output);
    out->output = output->data;
    if (rc == 0)
        return;
    out->state = GD__QUEUE_FAILED;
    out->failure = text_of("output");
    out->error = text_of(gd_error_text());
}

void gd__queue_put(struct gd_dispatcher *d, struct gd__journal_task *t, const struct gd_report *r,
                   const struct gd__record_note *note)
{
    struct gd__queue_given *given = gd__context_given(t);
    struct gd__queue_record record;
    struct gd__queue_run_output output;
    char gpus[GPU_TEXT];
    const uint32_t crashes = crashes_of(t, r->failure);
    gd__free(t);
    if (is_given_back(r->failure) || (note && note->not_done)) {
        gd__queue_run_return(d->queue, given, crashes);
        return;
    }
    fill(&record, r, note);
    record.gpu = name_gpus(d, r->worker_id, gpus);
    store(d, &record, given, note ? note->output : r->data, note ? note->output_size : r->size, &output);
    gd__queue_run_end(d->queue, given, &record);
}
