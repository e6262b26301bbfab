/* SPDX-License-Identifier: MIT
 *
 * Counts how much of the work of a run is done. Work is counted in whole units, so that at the end the work done equals
 * the total exactly. */
#include "cli/run/work.h"

#include <stdlib.h>

#include "base/failure.h"

/* Called with the lock held, so that the last report has the latest figures. */
static void tell(const struct cli_work *w)
{
    gd_dispatcher_set_work(w->d, (double)(w->done + w->running) * w->unit, (double)w->total * w->unit);
}

int cli_work_open(struct cli_work *w, struct gd_dispatcher *d, const struct gd_files *files, double unit)
{
    *w = (struct cli_work){ .d = d, .unit = unit, .room = gd_files_count(files) };
    w->weights = calloc(w->room + 1, sizeof *w->weights);
    w->begun = calloc(w->room + 1, sizeof *w->begun);
    if (!w->weights || !w->begun) {
        free(w->weights);
        free(w->begun);
        *w = (struct cli_work){ 0 };
        return gd__fail("out of memory");
    }
    pthread_mutex_init(&w->lock, NULL);
    for (size_t i = 0; i < w->room; i++)
        w->total += gd_files_size(files, i);
    tell(w);
    return 0;
}

void cli_work_skipped(struct cli_work *w, const struct gd_skipped *skipped)
{
    if (!w->weights)
        return;
    pthread_mutex_lock(&w->lock);
    if (skipped->task_id < w->n)
        w->total -= w->weights[skipped->task_id];
    tell(w);
    pthread_mutex_unlock(&w->lock);
}

void cli_work_given(struct cli_work *w, uint64_t weight)
{
    if (!w->weights || w->n == w->room)
        return;
    pthread_mutex_lock(&w->lock);
    w->weights[w->n++] = weight;
    pthread_mutex_unlock(&w->lock);
}

void cli_work_reached(struct cli_work *w, uint64_t task_id, double work)
{
    if (!w->weights || !(work >= 0))
        return;
    pthread_mutex_lock(&w->lock);
    if (task_id < w->n) {
        const double most = (double)w->weights[task_id], units = work / w->unit;
        w->running -= w->begun[task_id];
        w->begun[task_id] = units < most ? (uint64_t)units : w->weights[task_id];
        w->running += w->begun[task_id];
        tell(w);
    }
    pthread_mutex_unlock(&w->lock);
}

void cli_work_ended(struct cli_work *w, const struct gd_report *report)
{
    if (!w->weights)
        return;
    pthread_mutex_lock(&w->lock);
    if (report->task_id < w->n) {
        w->running -= w->begun[report->task_id];
        w->begun[report->task_id] = 0;
        w->done += report->failure == GD_FAILURE_CANCELLED ? 0 : w->weights[report->task_id];
    }
    tell(w);
    pthread_mutex_unlock(&w->lock);
}

void cli_work_close(struct cli_work *w)
{
    if (!w->weights)
        return;
    free(w->weights);
    free(w->begun);
    pthread_mutex_destroy(&w->lock);
    *w = (struct cli_work){ 0 };
}
