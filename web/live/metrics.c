/* SPDX-License-Identifier: MIT
 *
 * Metrics in the text format 0.0.4 of Prometheus. Each metric has a HELP line and a TYPE line, then all its samples.
 * Counters (_total) only grow during a run. Measured values are gauges, in base units. If the driver does not report a
 * figure, that figure has no sample.
 *
 * The metrics are defined in three tables: for the run, for workers and for devices.
 */
#include <stdio.h>
#include <string.h>

#include <gpu_dispatch/devices.h>

#include "base/text/buffer.h"
#include "view/rows.h"
#include "web/live/view.h"

#define PREFIX "gpu_dispatch_"

static void head(struct gd__buffer *b, const char *name, const char *type, const char *help)
{
    gd__buffer_format(b, "# HELP " PREFIX "%s %s\n# TYPE " PREFIX "%s %s\n", name, help, name, type);
}

/* Adds the value of a label. Backslash, quote and newline are escaped. Other bytes that are not printable ASCII become
 * a dot. */
static void add_label(struct gd__buffer *b, const char *text, size_t room)
{
    for (size_t i = 0; i < room && text[i]; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '\n')
            gd__buffer_text(b, "\\n");
        else if (c == '"' || c == '\\')
            gd__buffer_format(b, "\\%c", c);
        else
            gd__buffer_add(b, c < 0x20 || c >= 0x7f ? "." : &text[i], 1);
    }
}

/* --- the run -------------------------------------------------------------------- */

static double started(const struct gd_snapshot *s)
{
    return s->started;
}

static double ended(const struct gd_snapshot *s)
{
    return s->ended;
}

static double task_timeout(const struct gd_snapshot *s)
{
    return (double)s->stats->task_timeout_ms / 1e3;
}

/* One line for each sample. Only the first sample of a metric has a help text. */
static const struct run_metric {
    const char *name, *type, *help, *label;
    size_t offset; /* of the value in struct gd_stats; used if value is NULL */
    double (*value)(const struct gd_snapshot *s);
} run_metrics[] = {
#define AT(field) offsetof(struct gd_stats, field), NULL
    { "tasks_total", "counter", "Tasks that are final.", "state=\"completed\"", AT(completed) },
    { "tasks_total", NULL, NULL, "state=\"failed\"", AT(failed) },
    { "tasks_total", NULL, NULL, "state=\"timeout\"", AT(timeouts) },
    { "tasks_total", NULL, NULL, "state=\"cancelled\"", AT(cancelled) },
    { "tasks_taken_total", "counter", "Tasks taken from the input.", NULL, AT(taken) },
    { "tasks_skipped_total", "counter", "Tasks of the input that are already final in the journal.", NULL,
      AT(skipped) },
    { "task_retries_total", "counter", "Attempts beyond a task's first.", NULL, AT(retried) },
    { "tasks", "gauge", "Tasks that are not final.", "state=\"pending\"", AT(pending) },
    { "tasks", NULL, NULL, "state=\"running\"", AT(running) },
    { "tasks_expected", "gauge", "Total number of tasks, including skipped ones; 0 if it is not known.", NULL,
      AT(total) },
    { "input_at_end", "gauge", "1 if nothing more will be taken from the input.", NULL, AT(source_done) },
    { "worker_setup_failures_total", "counter", "Workers that failed to set up.", NULL, AT(setup_failures) },
    { "worker_restarts_total", "counter", "Worker processes started beyond each worker's first.", NULL, AT(restarts) },
    { "worker_crashes_total", "counter", "Worker processes that ended before they should have.", NULL, AT(crashes) },
    { "run_start_time_seconds", "gauge", "When the run began, in Unix time.", NULL, 0, started },
    { "run_seconds", "gauge", "How long the run has lasted.", NULL, 0, web_seconds },
    { "run_ended", "gauge", "1 if the run has ended.", NULL, 0, ended },
    { "run_paused", "gauge", "1 if the run is paused: nothing new starts.", NULL, AT(paused) },
    { "run_draining", "gauge", "1 if the run ends after its running tasks.", NULL, AT(draining) },
    { "task_timeout_seconds", "gauge", "Time limit of a task without its own limit; 0 if there is none.", NULL, 0,
      task_timeout },
#undef AT
};

/* Adds the work, in the run's unit. Adds nothing if the run has not set its work. */
static void add_work(struct gd__buffer *b, const struct gd_snapshot *s)
{
    if (!(s->work_total > 0))
        return;
    head(b, "work_done", "gauge", "How much of the work is done, in the unit that the run uses.");
    gd__buffer_format(b, PREFIX "work_done %.15g\n", s->work_done);
    head(b, "work_expected", "gauge", "The total amount of work, in the same unit.");
    gd__buffer_format(b, PREFIX "work_expected %.15g\n", s->work_total);
}

