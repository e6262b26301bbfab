/* SPDX-License-Identifier: MIT
 *
 * A snapshot as JSON. Figures have the same names as in the public headers. Times of the monotonic clock are converted
 * to seconds since the run began. Unknown figures are null. Inputs and error messages may contain any bytes;
 * gd__json_put_string() makes a JSON string from them.
 */
#include "web/live/view.h"

#include <string.h>

#include <gpu_dispatch/devices.h>

#include "base/text/buffer.h"
#include "base/text/json_write.h"
#include "view/json.h"
#include "view/rows.h"

double web_since(const struct gd_snapshot *s, uint64_t ns)
{
    return s->stats->start_ns && ns > s->stats->start_ns ? (double)(ns - s->stats->start_ns) / 1e9 : 0;
}

static void add_text(struct gd__buffer *b, const char *name, const char *text, size_t room)
{
    gd__buffer_format(b, ",\"%s\":", name);
    gd__json_put_string(b, text, strnlen(text, room));
}

static void add_number(struct gd__buffer *b, const char *name, uint64_t value)
{
    gd__buffer_format(b, ",\"%s\":%llu", name, (unsigned long long)value);
}

/* Adds null if the value is not known. */
static void add_known(struct gd__buffer *b, const char *name, bool known, double value)
{
    if (known)
        gd__buffer_format(b, ",\"%s\":%.15g", name, value);
    else
        gd__buffer_format(b, ",\"%s\":null", name);
}

static const struct {
    const char *name;
    size_t offset;
} figures[] = {
#define FIGURE(field)                                              \
    {                                                              \
        .name = #field, .offset = offsetof(struct gd_stats, field) \
    }
    FIGURE(total),     FIGURE(taken),     FIGURE(pending),  FIGURE(running),  FIGURE(completed),
    FIGURE(failed),    FIGURE(timeouts),  FIGURE(retried),  FIGURE(skipped),  FIGURE(setup_failures),
    FIGURE(restarts),  FIGURE(crashes),   FIGURE(start_ns), FIGURE(now_ns),   FIGURE(source_done),
    FIGURE(n_workers), FIGURE(cancelled), FIGURE(paused),   FIGURE(draining), FIGURE(task_timeout_ms),
#undef FIGURE
};

static void add_figures(struct gd__buffer *b, const struct gd_stats *stats)
{
    gd__buffer_text(b, ",\"stats\":{");
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        uint64_t value;
        memcpy(&value, (const char *)stats + figures[i].offset, sizeof value);
        gd__buffer_format(b, "%s\"%s\":%llu", i ? "," : "", figures[i].name, (unsigned long long)value);
    }
    gd__buffer_text(b, "}");
}

/* Adds the figures that are computed from the statistics. */
static void add_computed(struct gd__buffer *b, const struct gd_snapshot *s, const struct view_history *h)
{
    struct view_figures f;
    view_figures_of(&f, s, h);
    gd__buffer_format(b, ",\"figures\":{\"passed\":%llu", (unsigned long long)f.passed);
    add_known(b, "total", f.total, (double)f.total);
    add_known(b, "eta", f.eta >= 0, f.eta);
    add_known(b, "rate", f.rate_now >= 0, f.rate_now);
    add_known(b, "mean_rate", f.rate_mean >= 0, f.rate_mean);
    add_known(b, "part", f.part >= 0, f.part);
    if (f.work_total > 0) {
        add_known(b, "work_done", true, f.work_done);
        add_known(b, "work_total", true, f.work_total);
    }
    gd__buffer_text(b, "}");
}

static void add_worker(struct gd__buffer *b, const struct gd_snapshot *s, const struct gd_worker_view *w)
{
    const bool working = w->current_task != UINT64_MAX;
    gd__buffer_format(b, "{\"worker_id\":%llu,\"gpu_id\":%lld,\"state\":\"%s\"", (unsigned long long)w->worker_id,
                      (long long)w->gpu_id, gd_worker_state_name((enum gd_worker_state)w->state));
    view_json_gpus(b, s, w->gpu_id);
    add_text(b, "status", view_status_name(view_status_of(s, w)), SIZE_MAX);
    if (w->idle == GD_IDLE_NOT)
        gd__buffer_text(b, ",\"idle\":null");
    else
        gd__buffer_format(b, ",\"idle\":\"%s\"", gd_idle_reason_name((enum gd_idle_reason)w->idle));
    add_number(b, "pid", w->pid);
    add_known(b, "current_task", working, (double)w->current_task);
    add_text(b, "task", w->task, sizeof w->task);
    add_known(b, "since", w->since_ns != 0, web_since(s, w->since_ns));
    add_number(b, "handed", w->handed);
    add_number(b, "in_flight", w->in_flight);
    add_number(b, "completed", w->completed);
    add_number(b, "failed", w->failed);
    add_number(b, "timeouts", w->timeouts);
    add_number(b, "restarts", w->restarts);
    add_known(b, "last_seconds", w->last_ns != 0, (double)w->last_ns / 1e9);
    add_known(b, "busy_seconds", true, (double)w->busy_ns / 1e9);
    gd__buffer_format(b, ",\"device_out\":%s}", w->device_out ? "true" : "false");
}

