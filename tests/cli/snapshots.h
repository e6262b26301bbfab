/* SPDX-License-Identifier: MIT
 *
 * Made-up snapshots of runs, for tests of the views.
 */
#ifndef GD_TESTS_CLI_SNAPSHOTS_H
#define GD_TESTS_CLI_SNAPSHOTS_H

#include <gpu_dispatch/devices.h>
#include <gpu_dispatch/observe.h>

#include "base/text/buffer.h"
#include "common.h"
#include "support/screens.h"
#include "tui/layout.h"

enum { MOST_MADE = 256 };
#define SECOND UINT64_C(1000000000)

struct made_up {
    struct gd_snapshot s;
    struct gd_stats stats; /* the statistics of s */
    struct gd_worker_view workers[MOST_MADE];
    struct gd_device_view devices[MOST_MADE];
    struct gd_failure_view failures[1];
    struct view_history h;
};

/* A run that began 125 seconds ago: 450 of 1,000 tasks have ended, and 4 of them failed. */
TEST_UNUSED static struct made_up *made_run(const char *job)
{
    static struct made_up m;
    memset(&m, 0, sizeof m);
    m.s = (struct gd_snapshot){ .size = sizeof m.s,
                                .pid = 4711,
                                .started = 1700000000,
                                .read_ns = 1125 * SECOND,
                                .stats = &m.stats,
                                .workers = m.workers,
                                .devices = m.devices,
                                .failures = m.failures };
    m.stats = (struct gd_stats){ .size = sizeof m.stats,
                                 .total = 1000,
                                 .taken = 500,
                                 .pending = 48,
                                 .completed = 446,
                                 .failed = 3,
                                 .timeouts = 1,
                                 .start_ns = 1000 * SECOND,
                                 .now_ns = 1125 * SECOND };
    snprintf(m.s.job, sizeof m.s.job, "%s", job);
    /* The setup took five seconds. Since then 3.75 tasks ended per second, and most recently 4. */
    m.h.first = (struct view_sample){ .ns = 1005 * SECOND, .ended = 1 };
    m.h.samples[m.h.n++] = (struct view_sample){ .ns = 1116 * SECOND, .ended = 414 };
    m.h.samples[m.h.n++] = (struct view_sample){ .ns = 1120 * SECOND, .ended = 430 };
    return &m;
}

TEST_UNUSED static struct gd_worker_view *made_worker(struct made_up *m, int gpu_id, enum gd_worker_state state,
                                                      enum gd_idle_reason idle, const char *task, double since_s)
{
    const size_t i = m->s.n_workers++;
    struct gd_worker_view *w = &m->workers[i];
    CHECK_LT(i, MOST_MADE);
    *w = (struct gd_worker_view){ .worker_id = i,
                                  .gpu_id = gpu_id,
                                  .state = state,
                                  .pid = 5000 + i,
                                  .current_task = state == GD_WORKER_BUSY ? 450 + i : UINT64_MAX,
                                  .completed = 200 + i,
                                  .failed = i % 3,
                                  .last_ns = SECOND + i * SECOND / 10,
                                  .idle = idle };
    if (since_s >= 0)
        w->since_ns = m->s.read_ns - (uint64_t)(since_s * 1e9);
    memccpy(w->task, task, 0, sizeof w->task);
    m->stats.n_workers++;
    m->stats.running += state == GD_WORKER_BUSY;
    return w;
}

TEST_UNUSED static void made_device(struct made_up *m, int gpu_id)
{
    struct gd_device_view *d = &m->devices[m->s.n_devices++];
    *d = (struct gd_device_view){
        .gpu_id = gpu_id,
        .group = gpu_id,
        .known = GD_KNOWN_MEMORY | GD_KNOWN_UTILIZATION | GD_KNOWN_TEMPERATURE | GD_KNOWN_POWER,
        .memory_total = UINT64_C(80) << 30,
        .memory_free = UINT64_C(12) << 30,
        .utilization = 90 + (unsigned)gpu_id % 10,
        .temperature = 60 + gpu_id % 40,
        .power_mw = 412000,
    };
    snprintf(d->name, sizeof d->name, "NVIDIA H200");
}

/* Ends the run with all of its tasks done. */
TEST_UNUSED static void made_ended(struct made_up *m)
{
    m->s.ended = true;
    m->stats.completed = 996;
    m->stats.running = 0;
    m->stats.taken = 1000;
    m->stats.source_done = 1;
}

/* The layout as text with its NUL. The caller frees it. */
TEST_UNUSED static char *laid_out(const struct made_up *m, const struct tui_view *v)
{
    struct gd__buffer b = { 0 };
    tui_layout(&b, &m->s, &m->h, v);
    gd__buffer_add(&b, "", 1);
    CHECK(!b.failed);
    return b.data;
}

/* --- expected screens ------------------------------------------------------------------ */

struct made_screen {
    const char *name; /* the name of its file */
    struct made_up *(*make)(void);
    struct tui_view v;
};

TEST_UNUSED static void check_screens_of(struct made_up *(*make)(void), const struct made_screen *screens, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (screens[i].make != make)
            continue;
        char *text = laid_out(make(), &screens[i].v);
        check_screen("cli", screens[i].name, text);
        free(text);
        n++;
    }
    CHECK_GT(n, 0);
}

/* Defines one test for the screens of each run in the table `screens`, so that a wrong screen does not hide others. */
#define SCREENS(id)                                                      \
    TEST(screens_of_##id)                                                \
    {                                                                    \
        check_screens_of(id, screens, sizeof screens / sizeof *screens); \
    }

#endif
