/* SPDX-License-Identifier: MIT
 *
 * Keeps the last snapshot of a run. A run may finish a hundred thousand tasks a second, and no screen can show them
 * all. So from each snapshot the failed tasks and an even selection of the others are kept, up to a limit. The rest are
 * only counted. */
#include "web/live/last_snapshot.h"

#include <stdlib.h>
#include <string.h>

static bool same_stats(const struct gd_stats *a, const struct gd_stats *b)
{
    struct gd_stats x = *a, y = *b;
    x.now_ns = y.now_ns = 0;
    x.size = y.size = 0;
    return memcmp(&x, &y, sizeof x) == 0;
}

bool web_last_differs(const struct web_last *k, const struct gd_snapshot *s)
{
    return s->n_tasks > 0 || s->n_failures > 0 || s->n_requests > 0 || s->ended != k->s.ended ||
           s->stale != k->s.stale || s->n_workers != k->s.n_workers || !same_stats(s->stats, &k->stats) ||
           s->work_done != k->s.work_done || s->work_total != k->s.work_total ||
           (s->n_workers > 0 && memcmp(s->workers, k->workers, s->n_workers * sizeof *k->workers) != 0);
}

/* Makes room for n elements. */
static int reserve(void **list, size_t *room, size_t n, size_t element)
{
    if (n <= *room)
        return 0;
    void *larger = realloc(*list, n * element);
    if (!larger)
        return -1;
    *list = larger;
    *room = n;
    return 0;
}

/* Adds n elements at the end of a list of *count elements with room for `room`. Returns how many of the oldest were
 * dropped. */
static size_t push(void *list, size_t *count, size_t room, const void *more, size_t n, size_t element)
{
    char *at = list;
    size_t gone = *count + n > room ? *count + n - room : 0;
    if (gone) {
        memmove(at, at + gone * element, (*count - gone) * element);
        *count -= gone;
    }
    memcpy(at + *count * element, more, n * element);
    *count += n;
    return gone;
}

/* Selects the tasks to show, at most WEB_TASKS_AT_ONCE. Returns their number. */
static size_t choose(struct gd_task_view *out, const struct gd_snapshot *s)
{
    const size_t even = s->n_tasks > WEB_TASKS_AT_ONCE ? WEB_TASKS_AT_ONCE / 2 : s->n_tasks;
    size_t n = 0, failed = 0;
    for (size_t i = 0; i < s->n_tasks && n < WEB_TASKS_AT_ONCE; i++) {
        const bool its_turn = i * even / s->n_tasks != (i + 1) * even / s->n_tasks;
        const bool counts = gd_snapshot_task(s, i)->failure && failed < WEB_TASKS_AT_ONCE / 2;
        failed += counts;
        if (its_turn || counts)
            out[n++] = *gd_snapshot_task(s, i);
    }
    return n;
}

static void add_tasks(struct web_last *k, const struct gd_snapshot *s, struct gd_snapshot *news)
{
    struct gd_task_view chosen[WEB_TASKS_AT_ONCE];
    size_t n = s->n_tasks ? choose(chosen, s) : 0;
    news->tasks_missed = s->tasks_missed + s->n_tasks - n;
    k->s.tasks_missed +=
        news->tasks_missed + push(k->tasks, &k->s.n_tasks, WEB_LAST_TASKS, chosen, n, sizeof chosen[0]);
    news->tasks = k->tasks + k->s.n_tasks - n;
    news->n_tasks = n;
}

/* Copies the last failures of s, at most WEB_LAST_FAILURES. Cancelled tasks are left out: they are not counted as failed
 * (view_part_cancelled()), and the end of a run may cancel thousands. Returns their number, and sets *all to the number
 * of all failures in s. */
static size_t last_failures(struct gd_failure_view *out, const struct gd_snapshot *s, size_t *all)
{
    size_t n = 0, skipped;
    *all = 0;
    for (size_t i = 0; i < s->n_failures; i++)
        *all += gd_snapshot_failure(s, i)->failure != GD_FAILURE_CANCELLED;
    skipped = *all > WEB_LAST_FAILURES ? *all - WEB_LAST_FAILURES : 0;
    for (size_t i = 0, seen = 0; i < s->n_failures; i++) {
        const struct gd_failure_view *f = gd_snapshot_failure(s, i);
        if (f->failure != GD_FAILURE_CANCELLED && seen++ >= skipped)
            out[n++] = *f;
    }
    return n;
}

static void add_failures(struct web_last *k, const struct gd_snapshot *s, struct gd_snapshot *news)
{
    size_t all;
    const size_t n = last_failures(k->chosen, s, &all);
    news->failures_missed = s->failures_missed + all - n;
    k->s.failures_missed += news->failures_missed;
    if (n > 0)
        k->s.failures_missed +=
            push(k->failures, &k->s.n_failures, WEB_LAST_FAILURES, k->chosen, n, sizeof k->failures[0]);
    news->failures = k->failures + k->s.n_failures - n;
    news->n_failures = n;
}

static void add_requests(struct web_last *k, const struct gd_snapshot *s, struct gd_snapshot *news)
{
    const size_t n = s->n_requests < WEB_LAST_REQUESTS ? s->n_requests : WEB_LAST_REQUESTS, over = s->n_requests - n;
    news->requests_missed = s->requests_missed + over;
    k->s.requests_missed += news->requests_missed;
    if (n > 0)
        k->s.requests_missed += push(k->requests, &k->s.n_requests, WEB_LAST_REQUESTS, gd_snapshot_request(s, over), n,
                                     sizeof k->requests[0]);
    news->requests = k->requests + k->s.n_requests - n;
    news->n_requests = n;
}

int web_last_add(struct web_last *k, const struct gd_snapshot *s, struct gd_snapshot *news)
{
    const struct gd_snapshot before = k->s;
    if (reserve((void **)&k->workers, &k->room_workers, s->n_workers, sizeof *k->workers) < 0 ||
        reserve((void **)&k->devices, &k->room_devices, s->n_devices, sizeof *k->devices) < 0)
        return -1;
    if (s->n_workers > 0)
        memcpy(k->workers, s->workers, s->n_workers * sizeof *k->workers);
    if (s->n_devices > 0)
        memcpy(k->devices, s->devices, s->n_devices * sizeof *k->devices);
    k->s = *s;
    k->stats = *s->stats;
    k->s.stats = &k->stats;
    k->s.workers = k->workers;
    k->s.devices = k->devices;
    k->s.tasks = k->tasks;
    k->s.failures = k->failures;
    k->s.requests = k->requests;
    k->s.n_tasks = before.n_tasks;
    k->s.tasks_missed = before.tasks_missed;
    k->s.n_failures = before.n_failures;
    k->s.failures_missed = before.failures_missed;
    k->s.n_requests = before.n_requests;
    k->s.requests_missed = before.requests_missed;
    *news = k->s;
    add_tasks(k, s, news);
    add_failures(k, s, news);
    add_requests(k, s, news);
    return 0;
}

void web_last_free(struct web_last *k)
{
    free(k->workers);
    free(k->devices);
    k->workers = NULL;
    k->devices = NULL;
}
