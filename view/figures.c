/* SPDX-License-Identifier: MIT
 *
 * Computes figures and formats them. These functions read no clock: the time comes with the snapshot.
 */
#include "view/figures.h"

#include <stdio.h>
#include <string.h>

static const uint64_t second_ns = 1000000000, sample_ns = 200000000;
enum { WINDOW_S = 10, LEAST_WINDOW_S = 1 };

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

static uint64_t ended_of(const struct gd_stats *s)
{
    return sum(sum(s->completed, s->failed), s->timeouts);
}

void view_part_cancelled(struct gd_stats *s)
{
    s->failed -= s->cancelled < s->failed ? s->cancelled : s->failed;
}

/* The time of a snapshot. For a run that has ended, it is the time of its end. */
static uint64_t time_of(const struct gd_snapshot *s)
{
    return s->ended || s->stats->between_runs || s->read_ns < s->stats->now_ns ? s->stats->now_ns : s->read_ns;
}

/* --- earlier samples -------------------------------------------------------------- */

void view_history_add(struct view_history *h, const struct gd_snapshot *s)
{
    const struct view_sample now = { .ns = time_of(s), .ended = ended_of(s->stats), .work = s->work_done };
    const struct view_sample *last = h->n ? &h->samples[(h->n - 1) % VIEW_SAMPLES] : NULL;
    if (last && (now.ns < last->ns || now.ended < last->ended)) { /* another run */
        *h = (struct view_history){ 0 };
        last = NULL;
    }
    if (!last || now.ns - last->ns >= sample_ns)
        h->samples[h->n++ % VIEW_SAMPLES] = now;
    if (h->first.ns == 0 && (s->work_total > 0 ? now.work > 0 : now.ended > 0))
        h->first = now; /* work may be done before the first task ends, and is reported a moment after a task's end */
    for (size_t i = s->n_failures; i > 0; i--) {
        const struct gd_failure_view *f = gd_snapshot_failure(s, i - 1);
        if (f->failure == GD_FAILURE_CANCELLED) /* not counted as failed: view_part_cancelled() */
            continue;
        snprintf(h->failure, sizeof h->failure, "%s%s%.150s", f->input, *f->input ? ": " : "", f->error);
        break;
    }
    if (s->n_requests) {
        const struct gd_request_view *r = gd_snapshot_request(s, s->n_requests - 1);
        memcpy(h->request, r->what, sizeof h->request);
        h->refused = r->code < 0;
    }
}

/* The oldest sample within the window. */
static const struct view_sample *window_start(const struct view_history *h, uint64_t now_ns)
{
    const struct view_sample *oldest = NULL;
    for (size_t i = 0; i < VIEW_SAMPLES && i < h->n; i++) {
        const struct view_sample *a = &h->samples[(h->n - 1 - i) % VIEW_SAMPLES];
        if (a->ns > now_ns || now_ns - a->ns > WINDOW_S * second_ns)
            break;
        oldest = a;
    }
    return oldest;
}

/* --- computing ----------------------------------------------------------------------- */

static double seconds_between(uint64_t from, uint64_t to)
{
    return to > from ? (double)(to - from) / 1e9 : 0;
}

static double rate_now(const struct gd_snapshot *s, const struct view_history *h, uint64_t ended)
{
    const uint64_t now = time_of(s);
    const struct view_sample *from = s->ended ? NULL : window_start(h, now);
    if (!from || ended < from->ended || seconds_between(from->ns, now) < LEAST_WINDOW_S)
        return -1;
    return (double)(ended - from->ended) / seconds_between(from->ns, now);
}

/* Progress in tasks or in work: how much is done now, and how much was done when the first task ended. */
struct count {
    double done, first;
};

/* How many seconds this amount takes, at the pace since the first task ended. */
static double seconds_for(double amount, struct count c, const struct view_figures *f, const struct view_history *h,
                          uint64_t now_ns)
{
    const double since = seconds_between(h->first.ns, now_ns);
    if (h->first.ns && c.done > c.first && since > 0)
        return amount * since / (c.done - c.first);
    if (f->ended >= 2 && h->first.ended >= 2 && c.done > 0) /* an observer that started late has only the mean */
        return amount * f->elapsed / c.done;
    return -1;
}

static double eta(const struct view_figures *f, const struct gd_snapshot *s, const struct view_history *h)
{
    const bool by_work = f->work_total > 0 && f->work_done > 0;
    if ((f->total == 0 && !by_work) || s->ended || s->stats->paused)
        return -1;
    if (s->stats->draining || s->stats->cancelled) /* it is not known when the tasks that still run will end */
        return -1;
    if (f->total && f->passed >= f->total)
        return 0;
    const struct count work = { f->work_done, h->first.work }, tasks = { (double)f->ended, (double)h->first.ended };
    return by_work ? seconds_for(f->work_total - f->work_done, work, f, h, time_of(s))
                   : seconds_for((double)(f->total - f->passed), tasks, f, h, time_of(s));
}

/* Uses the work, if it is known. The number of tasks would mislead if the longest task comes last. */
static double part(const struct view_figures *f)
{
    static const double nearly = 0.9995;
    if (f->total && f->passed >= f->total)
        return 1;
    if (f->work_total > 0) /* below 1, because tasks without work may be left */
        return f->work_done < nearly * f->work_total ? f->work_done / f->work_total : nearly;
    return f->total ? (double)f->passed / (double)f->total : -1;
}

