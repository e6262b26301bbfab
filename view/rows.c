/* SPDX-License-Identifier: MIT
 *
 * Makes rows from workers. The workers of one GPU may be anywhere in the list, so they are found by the GPU's number.
 */
#include "view/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpu_dispatch/devices.h>

#include "base/text/figures.h"

static const char *const names[] = {
    [VIEW_ERROR] = "error",           [VIEW_QUARANTINED] = "quarantined",
    [VIEW_RESTARTING] = "restarting", [VIEW_INITIALIZING] = "initializing",
    [VIEW_PROCESSING] = "processing", [VIEW_IDLE] = "idle",
    [VIEW_FINISHED] = "finished",
};

const char *view_status_name(enum view_status status)
{
    return names[status];
}

/* --- one worker ---------------------------------------------------------------------- */

enum view_status view_status_of(const struct gd_snapshot *s, const struct gd_worker_view *w)
{
    static const enum view_status of[] = {
        [GD_WORKER_OFF] = VIEW_INITIALIZING,
        [GD_WORKER_STARTING] = VIEW_INITIALIZING,
        [GD_WORKER_IDLE] = VIEW_IDLE,
        [GD_WORKER_BUSY] = VIEW_PROCESSING,
        [GD_WORKER_CANCELLING] = VIEW_PROCESSING,
        [GD_WORKER_KILLING] = VIEW_RESTARTING,
        [GD_WORKER_RESTING] = VIEW_RESTARTING,
        [GD_WORKER_STOPPING] = VIEW_FINISHED,
        [GD_WORKER_FINISHED] = VIEW_FINISHED,
        [GD_WORKER_FAILED] = VIEW_ERROR,
        [GD_WORKER_LOST] = VIEW_ERROR,
    };
    enum view_status status = w->state < sizeof of / sizeof of[0] ? of[w->state] : VIEW_ERROR;
    if (w->device_out)
        return VIEW_QUARANTINED;
    if (status == VIEW_ERROR)
        return status;
    if (s->ended)
        return VIEW_FINISHED;
    if (w->idle == GD_IDLE_REMOVED)
        return VIEW_IDLE;
    if (status == VIEW_INITIALIZING && w->restarts > 0)
        return VIEW_RESTARTING;
    if (status == VIEW_PROCESSING && w->idle != GD_IDLE_NOT)
        return VIEW_IDLE; /* the worker has tasks but cannot process them yet, for example while they load */
    return status;
}

/* What the worker is doing. */
static void describe(struct view_row *r, const struct gd_worker_view *w)
{
    char before[48] = "";
    if (w->state == GD_WORKER_CANCELLING)
        snprintf(before, sizeof before, "asked to stop: ");
    else if (w->in_flight > 1)
        snprintf(before, sizeof before, "%llu in flight: ", (unsigned long long)w->in_flight);
    if (r->status == VIEW_QUARANTINED)
        snprintf(r->task, sizeof r->task, "out of use");
    else if (r->status == VIEW_ERROR)
        snprintf(r->task, sizeof r->task, "%s", w->state == GD_WORKER_LOST ? "does not end" : "given up");
    else if (r->status == VIEW_PROCESSING && *w->task)
        snprintf(r->task, sizeof r->task, "%s%.*s", before, (int)sizeof w->task, w->task);
    else if (r->status == VIEW_PROCESSING && w->current_task != UINT64_MAX)
        snprintf(r->task, sizeof r->task, "%s#%llu", before, (unsigned long long)w->current_task);
    else if (r->status != VIEW_FINISHED && r->status != VIEW_RESTARTING && w->idle != GD_IDLE_NOT)
        snprintf(r->task, sizeof r->task, "%s", gd_idle_reason_name((enum gd_idle_reason)w->idle));
    if (r->status == VIEW_PROCESSING && *r->task)
        r->lead = strlen(before);
}

static double since(const struct gd_snapshot *s, const struct gd_worker_view *w, enum view_status status)
{
    const bool running = status == VIEW_PROCESSING || status == VIEW_IDLE || status == VIEW_INITIALIZING;
    return running && w->since_ns && s->read_ns >= w->since_ns ? (double)(s->read_ns - w->since_ns) / 1e9 : -1;
}

static void of_worker(struct view_row *r, const struct gd_snapshot *s, const struct gd_worker_view *w)
{
    *r = (struct view_row){ .status = view_status_of(s, w),
                            .done = w->completed,
                            .failed = w->failed,
                            .timeouts = w->timeouts,
                            .restarts = w->restarts,
                            .last_s = w->last_ns ? (double)w->last_ns / 1e9 : -1 };
    r->since_s = since(s, w, r->status);
    describe(r, w);
}

