/* SPDX-License-Identifier: MIT
 *
 * An observer of our own run. If the run cannot be observed (no directory for its page), a snapshot is made from the
 * dispatcher's statistics. It does not show what each worker is doing. */
#include "cli/run/views/watch.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/failure.h"
#include "binding.h"
#include "view/figures.h"

struct cli_watch {
    struct gd_dispatcher *d;
    const struct cli_input *input;
    struct gd_observer *observer; /* NULL: the fields below are filled here */
    struct gd_snapshot s;
    struct gd_stats all; /* the statistics of s */
    struct gd_worker_view *views;
    struct gd_worker_stats *stats;
    size_t n;
    atomic_bool ended;
};

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int make_room(struct cli_watch *w)
{
    const int n = gd_dispatcher_worker_stats(w->d, NULL, sizeof *w->stats, 0);
    if (n < 0)
        return gd__fail("%s", gd_error_text());
    w->n = (size_t)n;
    w->views = calloc(w->n + 1, sizeof *w->views);
    w->stats = calloc(w->n + 1, sizeof *w->stats);
    return w->views && w->stats ? 0 : gd__fail("out of memory");
}

int cli_watch_open(struct cli_watch **out, struct gd_dispatcher *d, const struct cli_input *input, const char *job,
                   unsigned what)
{
    struct cli_watch *w = calloc(1, sizeof *w);
    if (!w)
        return gd__fail("out of memory");
    *w = (struct cli_watch){ .d = d, .input = input };
    w->s = (struct gd_snapshot){ .size = sizeof w->s,
                                 .pid = (uint64_t)getpid(),
                                 .started = (double)now_ns(CLOCK_REALTIME) / 1e9,
                                 .stats = &w->all };
    snprintf(w->s.job, sizeof w->s.job, "%s", job);
    const int rc = gd_observer_attach(&w->observer, d) == 0 ? gd_observer_select(w->observer, what) : make_room(w);
    if (rc < 0) {
        cli_watch_close(&w);
        return -1;
    }
    *out = w;
    return 0;
}

/* Fills the snapshot from the statistics. */
static int read_own(struct cli_watch *w)
{
    w->all.size = sizeof w->all;
    if (gd_dispatcher_stats(w->d, &w->all) < 0)
        return -1;
    const int n = gd_dispatcher_worker_stats(w->d, w->stats, sizeof *w->stats, w->n);
    gd_dispatcher_work(w->d, &w->s.work_done, &w->s.work_total);
    w->s.read_ns = now_ns(CLOCK_MONOTONIC);
    w->s.n_workers = n < 0 ? 0 : (size_t)n < w->n ? (size_t)n : w->n;
    w->s.workers = w->views;
    for (size_t i = 0; i < w->s.n_workers; i++)
        gd__worker_view_fill(&w->views[i], &w->stats[i]);
    return 0;
}

static int read_observed(struct cli_watch *w)
{
    const struct gd_snapshot *s;
    if (gd_observer_read(w->observer, &s) < 0)
        return -1;
    w->s = *s;
    w->all = *s->stats;
    w->s.stats = &w->all;
    return 0;
}

int cli_watch_read(void *watch, const struct gd_snapshot **out)
{
    struct cli_watch *w = watch;
    if ((w->observer ? read_observed(w) : read_own(w)) < 0)
        return -1;
    const uint64_t total = cli_input_total(w->input);
    view_part_cancelled(&w->all);
    if (total)
        w->all.total = total;
    w->s.ended = w->s.ended || w->ended;
    *out = &w->s;
    return 0;
}

void cli_watch_end(struct cli_watch *w)
{
    if (w)
        w->ended = true;
}

void cli_watch_close(struct cli_watch **watch)
{
    struct cli_watch *w = *watch;
    if (!w)
        return;
    gd_observer_close(&w->observer);
    free(w->views);
    free(w->stats);
    free(w);
    *watch = NULL;
}