static void add_work(struct view_figures *f, const struct gd_snapshot *s, const struct view_history *h)
{
    f->work_rate = -1;
    if (!(s->work_total > 0))
        return;
    f->work_total = s->work_total;
    f->work_done = s->work_done < s->work_total ? s->work_done : s->work_total;
    const double each = seconds_for(1, (struct count){ f->work_done, h->first.work }, f, h, time_of(s));
    if (each > 0)
        f->work_rate = 1 / each;
}

void view_figures_of(struct view_figures *f, const struct gd_snapshot *s, const struct view_history *h)
{
    const struct gd_stats *a = s->stats;
    *f = (struct view_figures){ .total = a->total, .ended = ended_of(a), .rate_mean = -1 };
    f->passed = sum(f->ended, a->skipped);
    if (a->source_done && !(a->cancelled && a->total)) /* a run that was stopped early had more to do */
        f->total = sum(a->taken, a->skipped);
    if (a->start_ns)
        f->elapsed = seconds_between(a->start_ns, time_of(s));
    if (f->ended && f->elapsed > 0)
        f->rate_mean = (double)f->ended / f->elapsed;
    f->rate_now = rate_now(s, h, f->ended);
    add_work(f, s, h);
    f->part = part(f);
    f->eta = eta(f, s, h);
}

/* --- formatting -------------------------------------------------------------------------- */

char *view_show_clock(char *out, size_t size, double seconds)
{
    if (!(seconds >= 0)) {
        snprintf(out, size, "-");
        return out;
    }
    const unsigned long long s = (unsigned long long)(seconds > 3.6e8 ? 3.6e8 : seconds); /* about eleven years */
    snprintf(out, size, "%llu:%02llu:%02llu", s / 3600, s / 60 % 60, s % 60);
    return out;
}

static char *show_in(char *out, size_t size, double value, const char *unit)
{
    snprintf(out, size, value >= 99.95 ? "%.0f %s" : "%.1f %s", value, unit);
    return out;
}

char *view_show_since(char *out, size_t size, double seconds)
{
    if (!(seconds >= 0) || seconds >= 600)
        return view_show_clock(out, size, seconds);
    return show_in(out, size, seconds, "s");
}

char *view_show_duration(char *out, size_t size, double seconds, bool utf8)
{
    if (!(seconds >= 0) || seconds >= 1)
        return view_show_since(out, size, seconds);
    if (seconds >= 1e-3)
        return show_in(out, size, seconds * 1e3, "ms");
    return show_in(out, size, seconds * 1e6, utf8 ? "µs" : "us");
}

char *view_show_count(char *out, size_t size, uint64_t count)
{
    char digits[32];
    const int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    size_t at = 0;
    for (int i = 0; i < n && at + 1 < size; i++) {
        out[at++] = digits[i];
        if ((n - 1 - i) % 3 == 0 && i + 1 < n && at + 1 < size)
            out[at++] = ',';
    }
    out[at] = 0;
    return out;
}

char *view_show_short_count(char *out, size_t size, uint64_t count)
{
    static const char units[] = "kMGTPE";
    double value = (double)count;
    size_t unit = 0;
    if (count < 10000000)
        return view_show_count(out, size, count);
    value /= 1000;
    while (value >= 999.95 && units[unit + 1]) {
        value /= 1000;
        unit++;
    }
    snprintf(out, size, "%.1f%c", value, units[unit]);
    return out;
}

/* The number of digits after the decimal point that gives two significant digits. */
static int digits_after(double value)
{
    int digits = 0;
    if (value < 5e-7)
        return 0;
    while (value < 9.95) {
        value *= 10;
        digits++;
    }
    return digits;
}

char *view_show_rate(char *out, size_t size, double per_second)
{
    if (!(per_second >= 0))
        snprintf(out, size, "-");
    else if (per_second >= 99.5)
        return view_show_count(out, size, per_second > 1e18 ? (uint64_t)1e18 : (uint64_t)(per_second + 0.5));
    else
        snprintf(out, size, "%.*f", digits_after(per_second), per_second);
    return out;
}

char *view_show_memory(char *out, size_t size, uint64_t used, uint64_t total)
{
    static const char units[] = "KMGTPE";
    size_t unit = 0;
    double scale = 1024;
    while ((double)total / scale >= 1000 && units[unit + 1]) {
        scale *= 1024;
        unit++;
    }
    const double in_use = (double)used / scale, all = (double)total / scale;
    snprintf(out, size, "%.*f/%.*f%c", in_use > 0.05 && in_use < 9.95 ? 1 : 0, in_use, all < 9.95 ? 1 : 0, all,
             units[unit]);
    return out;
}

const char *view_held_state(const struct gd_snapshot *s)
{
    if (s->ended)
        return NULL;
    if (s->stats->between_runs)
        return "idle";
    return s->stats->draining ? "draining" : s->stats->paused ? "paused" : NULL;
}

const char *view_run_state(const struct gd_snapshot *s)
{
    const char *held = view_held_state(s);
    return s->ended ? "ended" : held ? held : "running";
}
