/* SPDX-License-Identifier: MIT
 *
 * An observer reads a page with arbitrary bytes. Whatever they are, each read ends, and its results are terminated and
 * within bounds. The input is a script that changes a valid page. Each step writes some bytes at an offset (mostly in
 * the parts that control the reader), truncates the file, or lets the observer read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stats/observer.h"
#include "stats/page/page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond)                                                     \
    do {                                                               \
        if (!(cond)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
            abort();                                                   \
        }                                                              \
    } while (0)

static unsigned char *good;
static struct gd__page_plan plan;

static void make_good_page(void)
{
    const struct gd__page_device device = { .gpu_id = 0, .name = "a device" };
    const struct gd__page_spec spec = { .job = "fuzzed", .n_workers = 2, .n_devices = 1, .devices = &device };
    const struct gd__page_failure f = { .input_size = 5, .error_size = 5, .input = "input", .error = "error" };
    struct gd__page *p;
    setenv("GPU_DISPATCH_JOBS", "/nonexistent/folder", 1);
    MUST(gd__page_open(&p, &spec) == 0);
    for (unsigned i = 0; i < 3; i++) {
        gd__page_put_task(p, &f.task);
        gd__page_put_failure(p, &f);
    }
    p->run.tasks_ended = p->run.failures_ended = 3;
    gd__page_put_request(p, &(struct gd__page_request){ .text_size = 6, .text = "paused" });
    gd__page_put_run(p);
    plan = p->plan;
    good = malloc(plan.size);
    MUST(good != NULL);
    memcpy(good, p->base, plan.size);
    gd__page_close(&p);
}

static void check_text(const char *text, size_t room)
{
    MUST(memchr(text, '\0', room) != NULL);
    for (; *text; text++)
        MUST((unsigned char)*text >= ' ' && *text != 0x7f);
}

static void look(struct gd_observer *o)
{
    const struct gd_snapshot *s;
    if (!o)
        return;
    (void)gd_observer_read(o, &s);
    check_text(s->job, sizeof s->job);
    for (size_t i = 0; i < s->n_workers; i++) {
        MUST(gd_snapshot_worker(s, i)->state <= GD_WORKER_LOST && gd_snapshot_worker(s, i)->idle <= GD_IDLE_REMOVED);
        check_text(gd_snapshot_worker(s, i)->task, sizeof gd_snapshot_worker(s, i)->task);
    }
    for (size_t i = 0; i < s->n_devices; i++) {
        check_text(gd_snapshot_device(s, i)->name, sizeof gd_snapshot_device(s, i)->name);
        check_text(gd_snapshot_device(s, i)->uuid, sizeof gd_snapshot_device(s, i)->uuid);
    }
    MUST(s->n_tasks <= GD__PAGE_TASKS && s->n_failures <= GD__PAGE_FAILURES && s->n_requests <= GD__PAGE_REQUESTS);
    for (size_t i = 0; i < s->n_requests; i++)
        check_text(gd_snapshot_request(s, i)->what, sizeof gd_snapshot_request(s, i)->what);
    for (size_t i = 0; i < s->n_tasks; i++)
        MUST(gd_snapshot_task(s, i)->failure <= GD_FAILURE_NO_WORKER);
    for (size_t i = 0; i < s->n_failures; i++) {
        check_text(gd_snapshot_failure(s, i)->input, sizeof gd_snapshot_failure(s, i)->input);
        check_text(gd_snapshot_failure(s, i)->error, sizeof gd_snapshot_failure(s, i)->error);
    }
}

/* An offset in the page. One byte chooses the part, two bytes choose the position in it. */
static size_t place(const uint8_t *step)
{
    const size_t parts[] = { 0,          plan.live,     plan.sequences, plan.run, plan.workers, plan.devices,
                             plan.tasks, plan.failures, plan.requests };
    return parts[step[0] % (sizeof parts / sizeof *parts)] + (step[1] | (size_t)step[2] << 8) % 1024;
}

enum { STEP = 12 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gd_observer *o = NULL;
    if (!good)
        make_good_page();
    const int fd = memfd_create("page", MFD_CLOEXEC);
    MUST(fd >= 0 && write(fd, good, plan.size) == (ssize_t)plan.size);
    for (; size >= STEP; data += STEP, size -= STEP) {
        const size_t at = place(data + 1);
        switch (data[0] % 4) {
        case 0:
            look(o);
            break;
        case 1:
            if (!o)
                (void)gd__observer_open_page(&o, dup(fd), true);
            break;
        case 2:
            MUST(pwrite(fd, data + 4, 8, (off_t)at) == 8);
            break;
        default:
            MUST(ftruncate(fd, (off_t)(at + 8 * (size_t)data[4])) == 0);
            break;
        }
    }
    if (!o)
        (void)gd__observer_open_page(&o, dup(fd), true);
    look(o);
    look(o);
    gd_observer_close(&o);
    close(fd);
    return 0;
}
