/* SPDX-License-Identifier: MIT
 *
 * The page of a run that is over, from its journal: one file that needs nothing else.
 *
 * However many records there are, memory and page are bounded: time is divided into WEB_REPORT_STEPS, the use of each
 * GPU is known per step, and of each worker's tasks the longest that began in a step are drawn.
 */
#ifndef GD_WEB_REPORT_REPORT_H
#define GD_WEB_REPORT_REPORT_H

#include <gpu_dispatch/journal.h>

enum { WEB_REPORT_STEPS = 400 };

/* Where records come from: a journal's reader, or what a test makes up. As the functions of journal.h of these names.
 */
struct web_records {
    void *user;
    int (*each)(void *user, const struct gd_journal_query *q,
                int (*fn)(void *arg, const struct gd_journal_record *record), void *arg);
    int (*summary)(void *user, struct gd_journal_summary *out);
};

/* Writes the page to path, by way of PATH.part. file: how the journal is called on the page. named: a person named the
 * path, so a link there is followed. 0, or -1 with gd__fail_text(). */
int web_report_write(const struct web_records *r, const char *file, const char *path, bool named);

#endif
