/* SPDX-License-Identifier: MIT
 *
 * The records of a queue, for other programs.
 *
 *   id         position of the task in the list of its push, from 0
 *   input      a string; an array of strings if a task has several arguments; with --jsonl the JSON of the line
 *   status     "ok", "error", "timeout", "crash", ...
 *   output     the result: a command's stdout and a plugin's bytes as a string, a stream worker's JSON unchanged
 *   stderr     of a command, if it wrote any
 *   error      the error message, if the task failed
 *   exit_code, signal, attempt, started, seconds   as in a journal
 *   host       the machine that ran it
 *   gpu        its device; null if the task was never started
 *   gpus       if there were several
 *   again      how many times the task was added once more after a failure, if it was
 *   output_file, output_error   if the output is in a file that cannot be read
 */
#include "cli/commands/queue/queue_export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <gpu_dispatch/command.h>
#include <gpu_dispatch/queue.h>

#include "base/failure.h"
#include "base/text/json.h"
#include "base/text/json_write.h"
#include "cli/commands/queue/queue_view.h"
#include "cli/output/files/csv.h"
#include "cli/output/files/failure_record.h"
#include "cli/queue/queue_options.h"

enum { GPUS_MOST = 64 };

/* What the workers of the queue return, by the command of its nodes. */
enum kind { COMMANDS, BYTES, JSON };

struct records {
    struct exporter *x;
    enum kind kind;
    struct gd__buffer file; /* the output of the current record, if it was in a file */
};

/* The output of a record, decoded. */
struct output {
    const char *out, *err;
    size_t out_size, err_size;
    bool has;
};

/* --- outputs -------------------------------------------------------------------------- */

/* Reads a whole file. Returns false if it cannot be read. */
static bool read_file(struct gd__buffer *b, const char *path)
{
    enum { PIECE = 64 << 10 };
    FILE *from = fopen(path, "re");
    size_t n = 1;
    b->size = 0;
    while (from && n > 0) {
        char *at = gd__buffer_reserve(b, PIECE);
        n = at ? fread(at, 1, PIECE, from) : 0;
        b->size += n;
    }
    const bool read = from && !ferror(from) && !b->failed;
    if (from)
        fclose(from);
    return read;
}

static void decode(struct output *o, enum kind kind, const void *data, size_t size)
{
    struct gd_command_output c = { .size = sizeof c };
    *o = (struct output){ .out = data, .out_size = size, .err = "", .has = true };
    if (kind == COMMANDS && gd_command_read(data, size, &c) == 0)
        *o = (struct output){ .out = c.out, .out_size = c.out_size, .err = c.err, .err_size = c.err_size, .has = true };
}

static void find_output(struct records *s, struct output *o, const struct gd_queue_record *r)
{
    *o = (struct output){ .out = "", .err = "" };
    if (r->output)
        decode(o, s->kind, r->output, r->output_size);
    else if (r->output_file && !r->output_error && read_file(&s->file, r->output_file))
        decode(o, s->kind, s->file.data ? s->file.data : "", s->file.size);
    if (o->err_size == 0 && r->stderr_end) {
        o->err = r->stderr_end;
        o->err_size = strlen(r->stderr_end);
    }
}

/* --- JSON ------------------------------------------------------------------------------- */

static const char *status_of(const struct gd_queue_record *r)
{
    return r->done ? "ok" : r->failure && *r->failure ? r->failure : "error";
}

static void put_text(struct gd__buffer *b, const char *name, const char *text, size_t size)
{
    if (size == 0)
        return;
    gd__buffer_format(b, ",\"%s\":", name);
    gd__json_put_string(b, text, size);
}

/* A JSON text on one line is written unchanged. Anything else becomes a string. */
static void put_json_or_string(struct gd__buffer *b, const char *text, size_t size)
{
    if (size > 0 && !memchr(text, '\n', size) && gd__json_valid(text, size))
        gd__buffer_add(b, text, size);
    else
        gd__json_put_string(b, text, size);
}

static void put_input(struct exporter *x, const struct gd_queue_record *r)
{
    if (r->input_file)
        gd__buffer_text(&x->line, "null");
    else if (x->json_input)
        put_json_or_string(&x->line, r->input, r->input_size);
    else
        gd__json_put_arguments(&x->line, r->input, r->input_size);
    if (r->input_file)
        put_text(&x->line, "input_file", r->input_file, strlen(r->input_file));
}

static void put_output(struct records *s, const struct gd_queue_record *r, const struct output *o)
{
    struct gd__buffer *b = &s->x->line;
    if (o->has && (r->done || o->out_size)) {
        gd__buffer_text(b, ",\"output\":");
        if (s->kind == JSON)
            put_json_or_string(b, o->out, o->out_size);
        else
            gd__json_put_string(b, o->out, o->out_size);
    } else if (r->output_file) {
        put_text(b, "output_file", r->output_file, strlen(r->output_file));
        put_text(b, "output_error", r->output_error, r->output_error ? strlen(r->output_error) : 0);
    }
    put_text(b, "stderr", o->err, o->err_size);
    if (!r->done) {
        const char *words = r->error ? r->error : status_of(r);
        put_text(b, "error", words, strlen(words));
    }
}

/* "0" or "0+1" */
static size_t read_gpus(const char *text, long gpus[GPUS_MOST])
{
    size_t n = 0;
    for (char *end; n < GPUS_MOST; text = end + 1) {
        gpus[n] = strtol(text, &end, 10);
        if (end == text)
            return 0;
        n++;
        if (*end != '+')
            return *end == '\0' ? n : 0;
    }
    return n;
}

