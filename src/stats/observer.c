/* Observers. Each read copies a run's page and makes a struct gd_snapshot from it. The public part is
 * <gpu_dispatch/observe.h>. */
#include "stats/observer.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/process/owner.h"
#include "base/text/printable.h"
#include "binding.h"
#include "stats/jobs.h"
#include "stats/page/reader.h"
#include "stats/sample.h"
#include "stats/work.h"

#define STALE_NS GD__NS_PER_S

struct gd_observer {
    struct gd__reader reader;
    struct gd__owner owner;
    bool own; /* a run of this process */
    int pidfd;
    struct gd__sample sample;
    bool no_devices; /* devices are not sampled */
    struct gd_snapshot snapshot;
    struct gd_stats stats; /* this and the next four belong to the snapshot */
    struct gd_worker_view *workers;
    struct gd_device_view *devices;
    struct gd_request_view *requests; /* GD__PAGE_REQUESTS */
    struct gd_failure_view *failures;
    size_t failures_room;
};

/* --- opening --- */

static void fill_devices(struct gd_observer *o)
{
    for (size_t i = 0; i < o->reader.plan.n_devices; i++) {
        const struct gd__page_device *from = &o->reader.devices[i];
        struct gd_device_view *to = &o->devices[i];
        to->gpu_id = from->gpu_id;
        to->vendor = from->vendor < 0 || from->vendor > GD_VENDOR_SIMULATED ? GD_VENDOR_CPU : from->vendor;
        gd__text_fit(to->name, sizeof to->name, from->name, sizeof from->name);
        gd__text_fit(to->uuid, sizeof to->uuid, from->uuid, sizeof from->uuid);
        to->group = from->group;
    }
}

static int prepare(struct gd_observer *o)
{
    const struct gd__page_header *h = &o->reader.header;
    struct gd_job job;
    o->owner = (struct gd__owner){ .pid = h->pid, .start = h->pid_start, .space = h->pid_space };
    o->pidfd = o->own ? -1 : gd__owner_pidfd(&o->owner);
    o->workers = gd__calloc(h->n_workers, sizeof *o->workers);
    o->devices = gd__calloc(h->n_devices, sizeof *o->devices);
    o->requests = gd__calloc(GD__PAGE_REQUESTS, sizeof *o->requests);
    if (!o->workers || !o->devices || !o->requests)
        return gd__error(GD_E_NO_MEMORY, "no memory for an observer of %llu workers", (unsigned long long)h->n_workers);
    fill_devices(o);
    gd__job_describe(&job, h);
    struct gd_snapshot *s = &o->snapshot;
    s->size = sizeof *s;
    memcpy(s->job, job.name, sizeof s->job);
    memcpy(s->id, job.id, sizeof s->id);
    s->pid = job.pid;
    s->started = job.started;
    s->stats = &o->stats;
    s->workers = o->workers;
    s->n_workers = h->n_workers;
    s->devices = o->devices;
    s->n_devices = h->n_devices;
    return 0;
}

int gd__observer_open_page(struct gd_observer **out, int fd, bool own)
{
    *out = NULL;
    struct gd_observer *o = gd__calloc(1, sizeof *o);
    if (!o) {
        close(fd);
        return gd__error(GD_E_NO_MEMORY, "no memory for an observer");
    }
    o->own = own;
    o->pidfd = -1;
    int rc = gd__reader_open(&o->reader, fd);
    if (rc == 0)
        rc = prepare(o);
    if (rc < 0)
        gd_observer_close(&o);
    *out = o;
    return rc;
}

int gd_observer_open(struct gd_observer **out, const char *which)
{
    struct gd__jobs jobs;
    if (!out)
        return gd__error(GD_E_INVALID, "gd_observer_open: out is NULL");
    *out = NULL;
    int rc = gd__jobs_find(&jobs);
    if (rc < 0)
        return rc;
    rc = gd__jobs_choose(&jobs, which);
    if (rc >= 0)
        rc = gd__jobs_open_page(&jobs.items[rc]);
    gd__jobs_clear(&jobs);
    return rc < 0 ? rc : gd__observer_open_page(out, rc, false);
}