/* --- the devices of a worker ---------------------------------------------------------- */

const struct gd_device_view *view_next_gpu(const struct gd_snapshot *s, int64_t gpu_id, size_t *i)
{
    while (*i < s->n_devices) {
        const struct gd_device_view *d = gd_snapshot_device(s, (*i)++);
        if (d->group == gpu_id)
            return d;
    }
    return NULL;
}

char *view_gpu_label(char *out, size_t size, const struct gd_snapshot *s, int64_t gpu_id)
{
    enum { MOST = 64 };
    const struct gd_device_view *d;
    int64_t gpus[MOST] = { gpu_id };
    size_t n = 0;
    for (size_t i = 0; (d = view_next_gpu(s, gpu_id, &i)); n += n < MOST)
        gpus[n < MOST ? n : MOST - 1] = d->gpu_id;
    return gd__text_gpus(out, size, gpus, n > 0 ? n : 1);
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

/* Adds the figures of one device. */
static void add_one(struct view_row *r, const struct gd_device_view *d)
{
    r->known &= d->known;
    r->memory_total = sum(r->memory_total, d->memory_total);
    r->memory_used = sum(r->memory_used, d->memory_total > d->memory_free ? d->memory_total - d->memory_free : 0);
    r->utilization += (unsigned)(d->utilization > 100 ? 100 : d->utilization);
    r->temperature = d->temperature > r->temperature ? (int)d->temperature : r->temperature;
    r->power_mw = sum(r->power_mw, d->power_mw);
}

/* Adds the figures of the worker's devices. For a group: sums, the mean utilization and the highest temperature. A
 * figure that is not known for one device is not known for the group. */
static void add_devices(struct view_row *r, const struct gd_snapshot *s, int64_t gpu_id)
{
    const struct gd_device_view *d, *first = NULL;
    unsigned n = 0;
    for (size_t i = 0; (d = view_next_gpu(s, gpu_id, &i)); n++) {
        if (!first) {
            first = d;
            r->known = d->known;
            r->temperature = (int)d->temperature;
        }
        add_one(r, d);
    }
    if (n == 0)
        return;
    r->utilization /= n;
    if (n > 1)
        snprintf(r->name, sizeof r->name, "%ux %.*s", n, (int)sizeof first->name - 1, first->name);
    else
        snprintf(r->name, sizeof r->name, "%.*s", (int)sizeof first->name - 1, first->name);
}

/* --- GPUs -------------------------------------------------------------------------------- */

/* A GPU, or a group of GPUs. */
struct gpu {
    int64_t id; /* number of the first GPU */
    size_t workers;
};

enum { GPUS_ROOM = 20 }; /* size of a label, without the number of the worker */

static struct gpu *find(struct gpu *g, size_t n, int64_t id)
{
    for (size_t i = 0; i < n; i++) {
        if (g[i].id == id)
            return &g[i];
    }
    return NULL;
}

/* Lists the GPUs in the order of their first workers. Returns their number. */
static size_t list_gpus(struct gpu *g, const struct gd_snapshot *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_workers; i++) {
        struct gpu *at = find(g, n, gd_snapshot_worker(s, i)->gpu_id);
        if (!at) {
            at = &g[n++];
            *at = (struct gpu){ .id = gd_snapshot_worker(s, i)->gpu_id };
        }
        at->workers++;
    }
    return n;
}

/* Makes a row for each worker of a GPU. Labels are "2", or "2.1", "2.2" if the GPU has several workers, or "0+1" for a
 * group. Returns the number of rows. */
static size_t make_rows_of(struct view_row *r, const struct gd_snapshot *s, const struct gpu *g)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_workers; i++) {
        if (gd_snapshot_worker(s, i)->gpu_id != g->id)
            continue;
        of_worker(&r[n], s, gd_snapshot_worker(s, i));
        char gpus[GPUS_ROOM];
        view_gpu_label(gpus, sizeof gpus, s, g->id);
        if (g->workers == 1)
            snprintf(r[n].label, sizeof r[n].label, "%s", gpus);
        else
            snprintf(r[n].label, sizeof r[n].label, "%s.%u", gpus, (unsigned)n % 1000 + 1);
        n++;
    }
    add_devices(r, s, g->id); /* only in the first row, because these figures are the device's, not the worker's */
    return n;
}

static size_t make_worker_rows(struct view_row *r, const struct gd_snapshot *s, const struct gpu *gpus, size_t n_gpus)
{
    size_t n = 0;
    for (size_t i = 0; i < n_gpus; i++)
        n += make_rows_of(&r[n], s, &gpus[i]);
    return n;
}

