/* Counts the reports of a run, per GPU and overall.
 *
 * All figures are computed from the reports, not from a clock. So the same reports give the same figures, no matter
 * when they are added. The elapsed time runs from the first task's start to the last task's end. Counting a task costs
 * a few additions. It allocates memory only for a GPU that was not in the list passed to gd_balancer_open().
 *
 * A GPU may have many tasks in flight: several workers, or a worker that runs many tasks at once. So a row has two times:
 * the sum of the times of its tasks (for the mean time of a task), and the time in which at least one of them was in
 * flight (for speeds).
 *
 * Tasks without a GPU (they were cancelled, or no worker was left) are counted in a separate row, `nowhere`, so that
 * the rows add up to the total.
 */
#include "launch/balancer.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/sized.h"
#include "base/text/figures.h"
#include "base/text/printable.h"

enum { NAME_ROOM = 64 };

/* --- rows --- */

static struct gd__gpu_row *find_row(const struct gd_balancer *b, int gpu_id)
{
    /* GPUs are usually numbered in the order of the list. */
    if (gpu_id >= 0 && (size_t)gpu_id < b->n_rows && b->rows[gpu_id].gpu_id == gpu_id)
        return &b->rows[gpu_id];
    for (size_t i = 0; i < b->n_rows; i++)
        if (b->rows[i].gpu_id == gpu_id)
            return &b->rows[i];
    return NULL;
}

static struct gd__gpu_row *add_row(struct gd_balancer *b, int gpu_id)
{
    if (b->n_rows == b->room) {
        const size_t room = b->room * 2 + 8;
        struct gd__gpu_row *rows = gd__realloc(b->rows, room * sizeof *rows);
        if (!rows)
            return NULL;
        b->rows = rows;
        b->room = room;
    }
    struct gd__gpu_row *row = &b->rows[b->n_rows++];
    *row = (struct gd__gpu_row){ .gpu_id = gpu_id, .workers = b->workers_per_gpu };
    return row;
}

/* Finds or adds the row of a GPU. Returns false, with *out set to `nowhere`, if there is no memory for another row. */
static bool row_of(struct gd_balancer *b, int gpu_id, struct gd__gpu_row **out)
{
    *out = &b->nowhere;
    if (gpu_id < 0)
        return true;
    struct gd__gpu_row *row = find_row(b, gpu_id);
    row = row ? row : add_row(b, gpu_id);
    if (row)
        *out = row;
    return row != NULL;
}

int gd_balancer_open(struct gd_balancer **out, const int *gpu_ids, size_t n, unsigned workers_per_gpu, uint64_t total)
{
    if (!out)
        return gd__error(GD_E_INVALID, "gd_balancer_open: out is NULL");
    *out = NULL;
    if (n > 0 && !gpu_ids)
        return gd__error(GD_E_INVALID, "gd_balancer_open: %zu GPUs, but gpu_ids is NULL", n);
    struct gd_balancer *b = gd__calloc(1, sizeof *b);
    if (!b)
        return gd__error(GD_E_NO_MEMORY, "no memory for a balancer");
    b->workers_per_gpu = workers_per_gpu > 0 ? workers_per_gpu : 1;
    b->total = total;
    b->first_ns = UINT64_MAX;
    b->nowhere.gpu_id = -1;
    struct gd__gpu_row *row;
    for (size_t i = 0; i < n; i++)
        if (!row_of(b, gpu_ids[i], &row)) {
            gd_balancer_close(&b);
            return gd__error(GD_E_NO_MEMORY, "no memory for the figures of %zu GPUs", n);
        }
    *out = b;
    return 0;
}

void gd__balancer_label(struct gd_balancer *b, const int64_t *gpus, size_t n)
{
    struct gd__gpu_row *row = n > 1 ? find_row(b, (int)gpus[0]) : NULL;
    if (row)
        gd__text_gpus(row->label, sizeof row->label, gpus, n);
}

void gd_balancer_close(struct gd_balancer **bp)
{
    struct gd_balancer *b = bp ? *bp : NULL;
    if (!b)
        return;
    *bp = NULL;
    gd__free(b->rows);
    gd__free(b);
}

/* --- counting --- */

