/* SPDX-License-Identifier: MIT
 *
 * A program that is a worker. It answers with its own first argument, followed by the input.
 */
#include <gpu_dispatch/worker.h>
#include <stdio.h>

static const char *word = "";

static int process(struct gd_worker *w, const struct gd_task *task, struct gd_result *result)
{
    char text[256];
    (void)w;
    int n = snprintf(text, sizeof text, "%s %.*s", word, (int)task->size, (const char *)task->data);
    return gd_result_set(result, text, (size_t)n);
}

int main(int argc, char **argv)
{
    static const struct gd_worker_ops ops = { .size = sizeof ops, .process = process };
    if (argc > 1)
        word = argv[1];
    gd_worker_main(&argc, argv, &ops);
    fputs("this program is a worker: it is started by gpu-dispatch run --worker\n", stderr);
    return 2;
}