void gd_observer_close(struct gd_observer **op)
{
    struct gd_observer *o = op ? *op : NULL;
    if (!o)
        return;
    *op = NULL;
    gd__reader_close(&o->reader);
    gd__sample_close(&o->sample);
    if (o->pidfd >= 0)
        close(o->pidfd);
    gd__free(o->workers);
    gd__free(o->devices);
    gd__free(o->requests);
    gd__free(o->failures);
    gd__free(o);
}

int gd_observer_fd(const struct gd_observer *o)
{
    return o ? o->pidfd : -1;
}

int gd_observer_select(struct gd_observer *o, unsigned what)
{
    if (!o || (what & ~(unsigned)(GD_OBSERVED_TASKS | GD_OBSERVED_FAILURES | GD_OBSERVED_DEVICES)) != 0)
        return gd__error(GD_E_INVALID,
                         "gd_observer_select: the observer is NULL, or 0x%x is not a value of enum gd_observed", what);
    o->reader.no_tasks = !(what & GD_OBSERVED_TASKS);
    o->reader.no_failures = !(what & GD_OBSERVED_FAILURES);
    o->no_devices = !(what & GD_OBSERVED_DEVICES);
    return 0;
}

/* --- reading --- */

/* Replaces a number that is out of range, so that users may index tables with it. */
static uint64_t within(uint64_t value, uint64_t most, uint64_t otherwise)
{
    return value <= most ? value : otherwise;
}

static void fill_workers(struct gd_observer *o)
{
    for (size_t i = 0; i < o->reader.plan.n_workers; i++) {
        const struct gd__page_worker *from = &o->reader.workers[i];
        struct gd_worker_view *to = &o->workers[i];
        gd__worker_view_fill(to, &from->stats);
        to->state = within(to->state, GD_WORKER_LOST, GD_WORKER_LOST);
        to->idle = within(from->idle, GD_IDLE_REMOVED, GD_IDLE_NOT);
        to->since_ns = from->since_ns;
        to->device_out = from->device_out != 0;
        gd__text_fit(to->task, sizeof to->task, from->task, within(from->task_size, sizeof from->task, 0));
    }
}

static int make_room(struct gd_observer *o, size_t n)
{
    if (n <= o->failures_room)
        return 0;
    struct gd_failure_view *larger = gd__realloc(o->failures, n * sizeof *larger);
    if (!larger)
        return gd__error(GD_E_NO_MEMORY, "no memory for %zu failures", n);
    o->failures = larger;
    o->failures_room = n;
    return 0;
}

static void fill_task(struct gd_task_view *to, const struct gd_task_view *from)
{
    *to = *from;
    to->failure = within(from->failure, GD_FAILURE_NO_WORKER, GD_FAILURE_ERROR);
}

/* Converts the tasks in place. A view is smaller than an entry of the ring, so each one moves towards the front. There
 * may be thousands, and touching more memory would be the main cost of a read. */
static void fill_tasks(struct gd_observer *o)
{
    const struct gd__ring_copy *c = &o->reader.tasks;
    struct gd_task_view *tasks = (struct gd_task_view *)(void *)c->entries;
    for (size_t i = 0; i < c->n; i++) {
        struct gd__page_task from;
        memcpy(&from, c->entries + i * sizeof from, sizeof from);
        fill_task(&tasks[i], &from.task);
    }
    o->snapshot.tasks = tasks;
    o->snapshot.n_tasks = c->n;
    o->snapshot.tasks_missed = c->missed;
}

static void fill_failure(struct gd_failure_view *to, const struct gd_task_view *from)
{
    to->task_id = from->task_id;
    to->worker_id = from->worker_id;
    to->gpu_id = from->gpu_id;
    to->start_ns = from->start_ns;
    to->end_ns = from->end_ns;
    to->attempt = from->attempt;
    to->again = from->again;
    to->failure = within(from->failure, GD_FAILURE_NO_WORKER, GD_FAILURE_ERROR);
}

