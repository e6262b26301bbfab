/* SPDX-License-Identifier: MIT
 *
 * Reads a journal in two passes, and reduces it to data that can be drawn. The memory does not grow with the number of
 * records: tables have a fixed largest size, and items that do not fit are only counted. If a run is writing to the
 * journal, the second pass may see more records. Records of workers that the first pass did not see are counted but not
 * drawn. */
#include "web/report/reduce.h"

#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "base/text/buffer.h"
#include "base/text/json_write.h"

enum { TABLE = 2 * WEB_MOST_LANES, INPUT_SHOWN = 300, ERROR_SHOWN = 1500 };
#define LONGEST 1e12 /* seconds */

/* --- texts ---------------------------------------------------------------------------- */

void web_add_beginning(struct gd__buffer *b, const char *text, size_t size, size_t most)
{
    size_t n = text ? size : 0;
    if (n > most) {
        n = most;
        while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
            n--;
    }
    gd__json_put_string(b, text ? text : "", n);
    if (text && n < size && !b->failed) {
        b->size--; /* the closing quote */
        gd__buffer_text(b, " ...\"");
    }
}

static void add_named(struct gd__buffer *b, const char *name, const char *text, size_t size, size_t most)
{
    gd__buffer_format(b, ",\"%s\":", name);
    web_add_beginning(b, text, size, most);
}

/* Limits a time or a duration, so that sums stay finite. Records may contain any value. */
static double finite(double seconds)
{
    return !(seconds > 0) ? 0 : seconds < LONGEST ? seconds : LONGEST;
}

static struct web_span *span_of(const struct web_reduced *d, uint64_t run)
{
    return &d->runs[run < 1 ? 0 : run > WEB_MOST_RUNS ? WEB_MOST_RUNS - 1 : run - 1];
}

void web_add_record(struct gd__buffer *b, const struct web_reduced *d, const struct gd_journal_record *r)
{
    gd__buffer_format(b, "{\"number\":%llu,\"attempts\":%u,\"gpu\":%d,\"worker\":%d,\"start\":%.4f,\"seconds\":%.6f",
                      (unsigned long long)r->number, r->attempts, r->gpu_id, r->worker_id, web_reduced_start(d, r),
                      finite(r->seconds));
    gd__buffer_format(b, ",\"place\":%d,\"exit_code\":%d,\"signal\":%d", span_of(d, r->run)->place, r->exit_code,
                      r->signal);
    add_named(b, "input", r->input, r->input_size, INPUT_SHOWN);
    add_named(b, "failure", r->failure, r->failure ? strlen(r->failure) : 0, sizeof d->classes[0].name - 1);
    add_named(b, "error", r->error, r->error ? strlen(r->error) : 0, ERROR_SHOWN);
    add_named(b, "stderr", r->stderr_end, r->stderr_size, ERROR_SHOWN);
    gd__buffer_text(b, "}");
}

/* --- runs, workers and GPUs --------------------------------------------------------------- */

/* Finds the place of a run that has written records. */
static int learn_place(void *user, const struct gd_journal_run *run)
{
    struct web_reduced *d = user;
    const char *host = run->host ? run->host : "";
    size_t i = 0;
    if (run->done + run->failed == 0)
        return 0;
    while (i < d->n_places && (strcmp(d->places[i].host, host) != 0 || d->places[i].shard.index != run->shard.index ||
                               d->places[i].shard.count != run->shard.count))
        i++;
    if (i == d->n_places && i < WEB_MOST_PLACES) {
        struct web_place *larger = realloc(d->places, (i + 1) * sizeof *larger);
        d->places = larger ? larger : d->places;
        char *copy = larger ? strdup(host) : NULL;
        if (!copy) {
            d->no_memory = true;
            return 1;
        }
        d->places[d->n_places++] = (struct web_place){ .host = copy, .shard = run->shard };
    }
    span_of(d, run->number)->place = (int)(i < WEB_MOST_PLACES ? i : WEB_MOST_PLACES - 1);
    return 0;
}

/* The slot of a worker in the table, or the free slot for it. */
static int *table_slot(const struct web_reduced *d, const struct gd_journal_record *r)
{
    const int place = span_of(d, r->run)->place;
    size_t at = ((unsigned)r->gpu_id * 2654435761u + (unsigned)r->worker_id * 40503u + (unsigned)place * 97u) % TABLE;
    for (; d->lane_table[at]; at = (at + 1) % TABLE) {
        const struct web_lane *lane = &d->lanes[d->lane_table[at] - 1];
        if (lane->gpu == r->gpu_id && lane->worker == r->worker_id && lane->place == place)
            break;
    }
    return &d->lane_table[at];
}

