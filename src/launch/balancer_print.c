/* The summary at the end of a run, for people:
 *
 *     GPU  files  failed  busy  restarts   mean
 *       0    512       2   98%         0  1.2ms
 *       1    488       0   97%         1  1.3ms
 *     all   1000       2   98%         1  1.2ms
 *     1000 files in 3m05s, 5.4 files/s, speed-up 1.9
 *     2 failed: 1 timeout, 1 crash
 *       a.wav: timed out after 30 s
 *       b.wav: killed by signal 11 (Segmentation fault)
 *
 * Columns are as wide as their widest cell. Nothing is allocated: rows are laid out twice, once to measure and once to
 * print. If the inputs are media, there is one more line and three more columns: the playing time of the processed
 * inputs, the time in which the GPU worked on at least one of them, and that time divided by the playing time. The row of all
 * GPUs has the elapsed time instead, as the line below the table. So in each row the last column is the quotient of the two
 * before it. If some inputs were not processed, a last line gives their number. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text/figures.h"
#include "launch/balancer.h"

enum { COLUMNS = 9, CELL = GD__TEXT_FIGURE, ERRORS_SHOWN = 5 };
enum column { LABEL, TASKS, FAILED, BUSY, RESTARTS, MEAN, MEDIA, TIME, RTF };

struct table {
    const struct gd_balancer *b;
    const char *what;
    struct gd_balance all;
    int columns;
    int width[COLUMNS];
};

typedef char cells[COLUMNS][CELL];

/* --- rows --- */

static void fill_head(const struct table *t, cells c)
{
    static const char *const heads[COLUMNS] = {
        [LABEL] = "GPU", [FAILED] = "failed", [BUSY] = "busy", [RESTARTS] = "restarts",
        [MEAN] = "mean", [MEDIA] = "audio",   [TIME] = "time", [RTF] = "RTF"
    };
    for (int i = 0; i < COLUMNS; i++)
        snprintf(c[i], CELL, "%s", heads[i] ? heads[i] : t->what);
}

/* Prints at least two significant digits. */
static void put_rtf(char out[CELL], double rtf)
{
    snprintf(out, CELL, rtf < 0.1 ? "%.2g" : "%.2f", rtf);
}

static void fill_media(cells c, double media_seconds, double seconds, double rtf)
{
    gd__text_seconds(c[MEDIA], media_seconds);
    gd__text_seconds(c[TIME], seconds);
    if (rtf > 0)
        put_rtf(c[RTF], rtf);
    else
        snprintf(c[RTF], CELL, "-");
}

static void fill_gpu(cells c, const struct gd_gpu_figures *f, double seconds)
{
    snprintf(c[LABEL], CELL, "%d", f->gpu_id);
    snprintf(c[TASKS], CELL, "%" PRIu64, f->done + f->failed);
    snprintf(c[FAILED], CELL, "%" PRIu64, f->failed);
    snprintf(c[BUSY], CELL, "%.0f%%", f->busy_percent);
    snprintf(c[RESTARTS], CELL, "%" PRIu64, f->restarts);
    gd__text_seconds(c[MEAN], f->mean_seconds);
    fill_media(c, f->media_seconds, seconds, f->rtf);
}

/* The row of tasks without a GPU has no times. */
static void fill_nowhere(const struct gd__gpu_row *row, cells c)
{
    snprintf(c[LABEL], CELL, "none");
    snprintf(c[TASKS], CELL, "%" PRIu64, row->done + row->failed);
    snprintf(c[FAILED], CELL, "%" PRIu64, row->failed);
    snprintf(c[RESTARTS], CELL, "%" PRIu64, row->restarts);
    snprintf(c[BUSY], CELL, "-");
    snprintf(c[MEAN], CELL, "-");
    fill_media(c, row->media_seconds, 0, 0);
    snprintf(c[TIME], CELL, "-");
}

