/* SPDX-License-Identifier: MIT
 *
 * The page of a run that is over, made from its journal: one file that needs nothing else.
 *
 * Memory and page are bounded, however many records there are. Time is divided into WEB_REPORT_STEPS. The use of each
 * GPU is known for each step, and the longest tasks of each worker that began in a step are drawn.
 */
#ifndef GD_WEB_REPORT_REPORT_H
#define GD_WEB_REPORT_REPORT_H

#include <gpu_dispatch/journal.h>

enum { WEB_REPORT_STEPS = 400 };

/* The source of records: a journal's reader, or a test. The functions are those of journal.h with these names. */
struct web_records {
    void *user;
    int (*each)(void *user, const struct gd_journal_query *q,
                int (*fn)(void *arg, const struct gd_journal_record *record), void *arg);
    int (*summary)(void *user, struct gd_journal_summary *out);
};

/* Writes the page to PATH.part and renames that to path. file: the journal's name on the page. named: a person gave the
 * path, so a link is followed. 0, or -1 with gd__fail_text(). */
int web_report_write(const struct web_records *r, const char *file, const char *path, bool named);

#endif