/* The order of statuses for a GPU with several workers. A running task is more important than a worker with a
 * problem. */
static unsigned weight(enum view_status status)
{
    return status == VIEW_PROCESSING ? 0 : (unsigned)status + 1;
}

static void add_counts(struct view_row *to, const struct view_row *from)
{
    to->done = sum(to->done, from->done);
    to->failed = sum(to->failed, from->failed);
    to->timeouts = sum(to->timeouts, from->timeouts);
    to->restarts = sum(to->restarts, from->restarts);
}

/* Adds a worker to the row of its GPU. The row shows the most important status, and the worker that has had it
 * longest. */
static void join(struct view_row *r, const struct view_row *w)
{
    struct view_row sums = *r;
    add_counts(&sums, w);
    const bool other = weight(w->status) < weight(r->status);
    if (other || (w->status == r->status && w->since_s > r->since_s)) {
        sums.status = w->status;
        sums.since_s = w->since_s;
        memcpy(sums.task, w->task, sizeof sums.task);
        sums.lead = w->lead;
    }
    sums.last_s = w->last_s > r->last_s ? w->last_s : r->last_s;
    *r = sums;
}

/* The number of the GPU's workers that have this status. */
static size_t count_status(const struct gd_snapshot *s, int64_t gpu_id, enum view_status status)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_workers; i++)
        n += gd_snapshot_worker(s, i)->gpu_id == gpu_id && view_status_of(s, gd_snapshot_worker(s, i)) == status;
    return n;
}

static void make_gpu_row(struct view_row *r, const struct gd_snapshot *s, const struct gpu *g)
{
    struct view_row one;
    bool any = false;
    for (size_t i = 0; i < s->n_workers; i++) {
        if (gd_snapshot_worker(s, i)->gpu_id != g->id)
            continue;
        of_worker(any ? &one : r, s, gd_snapshot_worker(s, i));
        if (any)
            join(r, &one);
        any = true;
    }
    if (g->workers > 1) {
        char task[sizeof r->task], which[48];
        memcpy(task, r->task, sizeof task);
        const int lead = snprintf(which, sizeof which, "%zu of %zu%s", count_status(s, g->id, r->status), g->workers,
                                  *task ? ": " : "");
        snprintf(r->task, sizeof r->task, "%s%.*s", which, (int)(sizeof task - sizeof which), task);
        r->lead += lead > 0 ? (size_t)lead : 0;
    }
    view_gpu_label(r->label, GPUS_ROOM, s, g->id);
    add_devices(r, s, g->id);
}

/* --- one row per status --------------------------------------------------------------------- */

/* A list of GPU numbers like "0-3, 7". */
struct id_list {
    char *out;
    size_t size, used;
    size_t at; /* where the end of the last range begins; 0: the last entry is a single number */
    int64_t last;
    bool any;
};

/* Appends a number, or makes it the end of the last range. */
static void put_id(struct id_list *l, int64_t id)
{
    const bool goes_on = l->any && id == l->last + 1;
    if (goes_on && l->at == 0) {
        l->at = l->used;
    } else if (goes_on) {
        l->used = l->at;
    } else {
        l->at = 0;
    }
    const char *before = goes_on ? "-" : l->any ? ", " : "";
    const int n = snprintf(l->out + l->used, l->size - l->used, "%s%lld", before, (long long)id);
    l->used += n > 0 ? (size_t)n : 0;
    l->used = l->used < l->size ? l->used : l->size - 1;
    l->last = id;
    l->any = true;
}

static void put_gpus(struct id_list *l, const struct gd_snapshot *s, int64_t gpu_id)
{
    const struct gd_device_view *d;
    bool any = false;
    for (size_t i = 0; (d = view_next_gpu(s, gpu_id, &i)); any = true)
        put_id(l, d->gpu_id);
    if (!any)
        put_id(l, gpu_id);
}

/* The rows of all GPUs. Some of the rows are folded. */
struct gpu_rows {
    const struct gd_snapshot *s;
    const struct gpu *gpus;
    const struct view_row *rows; /* one for each of the n GPUs */
    size_t n;
};

