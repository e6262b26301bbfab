/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch merge FILE... -o OUT`: makes one journal from several, with one record for each task.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpu_dispatch/journal.h>

#include "base/failure.h"
#include "base/text/buffer.h"
#include "cli/commands.h"
#include "cli/commands/journals/set.h"
#include "cli/options.h"
#include "cli/run/stop/exit_status.h"
#include "cli/say.h"

struct asked {
    const char *output;
    bool force, help, list_options;
};

#define AT(field) .offset = offsetof(struct asked, field)

static const struct cli_opt table[] = {
    { "output", 'o', "OUT", "the journal to make; it must not exist", cli_set_text, AT(output), .group = "Options" },
    { "force", 0, NULL, "merge even if the journals were made by different commands", cli_set_flag, AT(force) },
    { "help", 'h', NULL, "show this help", cli_set_flag, AT(help) },
    { "list-options", 0, NULL, NULL, cli_set_flag, AT(list_options) },
    { .name = NULL },
};

static const struct cli_opts options = {
    .command = "merge",
    .usage = "usage: gpu-dispatch merge FILE... -o OUT\n"
             "\n"
             "Makes one journal OUT from several, such as those of the shards of a list. OUT\n"
             "has one record for each task. If several journals have a record of the same\n"
             "task, one that is done is taken rather than one that failed, and then the one\n"
             "that ended first. OUT can be resumed, and can be the journal of --skip-done.\n"
             "\n"
             "Examples:\n"
             "  gpu-dispatch merge part.*.db -o all.db\n"
             "  gpu-dispatch export all.db --csv -o all.csv\n",
    .table = table,
    .after = "Exit status: 0; 255 if a journal cannot be read or OUT cannot be written. OUT\n"
             "appears only when it is complete. More: man gpu-dispatch-merge.\n",
};

static void print_notes(const struct cli_journals *j)
{
    struct gd__buffer notes = { 0 };
    cli_journals_notes(j, &notes);
    for (size_t i = 0; i < j->n_readable; i++)
        if (j->items[i].s.held)
            gd__buffer_format(&notes, "%s is in use by a run: its records were taken as they are now.\n",
                              j->items[i].path);
    gd__buffer_add(&notes, "", 1);
    for (char *line = notes.failed ? NULL : notes.data; line && *line;) {
        char *end = strchr(line, '\n');
        *end = '\0';
        cli_say("%s", line);
        line = end + 1;
    }
    gd__buffer_free(&notes);
}

static int merge(const struct asked *asked, const struct cli_journals *j)
{
    struct gd_journal_merge_options o = GD_JOURNAL_MERGE_OPTIONS_INIT;
    struct gd_journal_merge_counts counts = { .size = sizeof counts };
    const char **paths = calloc(j->n + 1, sizeof *paths);
    if (!paths)
        return gd__fail("out of memory");
    for (size_t i = 0; i < j->n; i++)
        paths[i] = j->items[i].path;
    o.paths = paths;
    o.n_paths = j->n;
    o.output = asked->output;
    o.force = asked->force;
    const int rc = gd_journal_merge(&o, &counts);
    free(paths);
    if (rc < 0)
        return gd__fail("%s%s", gd_error_text(), rc == GD_E_MISMATCH ? " (--force)" : "");
    print_notes(j);
    if (counts.overlaps > 0)
        cli_say("%" PRIu64 " %s left out: another record of the same task was taken", counts.overlaps,
                counts.overlaps == 1 ? "record was" : "records were");
    printf("%s: %" PRIu64 " tasks from %zu journals, %" PRIu64 " done, %" PRIu64 " failed\n", asked->output,
           counts.done + counts.failed, j->n, counts.done, counts.failed);
    return 0;
}

static int read_and_merge(const struct asked *asked, struct cli_journals *j)
{
    if (!asked->output || !*asked->output)
        return gd__fail("merge needs the name of the new journal: gpu-dispatch merge FILE... -o OUT");
    if (j->n_paths == 0)
        return gd__fail("merge needs journals: gpu-dispatch merge FILE... -o OUT");
    if (cli_journals_read(j, NULL, NULL) < 0)
        return -1;
    if (j->n_readable < j->n)
        return gd__fail("nothing was merged: leave out %s that cannot be read, or repair %s",
                        j->n - j->n_readable == 1 ? "the journal" : "the journals",
                        j->n - j->n_readable == 1 ? "it" : "them");
    return merge(asked, j);
}

int cli_merge_main(int argc, char **argv)
{
    struct asked asked = { 0 };
    struct cli_journals j = { .n = 0 };
    int rc = cli_journals_parse(&j, &options, &asked, argc, argv);
    if (rc == 0 && (asked.help || asked.list_options))
        (asked.help ? cli_opts_help : cli_opts_list)(&options);
    else if (rc == 0)
        rc = read_and_merge(&asked, &j);
    if (rc < 0)
        cli_say("%s", gd__fail_text());
    cli_journals_free(&j);
    return rc < 0 ? CLI_EXIT_ERROR : 0;
}
