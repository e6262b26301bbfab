/* SPDX-License-Identifier: MIT
 *
 * --journal and the options around it: what a run records on disk about its tasks, so that it can be resumed after any
 * interruption.
 *
 * The journal follows the files that callbacks append to, so that they agree with it after a crash. At the end of a run
 * the list of failures is rewritten from the journal. Records in --output that were replaced by a later run of the same
 * task are removed (final_files.h), so every input has only its last record.
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

/* Opens the journal that the options name; *out is NULL if they name no journal. Returns 0, or -1 with gd__fail_text():
 * another run holds the journal, it was begun with another command, or the file is not a journal. */
int cli_journal_open(struct cli_journal **out, const struct cli_run *r);

/* All functions with a cli_journal accept NULL, for a run without a journal. */
struct gd_journal *cli_journal_handle(struct cli_journal *k);
uint64_t cli_journal_run(struct cli_journal *k); /* number of this run in the journal, from 1; 0: no journal */

/* True: tasks were done before, so files are continued. False: files are started again, even if they are not empty. */
bool cli_journal_goes_on(struct cli_journal *k);

/* Finds the bytes that identify a task with this payload (--key). *key is valid until the next call. Returns 0, or -1 with
 * gd__fail_text(). */
int cli_journal_find_key(struct cli_journal *k, const void *data, size_t size, const void **key, size_t *key_size);

/* Sets the key of the task (--key). Called within the source. Returns 0, or a negative code to be returned. */
int cli_journal_key(struct cli_journal *k, struct gd_item *item);

/* Whether a file that grows with each task can be continued. It cannot if it is missing, too short, or was edited.
 * Called before any of the files is opened. path may be NULL. Returns 0, or -1 with gd__fail_text(). */
int cli_journal_check(struct cli_journal *k, const char *path);

/* Follows a file that is open at fd and grows with each task. It is cut back to the length that the journal recorded.
 * Returns 0, or -1 with gd__fail_text(). */
int cli_journal_follow(struct cli_journal *k, const char *path, int fd);

/* Called within the callback. where: the file that has the task's output; NULL: no file. lost: the output could not be
 * written, so the task is not done and will be run again. */
void cli_journal_note(struct cli_journal *k, const struct cli_task_end *e, const char *where, bool lost);

/* Called after the run, while the followed files are still open. kept: all records were written; then --output is
 * cleaned up. Returns 0, or -1 with gd__fail_text(). */
int cli_journal_finish(struct cli_journal *k, bool kept);

/* Called after the followed files were closed. Writes the list of failures, and unless quiet prints the journal's
 * state. inputs: the number of inputs. at_least: the inputs were not read to their end, so there may be more. *failed:
 * the number of tasks that have failed, in this run or before. Returns 0, or -1 with gd__fail_text(). */
int cli_journal_conclude(struct cli_journal *k, uint64_t inputs, bool at_least, uint64_t *failed);

void cli_journal_close(struct cli_journal **k);

/* --- identity and inputs ---------------------------------------------------------- */

/* Adds what identifies the work of a run, as one readable line. Adds no NUL. */
void cli_journal_identity(struct gd__buffer *b, const struct cli_run *r);

/* Adds a payload as it is written in the journal: as a JSON array of its arguments if it has NULs or looks like such an
 * array. False: it is written unchanged, and nothing is added. */
bool cli_journal_show_input(struct gd__buffer *b, const char *payload, size_t size);

/* The reverse: adds the payload for a text in the journal. */
void cli_journal_read_input(struct gd__buffer *b, const char *text, size_t size);

#endif