static void fill_total(const struct table *t, cells c)
{
    uint64_t workers = 0, timed = t->b->nowhere.timed;
    double percents = 0; /* of all workers */
    for (size_t i = 0; i < t->b->n_rows; i++) {
        const struct gd__gpu_row *row = &t->b->rows[i];
        workers += row->workers;
        timed += row->timed;
        percents += gd__balancer_percent(t->b, row) * row->workers;
    }
    struct gd_gpu_figures f = {
        .done = t->all.done,
        .failed = t->all.failed,
        .restarts = t->all.restarts,
        .media_seconds = t->all.media_seconds,
        .mean_seconds = timed > 0 ? t->all.busy_seconds / (double)timed : 0,
        .busy_percent = workers > 0 ? percents / (double)workers : 0,
        .rtf = t->all.rtf,
    };
    fill_gpu(c, &f, t->all.seconds);
    snprintf(c[LABEL], CELL, "all");
}

/* --- the table --- */

static bool has_nowhere(const struct gd_balancer *b)
{
    return b->nowhere.done + b->nowhere.failed + b->nowhere.restarts > 0;
}

static void measure(struct table *t, cells c, FILE *to)
{
    (void)to;
    for (int i = 0; i < t->columns; i++) {
        const int width = (int)strlen(c[i]);
        t->width[i] = width > t->width[i] ? width : t->width[i];
    }
}

static void print_row(struct table *t, cells c, FILE *to)
{
    for (int i = 0; i < t->columns; i++)
        fprintf(to, "%s%*s", i > 0 ? "  " : "", t->width[i], c[i]);
    fputc('\n', to);
}

static void each_row(struct table *t, void (*visit)(struct table *, cells, FILE *), FILE *to)
{
    cells c;
    fill_head(t, c);
    visit(t, c, to);
    for (size_t i = 0; i < t->b->n_rows; i++) {
        struct gd_gpu_figures f = { .size = sizeof f };
        if (gd_balancer_gpu(t->b, i, &f) < 0)
            continue;
        fill_gpu(c, &f, gd__row_seconds(&t->b->rows[i]));
        if (t->b->rows[i].label[0])
            snprintf(c[LABEL], CELL, "%s", t->b->rows[i].label);
        visit(t, c, to);
    }
    if (has_nowhere(t->b)) {
        fill_nowhere(&t->b->nowhere, c);
        visit(t, c, to);
    }
    fill_total(t, c);
    visit(t, c, to);
}

/* --- the lines below --- */

static void print_count(FILE *to, uint64_t n, const char *what)
{
    fprintf(to, "%" PRIu64 " %.*s", n, gd__text_noun(n, what), what);
}

/* Leaves out the speed if all tasks failed: how fast tasks fail is of no use. */
static void print_times(const struct table *t, FILE *to)
{
    char wall[GD__TEXT_FIGURE], rate[GD__TEXT_FIGURE + 64];
    gd__text_seconds(wall, t->all.seconds);
    gd__text_rate(rate, sizeof rate, t->all.tasks_per_second, t->what);
    fprintf(to, " in %s", wall);
    if (t->all.done > 0)
        fprintf(to, ", %s, speed-up %.1f", rate, t->all.speedup);
}

static void print_media(const struct table *t, FILE *to)
{
    char media[GD__TEXT_FIGURE], wall[GD__TEXT_FIGURE], rtf[CELL];
    if (t->all.media_seconds <= 0 || t->all.seconds <= 0)
        return;
    gd__text_seconds(media, t->all.media_seconds);
    gd__text_seconds(wall, t->all.seconds);
    put_rtf(rtf, t->all.rtf);
    fprintf(to, "%s of audio in %s: RTF %s, %.*f times real time\n", media, wall, rtf, t->all.rtf > 0.1,
            1 / t->all.rtf);
}