/* Leaves out a task that never started, or whose times make no sense. */
static void count_time(struct gd_balancer *b, struct gd__gpu_row *row, const struct gd_report *r)
{
    if (r->start_ns == 0 || r->end_ns < r->start_ns)
        return;
    row->timed++;
    row->busy_ns += r->end_ns - r->start_ns;
    gd__busy_time_add(&row->working, r->start_ns, r->end_ns);
    const uint64_t first_ns = r->first_start_ns > 0 ? r->first_start_ns : r->start_ns;
    if (first_ns < b->first_ns)
        b->first_ns = first_ns;
    if (r->end_ns > b->last_ns)
        b->last_ns = r->end_ns;
}

/* Uses the input as the name. If the input is empty or contains a NUL, uses the number of the task. */
static size_t put_name(char out[NAME_ROOM], const struct gd_report *r)
{
    size_t size = r->input ? r->input_size : 0;
    if (size > 0 && ((const char *)r->input)[size - 1] == '\0')
        size--;
    const size_t length = size > 0 && !memchr(r->input, 0, size) ? gd__text_name(out, NAME_ROOM, r->input, size) : 0;
    if (length > 0)
        return length;
    return (size_t)snprintf(out, NAME_ROOM, "task %llu", (unsigned long long)r->task_id);
}

static void keep_error(struct gd_balancer *b, const struct gd_report *r)
{
    if (b->n_errors == GD__ERRORS_KEPT)
        return;
    char name[NAME_ROOM], *out = b->errors[b->n_errors++];
    const char *message = r->error ? r->error : "";
    size_t length = put_name(name, r);
    memcpy(out, name, length);
    memcpy(out + length, ": ", 2);
    length += 2;
    if (gd__text_cause(out + length, GD__ERROR_ROOM - length, message) == 0)
        snprintf(out + length, GD__ERROR_ROOM - length, "%s", gd_failure_name(r->failure));
}

static void count_failure(struct gd_balancer *b, struct gd__gpu_row *row, const struct gd_report *r)
{
    const bool known = (unsigned)r->failure < GD__FAILURES;
    b->failures[known ? r->failure : GD_FAILURE_ERROR]++;
    row->failed++;
    row->timeouts += r->failure == GD_FAILURE_TIMEOUT;
    keep_error(b, r);
}

static void report_progress(struct gd_balancer *b)
{
    const uint64_t now_ns = b->interval_ns > 0 ? gd__now_ns() : 0;
    const bool is_last = b->total > 0 && b->finished + b->cancelled == b->total;
    if (now_ns < b->next_ns && !is_last)
        return;
    b->next_ns = now_ns + b->interval_ns;
    struct gd_balance now = { .size = sizeof now };
    gd_balancer_overall(b, &now);
    b->on_progress(b->user, &now);
}

int gd_balancer_add(struct gd_balancer *b, const struct gd_report *r, double media_seconds)
{
    if (!b || !r)
        return gd__error(GD_E_INVALID, "gd_balancer_add: the %s is NULL", b ? "report" : "balancer");
    struct gd__gpu_row *row;
    const bool lost = !row_of(b, r->gpu_id, &row);
    count_time(b, row, r);
    b->finished += r->failure != GD_FAILURE_CANCELLED;
    b->retried += r->attempt > 1 ? r->attempt - 1 : 0;
    if (r->failure == GD_FAILURE_CANCELLED) {
        b->cancelled++;
    } else if (r->failure != GD_FAILURE_NONE) {
        count_failure(b, row, r);
    } else {
        row->done++;
        row->media_seconds += media_seconds > 0 ? media_seconds : 0;
    }
    if (b->on_progress)
        report_progress(b);
    return lost ? gd__error(GD_E_NO_MEMORY,
                            "no memory for the figures of GPU %d: its tasks are counted as tasks without a GPU",
                            r->gpu_id)
                : 0;
}

void gd_balancer_restarted(struct gd_balancer *b, int gpu_id)
{
    struct gd__gpu_row *row;
    if (!b)
        return;
    row_of(b, gpu_id, &row);
    row->restarts++;
}

void gd_balancer_set_total(struct gd_balancer *b, uint64_t total)
{
    if (b)
        b->total = total;
}

void gd_balancer_set_workers(struct gd_balancer *b, int gpu_id, unsigned workers)
{
    struct gd__gpu_row *row;
    if (b && workers > 0 && row_of(b, gpu_id, &row))
        row->workers = workers;
}

void gd_balancer_on_progress(struct gd_balancer *b, gd_progress_fn *fn, void *user, unsigned interval_ms)
{
    if (!b)
        return;
    b->on_progress = fn;
    b->user = user;
    b->interval_ns = interval_ms * GD__NS_PER_MS;
    b->next_ns = 0;
}

