/* SPDX-License-Identifier: MIT
 *
 * A program as a user would write it, with the installed headers. It is valid C17 and valid C++17. It doubles numbers
 * on two simulated devices and checks each result. The worker is its own, or that of a plugin if a path is given.
 *
 * usage: double [PLUGIN]
 */
#include <gpu_dispatch/gpu_dispatch.h>
#include <stdio.h>
#include <string.h>

#include "worker.h"

enum { N_TASKS = 1000 };

struct run {
    int next;
    int right;
    int wrong;
    int exits;
};

static int next_number(void *user, struct gd_item *item)
{
    struct run *run = (struct run *)user;
    static int number; /* the library copies it after this call */
    if (run->next == N_TASKS)
        return 0;
    number = run->next++;
    item->data = &number;
    item->size = sizeof number;
    return 1;
}

static void on_success(void *user, const struct gd_report *report)
{
    struct run *run = (struct run *)user;
    int in, out = -1;
    memcpy(&in, report->input, sizeof in);
    if (report->size == sizeof out)
        memcpy(&out, report->data, sizeof out);
    if (out == 2 * in && (uint64_t)in == report->task_id)
        run->right++;
    else
        run->wrong++;
}

static void on_error(void *user, const struct gd_report *report)
{
    struct run *run = (struct run *)user;
    run->wrong++;
    fprintf(stderr, "task %llu: %s: %s\n", (unsigned long long)report->task_id, gd_failure_name(report->failure),
            report->error);
}

static void on_exit_(void *user)
{
    struct run *run = (struct run *)user;
    run->exits++;
}

int main(int argc, char **argv)
{
    const int gpus[] = { 0, 1 };
    struct run run = { 0, 0, 0, 0 };
    struct gd_options o;
    if (gd_worker_main(&argc, argv, double_worker()) < 0) {
        fprintf(stderr, "gd_worker_main: %s\n", gd_error_text());
        return 1;
    }
    gd_options_init(&o, sizeof o);
    o.gpu_ids = gpus;
    o.n_gpus = 2;
    o.plugin = argc > 1 ? argv[1] : NULL;
    o.source = next_number;
    o.on_success = on_success;
    o.on_error = on_error;
    o.on_exit = on_exit_;
    o.user = &run;
    if (gd_run(&o) < 0) {
        fprintf(stderr, "gd_run: %s\n", gd_error_text());
        return 1;
    }
    printf("version %s, %d right, %d wrong\n", gd_version(), run.right, run.wrong);
    return run.right == N_TASKS && run.wrong == 0 && run.exits == 1 ? 0 : 1;
}
