/* SPDX-License-Identifier: MIT
 *
 * A complete program: a worker and the driver that dispatches to it.
 *
 *     example_demo [images [devices]]
 *
 * Each task is a small grey image; the worker inverts it. Four devices are simulated, so no GPU is needed. Three of the
 * images are bad, as in every long run. One crashes its worker in the first attempt, one hangs, and one cannot be
 * processed. See examples/cuda for the same on a real GPU.
 */
#include <gpu_dispatch/gpu_dispatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 256, PIXELS = SIDE * SIDE, PASSES = 24, MOST_DEVICES = 64 };
enum poison { FINE, CRASHES_ONCE, HANGS, IS_BROKEN };

struct image {
    uint32_t number;
    uint32_t poison; /* enum poison */
    unsigned char pixels[PIXELS];
};

/* --- the worker: runs in its own process, one per device --- */

static int setup(struct gd_worker *w, const struct gd_setup *s)
{
    (void)w, (void)s; /* a real worker loads its model here: s->gpu_id, s->seed, s->args */
    return 0;
}

static int process(struct gd_worker *w, const struct gd_task *task, struct gd_result *result)
{
    const struct image *in = task->data; /* in memory shared with the dispatcher, not a copy */
    if (in->poison == CRASHES_ONCE && task->attempt == 1) {
        fprintf(stderr, "image %u: the decoder wrote where it should not\n", in->number);
        abort();
    }
    if (in->poison == IS_BROKEN)
        return gd_result_error_final(result, "image %u is not an image", in->number);
    while (in->poison == HANGS && !gd_task_cancelled(w))
        ;
    if (gd_task_cancelled(w))
        return gd_result_cancelled(result);
    unsigned char *out = gd_result_alloc(result, PIXELS);
    if (!out)
        return GD_E_NO_MEMORY;
    memcpy(out, in->pixels, PIXELS);
    for (int pass = 0; pass < PASSES + 1; pass++) /* an odd number of passes, to take some time */
        for (int i = 0; i < PIXELS; i++)
            out[i] = (unsigned char)(255 - out[i]);
    return 0;
}

/* --- the driver --- */

struct job {
    struct gd_dispatcher *dispatcher;
    uint32_t n_images, next;
    uint64_t done, wrong;
    bool terminal;
};

static unsigned char pixel(uint32_t image, int i)
{
    return (unsigned char)(image * 31u + (unsigned)i * 7u);
}

static int next_image(void *user, struct gd_item *item)
{
    struct job *job = user;
    if (job->next == job->n_images)
        return 0;
    struct image *im = gd_item_alloc(item, sizeof *im); /* written in place */
    if (!im)
        return gd_item_error(item, "%s", gd_error_text());
    im->number = job->next++;
    const uint32_t quarter = job->n_images / 4;
    im->poison = im->number == quarter       ? CRASHES_ONCE
                 : im->number == 2 * quarter ? HANGS
                 : im->number == 3 * quarter ? IS_BROKEN
                                             : FINE;
    for (int i = 0; i < PIXELS; i++)
        im->pixels[i] = pixel(im->number, i);
    return 1;
}

static void show_progress(struct job *job)
{
    enum { WIDTH = 40 };
    const int full = (int)(WIDTH * job->done / job->n_images);
    if (!job->terminal || (job->done % 16 != 0 && job->done != job->n_images))
        return;
    fprintf(stderr, "\r[%.*s%.*s] %" PRIu64 "/%u", full, "########################################", WIDTH - full,
            "........................................", job->done, job->n_images);
    if (job->done == job->n_images)
        fputc('\n', stderr);
}

static void on_success(void *user, const struct gd_report *r)
{
    struct job *job = user;
    const unsigned char *out = r->data;
    bool right = r->size == PIXELS;
    for (int i = 0; right && i < PIXELS; i++)
        right = out[i] == (unsigned char)(255 - pixel((uint32_t)r->task_id, i));
    job->wrong += !right;
    job->done++;
    show_progress(job);
}

