/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch export FILE... --csv|--jsonl`: writes the records of journals for other programs. Records are written one
 * at a time, so memory does not grow with their number.
 *
 * The CSV follows RFC 4180. Its first line has the headings. Fields with a quote, comma or line end are quoted, and
 * lines end with CR LF. If a spreadsheet would read a text as a formula, a ' is put before the text. JSON lines have
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
#include "cli/commands/journals/set.h"
#include "cli/options.h"
#include "cli/output/files/failure_record.h"
#include "cli/run/journal/run_journal.h"
#include "cli/run/stop/exit_status.h"
#include "cli/say.h"

struct asked {
    bool csv, jsonl, failed, help, list_options;
    const char *output;
};

#define AT(field) .offset = offsetof(struct asked, field)

static const struct cli_opt table[] = {
    { "csv", 0, NULL, "write comma-separated values, with a header line", cli_set_flag, AT(csv), .group = "Options" },
    { "jsonl", 0, NULL, "write a JSON object on each line", cli_set_flag, AT(jsonl) },
    { "failed", 0, NULL, "write only the failed tasks; with --jsonl, the lines can be the input of `run --jsonl`",
      cli_set_flag, AT(failed) },
    { "output", 'o', "FILE", "write to FILE, which appears only when it is complete (default standard output)",
      cli_set_text, AT(output) },
    { "help", 'h', NULL, "show this help", cli_set_flag, AT(help) },
    { "list-options", 0, NULL, NULL, cli_set_flag, AT(list_options) },
    { .name = NULL },
};

static const struct cli_opts options = {
    .command = "export",
    .usage = "usage: gpu-dispatch export FILE... --csv|--jsonl [--failed] [-o OUT]\n"
             "\n"
             "Writes the records of a journal (made with `run --journal FILE`), one for each\n"
             "finished task. It also works while the run is still going on. Several journals\n"
             "are written as if they had been merged, with one record for each task.\n"
             "\n"
             "Examples:\n"
             "  gpu-dispatch export run.db --csv -o run.csv\n"
             "  gpu-dispatch export run.db --jsonl --failed > failed.jsonl\n"
             "  gpu-dispatch export part.*.db --csv -o run.csv\n",
    .table = table,
    .after = "Exit status: 0; 255 if a journal does not exist or cannot be read, or the output\n"
             "cannot be written. More: man gpu-dispatch-export.\n",
};

/* --- one record ------------------------------------------------------------------- */

struct exporter {
    const struct asked *asked;
    FILE *to;
    bool json_input; /* payloads are JSON texts */
    int error;       /* errno of a failed write */
    struct gd__buffer line, payload;
};

static const char *status_of(const struct gd_journal_record *r)
{
    return r->done ? "ok" : r->failure ? r->failure : "error";
}

static void csv_quoted(struct gd__buffer *b, const char *text, size_t size)
{
    bool plain = true;
    for (size_t i = 0; i < size && plain; i++)
        plain = !strchr("\",\r\n", text[i]) || !text[i];
    if (plain) {
        gd__buffer_add(b, text, size);
        return;
    }
    gd__buffer_text(b, "\"");
    for (size_t i = 0; i < size; i++)
        gd__buffer_add(b, text[i] == '"' ? "\"\"" : &text[i], text[i] == '"' ? 2 : 1);
    gd__buffer_text(b, "\"");
}

/* Do not call this for a number: a negative number begins with a minus, but is not a formula. */
static bool looks_like_formula(const char *text, size_t size)
{
    return size > 0 && text[0] && strchr("=+-@\t\r", text[0]);
}

static void csv_text(struct gd__buffer *b, const char *text, size_t size)
{
    struct gd__buffer marked = { 0 };
    if (looks_like_formula(text, size)) {
        gd__buffer_text(&marked, "'");
        gd__buffer_add(&marked, text, size);
        csv_quoted(b, marked.data, marked.size);
        b->failed = b->failed || marked.failed;
        gd__buffer_free(&marked);
    } else {
        csv_quoted(b, text, size);
    }
}

static void csv_field(struct gd__buffer *b, const char *text)
{
    gd__buffer_text(b, ",");
    if (text)
        csv_text(b, text, strlen(text));
}

static const char csv_headings[] =
    "id,run,input,status,error,exit_code,signal,attempt,worker,gpu,started,seconds,where,stderr\r\n";

static void put_csv(struct exporter *x, const struct gd_journal_record *r)
{
    struct gd__buffer *b = &x->line;
    gd__buffer_format(b, "%" PRIu64 ",%" PRIu64 ",", r->number, r->run);
    csv_text(b, r->input, r->input_size);
    csv_field(b, status_of(r));
    csv_field(b, r->error);
    gd__buffer_format(b, ",%d,%d,%u,", r->exit_code, r->signal, r->attempts);
    if (r->worker_id >= 0)
        gd__buffer_format(b, "%d,%d,", r->worker_id, r->gpu_id);
    else
        gd__buffer_text(b, ",,");
    if (r->started > 0)
        gd__buffer_format(b, "%.6f,%.6f", r->started, r->seconds);
    else
        gd__buffer_text(b, ",");
    csv_field(b, r->output);
    gd__buffer_text(b, ",");
    csv_text(b, r->stderr_end ? r->stderr_end : "", r->stderr_size);
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
    if (x->asked->csv)
        put_csv(x, r);
    else
        (x->asked->failed ? put_failed : put_json)(x, r);
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

/* A reader that closes the pipe (`| head`) is not an error. */
static int write_all(struct exporter *x, struct cli_journals *j)
{
    const struct gd_journal_query q = { .size = sizeof q, .failed_only = x->asked->failed };
    struct gd_journal_reader *r = NULL;
    if (cli_journals_open(j, &r) < 0)
        return -1;
    int rc = find_input_kind(x, r);
    if (rc == 0 && x->asked->csv && fputs(csv_headings, x->to) < 0)
        x->error = errno;
    if (rc == 0)
        rc = gd_journal_reader_each(r, &q, put_record, x);
    if (rc < 0 && !x->error)
        (void)gd__fail("%s", rc == GD_E_NO_MEMORY ? "out of memory" : gd_error_text());
    if (!x->error && fflush(x->to) != 0)
        x->error = errno;
    if (x->error && x->error != EPIPE)
        rc = gd__fail("cannot write %s: %s", x->asked->output ? x->asked->output : "standard output",
                      strerror(x->error));
    gd_journal_reader_close(&r);
    return x->error == EPIPE ? 0 : rc < 0 ? -1 : 0;
}

/* Writes a temporary file and renames it, so that the output file is either complete or unchanged. */
static int write_file(struct exporter *x, struct cli_journals *j)
{
    struct gd__replacement r;
    if (cli_journals_check_output(j, x->asked->output) < 0)
        return -1;
    int rc = gd__replace_begin(&r, x->asked->output, true);
    x->to = r.to;
    if (rc == 0)
        rc = write_all(x, j);
    return gd__replace_end(&r, rc, true);
}

static int export_journals(const struct asked *asked, struct cli_journals *j)
{
    struct exporter x = { .asked = asked, .to = stdout };
    const bool file = asked->output && strcmp(asked->output, "-") != 0;
    int rc = file ? write_file(&x, j) : write_all(&x, j);
    gd__buffer_free(&x.line);
    gd__buffer_free(&x.payload);
    if (rc < 0)
        cli_say("%s", gd__fail_text());
    else if (x.error == EPIPE)
        clearerr(stdout);
    return rc < 0 || j->n_readable < j->n ? CLI_EXIT_ERROR : 0;
}

static int parse(struct asked *asked, int argc, char **argv, struct cli_journals *j)
{
    if (cli_journals_parse(j, &options, asked, argc, argv) < 0)
        return -1;
    if (asked->help || asked->list_options)
        return 0;
    if (j->n_paths == 0)
        return gd__fail("export needs a journal: gpu-dispatch export FILE --csv");
    if (asked->csv == asked->jsonl)
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
        status = export_journals(&asked, &j);
    }
    cli_journals_free(&j);
    return status;
}
