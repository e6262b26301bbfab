/* SPDX-License-Identifier: MIT
 *
 * A plugin that answers with its setup arguments, followed by the input.
 */
#include <gpu_dispatch/worker.h>
#include <stdio.h>
#include <string.h>

static char args[64];

static int setup(struct gd_worker *w, const struct gd_setup *s)
{
    (void)w;
    snprintf(args, sizeof args, "%.*s", (int)s->args_size, s->args ? (const char *)s->args : "");
    return 0;
}

static int process(struct gd_worker *w, const struct gd_task *task, struct gd_result *result)
{
    char text[256];
    (void)w;
    int n = snprintf(text, sizeof text, "%s %.*s", args, (int)task->size, (const char *)task->data);
    return gd_result_set(result, text, (size_t)n);
}

static int process_batch(struct gd_worker *w, const struct gd_task *const *tasks, struct gd_result *const *results,
                         size_t n)
{
    for (size_t i = 0; i < n; i++)
        process(w, tasks[i], results[i]);
    return 0;
}

const struct gd_worker_ops *gd_plugin_worker(void)
{
    static const struct gd_worker_ops ops = {
        .size = sizeof ops, .setup = setup, .process = process, .process_batch = process_batch
    };
    return &ops;
}
