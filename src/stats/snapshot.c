/* The elements of a snapshot's lists. Public: see <gpu_dispatch/observe.h>.
 *
 * A program indexes them through these functions, so that it keeps working with a library whose elements are larger
 * than the ones it was built with.
 */
#include <gpu_dispatch/observe.h>

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
