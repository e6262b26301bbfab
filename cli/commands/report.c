/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch report`: a journal, or several, as one web page that needs no other files.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpu_dispatch/journal.h>

#include "base/failure.h"
#include "base/text/buffer.h"
#include "cli/commands.h"
#include "cli/commands/journals/set.h"
#include "cli/commands/queue/queue_command.h"
#include "cli/commands/queue/report/queue_report.h"
#include "cli/commands/transcribe/identity.h"
#include "cli/options.h"
#include "cli/run/stop/exit_status.h"
#include "cli/say.h"
#include "web/report/report.h"

struct asked {
    const char *output;
    bool help, list_options;
    struct cli_queue queue;
};

#define AT(field) .offset = offsetof(struct asked, field)

static const struct cli_opt table[] = {
    { "output", 'o', "PAGE", "where to write the page (default FILE.html; needed for several files and for a queue)",
      cli_set_text, AT(output), .group = "Options" },
    CLI_QUEUE_URL(struct asked, queue, "make the page of a queue: nats://HOST/NAME", NULL),
    CLI_QUEUE_CREDENTIALS(struct asked, queue),
    { "help", 'h', NULL, "show this help", cli_set_flag, AT(help) },
    { "list-options", 0, NULL, NULL, cli_set_flag, AT(list_options) },
    { .name = NULL },
};

static const struct cli_opts options = {
    .command = "report",
    .usage = "usage: gpu-dispatch report [OPTIONS] FILE...\n"
             "       gpu-dispatch report [OPTIONS] --queue URL -o PAGE\n"
             "\n"
             "Makes a web page from a journal (made with `run --journal FILE`). It shows a\n"
             "summary, the throughput, the use of each GPU over time, when each task ran, the\n"
             "slowest tasks and the failures. The page is one file: mail it, or keep it with\n"
             "the results. Several journals, such as those of the shards of a list, are shown\n"
             "as one run, with the GPUs of each machine. So is a queue, with --queue.\n"
             "\n"
             "Examples:\n"
             "  gpu-dispatch run --journal run.db python3 infer.py {} ::: *.jpg\n"
             "  gpu-dispatch report run.db -o report.html\n"
             "  gpu-dispatch report part.*.db -o report.html\n"
             "  gpu-dispatch report --queue nats://host/NAME -o report.html\n",
    .table = table,
    .after = "Exit status: 0; 255 if a journal or queue cannot be read or the page cannot be\n"
             "written.\n"
             "More: man gpu-dispatch-report.\n",
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

struct journal {
    struct gd_journal_reader *reader;
    const struct cli_journals *files;
    struct gd__buffer command; /* the command as it is shown to users */
};

static int each(void *user, const struct gd_journal_query *q,
                int (*fn)(void *arg, const struct gd_journal_record *record), void *arg)
{
    return gd_journal_reader_each(((struct journal *)user)->reader, q, fn, arg);
}

/* The last run of a merged journal is the merge. It finds all records, but does not skip their tasks as a run does. If
 * the journals were merged for this report, their own state is shown. */
static void show_merged(const struct cli_journals *files, struct gd_journal_summary *out)
{
    out->run_done = out->done;
    out->run_failed = out->failed;
    out->skipped = 0;
    if (files->n_paths == 1)
        return;
    const char *state = cli_journals_state(files);
    out->held = strcmp(state, "running") == 0;
    out->end = out->held || strcmp(state, "killed") == 0 ? NULL : state;
}

static int summary(void *user, struct gd_journal_summary *out)
{
    struct journal *j = user;
    const int rc = gd_journal_reader_summary(j->reader, out);
    if (rc == 0 && out->end && strcmp(out->end, "merged") == 0)
        show_merged(j->files, out);
    if (rc < 0 || !out->command)
        return rc;
    j->command.size = 0;
    cli_transcribe_show(&j->command, out->command);
    gd__buffer_add(&j->command, "", 1);
    out->command = j->command.failed ? out->command : j->command.data;
    return rc;
}

static int runs(void *user, int (*fn)(void *arg, const struct gd_journal_run *run), void *arg)
{
    return gd_journal_reader_runs(((struct journal *)user)->reader, fn, arg);
}

/* What the page is about: the name of the journal, or "run.1-of-16.db and 15 more journals". */
static int show_name(const struct cli_journals *files, struct gd__buffer *out)
{
    gd__buffer_text(out, base_name(files->paths[0]));
    if (files->n_paths > 1)
        gd__buffer_format(out, " and %zu more %s", files->n_paths - 1, files->n_paths == 2 ? "journal" : "journals");
    gd__buffer_add(out, "", 1);
    return out->failed ? gd__fail("out of memory") : 0;
}

static int write_report(struct cli_journals *files, const char *output, bool named)
{
    struct journal j = { .files = files };
    struct gd__buffer name = { 0 };
    if (cli_journals_check_output(files, output) < 0)
        return -1;
    const struct web_records records = { .user = &j, .each = each, .summary = summary, .runs = runs };
    int rc = cli_journals_open(files, &j.reader);
    if (rc == 0)
        rc = show_name(files, &name);
    if (rc == 0)
        rc = web_report_write(&records, name.data, output, named);
    gd_journal_reader_close(&j.reader);
    gd__buffer_free(&j.command);
    gd__buffer_free(&name);
    return rc;
}

static int report_queue(const struct asked *asked)
{
    if (!asked->output)
        return gd__fail("report of a queue needs the name of the page: -o PAGE");
    const int rc = queue_report(&asked->queue, asked->output);
    if (rc == 0)
        printf("%s\n", asked->output);
    return rc;
}

static int report(const struct asked *asked, struct cli_journals *files)
{
    char *usual = NULL;
    int rc = -1;
    if (asked->queue.url)
        return report_queue(asked);
    if (!asked->output && files->n_paths > 1)
        return gd__fail("report of several journals needs the name of the page: -o PAGE");
    if (!asked->output && asprintf(&usual, "%s.html", files->paths[0]) < 0)
        (void)gd__fail("out of memory");
    else
        rc = write_report(files, asked->output ? asked->output : usual, asked->output != NULL);
    if (rc == 0)
        printf("%s\n", asked->output ? asked->output : usual);
    free(usual);
    return rc;
}

int cli_report_main(int argc, char **argv)
{
    struct asked asked = { 0 };
    struct cli_journals files = { .n = 0 };
    int rc = cli_journals_parse(&files, &options, &asked, argc, argv);
    if (rc == 0 && (asked.help || asked.list_options))
        (asked.help ? cli_opts_help : cli_opts_list)(&options);
    else if (rc == 0 && (rc = queue_command_check("report", &asked.queue, &files)) == 0)
        rc = report(&asked, &files);
    if (rc < 0)
        cli_say("%s", gd__fail_text());
    const bool bad = rc < 0 || files.n_readable < files.n;
    cli_journals_free(&files);
    return bad ? CLI_EXIT_ERROR : 0;
}