static size_t gpu_index(struct web_reduced *d, int place, int gpu)
{
    for (size_t i = 0; i < d->n_gpus; i++) {
        if (d->gpus[i].gpu == gpu && d->gpus[i].place == place)
            return i;
    }
    struct web_gpu *larger = realloc(d->gpus, (d->n_gpus + 1) * sizeof *larger);
    if (!larger) {
        d->no_memory = true;
        return 0;
    }
    d->gpus = larger;
    d->gpus[d->n_gpus] = (struct web_gpu){ .gpu = gpu, .place = place };
    return d->n_gpus++;
}

/* Returns NULL if the first pass did not store the worker. */
static struct web_lane *find_lane(const struct web_reduced *d, const struct gd_journal_record *r)
{
    const int slot = *table_slot(d, r);
    return slot ? &d->lanes[slot - 1] : NULL;
}

static void learn_lane(struct web_reduced *d, const struct gd_journal_record *r)
{
    const int place = span_of(d, r->run)->place;
    int *slot = table_slot(d, r);
    if (*slot || d->n_lanes == WEB_MOST_LANES)
        return;
    const size_t gpu_at = gpu_index(d, place, r->gpu_id);
    if (d->no_memory)
        return;
    d->lanes[d->n_lanes] =
        (struct web_lane){ .gpu = r->gpu_id, .worker = r->worker_id, .place = place, .gpu_at = gpu_at };
    d->gpus[gpu_at].workers++;
    *slot = (int)++d->n_lanes;
}

static bool ran(const struct gd_journal_record *r)
{
    return r->started > 0 && r->worker_id >= 0;
}

static int first_pass(void *user, const struct gd_journal_record *r)
{
    struct web_reduced *d = user;
    if (!ran(r))
        return 0;
    struct web_span *s = span_of(d, r->run);
    const double started = finite(r->started), end = started + finite(r->seconds);
    if (s->first <= 0 || started < s->first)
        s->first = started;
    if (end > s->last)
        s->last = end;
    learn_lane(d, r);
    return d->no_memory;
}

/* --- layout ------------------------------------------------------------------------------ */

static int by_first(const void *pa, const void *pb)
{
    const struct web_span *a = *(struct web_span *const *)pa, *b = *(struct web_span *const *)pb;
    return a->first != b->first ? (a->first < b->first ? -1 : 1) : (a > b) - (a < b);
}

/* Runs of several machines: their times are kept, except that times without any run are left out. */
static int lay_out_machines(struct web_reduced *d)
{
    struct web_span **spans = calloc(WEB_MOST_RUNS, sizeof *spans);
    size_t n = 0;
    if (!spans)
        return gd__fail("out of memory");
    for (size_t i = 0; i < WEB_MOST_RUNS; i++)
        if (d->runs[i].first > 0) {
            spans[n++] = &d->runs[i];
            d->n_runs = i + 1;
        }
    if (n > 0)
        qsort(spans, n, sizeof(struct web_span *), by_first);
    double left_out = n > 0 ? spans[0]->first : 0, last = left_out;
    for (size_t i = 0; i < n; i++) {
        left_out += spans[i]->first > last ? spans[i]->first - last : 0;
        last = spans[i]->last > last ? spans[i]->last : last;
        spans[i]->offset = spans[i]->first - left_out;
    }
    d->seconds = last - left_out;
    d->step = d->seconds > 0 ? d->seconds / WEB_REPORT_STEPS : 1;
    free(spans);
    return 0;
}

static void lay_out_time(struct web_reduced *d)
{
    for (size_t i = 0; i < WEB_MOST_RUNS; i++) {
        struct web_span *s = &d->runs[i];
        if (s->first <= 0)
            continue;
        s->offset = d->seconds;
        d->seconds += s->last - s->first;
        d->n_runs = i + 1;
    }
    d->step = d->seconds > 0 ? d->seconds / WEB_REPORT_STEPS : 1;
}

static int lay_out_bars(struct web_reduced *d)
{
    d->n_drawn = d->n_lanes < WEB_DRAWN_LANES ? d->n_lanes : WEB_DRAWN_LANES;
    d->bars_per_step = d->n_drawn ? WEB_MOST_BARS / (WEB_REPORT_STEPS * d->n_drawn) : 1;
    if (d->bars_per_step == 0)
        d->bars_per_step = 1;
    const size_t n = d->bars_per_step * WEB_REPORT_STEPS;
    for (size_t i = 0; i < d->n_drawn; i++) {
        d->lanes[i].bars = malloc(n * sizeof *d->lanes[i].bars);
        if (!d->lanes[i].bars)
            return gd__fail("out of memory");
        for (size_t k = 0; k < n; k++)
            d->lanes[i].bars[k].seconds = -1;
    }
    return 0;
}

double web_reduced_start(const struct web_reduced *d, const struct gd_journal_record *r)
{
    const struct web_span *s = span_of(d, r->run);
    const double started = finite(r->started);
    return started > s->first && s->first > 0 ? s->offset + started - s->first : s->offset;
}

