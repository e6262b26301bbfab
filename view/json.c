/* SPDX-License-Identifier: MIT
 *
 * Writes one JSON object on one line. Unknown figures are null.
 */
#include "view/json.h"

#include <string.h>

#include <gpu_dispatch/devices.h>

#include "base/text/buffer.h"
#include "base/text/json_write.h"
#include "view/rows.h"

static void put_count(struct gd__buffer *b, const char *name, uint64_t value)
{
    gd__buffer_format(b, ",\"%s\":%llu", name, (unsigned long long)value);
}

static void put_real(struct gd__buffer *b, const char *name, double value)
{
    if (value >= 0)
        gd__buffer_format(b, ",\"%s\":%.3f", name, value);
    else
        gd__buffer_format(b, ",\"%s\":null", name);
}

static void put_known(struct gd__buffer *b, const char *name, bool known, uint64_t value)
{
    if (known)
        put_count(b, name, value);
    else
        gd__buffer_format(b, ",\"%s\":null", name);
}

void view_json_gpus(struct gd__buffer *b, const struct gd_snapshot *s, int64_t gpu_id)
{
    const struct gd_device_view *d;
    bool any = false;
    gd__buffer_text(b, ",\"gpus\":[");
    for (size_t i = 0; (d = view_next_gpu(s, gpu_id, &i)); any = true)
        gd__buffer_format(b, "%s%lld", any ? "," : "", (long long)d->gpu_id);
    if (!any)
        gd__buffer_format(b, "%lld", (long long)gpu_id);
    gd__buffer_text(b, "]");
}

static void put_worker(struct gd__buffer *b, const struct gd_snapshot *s, const struct gd_worker_view *w)
{
    const enum view_status status = view_status_of(s, w);
    gd__buffer_format(b, "{\"worker\":%llu,\"gpu\":%lld", (unsigned long long)w->worker_id, (long long)w->gpu_id);
    view_json_gpus(b, s, w->gpu_id);
    gd__json_put_text(b, "status", view_status_name(status));
    gd__json_put_text(b, "idle", w->idle ? gd_idle_reason_name((enum gd_idle_reason)w->idle) : "");
    put_real(b, "since", w->since_ns && s->read_ns >= w->since_ns ? (double)(s->read_ns - w->since_ns) / 1e9 : -1);
    put_known(b, "task", status == VIEW_PROCESSING && w->current_task != UINT64_MAX, w->current_task);
    put_count(b, "in_flight", w->in_flight);
    gd__json_put_text(b, "input", status == VIEW_PROCESSING ? w->task : "");
    put_count(b, "completed", w->completed);
    put_count(b, "failed", w->failed);
    put_count(b, "timeouts", w->timeouts);
    put_count(b, "restarts", w->restarts);
    put_real(b, "last", w->last_ns ? (double)w->last_ns / 1e9 : -1);
    put_real(b, "busy", (double)w->busy_ns / 1e9);
    put_known(b, "pid", w->pid, w->pid);
    gd__buffer_text(b, "}");
}

static void put_device(struct gd__buffer *b, const struct gd_device_view *d)
{
    gd__buffer_format(b, "{\"gpu\":%lld", (long long)d->gpu_id);
    gd__json_put_text(b, "name", d->name);
    gd__json_put_text(b, "uuid", d->uuid);
    put_known(b, "utilization", d->known & GD_KNOWN_UTILIZATION, d->utilization);
    put_known(b, "memory_total", d->known & GD_KNOWN_MEMORY, d->memory_total);
    put_known(b, "memory_free", d->known & GD_KNOWN_MEMORY, d->memory_free);
    if (d->known & GD_KNOWN_TEMPERATURE)
        gd__buffer_format(b, ",\"temperature\":%lld", (long long)d->temperature);
    else
        gd__buffer_text(b, ",\"temperature\":null");
    put_known(b, "power_mw", d->known & GD_KNOWN_POWER, d->power_mw);
    gd__buffer_text(b, "}");
}

static void put_figures(struct gd__buffer *b, const struct gd_snapshot *s, const struct view_figures *f)
{
    const struct gd_stats *a = s->stats;
    put_known(b, "total", f->total, f->total);
    put_count(b, "taken", a->taken);
    put_count(b, "waiting", a->pending);
    put_count(b, "running", a->running);
    put_count(b, "completed", a->completed);
    put_count(b, "failed", a->failed);
    put_count(b, "timeouts", a->timeouts);
    put_count(b, "retried", a->retried);
    put_count(b, "skipped", a->skipped);
    put_count(b, "cancelled", a->cancelled);
    put_count(b, "setup_failures", a->setup_failures);
    put_count(b, "restarts", a->restarts);
    put_count(b, "crashes", a->crashes);
    gd__json_put_text(b, "state", view_run_state(s));
    put_count(b, "task_timeout_ms", a->task_timeout_ms);
    put_real(b, "elapsed", f->elapsed);
    put_real(b, "eta", f->eta);
    put_real(b, "rate", f->rate_now);
    put_real(b, "mean_rate", f->rate_mean);
    if (f->work_total > 0) {
        put_real(b, "work_done", f->work_done);
        put_real(b, "work_total", f->work_total);
    }
}

/* The same members as in an answer of the control socket. */
static void put_request(struct gd__buffer *b, const struct view_history *h)
{
    if (!*h->request) {
        gd__buffer_text(b, ",\"last_request\":null");
        return;
    }
    gd__buffer_format(b, ",\"last_request\":{\"ok\":%s", h->refused ? "false" : "true");
    gd__json_put_text(b, "message", h->request);
    gd__buffer_text(b, "}");
}

void view_json(struct gd__buffer *out, const struct gd_snapshot *s, const struct view_history *h)
{
    struct view_figures f;
    view_figures_of(&f, s, h);
    gd__buffer_format(out, "{\"pid\":%llu", (unsigned long long)s->pid);
    gd__json_put_text(out, "job", s->job);
    put_real(out, "started", s->started);
    gd__buffer_format(out, ",\"ended\":%s", s->ended ? "true" : "false");
    put_figures(out, s, &f);
    put_request(out, h);
    gd__buffer_text(out, ",\"workers\":[");
    for (size_t i = 0; i < s->n_workers; i++) {
        gd__buffer_text(out, i ? "," : "");
        put_worker(out, s, gd_snapshot_worker(s, i));
    }
    gd__buffer_text(out, "],\"devices\":[");
    for (size_t i = 0; i < s->n_devices; i++) {
        gd__buffer_text(out, i ? "," : "");
        put_device(out, gd_snapshot_device(s, i));
    }
    gd__buffer_text(out, "]}");
}