static void add_device(struct gd__buffer *b, const struct gd_device_view *d)
{
    gd__buffer_format(b, "{\"gpu_id\":%lld,\"group\":%lld,\"vendor\":\"%s\"", (long long)d->gpu_id, (long long)d->group,
                      gd_vendor_name((enum gd_vendor)d->vendor));
    add_text(b, "name", d->name, sizeof d->name);
    add_text(b, "uuid", d->uuid, sizeof d->uuid);
    add_known(b, "memory_total", d->known & GD_KNOWN_MEMORY, (double)d->memory_total);
    add_known(b, "memory_free", d->known & GD_KNOWN_MEMORY, (double)d->memory_free);
    add_known(b, "utilization", d->known & GD_KNOWN_UTILIZATION, (double)d->utilization);
    add_known(b, "temperature", d->known & GD_KNOWN_TEMPERATURE, (double)d->temperature);
    add_known(b, "power_watts", d->known & GD_KNOWN_POWER, (double)d->power_mw / 1e3);
    gd__buffer_text(b, "}");
}

static const char *failure_name(uint64_t failure)
{
    return gd_failure_name((enum gd_failure)failure);
}

static void add_task(struct gd__buffer *b, const struct gd_snapshot *s, const struct gd_task_view *t)
{
    const char *quote = t->failure ? "\"" : "";
    gd__buffer_format(b, "[%llu,%lld,%lld,%.4f,%.4f,%u,%s%s%s,%u]", (unsigned long long)t->task_id,
                      (long long)t->worker_id, (long long)t->gpu_id, web_since(s, t->start_ns), web_since(s, t->end_ns),
                      (unsigned)t->attempt, quote, t->failure ? failure_name(t->failure) : "null", quote,
                      t->again ? 1U : 0U);
}

static void add_failure(struct gd__buffer *b, const struct gd_snapshot *s, const struct gd_failure_view *f)
{
    gd__buffer_format(b, "{\"task_id\":%llu,\"worker_id\":%lld,\"gpu_id\":%lld", (unsigned long long)f->task_id,
                      (long long)f->worker_id, (long long)f->gpu_id);
    gd__buffer_format(b, ",\"start\":%.4f,\"end\":%.4f,\"attempt\":%u,\"failure\":\"%s\"", web_since(s, f->start_ns),
                      web_since(s, f->end_ns), (unsigned)f->attempt, failure_name(f->failure));
    add_text(b, "input", f->input, sizeof f->input);
    add_text(b, "error", f->error, sizeof f->error);
    gd__buffer_text(b, "}");
}

static void add_request(struct gd__buffer *b, const struct gd_snapshot *s, const struct gd_request_view *r)
{
    gd__buffer_format(b, "{\"at\":%.4f,\"ok\":%s", web_since(s, r->at_ns), r->code < 0 ? "false" : "true");
    add_text(b, "message", r->what, sizeof r->what);
    gd__buffer_text(b, "}");
}

static void add_tasks(struct gd__buffer *b, const struct gd_snapshot *s)
{
    gd__buffer_text(b, ",\"task_columns\":[\"task_id\",\"worker_id\",\"gpu_id\",\"start\",\"end\",\"attempt\","
                       "\"failure\",\"again\"],\"tasks\":[");
    for (size_t i = 0; i < s->n_tasks; i++) {
        gd__buffer_text(b, i ? "," : "");
        add_task(b, s, gd_snapshot_task(s, i));
    }
    gd__buffer_text(b, "]");
    add_number(b, "tasks_missed", s->tasks_missed);
}

double web_seconds(const struct gd_snapshot *s)
{
    return web_since(s, s->ended || s->read_ns < s->stats->now_ns ? s->stats->now_ns : s->read_ns);
}

void web_view_json(struct gd__buffer *b, const struct gd_snapshot *s, const struct view_history *h, uint64_t sequence)
{
    gd__buffer_format(b, "{\"sequence\":%llu", (unsigned long long)sequence);
    add_text(b, "job", s->job, sizeof s->job);
    add_number(b, "pid", s->pid);
    gd__buffer_format(b, ",\"started\":%.3f,\"seconds\":%.3f,\"ended\":%s,\"stale\":%s", s->started, web_seconds(s),
                      s->ended ? "true" : "false", s->stale ? "true" : "false");
    add_text(b, "state", view_run_state(s), SIZE_MAX);
    add_figures(b, s->stats);
    add_computed(b, s, h);
    gd__buffer_text(b, ",\"workers\":[");
    for (size_t i = 0; i < s->n_workers; i++) {
        gd__buffer_text(b, i ? "," : "");
        add_worker(b, s, gd_snapshot_worker(s, i));
    }
    gd__buffer_text(b, "],\"devices\":[");
    for (size_t i = 0; i < s->n_devices; i++) {
        gd__buffer_text(b, i ? "," : "");
        add_device(b, gd_snapshot_device(s, i));
    }
    gd__buffer_text(b, "],\"failures\":[");
    for (size_t i = 0; i < s->n_failures; i++) {
        gd__buffer_text(b, i ? "," : "");
        add_failure(b, s, gd_snapshot_failure(s, i));
    }
    gd__buffer_text(b, "]");
    add_number(b, "failures_missed", s->failures_missed);
    gd__buffer_text(b, ",\"requests\":[");
    for (size_t i = 0; i < s->n_requests; i++) {
        gd__buffer_text(b, i ? "," : "");
        add_request(b, s, gd_snapshot_request(s, i));
    }
    gd__buffer_text(b, "]");
    add_number(b, "requests_missed", s->requests_missed);
    if (s->tasks)
        add_tasks(b, s);
    gd__buffer_text(b, "}");
}