static void add_run(struct gd__buffer *b, const struct gd_snapshot *s)
{
    for (size_t i = 0; i < sizeof run_metrics / sizeof run_metrics[0]; i++) {
        const struct run_metric *m = &run_metrics[i];
        uint64_t count;
        memcpy(&count, (const char *)s->stats + m->offset, sizeof count);
        if (m->help)
            head(b, m->name, m->type, m->help);
        gd__buffer_format(b, PREFIX "%s%s%s%s ", m->name, m->label ? "{" : "", m->label ? m->label : "",
                          m->label ? "}" : "");
        if (m->value)
            gd__buffer_format(b, "%.3f\n", m->value(s));
        else
            gd__buffer_format(b, "%llu\n", (unsigned long long)count);
    }
}

/* --- workers ---------------------------------------------------------------------- */

static void add_states(struct gd__buffer *b, const struct gd_snapshot *s)
{
    head(b, "workers", "gauge", "Number of workers in each state.");
    for (unsigned state = GD_WORKER_OFF; state <= GD_WORKER_LOST; state++) {
        size_t n = 0;
        for (size_t i = 0; i < s->n_workers; i++)
            n += gd_snapshot_worker(s, i)->state == state;
        gd__buffer_format(b, PREFIX "workers{state=\"%s\"} %zu\n", gd_worker_state_name((enum gd_worker_state)state),
                          n);
    }
}

static double is_busy(const struct gd_worker_view *w)
{
    return w->state == GD_WORKER_BUSY || w->state == GD_WORKER_CANCELLING;
}

static double busy_seconds(const struct gd_worker_view *w)
{
    return (double)w->busy_ns / 1e9;
}

static double last_seconds(const struct gd_worker_view *w)
{
    return (double)w->last_ns / 1e9;
}

static double completed(const struct gd_worker_view *w)
{
    return (double)w->completed;
}

static double failed(const struct gd_worker_view *w)
{
    return (double)w->failed;
}

static double timeouts(const struct gd_worker_view *w)
{
    return (double)w->timeouts;
}

static double restarts(const struct gd_worker_view *w)
{
    return (double)w->restarts;
}

static double in_flight(const struct gd_worker_view *w)
{
    return (double)w->in_flight;
}

static const struct worker_metric {
    const char *name, *type, *help;
    struct {
        const char *label; /* NULL: the metric has only this sample */
        double (*value)(const struct gd_worker_view *w);
    } lines[3];
} worker_metrics[] = {
    { "worker_tasks_total",
      "counter",
      "Tasks that ended on a worker.",
      { { "completed", completed }, { "failed", failed }, { "timeout", timeouts } } },
    { "worker_busy_seconds_total", "counter", "Time that a worker's ended tasks took.", { { NULL, busy_seconds } } },
    { "worker_process_restarts_total", "counter", "Processes of a worker beyond its first.", { { NULL, restarts } } },
    { "worker_busy", "gauge", "1 if a worker is processing a task.", { { NULL, is_busy } } },
    { "worker_tasks_in_flight",
      "gauge",
      "Tasks in flight (begun and not finished) of a worker that can have several.",
      { { NULL, in_flight } } },
    { "worker_last_task_seconds", "gauge", "How long a worker's last task took.", { { NULL, last_seconds } } },
};

/* The label gpu of a worker with a group of GPUs is "0+1". */
static void add_worker(struct gd__buffer *b, const struct worker_metric *m, const struct gd_snapshot *s,
                       const struct gd_worker_view *w)
{
    char gpus[128];
    view_gpu_label(gpus, sizeof gpus, s, w->gpu_id);
    for (size_t i = 0; i < 3 && m->lines[i].value; i++) {
        gd__buffer_format(b, PREFIX "%s{worker=\"%llu\",gpu=\"%s\"", m->name, (unsigned long long)w->worker_id, gpus);
        if (m->lines[i].label)
            gd__buffer_format(b, ",state=\"%s\"", m->lines[i].label);
        gd__buffer_format(b, "} %.15g\n", m->lines[i].value(w));
    }
}

static void add_workers(struct gd__buffer *b, const struct gd_snapshot *s)
{
    for (size_t i = 0; i < sizeof worker_metrics / sizeof worker_metrics[0]; i++) {
        const struct worker_metric *m = &worker_metrics[i];
        head(b, m->name, m->type, m->help);
        for (size_t k = 0; k < s->n_workers; k++)
            add_worker(b, m, s, gd_snapshot_worker(s, k));
    }
}

/* --- devices ------------------------------------------------------------------------ */

/* Sums over the workers of a device. Workers with a group of devices count for each of these. */
static double sum(const struct gd_snapshot *s, const struct gd_device_view *d,
                  double (*value)(const struct gd_worker_view *w))
{
    double total = 0;
    for (size_t i = 0; i < s->n_workers; i++) {
        if (gd_snapshot_worker(s, i)->gpu_id == d->group)
            total += value(gd_snapshot_worker(s, i));
    }
    return total;
}

static double out_of_use(const struct gd_worker_view *w)
{
    return w->device_out != 0;
}

