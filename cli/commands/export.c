/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch export FILE... --csv|--jsonl`: writes the records of journals, or of a queue (queue/queue_export.c), for
 * other programs. Records are written one at a time, so memory does not grow with their number.
 *
 * The CSV (output/files/csv.h) has the headings in its first line, and lines end with CR LF. JSON lines have
 * the members that --output writes, except those that a journal does not record. With --failed, the lines have the form
 * of failed.jsonl, which `gpu-dispatch run --jsonl` takes as input.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpu_dispatch/journal.h>

#include "base/failure.h"
#include "base/file/replace.h"
#include "base/text/buffer.h"
#include "base/text/json.h"
#include "base/text/json_write.h"
#include "cli/commands.h"
#include "cli/commands/export.h"
#include "cli/commands/journals/set.h"
#include "cli/commands/queue/queue_command.h"
#include "cli/commands/queue/queue_export.h"
#include "cli/options.h"
#include "cli/output/files/csv.h"
#include "cli/output/files/failure_record.h"
#include "cli/run/journal/run_journal.h"
#include "cli/run/stop/exit_status.h"
#include "cli/say.h"

struct asked {
    bool csv, jsonl, failed, help, list_options;
    const char *output;
    struct cli_queue queue;
};

#define AT(field) .offset = offsetof(struct asked, field)

static const struct cli_opt table[] = {
    { "csv", 0, NULL, "write comma-separated values, with a header line", cli_set_flag, AT(csv), .group = "Options" },
    { "jsonl", 0, NULL, "write a JSON object on each line (the default with --queue)", cli_set_flag, AT(jsonl) },
    { "failed", 0, NULL, "write only the failed tasks; with --jsonl, the lines can be the input of `run --jsonl`",
      cli_set_flag, AT(failed) },
    { "output", 'o', "FILE", "write to FILE, which appears only when it is complete (default standard output)",
      cli_set_text, AT(output) },
    CLI_QUEUE_URL(struct asked, queue, "write the records of a queue: nats://HOST/NAME", NULL),
    CLI_QUEUE_SPILL_DIR(struct asked, queue),
    CLI_QUEUE_CREDENTIALS(struct asked, queue),
    { "help", 'h', NULL, "show this help", cli_set_flag, AT(help) },
    { "list-options", 0, NULL, NULL, cli_set_flag, AT(list_options) },
    { .name = NULL },
};

static const struct cli_opts options = {
    .command = "export",
    .usage = "usage: gpu-dispatch export FILE... --csv|--jsonl [--failed] [-o OUT]\n"
             "       gpu-dispatch export --queue URL [--csv|--jsonl] [--failed] [-o OUT]\n"
             "\n"
             "Writes the records of a journal (made with `run --journal FILE`), one for each\n"
             "finished task. It also works while the run is still going on. Several journals\n"
             "are written as if they had been merged, with one record for each task.\n"
             "\n"
             "With --queue, the records of a queue are written, in the order in which its\n"
             "tasks were pushed, with their outputs and the machine that ran them.\n"
             "\n"
             "Examples:\n"
             "  gpu-dispatch export run.db --csv -o run.csv\n"
             "  gpu-dispatch export run.db --jsonl --failed > failed.jsonl\n"
             "  gpu-dispatch export part.*.db --csv -o run.csv\n"
             "  gpu-dispatch export --queue nats://host/NAME -o all.jsonl\n",
    .table = table,
    .after = "Exit status: 0; 255 if a journal or queue does not exist or cannot be read, or\n"
             "the output cannot be written. More: man gpu-dispatch-export.\n",
};

/* --- one record ------------------------------------------------------------------- */

static const char *status_of(const struct gd_journal_record *r)
{
    return r->done ? "ok" : r->failure ? r->failure : "error";
}

static const char csv_headings[] =
    "id,run,input,status,error,exit_code,signal,attempt,worker,gpu,started,seconds,where,stderr\r\n";

static void put_csv(struct exporter *x, const struct gd_journal_record *r)
{
    struct gd__buffer *b = &x->line;
    gd__buffer_format(b, "%" PRIu64 ",%" PRIu64 ",", r->number, r->run);
    cli_csv_text(b, r->input, r->input_size);
    cli_csv_field(b, status_of(r));
    cli_csv_field(b, r->error);
    gd__buffer_format(b, ",%d,%d,%u,", r->exit_code, r->signal, r->attempts);
    if (r->worker_id >= 0)
        gd__buffer_format(b, "%d,%d,", r->worker_id, r->gpu_id);
    else
        gd__buffer_text(b, ",,");
    if (r->started > 0)
        gd__buffer_format(b, "%.6f,%.6f", r->started, r->seconds);
    else
        gd__buffer_text(b, ",");
    cli_csv_field(b, r->output);
    gd__buffer_text(b, ",");
    cli_csv_text(b, r->stderr_end ? r->stderr_end : "", r->stderr_size);
    gd__buffer_text(b, "\r\n");
}

static void json_text(struct gd__buffer *b, const char *name, const char *text, size_t size)
{
    if (!text || size == 0)
        return;
    gd__buffer_format(b, ",\"%s\":", name);
    gd__json_put_string(b, text, size);
}

static void json_input(struct exporter *x)
{
    struct gd__buffer *b = &x->line, *p = &x->payload;
    if (x->json_input && p->size && !memchr(p->data, '\n', p->size) && gd__json_valid(p->data, p->size))
        gd__buffer_add(b, p->data, p->size);
    else
        gd__json_put_arguments(b, p->data, p->size);
}

static void json_figures(struct gd__buffer *b, const struct gd_journal_record *r)
{
    gd__buffer_format(b, ",\"exit_code\":%d,\"signal\":%d,\"attempt\":%u", r->exit_code, r->signal, r->attempts);
    if (r->worker_id >= 0)
        gd__buffer_format(b, ",\"worker\":%d,\"gpu\":%d", r->worker_id, r->gpu_id);
    else
        gd__buffer_text(b, ",\"worker\":null,\"gpu\":null");
    if (r->started > 0)
        gd__buffer_format(b, ",\"started\":%.6f,\"seconds\":%.6f", r->started, r->seconds);
    else
        gd__buffer_text(b, ",\"started\":null,\"seconds\":null");
}

static void put_json(struct exporter *x, const struct gd_journal_record *r)
{
    struct gd__buffer *b = &x->line;
    const char *status = status_of(r);
    gd__buffer_format(b, "{\"id\":%" PRIu64 ",\"run\":%" PRIu64 ",\"input\":", r->number, r->run);
    json_input(x);
    if (r->input_size < r->input_full_size)
        gd__buffer_format(b, ",\"input_bytes\":%zu", r->input_full_size); /* the journal has only a part of the input */
    json_text(b, "status", status, strlen(status));
    json_text(b, "stderr", r->stderr_end, r->stderr_size);
    json_text(b, "error", r->error, r->error ? strlen(r->error) : 0);
    json_figures(b, r);
    json_text(b, "where", r->output, r->output ? strlen(r->output) : 0);
    gd__buffer_text(b, "}\n");
}

static void put_failed(struct exporter *x, const struct gd_journal_record *r)
{
    const struct cli_failure_record f = { .payload = x->payload.size ? x->payload.data : "",
                                          .payload_size = x->payload.size,
                                          .json = x->json_input,
                                          .failure = r->failure,
                                          .error = r->error,
                                          .attempts = r->attempts,
                                          .exit_code = r->exit_code,
                                          .signal = r->signal,
                                          .err = r->stderr_end,
                                          .err_size = r->stderr_size };
    cli_failure_record_put(&x->line, &f);
}

static int put_record(void *user, const struct gd_journal_record *r)
{
    struct exporter *x = user;
    x->line.size = x->payload.size = 0;
    cli_journal_read_input(&x->payload, r->input, r->input_size);
    if (x->csv)
        put_csv(x, r);
    else
        (x->failed ? put_failed : put_json)(x, r);
    return export_write(x);
}

int export_write(struct exporter *x)
{
    if (x->line.failed || x->payload.failed)
        return GD_E_NO_MEMORY;
    if (fwrite(x->line.data, 1, x->line.size, x->to) == x->line.size)
        return 0;
    x->error = errno;
    return GD_E_SYSTEM;
}

/* --- all records --------------------------------------------------------------------- */

/* Finds out from the command of the last run whether inputs are JSON. */
static int find_input_kind(struct exporter *x, struct gd_journal_reader *r)
{
    struct gd_journal_summary s = { .size = sizeof s };
    if (gd_journal_reader_summary(r, &s) < 0)
        return -1;
    x->json_input = s.command && strncmp(s.command, "--stream", 8) == 0 && strstr(s.command, " --jsonl");
    return 0;
}

static int put_journals(struct exporter *x, void *user)
{
    const struct gd_journal_query q = { .size = sizeof q, .failed_only = x->failed };
    struct gd_journal_reader *r = NULL;
    if (cli_journals_open(user, &r) < 0)
        return -1;
    int rc = find_input_kind(x, r);
    if (rc == 0 && x->csv && fputs(csv_headings, x->to) < 0)
        x->error = errno;
    if (rc == 0)
        rc = gd_journal_reader_each(r, &q, put_record, x);
    if (rc < 0 && !x->error)
        (void)gd__fail("%s", rc == GD_E_NO_MEMORY ? "out of memory" : gd_error_text());
    gd_journal_reader_close(&r);
    return rc < 0 ? -1 : 0;
}

/* Writes all records of a source. A program that closes the pipe (`| head`) is not an error. */
static int write_all(struct exporter *x, export_source *source, void *user)
{
    int rc = source(x, user);
    if (!x->error && fflush(x->to) != 0)
        x->error = errno;
    if (x->error && x->error != EPIPE)
        rc = gd__fail("cannot write %s: %s", x->output ? x->output : "standard output", strerror(x->error));
    return x->error == EPIPE ? 0 : rc < 0 ? -1 : 0;
}

/* Writes a temporary file and renames it, so that the output file is either complete or unchanged. */
static int write_file(struct exporter *x, export_source *source, void *user)
{
    struct gd__replacement r;
    int rc = gd__replace_begin(&r, x->output, true);
    x->to = r.to;
    if (rc == 0)
        rc = write_all(x, source, user);
    return gd__replace_end(&r, rc, true);
}

static int export_records(const struct asked *asked, export_source *source, void *user)
{
    struct exporter x = { .csv = asked->csv, .failed = asked->failed, .output = asked->output, .to = stdout };
    const bool file = asked->output && strcmp(asked->output, "-") != 0;
    const int rc = (file ? write_file : write_all)(&x, source, user);
    gd__buffer_free(&x.line);
    gd__buffer_free(&x.payload);
    if (rc == 0 && x.error == EPIPE)
        clearerr(stdout);
    return rc;
}

static int export_all(struct asked *asked, struct cli_journals *j)
{
    if (asked->queue.url)
        return export_records(asked, queue_export, &asked->queue);
    if (asked->output && strcmp(asked->output, "-") != 0 && cli_journals_check_output(j, asked->output) < 0)
        return -1;
    return export_records(asked, put_journals, j);
}

static int parse(struct asked *asked, int argc, char **argv, struct cli_journals *j)
{
    if (cli_journals_parse(j, &options, asked, argc, argv) < 0)
        return -1;
    if (asked->help || asked->list_options)
        return 0;
    if (queue_command_check("export", &asked->queue, j) < 0)
        return -1;
    if (asked->csv && asked->jsonl)
        return gd__fail("export writes one format: give either --csv or --jsonl");
    if (asked->queue.url && !asked->csv)
        asked->jsonl = true; /* outputs may be anything, so this is the usual format */
    if (!asked->csv && !asked->jsonl)
        return gd__fail("export needs a format: give --csv or --jsonl");
    return 0;
}

int cli_export_main(int argc, char **argv)
{
    struct asked asked = { 0 };
    struct cli_journals j = { .n = 0 };
    int status = 0;
    signal(SIGPIPE, SIG_IGN);
    if (parse(&asked, argc, argv, &j) < 0) {
        cli_say("%s", gd__fail_text());
        status = CLI_EXIT_ERROR;
    } else if (asked.help || asked.list_options) {
        (asked.help ? cli_opts_help : cli_opts_list)(&options);
    } else {
        const int rc = export_all(&asked, &j);
        if (rc < 0)
            cli_say("%s", gd__fail_text());
        status = rc < 0 || j.n_readable < j.n ? CLI_EXIT_ERROR : 0;
    }
    cli_journals_free(&j);
    return status;
}