static void print_headline(const struct table *t, FILE *to)
{
    const uint64_t over = t->all.done + t->all.failed;
    if (over == 0) {
        fprintf(to, "no %s processed\n", t->what);
        return;
    }
    if (t->all.done == 0) {
        fputs("0 of ", to);
        print_count(to, t->all.total > over ? t->all.total : over, t->what);
        fputs(" done", to);
    } else if (t->all.total > over) {
        fprintf(to, "%" PRIu64 " of ", over);
        print_count(to, t->all.total, t->what);
    } else {
        print_count(to, over, t->what);
    }
    if (t->all.done > 0 && t->all.failed > 0)
        fprintf(to, ", %" PRIu64 " failed%s", t->all.failed, t->all.seconds > 0 ? "," : "");
    if (t->all.seconds > 0)
        print_times(t, to);
    if (t->all.retried > 0)
        fprintf(to, ", %" PRIu64 " %s", t->all.retried, t->all.retried == 1 ? "retry" : "retries");
    fputc('\n', to);
}

static void print_failure_kinds(const struct table *t, FILE *to)
{
    static const char *const names[GD__FAILURES][2] = {
        [GD_FAILURE_ERROR] = { "error", "errors" },
        [GD_FAILURE_TIMEOUT] = { "timeout", "timeouts" },
        [GD_FAILURE_CRASH] = { "crash", "crashes" },
        [GD_FAILURE_OUT_OF_MEMORY] = { "out of memory", "out of memory" },
        [GD_FAILURE_DEVICE_LOST] = { "lost device", "lost devices" },
        [GD_FAILURE_NO_WORKER] = { "without a worker", "without a worker" },
    };
    const char *between = "";
    for (int i = 0; i < GD__FAILURES; i++) {
        const uint64_t n = t->b->failures[i];
        if (n == 0 || !names[i][0])
            continue;
        fprintf(to, "%s%" PRIu64 " %s", between, n, names[i][n != 1]);
        between = ", ";
    }
    fputc('\n', to);
}

static void print_failures(const struct table *t, FILE *to)
{
    if (t->all.failed == 0)
        return;
    fprintf(to, "%" PRIu64 " failed: ", t->all.failed);
    print_failure_kinds(t, to);
    const size_t shown = t->b->n_errors < ERRORS_SHOWN ? t->b->n_errors : ERRORS_SHOWN;
    for (size_t i = 0; i < shown; i++)
        fprintf(to, "  %s\n", t->b->errors[i]);
    if (t->all.failed > shown)
        fprintf(to, "  ... and %" PRIu64 " more\n", t->all.failed - shown);
}

static void print_rest(const struct table *t, FILE *to)
{
    const uint64_t over = t->all.done + t->all.failed + t->all.cancelled;
    const uint64_t untouched = t->all.total > over ? t->all.total - over : 0;
    if (t->all.cancelled > 0) {
        print_count(to, t->all.cancelled, t->what);
        fputs(" cancelled", to);
    }
    if (untouched > 0) {
        fputs(t->all.cancelled > 0 ? ", " : "", to);
        print_count(to, untouched, t->what);
        fputs(" not started", to);
    }
    if (t->all.cancelled + untouched > 0)
        fputc('\n', to);
}

int gd_balancer_print(const struct gd_balancer *b, FILE *to, const char *what)
{
    if (!b || !to)
        return gd__error(GD_E_INVALID, "gd_balancer_print: the %s is NULL", b ? "file" : "balancer");
    struct table t = { .b = b, .what = what && *what ? what : "tasks", .all = { .size = sizeof t.all } };
    gd_balancer_overall(b, &t.all);
    t.columns = t.all.media_seconds > 0 ? COLUMNS : MEDIA;
    each_row(&t, measure, NULL);
    each_row(&t, print_row, to);
    print_headline(&t, to);
    print_media(&t, to);
    print_failures(&t, to);
    print_rest(&t, to);
    return fflush(to) == 0 && !ferror(to) ? 0 : gd__error_errno("cannot print the summary");
}