static const struct {
    const char *label;
    double (*value)(const struct gd_worker_view *w);
} ends[] = { { "completed", completed }, { "failed", failed }, { "timeout", timeouts } };

static void add_device_sums(struct gd__buffer *b, const struct gd_snapshot *s)
{
    head(b, "gpu_tasks_total", "counter", "Tasks that ended on a device.");
    for (size_t i = 0; i < s->n_devices; i++) {
        const struct gd_device_view *d = gd_snapshot_device(s, i);
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
            gd__buffer_format(b, PREFIX "gpu_tasks_total{gpu=\"%lld\",state=\"%s\"} %.15g\n", (long long)d->gpu_id,
                              ends[k].label, sum(s, d, ends[k].value));
    }
    head(b, "gpu_busy_seconds_total", "counter", "Time that the ended tasks of a device's workers took, summed.");
    for (size_t i = 0; i < s->n_devices; i++) {
        const struct gd_device_view *d = gd_snapshot_device(s, i);
        gd__buffer_format(b, PREFIX "gpu_busy_seconds_total{gpu=\"%lld\"} %.15g\n", (long long)d->gpu_id,
                          sum(s, d, busy_seconds));
    }
    head(b, "gpu_out_of_use", "gauge", "1 if a device was taken out of use, alone or with its group.");
    for (size_t i = 0; i < s->n_devices; i++) {
        const struct gd_device_view *d = gd_snapshot_device(s, i);
        gd__buffer_format(b, PREFIX "gpu_out_of_use{gpu=\"%lld\"} %d\n", (long long)d->gpu_id,
                          sum(s, d, out_of_use) > 0);
    }
}

static double utilization(const struct gd_device_view *d)
{
    return (double)d->utilization / 100;
}

static double memory_total(const struct gd_device_view *d)
{
    return (double)d->memory_total;
}

static double memory_used(const struct gd_device_view *d)
{
    return d->memory_total > d->memory_free ? (double)(d->memory_total - d->memory_free) : 0;
}

static double temperature(const struct gd_device_view *d)
{
    return (double)d->temperature;
}

static double power(const struct gd_device_view *d)
{
    return (double)d->power_mw / 1e3;
}

static const struct {
    const char *name, *help;
    unsigned known;
    double (*value)(const struct gd_device_view *d);
} device_metrics[] = {
    { "gpu_utilization_ratio", "Part of the time that something ran on a device.", GD_KNOWN_UTILIZATION, utilization },
    { "gpu_memory_bytes", "Memory of a device.", GD_KNOWN_MEMORY, memory_total },
    { "gpu_memory_used_bytes", "Memory of a device that is in use.", GD_KNOWN_MEMORY, memory_used },
    { "gpu_temperature_celsius", "Temperature of a device.", GD_KNOWN_TEMPERATURE, temperature },
    { "gpu_power_watts", "Power that a device draws.", GD_KNOWN_POWER, power },
};

static void add_devices(struct gd__buffer *b, const struct gd_snapshot *s)
{
    head(b, "gpu_info", "gauge", "Vendor, name and UUID of a device; always 1.");
    for (size_t i = 0; i < s->n_devices; i++) {
        const struct gd_device_view *d = gd_snapshot_device(s, i);
        gd__buffer_format(b, PREFIX "gpu_info{gpu=\"%lld\",vendor=\"%s\",name=\"", (long long)d->gpu_id,
                          gd_vendor_name((enum gd_vendor)d->vendor));
        add_label(b, d->name, sizeof d->name);
        gd__buffer_text(b, "\",uuid=\"");
        add_label(b, d->uuid, sizeof d->uuid);
        gd__buffer_text(b, "\"} 1\n");
    }
    add_device_sums(b, s);
    for (size_t i = 0; i < sizeof device_metrics / sizeof device_metrics[0]; i++) {
        head(b, device_metrics[i].name, "gauge", device_metrics[i].help);
        for (size_t k = 0; k < s->n_devices; k++) {
            const struct gd_device_view *d = gd_snapshot_device(s, k);
            if (d->known & device_metrics[i].known)
                gd__buffer_format(b, PREFIX "%s{gpu=\"%lld\"} %.15g\n", device_metrics[i].name, (long long)d->gpu_id,
                                  device_metrics[i].value(d));
        }
    }
}

void web_metrics(struct gd__buffer *b, const struct gd_snapshot *s)
{
    head(b, "build_info", "gauge", "The version of gpu-dispatch; always 1.");
    gd__buffer_format(b, PREFIX "build_info{version=\"%s\"} 1\n", gd_version());
    head(b, "job_info", "gauge", "Process id and name of the run; always 1.");
    gd__buffer_format(b, PREFIX "job_info{pid=\"%llu\",job=\"", (unsigned long long)s->pid);
    add_label(b, s->job, sizeof s->job);
    gd__buffer_text(b, "\"} 1\n");
    add_run(b, s);
    add_work(b, s);
    add_states(b, s);
    add_workers(b, s);
    add_devices(b, s);
}
