/* SPDX-License-Identifier: MIT
 *
 * --journal and its friends: what a run keeps on disk about its tasks, from which it goes on after anything.
 *
 * Files that callbacks append to are followed by the journal, so that they and it agree after a crash. With the run's
 * end, the list of failures is written anew from the journal, and records in --output that were overtaken by a later
 * try of the same task are taken out (tidy.h): every input has one record, the last.
 */
#ifndef GD_CLI_RUN_JOURNAL_RUN_JOURNAL_H
#define GD_CLI_RUN_JOURNAL_RUN_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include <gpu_dispatch/journal.h>

#include "base/text/buffer.h"
#include "cli/output/task_end.h"
#include "cli/run/run_options.h"

struct cli_journal;

/* Opens the journal that was asked for; *out is NULL if none was. 0, or -1 with gd__fail_text(): another run holds it,
 * it was begun with another command, it is no journal. */
int cli_journal_open(struct cli_journal **out, const struct cli_run *r);

/* All take NULL: then there is no journal. */
struct gd_journal *cli_journal_handle(struct cli_journal *k);
uint64_t cli_journal_run(struct cli_journal *k); /* number of this run in the journal, from 1; 0: there is none */

/* Something was done before: files are gone on with. Otherwise they are begun anew, whatever is in them. */
bool cli_journal_goes_on(struct cli_journal *k);

/* What the task is known by (--key). Within the source. 0, or a negative code to be returned. */
int cli_journal_key(struct cli_journal *k, struct gd_item *item);

/* Before any of the files is opened: whether one that grows with each task can be gone on with. It is not if it is
 * missing, too short, or was edited. path may be NULL. 0, or -1 with gd__fail_text(). */
int cli_journal_check(struct cli_journal *k, const char *path);

/* A file that is open at fd and grows with each task: cut back to what the journal knows. 0, or -1 with
 * gd__fail_text(). */
int cli_journal_follow(struct cli_journal *k, const char *path, int fd);

/* Within the callback. where: its output went there; NULL: nowhere. lost: it could not be written, so the task is not
 * done and will be run again. */
void cli_journal_note(struct cli_journal *k, const struct cli_task_end *e, const char *where, bool lost);

/* After the run, while the followed files are still open. kept: all records were written; then --output is tidied up.
 * 0, or -1 with gd__fail_text(). */
int cli_journal_finish(struct cli_journal *k, bool kept);

/* After they were closed: writes the list of failures, and says how it stands unless quiet. inputs: how many there
 * are, or at_least, where they were not read to their end. *failed: how many tasks have failed, in this run or before.
 * 0, or -1 with gd__fail_text(). */
int cli_journal_conclude(struct cli_journal *k, uint64_t inputs, bool at_least, uint64_t *failed);

void cli_journal_close(struct cli_journal **k);

/* --- the parts of it ------------------------------------------------------------ */

/* What identifies the work of a run, as one readable line. Adds no NUL. */
void cli_journal_identity(struct gd__buffer *b, const struct cli_run *r);

/* How a payload stands in the journal: as it is, or, where it has NULs or looks like that, as a JSON array of its
 * arguments. False: as it is, and nothing is added. */
bool cli_journal_show_input(struct gd__buffer *b, const char *payload, size_t size);

/* And back. */
void cli_journal_read_input(struct gd__buffer *b, const char *text, size_t size);

#endif