/* Makes one row for all GPUs with this status. Returns their number; if it is 0, there is no row. */
static size_t fold_status(struct view_row *to, const struct gpu_rows *g, enum view_status status, bool utf8)
{
    size_t count = 0, with_util = 0, with_memory = 0;
    unsigned util = 0;
    *to = (struct view_row){ .status = status, .since_s = -1, .last_s = -1 };
    struct id_list ids = { .out = to->task, .size = sizeof to->task };
    const char *why = NULL;
    bool same = true;
    for (size_t i = 0; i < g->n; i++) {
        const struct view_row *r = &g->rows[i];
        if (r->status != status)
            continue;
        count++;
        add_counts(to, r);
        put_gpus(&ids, g->s, g->gpus[i].id);
        same = same && (!why || strcmp(why, r->task) == 0);
        why = r->task;
        to->since_s = r->since_s > to->since_s ? r->since_s : to->since_s;
        if (r->known & GD_KNOWN_UTILIZATION) {
            util += r->utilization;
            with_util++;
        }
        if (r->known & GD_KNOWN_MEMORY) {
            to->memory_used = sum(to->memory_used, r->memory_used);
            to->memory_total = sum(to->memory_total, r->memory_total);
            with_memory++;
        }
    }
    if (with_util == count)
        to->known |= GD_KNOWN_UTILIZATION;
    if (with_memory == count)
        to->known |= GD_KNOWN_MEMORY;
    to->utilization = with_util ? util / (unsigned)with_util : 0;
    snprintf(to->label, sizeof to->label, "%s%zu", utf8 ? "×" : "x", count);
    /* First the reason, if it is the same for all of them, then the GPUs. */
    if (status != VIEW_PROCESSING && why && *why && same && strlen(to->task) + strlen(why) + 8 < sizeof to->task) {
        char which[sizeof to->task];
        memcpy(which, to->task, sizeof which);
        snprintf(to->task, sizeof to->task, "%.80s, GPU %.40s", why, which);
    } else {
        char which[sizeof to->task];
        memcpy(which, to->task, sizeof which);
        snprintf(to->task, sizeof to->task, "GPU %.120s", which);
    }
    return count;
}

static bool is_trouble(enum view_status status)
{
    return status <= VIEW_RESTARTING;
}

/* Adds a row for each GPU while there is room: either those with a problem or the others. */
static void add_single(struct view_rows *out, const struct gpu_rows *g, size_t most, bool trouble)
{
    for (size_t i = 0; i < g->n && out->n < most; i++) {
        if (is_trouble(g->rows[i].status) == trouble)
            out->items[out->n++] = g->rows[i];
    }
}

/* Each GPU with a problem gets its own row, if that leaves room for one row for each other status. */
static void fold(struct view_rows *out, const struct gpu_rows *g, size_t most, bool utf8)
{
    size_t troubled = 0;
    for (size_t i = 0; i < g->n; i++)
        troubled += is_trouble(g->rows[i].status);
    const bool one_by_one = troubled + (VIEW_N_STATUSES - VIEW_RESTARTING - 1) <= most;
    if (one_by_one)
        add_single(out, g, most, true);
    for (int status = one_by_one ? VIEW_RESTARTING + 1 : 0; status < VIEW_N_STATUSES && out->n < most; status++)
        out->n += fold_status(&out->items[out->n], g, (enum view_status)status, utf8) > 0;
    if (!one_by_one)
        add_single(out, g, most, true);
    add_single(out, g, most, false);
}

/* ------------------------------------------------------------------------------------------------ */

int view_rows_make(struct view_rows *r, const struct gd_snapshot *s, size_t most, bool utf8)
{
    int rc = -1;
    struct gpu *gpus = calloc(s->n_workers + 1, sizeof *gpus);
    struct view_row *by_gpu = NULL;
    r->n = 0;
    r->items = calloc((s->n_workers > most ? s->n_workers : most) + VIEW_N_STATUSES, sizeof *r->items);
    if (!gpus || !r->items)
        goto out;
    const size_t n_gpus = list_gpus(gpus, s);
    rc = 0;
    if (s->n_workers <= most) {
        r->n = make_worker_rows(r->items, s, gpus, n_gpus);
        goto out;
    }
    by_gpu = calloc(n_gpus + 1, sizeof *by_gpu);
    if (!by_gpu) {
        rc = -1;
        goto out;
    }
    for (size_t i = 0; i < n_gpus; i++)
        make_gpu_row(&by_gpu[i], s, &gpus[i]);
    if (n_gpus <= most) {
        memcpy(r->items, by_gpu, n_gpus * sizeof *by_gpu);
        r->n = n_gpus;
    } else {
        fold(r, &(struct gpu_rows){ .s = s, .gpus = gpus, .rows = by_gpu, .n = n_gpus }, most, utf8);
    }
out:
    free(by_gpu);
    free(gpus);
    return rc;
}

void view_rows_free(struct view_rows *r)
{
    free(r->items);
    *r = (struct view_rows){ 0 };
}
