/* SPDX-License-Identifier: MIT
 *
 * A worker that writes a line to a file ($GD_TEST_LOG) for each task, before it answers. It holds a shared lock on the
 * file: a process that gets an exclusive lock knows that no worker is left. Inputs that begin with "bad" fail, unless
 * $GD_TEST_MEND is set. $GD_TEST_BURN is how many microseconds a task takes.
 */
#include <fcntl.h>
#include <gpu_dispatch/worker.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static int log_fd = -1;
static long burn_us;
static int mend;

static long now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int setup(struct gd_worker *w, const struct gd_setup *s)
{
    const char *path = getenv("GD_TEST_LOG"), *burn = getenv("GD_TEST_BURN");
    (void)s;
    log_fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (log_fd < 0 || flock(log_fd, LOCK_SH) < 0)
        return gd_worker_error(w, "cannot open the log");
    burn_us = burn ? atol(burn) : 0;
    mend = getenv("GD_TEST_MEND") != NULL;
    return 0;
}

static int process(struct gd_worker *w, const struct gd_task *task, struct gd_result *result)
{
    (void)w;
    char line[300], answer[300];
    const int size = (int)task->size;
    const int n = snprintf(line, sizeof line, "%.*s\n", size, (const char *)task->data);
    for (const long end = now_us() + burn_us; burn_us && now_us() < end;)
        ;
    if (n < 0 || write(log_fd, line, (size_t)n) != n)
        return gd_result_error(result, "cannot write the log");
    if (!mend && size >= 3 && memcmp(task->data, "bad", 3) == 0)
        return gd_result_error(result, "it is bad");
    const int length = snprintf(answer, sizeof answer, "did %.*s", size, (const char *)task->data);
    return gd_result_set(result, answer, (size_t)length);
}

const struct gd_worker_ops *gd_plugin_worker(void)
{
    static const struct gd_worker_ops ops = { .size = sizeof ops, .setup = setup, .process = process };
    return &ops;
}
