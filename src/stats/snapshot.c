/* The elements of a snapshot's lists. Public: see <gpu_dispatch/observe.h>.
 *
 * A program indexes them through these functions, so that it keeps working with a library whose elements are larger
 * than the ones it was built with.
 */
#include <gpu_dispatch/observe.h>

#include "binding.h"

const struct gd_worker_view *gd_snapshot_worker(const struct gd_snapshot *s, size_t i)
{
    return s && i < s->n_workers ? (const struct gd_worker_view *)s->workers + i : NULL;
}

const struct gd_device_view *gd_snapshot_device(const struct gd_snapshot *s, size_t i)
{
    return s && i < s->n_devices ? (const struct gd_device_view *)s->devices + i : NULL;
}

const struct gd_task_view *gd_snapshot_task(const struct gd_snapshot *s, size_t i)
{
    return s && i < s->n_tasks ? (const struct gd_task_view *)s->tasks + i : NULL;
}

const struct gd_failure_view *gd_snapshot_failure(const struct gd_snapshot *s, size_t i)
{
    return s && i < s->n_failures ? (const struct gd_failure_view *)s->failures + i : NULL;
}

const struct gd_request_view *gd_snapshot_request(const struct gd_snapshot *s, size_t i)
{
    return s && i < s->n_requests ? (const struct gd_request_view *)s->requests + i : NULL;
}

void gd__worker_view_fill(struct gd_worker_view *to, const struct gd_worker_stats *from)
{
    to->worker_id = from->worker_id;
    to->gpu_id = from->gpu_id;
    to->state = from->state;
    to->pid = from->pid;
    to->current_task = from->current_task;
    to->handed = from->handed;
    to->completed = from->completed;
    to->failed = from->failed;
    to->timeouts = from->timeouts;
    to->restarts = from->restarts;
    to->last_ns = from->last_ns;
    to->busy_ns = from->busy_ns;
    to->in_flight = from->in_flight;
}