/* --- figures --- */

static double wall_seconds(const struct gd_balancer *b)
{
    return b->last_ns > b->first_ns ? (double)(b->last_ns - b->first_ns) / 1e9 : 0;
}

static double eta(const struct gd_balance *o)
{
    const uint64_t over = o->done + o->failed + o->cancelled;
    if (o->total == 0 || o->tasks_per_second <= 0)
        return -1;
    return o->total > over ? (double)(o->total - over) / o->tasks_per_second : 0;
}

static void add_to(struct gd_balance *o, const struct gd__gpu_row *row)
{
    o->done += row->done;
    o->failed += row->failed;
    o->timeouts += row->timeouts;
    o->restarts += row->restarts;
    o->busy_seconds += (double)row->busy_ns / 1e9;
    o->media_seconds += row->media_seconds;
}

int gd_balancer_overall(const struct gd_balancer *b, struct gd_balance *out)
{
    if (!b || !out)
        return gd__error(GD_E_INVALID, "gd_balancer_overall: %s is NULL", b ? "out" : "the balancer");
    struct gd_balance o = { .size = sizeof o, .total = b->total, .cancelled = b->cancelled, .retried = b->retried };
    for (size_t i = 0; i < b->n_rows; i++)
        add_to(&o, &b->rows[i]);
    add_to(&o, &b->nowhere);
    o.errors_kept = b->n_errors;
    o.seconds = wall_seconds(b);
    o.rtf = o.media_seconds > 0 ? o.seconds / o.media_seconds : 0;
    if (o.seconds > 0) {
        o.speedup = o.busy_seconds / o.seconds;
        o.tasks_per_second = (double)(o.done + o.failed) / o.seconds;
    }
    o.eta_seconds = eta(&o);
    return gd__sized_write(out, &o, sizeof o, "gd_balance");
}

double gd_balancer_rtf(const struct gd_balancer *b)
{
    struct gd_balance o = { .size = sizeof o };
    return gd_balancer_overall(b, &o) == 0 ? o.rtf : 0;
}

double gd_balancer_speedup(const struct gd_balancer *b)
{
    struct gd_balance o = { .size = sizeof o };
    return gd_balancer_overall(b, &o) == 0 ? o.speedup : 0;
}

size_t gd_balancer_gpus(const struct gd_balancer *b)
{
    return b ? b->n_rows : 0;
}

double gd__row_seconds(const struct gd__gpu_row *row)
{
    return (double)gd__busy_time_ns(&row->working) / 1e9;
}

/* If a worker runs several tasks at once, the sum of their times says nothing about its idle time. Then the time in
 * which none of them was in flight counts. */
double gd__balancer_percent(const struct gd_balancer *b, const struct gd__gpu_row *row)
{
    const double wall = wall_seconds(b), all_workers = (double)row->busy_ns / 1e9 / row->workers;
    const double busy = gd__row_seconds(row) < all_workers ? gd__row_seconds(row) : all_workers;
    return wall > 0 ? busy / wall * 100 : 0;
}

int gd_balancer_gpu(const struct gd_balancer *b, size_t i, struct gd_gpu_figures *out)
{
    if (!b || !out || i >= b->n_rows)
        return gd__error(GD_E_INVALID, "gd_balancer_gpu: no GPU at index %zu: there are %zu", i, gd_balancer_gpus(b));
    const struct gd__gpu_row *row = &b->rows[i];
    struct gd_gpu_figures f = {
        .size = sizeof f,
        .gpu_id = row->gpu_id,
        .done = row->done,
        .failed = row->failed,
        .timeouts = row->timeouts,
        .restarts = row->restarts,
        .busy_seconds = (double)row->busy_ns / 1e9,
        .media_seconds = row->media_seconds,
        .busy_percent = gd__balancer_percent(b, row),
    };
    f.mean_seconds = row->timed > 0 ? f.busy_seconds / (double)row->timed : 0;
    f.rtf = f.media_seconds > 0 ? gd__row_seconds(row) / f.media_seconds : 0;
    return gd__sized_write(out, &f, sizeof f, "gd_gpu_figures");
}

const char *gd_balancer_error(const struct gd_balancer *b, size_t i)
{
    return b && i < b->n_errors ? b->errors[i] : NULL;
}
