/* SPDX-License-Identifier: MIT
 *
 * The journals that a command was given: `status`, `export`, `report` and `merge` take several, such as those of the
 * shards of a list. Each journal is opened, its summary is copied, and it is closed again, because there may be more
 * journals than descriptors.
 */
#ifndef GD_CLI_COMMANDS_JOURNALS_SET_H
#define GD_CLI_COMMANDS_JOURNALS_SET_H

#include <gpu_dispatch/journal.h>

#include "base/text/buffer.h"
#include "cli/options.h"

struct cli_journal {
    const char *path;
    char *command, *end, *host;  /* the strings of the summary */
    struct gd_journal_summary s; /* its strings are those above */
    char *error;                 /* why it cannot be read; NULL: it can */
};

struct cli_journals {
    const char **paths; /* as given, NULL-terminated */
    size_t n_paths;
    struct cli_journal *items; /* in the order of their shards; those that cannot be read are last */
    size_t n, n_readable;
    bool quiet; /* set by the command: it shows itself which journals cannot be read */
};

/* Reads options and paths, in any order. Paths after "--" may begin with a dash. Returns 0, or -1 with
 * gd__fail_text(). */
int cli_journals_parse(struct cli_journals *j, const struct cli_opts *options, void *asked, int argc, char **argv);

/* Reads the summaries. look: called for each journal while it is open; it returns 0, or a negative code if the journal
 * cannot be read; NULL: none. A journal that cannot be read is reported with cli_say(), and one that was given twice is
 * taken once. May be called again to read them anew. Returns 0, or -1 with gd__fail_text() if there is no memory. */
int cli_journals_read(struct cli_journals *j,
                      int (*look)(void *user, struct gd_journal_reader *r, struct cli_journal *journal), void *user);
void cli_journals_free(struct cli_journals *j);

/* Opens the journals for reading, several as one. Those that cannot be read are reported, and the others are opened: the
 * exit status is then an error nevertheless. Warns if they are of different commands. Not after cli_journals_read().
 * Returns 0, or -1 with gd__fail_text(). */
int cli_journals_open(struct cli_journals *j, struct gd_journal_reader **out);

/* Checks that the file to write is not one of the journals. Returns 0, or -1 with gd__fail_text(). */
int cli_journals_check_output(const struct cli_journals *j, const char *output);

/* The state of all that were read: "running" if one is, else "killed" if one was, else how all ended. */
const char *cli_journals_state(const struct cli_journals *j);

/* --- shards --- */

/* The list may have been divided anew, so the journals may be of several numbers of shards. Returns the number of the
 * journal whose last run started last. 0: the whole list. */
uint32_t cli_journals_shards(const struct cli_journals *j);

/* Whether the journals are of different shards of one list, so that they have no tasks in common. */
bool cli_journals_disjoint(const struct cli_journals *j);

/* Calls fn for each range of shards, from 1, of which there is no readable journal. */
void cli_journals_missing(const struct cli_journals *j, void (*fn)(void *user, uint32_t first, uint32_t last),
                          void *user);

/* Adds notes about the journals as a whole, one on each line: missing shards, shards with several journals, different
 * numbers of shards, journals in use. */
void cli_journals_notes(const struct cli_journals *j, struct gd__buffer *out);

/* "3/16", or "-" for the whole list. */
const char *cli_journal_shard(const struct cli_journal *journal, char *out, size_t size);

#endif
