/* SPDX-License-Identifier: MIT
 *
 * --output FILE.jsonl: a record for each task.
 *
 *   id         number of the task, from 0
 *   run        with --journal: the number of the run, from 1; run and id together identify a task in the journal
 *   input      a string; an array of strings if a task has several arguments; with --jsonl the JSON of the line
 *   status     "ok", "error", "timeout", "crash", ...
 *   output     the result: a command's stdout and a plugin's bytes as a string, a stream worker's JSON unchanged
 *   stderr     of a command, if it wrote any
 *   error      the error message, if the task failed
 *   exit_code, signal   of a command; for a crash, of the worker
 *   attempt    how many times the task was started
 *   worker, gpu   null if the task was never started
 *   started    Unix time; null if the task was never started
 *   seconds    how long the last attempt took; null if the task was never started
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "base/text/buffer.h"
#include "base/text/json.h"
#include "base/text/json_write.h"
#include "cli/output/files/logfile.h"
#include "cli/output/streams.h"

struct cli_records {
    struct cli_logfile file;
    bool json_input;
    uint64_t run; /* 0: no journal */
};

int cli_records_open(struct cli_records **out, const char *path, bool append)
{
    struct cli_records *r = calloc(1, sizeof *r);
    if (!r)
        return gd__fail("out of memory");
    if (cli_logfile_open(&r->file, path, append) < 0) {
        free(r);
        return -1;
    }
    *out = r;
    return 0;
}

void cli_records_json_input(struct cli_records *r, bool json)
{
    r->json_input = json;
}

void cli_records_run(struct cli_records *r, uint64_t run)
{
    r->run = run;
}

int cli_records_fd(const struct cli_records *r)
{
    return r->file.fd;
}

/* A JSON text is written unchanged, if it is valid and on one line. Anything else is written as a string, so that the
 * file stays valid. */
static void add_json(struct gd__buffer *b, const char *text, size_t size)
{
    if (gd__json_valid(text, size) && !memchr(text, '\n', size))
        gd__buffer_add(b, text, size);
    else
        gd__json_put_string(b, text, size);
}

static void add_output(struct gd__buffer *b, const struct cli_task_end *e)
{
    if (e->ok || e->out_size) {
        gd__buffer_text(b, ",\"output\":");
        if (e->kind == CLI_RESULT_JSON && e->out_size)
            add_json(b, e->out, e->out_size);
        else
            gd__json_put_string(b, e->out, e->out_size);
    }
    if (e->err_size) {
        gd__buffer_text(b, ",\"stderr\":");
        gd__json_put_string(b, e->err, e->err_size);
    }
    if (!e->ok) {
        const char *words = e->report->error ? e->report->error : e->status;
        gd__buffer_text(b, ",\"error\":");
        gd__json_put_string(b, words, strlen(words));
    }
}

static void add_figures(struct gd__buffer *b, const struct cli_task_end *e)
{
    const struct gd_report *r = e->report;
    if (e->ran || r->failure == GD_FAILURE_CRASH)
        gd__buffer_format(b, ",\"exit_code\":%d,\"signal\":%d", e->exit_code, e->signal);
    gd__buffer_format(b, ",\"attempt\":%u", r->attempt);
    if (r->worker_id >= 0)
        gd__buffer_format(b, ",\"worker\":%d,\"gpu\":%d", r->worker_id, r->gpu_id);
    else
        gd__buffer_text(b, ",\"worker\":null,\"gpu\":null");
    for (size_t i = 0; e->n_gpus > 1 && i < e->n_gpus; i++)
        gd__buffer_format(b, "%s%d%s", i ? "," : ",\"gpus\":[", e->gpu_ids[i], i + 1 < e->n_gpus ? "" : "]");
    if (r->start_ns)
        gd__buffer_format(b, ",\"started\":%.6f,\"seconds\":%.6f", e->started, e->seconds);
    else
        gd__buffer_text(b, ",\"started\":null,\"seconds\":null");
}

int cli_records_add(struct cli_records *r, const struct cli_task_end *e)
{
    const struct gd_report *report = e->report;
    struct gd__buffer *b = &r->file.line;
    gd__buffer_format(b, "{\"id\":%llu,", (unsigned long long)report->task_id);
    if (r->run)
        gd__buffer_format(b, "\"run\":%llu,", (unsigned long long)r->run);
    gd__buffer_text(b, "\"input\":");
    if (r->json_input)
        add_json(b, report->input, report->input_size);
    else
        gd__json_put_arguments(b, report->input, report->input_size);
    gd__buffer_format(b, ",\"status\":\"%s\"", e->status);
    add_output(b, e);
    add_figures(b, e);
    gd__buffer_text(b, "}\n");
    return cli_logfile_put(&r->file);
}

bool cli_records_broken(const struct cli_records *r)
{
    return r->file.unread;
}

int cli_records_close(struct cli_records **r)
{
    int result = *r ? cli_logfile_close(&(*r)->file) : 0;
    free(*r);
    *r = NULL;
    return result;
}