static int fill_failures(struct gd_observer *o)
{
    const struct gd__ring_copy *c = &o->reader.failures;
    const int rc = make_room(o, c->n);
    for (size_t i = 0; rc == 0 && i < c->n; i++) {
        struct gd__page_failure from;
        memcpy(&from, c->entries + i * sizeof from, sizeof from);
        struct gd_failure_view *to = &o->failures[i];
        fill_failure(to, &from.task);
        gd__text_fit(to->input, sizeof to->input, from.input, within(from.input_size, sizeof from.input, 0));
        gd__text_fit(to->error, sizeof to->error, from.error, within(from.error_size, sizeof from.error, 0));
    }
    o->snapshot.failures = o->failures;
    o->snapshot.n_failures = rc == 0 ? c->n : 0;
    o->snapshot.failures_missed = c->missed;
    return rc;
}

static void fill_requests(struct gd_observer *o)
{
    const struct gd__ring_copy *c = &o->reader.requests;
    for (size_t i = 0; i < c->n; i++) {
        struct gd__page_request from;
        memcpy(&from, c->entries + i * sizeof from, sizeof from);
        struct gd_request_view *to = &o->requests[i];
        to->at_ns = from.at_ns;
        to->code = from.code;
        gd__text_fit(to->what, sizeof to->what, from.text, within(from.text_size, sizeof from.text, 0));
    }
    o->snapshot.requests = o->requests;
    o->snapshot.n_requests = c->n;
    o->snapshot.requests_missed = c->missed;
}

static bool is_gone(const struct gd_observer *o)
{
    if (o->own)
        return false;
    if (o->pidfd < 0)
        return !gd__owner_alive(&o->owner);
    struct pollfd p = { .fd = o->pidfd, .events = POLLIN };
    return poll(&p, 1, 0) > 0;
}

static bool is_stale(const struct gd_observer *o)
{
    const struct gd__reader *r = &o->reader;
    const uint64_t last = r->awake_ns > r->run.published_ns ? r->awake_ns : r->run.published_ns;
    return !r->run.ended && r->awake_ns > 0 && o->snapshot.read_ns > last && o->snapshot.read_ns - last > STALE_NS;
}

/* Checks the numbers for the work done, since a page may contain any value. */
static void fill_work(struct gd_observer *o)
{
    gd__work_fit(&o->snapshot.work_done, &o->snapshot.work_total, o->reader.run.work_done, o->reader.run.work_total);
}

static int fill(struct gd_observer *o)
{
    struct gd_snapshot *s = &o->snapshot;
    o->stats = o->reader.run.stats;
    o->stats.size = sizeof o->stats;
    o->stats.n_workers = s->n_workers;
    s->ended = o->reader.run.ended != 0;
    s->stale = is_stale(o);
    fill_work(o);
    fill_workers(o);
    fill_tasks(o);
    fill_requests(o);
    return fill_failures(o);
}

/* Called after a failed read. Removes the tasks, failures and requests, because the previous read has reported them. */
static int nothing_new(struct gd_observer *o, int rc)
{
    o->snapshot.tasks = NULL; /* the reader may have reallocated this memory */
    o->snapshot.n_tasks = o->snapshot.n_failures = o->snapshot.n_requests = 0;
    o->snapshot.tasks_missed = o->snapshot.failures_missed = o->snapshot.requests_missed = 0;
    return rc;
}

int gd_observer_read(struct gd_observer *o, const struct gd_snapshot **out)
{
    if (!o || !out)
        return gd__error(GD_E_INVALID, "gd_observer_read: the observer or out is NULL");
    *out = &o->snapshot;
    const bool gone = is_gone(o); /* checked first, so that the read below sees the last published state */
    int rc = gd__reader_read(&o->reader);
    o->snapshot.read_ns = gd__now_ns(); /* taken last, so that nothing in the snapshot is later */
    if (rc < 0)
        return nothing_new(o, rc);
    rc = fill(o);
    if (rc == 0 && !gone && !o->snapshot.ended && !o->no_devices)
        gd__sample_update(&o->sample, o->snapshot.read_ns, o->devices, o->snapshot.n_devices);
    if (rc == 0 && gone && !o->snapshot.ended)
        return gd__error(GD_E_NO_JOB, "this run was killed (process %llu)", (unsigned long long)o->owner.pid);
    return rc;
}