static size_t step_at(const struct web_reduced *d, double t)
{
    const double at = t / d->step;
    return !(at > 0) ? 0 : at >= WEB_REPORT_STEPS ? WEB_REPORT_STEPS - 1 : (size_t)at;
}

/* --- counting ------------------------------------------------------------------------------ */

static void add_busy(const struct web_reduced *d, struct web_gpu *g, double start, double seconds)
{
    const size_t last = step_at(d, start + seconds);
    g->busy_seconds += seconds;
    for (size_t i = step_at(d, start); i <= last; i++) {
        const double from = (double)i * d->step, to = from + d->step;
        const double begin = start > from ? start : from, end = start + seconds < to ? start + seconds : to;
        if (end > begin)
            g->busy[i] += end - begin;
    }
}

/* Adds a task to its step. If the step has no more room, its shortest task is dropped. */
static void add_bar(struct web_reduced *d, struct web_lane *lane, const struct web_bar *bar)
{
    if (!lane->bars) {
        d->bars_left_out++;
        return;
    }
    struct web_bar *bars = lane->bars + step_at(d, bar->start) * d->bars_per_step;
    size_t at = d->bars_per_step;
    d->bars_left_out += bars[at - 1].seconds >= 0;
    if (bars[at - 1].seconds >= bar->seconds)
        return;
    for (at--; at > 0 && bars[at - 1].seconds < bar->seconds; at--)
        bars[at] = bars[at - 1];
    bars[at] = *bar;
}

static int class_index(struct web_reduced *d, const char *name)
{
    for (size_t i = 0; i < d->n_classes; i++) {
        if (strncmp(d->classes[i].name, name, sizeof d->classes[i].name - 1) == 0)
            return (int)i;
    }
    if (d->n_classes == WEB_MOST_CLASSES)
        return WEB_MOST_CLASSES - 1;
    if (d->n_classes == WEB_MOST_CLASSES - 1)
        name = "other";
    strncpy(d->classes[d->n_classes].name, name, sizeof d->classes[0].name - 1);
    return (int)d->n_classes++;
}

static int add_failure(struct web_reduced *d, const struct gd_journal_record *r)
{
    const int at = class_index(d, r->failure ? r->failure : "error");
    struct web_class *c = &d->classes[at];
    if (c->count++ < WEB_SHOWN_FAILURES) {
        gd__buffer_text(&c->json, c->shown++ ? "," : "");
        web_add_record(&c->json, d, r);
    }
    return at;
}

static int second_pass(void *user, const struct gd_journal_record *r)
{
    struct web_reduced *d = user;
    const double seconds = finite(r->seconds), start = web_reduced_start(d, r);
    const int failure = r->done ? -1 : add_failure(d, r);
    struct web_lane *lane = ran(r) ? find_lane(d, r) : NULL;
    *(r->done ? &d->done : &d->failed) += 1;
    d->attempts += r->attempts;
    if (!lane)
        return 0;
    struct web_gpu *g = &d->gpus[lane->gpu_at];
    *(r->done ? &g->done : &g->failed) += 1;
    d->busy_seconds += seconds;
    (r->done ? d->ended_done : d->ended_failed)[step_at(d, start + seconds)]++;
    add_busy(d, g, start, seconds);
    add_bar(d, lane, &(struct web_bar){ .number = r->number, .start = start, .seconds = seconds, .failure = failure });
    return 0;
}

int web_reduce(struct web_reduced *d, const struct web_records *r)
{
    const struct gd_journal_query all = { .size = sizeof all };
    *d = (struct web_reduced){ .runs = calloc(WEB_MOST_RUNS, sizeof *d->runs),
                               .lanes = calloc(WEB_MOST_LANES, sizeof *d->lanes),
                               .lane_table = calloc(TABLE, sizeof *d->lane_table) };
    if (!d->runs || !d->lanes || !d->lane_table)
        return gd__fail("out of memory");
    int rc = r->runs ? r->runs(r->user, learn_place, d) : 0;
    if (rc >= 0 && !d->no_memory)
        rc = r->each(r->user, &all, first_pass, d);
    if (d->no_memory)
        return gd__fail("out of memory");
    if (d->n_places <= 1)
        lay_out_time(d);
    else if (lay_out_machines(d) < 0)
        return -1;
    if (rc >= 0 && lay_out_bars(d) < 0)
        return -1;
    if (rc >= 0)
        rc = r->each(r->user, &all, second_pass, d);
    return rc < 0 ? gd__fail("%s", gd_error_text()) : 0;
}

void web_reduced_free(struct web_reduced *d)
{
    for (size_t i = 0; d->lanes && i < d->n_lanes; i++)
        free(d->lanes[i].bars);
    for (size_t i = 0; i < d->n_classes; i++)
        gd__buffer_free(&d->classes[i].json);
    for (size_t i = 0; i < d->n_places; i++)
        free(d->places[i].host);
    free(d->places);
    free(d->runs);
    free(d->gpus);
    free(d->lanes);
    free(d->lane_table);
}
