/* SPDX-License-Identifier: MIT
 *
 * Decodes a report. The values are those that GNU parallel would give. A command that was killed has the signal that
 * killed it and exit code 0. A command that timed out has exit code -1 and signal 15.
 */
#include "cli/output/task_end.h"

#include <signal.h>
#include <string.h>
#include <time.h>

/* Reports use CLOCK_MONOTONIC, but users expect the time of day. The difference is computed again each time, since the
 * time of day can be set. */
static double unix_time(uint64_t monotonic_ns)
{
    struct timespec real, mono;
    clock_gettime(CLOCK_REALTIME, &real);
    clock_gettime(CLOCK_MONOTONIC, &mono);
    int64_t ago = (int64_t)mono.tv_sec * 1000000000 + mono.tv_nsec - (int64_t)monotonic_ns;
    return (double)real.tv_sec + ((double)real.tv_nsec - (double)ago) / 1e9;
}

static void read_times(struct cli_task_end *e)
{
    const struct gd_report *r = e->report;
    if (r->start_ns == 0)
        return;
    e->started = unix_time(r->start_ns);
    if (r->end_ns > r->start_ns)
        e->seconds = (double)(r->end_ns - r->start_ns) / 1e9;
}

/* False if the data is not the output of a command. */
static bool read_command(struct cli_task_end *e)
{
    struct gd_command_output c = { .size = sizeof c };
    if (gd_command_read(e->report->data, e->report->size, &c) < 0)
        return false;
    e->out = c.out;
    e->out_size = c.out_size;
    e->err = c.err;
    e->err_size = c.err_size;
    e->exit_code = c.exit_code;
    e->signal = c.signal;
    return true;
}

void cli_task_end_read(struct cli_task_end *e, const struct gd_report *report, enum cli_result_kind kind)
{
    *e = (struct cli_task_end){ .report = report, .kind = kind, .out = "", .err = "" };
    e->ok = report->failure == GD_FAILURE_NONE;
    e->status = e->ok ? "ok" : gd_failure_name(report->failure);
    read_times(e);
    if (kind == CLI_RESULT_COMMAND) {
        e->ran = read_command(e);
    } else if (report->size > 0 && e->ok) {
        e->out = report->data;
        e->out_size = report->size;
    }
    if (report->failure == GD_FAILURE_TIMEOUT) {
        e->exit_code = -1;
        e->signal = SIGTERM;
        e->ran = false;
    } else if (!e->ran && !e->ok) {
        /* A task that crashed has the exit code and signal of its worker. An error counts as exit code 1. */
        int none = report->failure == GD_FAILURE_ERROR ? 1 : -1;
        e->signal = report->signal;
        e->exit_code = report->signal ? 0 : report->exit_code ? report->exit_code : none;
    }
}

/* The header of a block. Data, input and error message follow it. */
struct packed {
    size_t size; /* total size */
    size_t error_size;
    void *extra;
    enum cli_result_kind kind;
    unsigned slot;
    struct gd_report report; /* its pointers are only compared with NULL */
};

size_t cli_task_end_packed_size(const struct cli_task_end *e)
{
    const struct gd_report *r = e->report;
    const size_t size = sizeof(struct packed) + r->size + r->input_size + (r->error ? strlen(r->error) + 1 : 0);
    return (size + CLI_TASK_END_ALIGN - 1) / CLI_TASK_END_ALIGN * CLI_TASK_END_ALIGN;
}

static char *put(char *at, const void *data, size_t size)
{
    if (data && size)
        memcpy(at, data, size);
    return at + size;
}

void cli_task_end_pack(void *at, const struct cli_task_end *e, void *extra)
{
    const struct gd_report *r = e->report;
    struct packed *p = at;
    *p = (struct packed){ .size = cli_task_end_packed_size(e),
                          .error_size = r->error ? strlen(r->error) + 1 : 0,
                          .extra = extra,
                          .kind = e->kind,
                          .slot = e->slot,
                          .report = *r };
    (void)put(put(put((char *)(p + 1), r->data, r->size), r->input, r->input_size), r->error, p->error_size);
}

size_t cli_task_end_unpack(struct cli_task_end *e, struct gd_report *report, const void *at, void **extra)
{
    const struct packed *p = at;
    const char *data = (const char *)(p + 1), *input = data + p->report.size;
    *report = p->report;
    report->data = report->data ? data : NULL;
    report->input = report->input ? input : NULL;
    report->error = report->error ? input + report->input_size : NULL;
    cli_task_end_read(e, report, p->kind);
    e->slot = p->slot;
    *extra = p->extra;
    return p->size;
}

int cli_task_end_shell_status(const struct cli_task_end *e)
{
    if (e->exit_code < 0)
        return 255;
    return e->signal ? 128 + e->signal : e->exit_code;
}
