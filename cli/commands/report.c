/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch report`: a journal as one web page that needs no other files.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <gpu_dispatch/journal.h>

#include "base/failure.h"
#include "base/text/buffer.h"
#include "cli/commands.h"
#include "cli/commands/transcribe/identity.h"
#include "cli/options.h"
#include "cli/run/stop/exit_status.h"
#include "cli/say.h"
#include "web/report/report.h"

struct asked {
    const char *output;
    bool help, list_options;
};

#define AT(field) .offset = offsetof(struct asked, field)

static const struct cli_opt table[] = {
    { "output", 'o', "PAGE", "where to write the page (default FILE.html)", cli_set_text, AT(output),
      .group = "Options" },
    { "help", 'h', NULL, "show this help", cli_set_flag, AT(help) },
    { "list-options", 0, NULL, NULL, cli_set_flag, AT(list_options) },
    { .name = NULL },
};

static const struct cli_opts options = {
    .command = "report",
    .usage = "usage: gpu-dispatch report [OPTIONS] FILE\n"
             "\n"
             "Makes a web page from a journal (made with `run --journal FILE`). It shows a\n"
             "summary, the throughput, the use of each GPU over time, when each task ran, the\n"
             "slowest tasks and the failures. The page is one file: mail it, or keep it with\n"
             "the results.\n"
             "\n"
             "Examples:\n"
             "  gpu-dispatch run --journal run.db python3 infer.py {} ::: *.jpg\n"
             "  gpu-dispatch report run.db -o report.html\n",
    .table = table,
    .after = "Exit status: 0; 255 if the journal cannot be read or the page cannot be written.\n"
             "More: man gpu-dispatch-report.\n",
};

/* Whether both paths lead to the same file. Writing the page over the journal would destroy the journal. */
static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

struct journal {
    struct gd_journal_reader *reader;
    struct gd__buffer command; /* the command as it is shown to users */
};

static int each(void *user, const struct gd_journal_query *q,
                int (*fn)(void *arg, const struct gd_journal_record *record), void *arg)
{
    return gd_journal_reader_each(((struct journal *)user)->reader, q, fn, arg);
}

static int summary(void *user, struct gd_journal_summary *out)
{
    struct journal *j = user;
    const int rc = gd_journal_reader_summary(j->reader, out);
    if (rc < 0 || !out->command)
        return rc;
    j->command.size = 0;
    cli_transcribe_show(&j->command, out->command);
    gd__buffer_add(&j->command, "", 1);
    out->command = j->command.failed ? out->command : j->command.data;
    return rc;
}

static int write_report(const char *journal, const char *output, bool named)
{
    struct journal j = { .reader = NULL };
    if (same_file(journal, output))
        return gd__fail("-o %s is the journal itself: give another file", output);
    if (gd_journal_reader_open(&j.reader, journal) < 0)
        return gd__fail("%s", gd_error_text());
    const struct web_records records = { .user = &j, .each = each, .summary = summary };
    int rc = web_report_write(&records, base_name(journal), output, named);
    gd_journal_reader_close(&j.reader);
    gd__buffer_free(&j.command);
    return rc;
}

static int report(const struct asked *asked, const char *journal)
{
    char *usual = NULL;
    int rc = -1;
    if (!asked->output && asprintf(&usual, "%s.html", journal) < 0)
        (void)gd__fail("out of memory");
    else
        rc = write_report(journal, asked->output ? asked->output : usual, asked->output != NULL);
    if (rc == 0)
        printf("%s\n", asked->output ? asked->output : usual);
    free(usual);
    return rc;
}

/* Options may also follow the file: report FILE -o PAGE. Returns -1 with gd__fail_text() on an error. */
static int parse(struct asked *asked, int argc, char **argv, const char **journal)
{
    int at = 0;
    *journal = NULL;
    do {
        int n = cli_opts_parse(&options, asked, argc - at, argv + at);
        if (n < 0)
            return -1;
        at += n;
        if (at < argc && *journal)
            return gd__fail("report takes only one journal: leave out \"%s\"", argv[at]);
        if (at < argc)
            *journal = argv[at++];
    } while (at < argc);
    if (!*journal && !asked->help && !asked->list_options)
        return gd__fail("report needs a journal: gpu-dispatch report FILE");
    return 0;
}

int cli_report_main(int argc, char **argv)
{
    struct asked asked = { 0 };
    const char *journal = NULL;
    int rc = parse(&asked, argc, argv, &journal);
    if (rc == 0 && (asked.help || asked.list_options)) {
        (asked.help ? cli_opts_help : cli_opts_list)(&options);
        return 0;
    }
    if (rc == 0 && journal)
        rc = report(&asked, journal);
    if (rc < 0)
        cli_say("%s", gd__fail_text());
    return rc < 0 ? CLI_EXIT_ERROR : 0;
}