static void put_place(struct gd__buffer *b, const struct gd_queue_record *r)
{
    long gpus[GPUS_MOST];
    const size_t n = read_gpus(r->gpu, gpus);
    put_text(b, "host", r->host, strlen(r->host));
    if (n > 0)
        gd__buffer_format(b, ",\"gpu\":%ld", gpus[0]);
    else if (*r->gpu)
        put_text(b, "gpu", r->gpu, strlen(r->gpu));
    else
        gd__buffer_text(b, ",\"gpu\":null");
    for (size_t i = 0; n > 1 && i < n; i++)
        gd__buffer_format(b, "%s%ld%s", i ? "," : ",\"gpus\":[", gpus[i], i + 1 < n ? "" : "]");
}

static void put_json(struct records *s, const struct gd_queue_record *r)
{
    struct gd__buffer *b = &s->x->line;
    struct output o;
    find_output(s, &o, r);
    gd__buffer_format(b, "{\"id\":%" PRIu64 ",\"input\":", r->number);
    put_input(s->x, r);
    put_text(b, "status", status_of(r), strlen(status_of(r)));
    put_output(s, r, &o);
    gd__buffer_format(b, ",\"exit_code\":%d,\"signal\":%d,\"attempt\":%u", r->exit_code, r->signal, r->attempts);
    if (r->again)
        gd__buffer_format(b, ",\"again\":%" PRIu32, r->again);
    put_place(b, r);
    if (r->started > 0)
        gd__buffer_format(b, ",\"started\":%.6f,\"seconds\":%.6f}\n", r->started, r->seconds);
    else
        gd__buffer_text(b, ",\"started\":null,\"seconds\":null}\n");
    if (s->file.failed)
        b->failed = true;
}

/* --- other forms -------------------------------------------------------------------------- */

static const char csv_headings[] =
    "id,input,status,error,exit_code,signal,attempt,host,gpu,started,seconds,where,stderr\r\n";

static void put_csv(struct records *s, const struct gd_queue_record *r)
{
    struct gd__buffer *b = &s->x->line;
    gd__buffer_format(b, "%" PRIu64 ",", r->number);
    if (r->input_file)
        cli_csv_text(b, r->input_file, strlen(r->input_file));
    else
        cli_csv_text(b, r->input, r->input_size);
    cli_csv_field(b, status_of(r));
    cli_csv_field(b, r->error);
    gd__buffer_format(b, ",%d,%d,%u", r->exit_code, r->signal, r->attempts);
    cli_csv_field(b, r->host);
    cli_csv_field(b, r->gpu);
    if (r->started > 0)
        gd__buffer_format(b, ",%.6f,%.6f", r->started, r->seconds);
    else
        gd__buffer_text(b, ",,");
    cli_csv_field(b, r->output_file);
    cli_csv_field(b, r->stderr_end);
    gd__buffer_text(b, "\r\n");
}

static void put_failed(struct records *s, const struct gd_queue_record *r)
{
    const struct cli_failure_record f = { .payload = r->input_file ? r->input_file : r->input,
                                          .payload_size = r->input_file ? strlen(r->input_file) : r->input_size,
                                          .json = s->x->json_input && !r->input_file,
                                          .failure = r->failure,
                                          .error = r->error,
                                          .attempts = r->attempts,
                                          .exit_code = r->exit_code,
                                          .signal = r->signal,
                                          .err = r->stderr_end ? r->stderr_end : "",
                                          .err_size = r->stderr_end ? strlen(r->stderr_end) : 0 };
    cli_failure_record_put(&s->x->line, &f);
}

static int put_record(void *user, const struct gd_queue_record *r)
{
    struct records *s = user;
    if (s->x->failed && r->done)
        return 0;
    s->x->line.size = 0;
    if (s->x->csv)
        put_csv(s, r);
    else
        (s->x->failed ? put_failed : put_json)(s, r);
    return export_write(s->x);
}

/* ------------------------------------------------------------------------------------------------ */

/* Finds out from the command of the nodes what inputs and outputs are. */
static int find_kinds(struct records *s, struct gd_queue_reader *r)
{
    struct gd_queue_figures f = { .size = sizeof f };
    if (gd_queue_reader_figures(r, &f) < 0)
        return gd__fail("%s", gd_error_text());
    const bool stream = f.command && strncmp(f.command, "--stream", 8) == 0;
    const bool plugin = f.command && strncmp(f.command, "--worker", 8) == 0;
    s->kind = stream ? JSON : plugin ? BYTES : COMMANDS;
    s->x->json_input = stream && strstr(f.command, " --jsonl");
    return 0;
}

int queue_export(struct exporter *x, void *queue)
{
    struct records s = { .x = x };
    struct gd_queue_reader *r = NULL;
    if (queue_view_open(&r, queue) < 0)
        return -1;
    int rc = find_kinds(&s, r);
    if (rc == 0 && x->csv && fputs(csv_headings, x->to) < 0)
        x->error = errno;
    if (rc == 0) {
        rc = gd_queue_reader_each(r, put_record, &s);
        if (rc < 0 && !x->error)
            (void)gd__fail("%s", rc == GD_E_NO_MEMORY ? "out of memory" : gd_error_text());
    }
    if (rc == 0)
        queue_view_say_skipped(r);
    gd_queue_reader_close(&r);
    gd__buffer_free(&s.file);
    return rc < 0 ? -1 : 0;
}