static void on_failure(void *user, const struct gd_report *r)
{
    struct job *job = user;
    printf("%simage %" PRIu64 ": %s: %s\n", job->terminal ? "\r\033[K" : "", r->task_id, gd_failure_name(r->failure),
           r->error);
    job->done++;
    show_progress(job);
}

static void on_worker_exit(void *user, int worker_id, int gpu_id, const char *why, bool given_up)
{
    struct job *job = user;
    (void)worker_id, (void)gpu_id;
    printf("%s%s\n  -> %s\n", job->terminal ? "\r\033[K" : "", why,
           given_up ? "given up" : "replaced; its tasks go on elsewhere");
}

static void print_summary(struct job *job)
{
    struct gd_stats s = { .size = sizeof s };
    struct gd_worker_stats w[MOST_DEVICES];
    gd_dispatcher_stats(job->dispatcher, &s);
    const int n = gd_dispatcher_worker_stats(job->dispatcher, w, sizeof *w, MOST_DEVICES);
    const double seconds = (double)(s.now_ns - s.start_ns) / 1e9;
    printf("\ndevice  done  failed  timed out  restarts   busy\n");
    for (int i = 0; i < n; i++)
        printf("%6" PRId64 "%6" PRIu64 "%8" PRIu64 "%11" PRIu64 "%10" PRIu64 "%6.0f%%\n", w[i].gpu_id, w[i].completed,
               w[i].failed, w[i].timeouts, w[i].restarts, (double)w[i].busy_ns / 1e7 / seconds);
    printf("\n%" PRIu64 " taken, %" PRIu64 " completed, %" PRIu64 " failed, %" PRIu64 " timed out: %s\n", s.taken,
           s.completed, s.failed, s.timeouts,
           s.taken == s.completed + s.failed + s.timeouts ? "none lost" : "SOME LOST");
    printf("%.2f s, %.0f images a second; every pixel checked, %" PRIu64 " images wrong\n", seconds,
           (double)s.taken / seconds, job->wrong);
}

int main(int argc, char **argv)
{
    static const struct gd_worker_ops ops = { .size = sizeof ops, .setup = setup, .process = process };
    if (gd_worker_main(&argc, argv, &ops) < 0) { /* in a worker process this call does the work and does not return */
        fprintf(stderr, "%s\n", gd_error_text());
        return 1;
    }
    const long images = argc > 1 ? strtol(argv[1], NULL, 10) : 2000;
    const long devices = argc > 2 ? strtol(argv[2], NULL, 10) : 4;
    if (images < 4 || images > 10000000 || devices < 1 || devices > MOST_DEVICES) {
        fprintf(stderr, "usage: %s [images (4 or more) [devices (1 to %d)]]\n", argv[0], MOST_DEVICES);
        return 2;
    }
    struct job job = { .n_images = (uint32_t)images, .terminal = isatty(STDERR_FILENO) && isatty(STDOUT_FILENO) };
    int gpus[MOST_DEVICES];
    for (int i = 0; i < devices; i++)
        gpus[i] = i;

    struct gd_options o = GD_OPTIONS_INIT;
    o.gpu_ids = gpus;
    o.n_gpus = (size_t)devices;
    o.handle_signals = true; /* Ctrl-C shuts the run down, a second one ends it at once */
    o.task_timeout_ms = 250;
    o.total_tasks = job.n_images;
    o.output = GD_OUTPUT_DISCARD; /* the report of a crash still has the end of the worker's stderr */
    o.user = &job;
    o.source = next_image;
    o.on_success = on_success;
    o.on_error = o.on_timeout = on_failure;
    o.on_worker_exit = on_worker_exit;
    printf("%u images on %ld simulated devices, each with its own process\n", job.n_images, devices);
    fflush(stdout);
    int rc = gd_dispatcher_open(&job.dispatcher, &o);
    if (rc == 0) {
        rc = gd_dispatcher_run(job.dispatcher);
        print_summary(&job);
    }
    if (rc < 0)
        fprintf(stderr, "example_demo: %s\n", gd_error_text());
    gd_dispatcher_close(&job.dispatcher);
    return rc < 0 || job.wrong > 0;
}
