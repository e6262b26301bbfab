/* SPDX-License-Identifier: MIT
 *
 * The page of a run that is over, made from its journal. It is one file and needs no other files.
 *
 * The memory and the size of the page are limited, for any number of records. Time is divided into WEB_REPORT_STEPS
 * steps. The page shows the use of each GPU in each step, and the longest tasks that each worker began in each step.
 */
#ifndef GD_WEB_REPORT_REPORT_H
#define GD_WEB_REPORT_REPORT_H

#include <gpu_dispatch/journal.h>

enum { WEB_REPORT_STEPS = 400 };

/* The source of records: the reader of a journal, or of several, or a test. The functions are like
 * gd_journal_reader_each() and gd_journal_reader_summary(). */
struct web_records {
    void *user;
    int (*each)(void *user, const struct gd_journal_query *q,
                int (*fn)(void *arg, const struct gd_journal_record *record), void *arg);
    int (*summary)(void *user, struct gd_journal_summary *out);
    /* Like gd_journal_reader_runs(). NULL: all runs were on one machine. */
    int (*runs)(void *user, int (*fn)(void *arg, const struct gd_journal_run *run), void *arg);
};

/* Writes the page to PATH.part and renames that to path. file: the journal's name, shown on the page. named: the user
 * gave the path, so a link is followed. Returns 0, or -1 with gd__fail_text(). */
int web_report_write(const struct web_records *r, const char *file, const char *path, bool named);

#endif
