/* SPDX-License-Identifier: MIT
 *
 * The worker of the outside program and of the outside plugin: doubles an int.
 */
#ifndef OUTSIDE_WORKER_H
#define OUTSIDE_WORKER_H

#include <gpu_dispatch/worker.h>
#include <string.h>

static int double_process(struct gd_worker *w, const struct gd_task *task, struct gd_result *result)
{
    int number;
    (void)w;
    if (task->size != sizeof number)
        return gd_result_error_final(result, "not an int: %zu bytes", task->size);
    memcpy(&number, task->data, sizeof number);
    number *= 2;
    return gd_result_set(result, &number, sizeof number);
}

static const struct gd_worker_ops *double_worker(void)
{
    static struct gd_worker_ops ops;
    ops.size = sizeof ops;
    ops.process = double_process;
    return &ops;
}

#endif
