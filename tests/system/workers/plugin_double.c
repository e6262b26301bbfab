/* SPDX-License-Identifier: MIT
 *
 * A worker plugin for tests. The payload is a number of eight bytes, and the result is twice that number. 13 is an
 * error, and 666 ends the process. If the setup arguments are "refuse", setup fails.
 */
#include <gpu_dispatch/worker.h>
#include <stdlib.h>
#include <string.h>

static int setup(struct gd_worker *w, const struct gd_setup *s)
{
    if (s->args_size == 6 && memcmp(s->args, "refuse", 6) == 0)
        return gd_worker_error(w, "the plugin refused");
    return 0;
}

static int process(struct gd_worker *w, const struct gd_task *task, struct gd_result *result)
{
    uint64_t n;
    (void)w;
    if (task->size != sizeof n)
        return gd_result_error(result, "%zu bytes are not a number", task->size);
    memcpy(&n, task->data, sizeof n);
    if (n == 13)
        return gd_result_error_final(result, "13 is bad luck");
    if (n == 666)
        exit(66);
    n *= 2;
    return gd_result_set(result, &n, sizeof n);
}

const struct gd_worker_ops *gd_plugin_worker(void)
{
    static const struct gd_worker_ops ops = { .size = sizeof ops, .setup = setup, .process = process };
    return &ops;
}
