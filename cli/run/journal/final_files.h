/* SPDX-License-Identifier: MIT
 *
 * Files that are written from the journal when a run is over: --output without records that are out of date, and
 * failed.jsonl.
 */
#ifndef GD_CLI_RUN_JOURNAL_FINAL_FILES_H
#define GD_CLI_RUN_JOURNAL_FINAL_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include <gpu_dispatch/journal.h>

/* Rewrites a file of --output without the records that the journal does not hold any more: those of tasks that were run
 * again later. The new file is written beside the old one and renamed, so that a reader always finds a complete file.
 * If path is a link, it stays a link. Nothing is written if no record is out of date. Uses 8 bytes of memory for each
 * record. Returns 1 if the file was rewritten, 0 if there was no need, or -1 with gd__fail_text(). */
int cli_drop_old_records(const char *path, struct gd_journal_reader *r);

/* Whether a file of --output has the record of every task that the journal holds, and no other records. Returns 1, 0,
 * or -1 with gd__fail_text(). */
int cli_records_are_whole(const char *path, struct gd_journal_reader *r);

/* Writes the failures of the journal (output/files/failure_record.h) to PATH.part, and renames that to path. json:
 * inputs are lines of JSON. named: the user named the file, so it is written even if it is empty. *count: the number of
 * failures. */
int cli_write_failures(const char *path, struct gd_journal_reader *r, bool json, bool named, uint64_t *count);

#endif
