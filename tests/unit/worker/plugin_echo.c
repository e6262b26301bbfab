/* SPDX-License-Identifier: MIT
 *
 * A worker plugin for tests. The result of a task is its payload.
 */
#include <gpu_dispatch/worker.h>

static int process(struct gd_worker *w, const struct gd_task *task, struct gd_result *result)
{
    (void)w;
    return gd_result_set(result, task->data, task->size);
}

const struct gd_worker_ops *gd_plugin_worker(void)
{
    static const struct gd_worker_ops ops = { .size = sizeof ops, .process = process };
    return &ops;
}
