/* SPDX-License-Identifier: MIT
 *
 * The views of a run of the command: the list of workers, the page, the sinks, the display. This file also starts the
 * handling of signals, which may hurry the views. All of these use the dispatcher and are closed before it.
 */
#include <time.h>

#include <gpu_dispatch/devices.h>

#include "binding.h"
#include "cli/run/running.h"
#include "cli/run/stop/suspend.h"
#include "cli/say.h"
#include "view/figures.h"

enum { GPUS_MOST = 32 }; /* the most GPUs of a worker */

static void show_gpu(const struct gd_devices *devices, int worker_id, int gpu_id)
{
    struct gd_device d = { .size = sizeof d };
    const int at = devices ? gd_devices_find(devices, gpu_id) : -1;
    if (at < 0 || gd_devices_get(devices, (size_t)at, &d) < 0)
        cli_say("worker %d: GPU %d", worker_id, gpu_id);
    else
        cli_say("worker %d: GPU %d, %s%s%s", worker_id, d.id, d.name, *d.uuid ? ", " : "", d.uuid);
}

/* --verbose: which worker is on which devices. */
static void show_map(const struct cli_running *r)
{
    int gpus[GPUS_MOST];
    struct gd_devices *devices = NULL;
    if (gd_devices_open(&devices, gd__spec_is_free(r->asked->gpus) ? NULL : r->asked->gpus) < 0)
        devices = NULL;
    for (unsigned i = 0; i < r->run.n_workers; i++) {
        const int n = gd_dispatcher_worker_gpus(r->run.d, i, gpus, GPUS_MOST);
        for (int k = 0; k < n && k < GPUS_MOST; k++)
            show_gpu(devices, (int)i, gpus[k]);
    }
    gd_devices_close(&devices);
}

/* The figures are from the last event. If tasks are long, this may be hours ago. The time is the current time. */
static int stats_now(void *user, struct gd_snapshot *out, struct gd_stats *s)
{
    struct cli_running *r = user;
    struct timespec now;
    int rc = gd_dispatcher_stats(r->run.d, s);
    clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    s->now_ns = out->read_ns = now_ns > s->now_ns ? now_ns : s->now_ns;
    view_part_cancelled(s);
    s->total = cli_input_total(r->input);
    gd_dispatcher_work(r->run.d, &out->work_done, &out->work_total);
    return rc;
}

static void say_line(void *user, const char *message)
{
    (void)user;
    cli_say("%s", message);
}

/* Called on the thread that handles signals. */
static void hurry(void *user, unsigned count)
{
    struct cli_running *r = user;
    cli_sinks_hurry(&r->sinks, count);
}

static int open_sinks(struct cli_running *r)
{
    r->sinks.d = r->run.d;
    r->sinks.trouble = cli_end_for_trouble;
    r->sinks.user = r;
    return cli_sinks_open(&r->sinks, r->asked, r->program.command, r->journal);
}

int cli_views_open(struct cli_running *r)
{
    struct gd_dispatcher *d = r->run.d;
    if (r->asked->verbose)
        show_map(r);
    if (cli_page_open(&r->page, r->asked, d, r->input, r->job) < 0 || open_sinks(r) < 0 ||
        cli_watch_open(&r->watch, d, r->input, r->job, GD_OBSERVED_FAILURES | GD_OBSERVED_DEVICES) < 0 ||
        cli_sinks_draw(&r->sinks, r->asked, stats_now, r, r->watch) < 0)
        return -1;
    cli_suspend_with(d);
    /* last, because its thread uses everything above */
    return cli_interrupt_open(&r->interrupt, &r->run, r->asked->stop_grace_ms, say_line, hurry, r);
}

void cli_views_close(struct cli_running *r)
{
    cli_suspend_with(NULL);
    cli_watch_end(r->watch);
    r->run.left_behind = !cli_sinks_undraw(&r->sinks);
    cli_page_close(&r->page);
    if (!r->run.left_behind)
        cli_watch_close(&r->watch);
}
