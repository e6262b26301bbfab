/* SPDX-License-Identifier: MIT
 *
 * The records of a queue for a report, in a temporary file: a report reads them several times, and the server should send
 * them only once. They are read back as records of a journal. Each machine counts as one run.
 *
 * A record of a queue has the GPU of its task but not the worker. So tasks of one GPU that overlap in time are given to
 * different workers, as few as possible. This takes 40 bytes of memory for each record.
 */
#ifndef GD_CLI_COMMANDS_QUEUE_REPORT_REPORT_ROWS_H
#define GD_CLI_COMMANDS_QUEUE_REPORT_REPORT_ROWS_H

#include <gpu_dispatch/journal.h>
#include <gpu_dispatch/queue.h>
#include <stdint.h>
#include <stdio.h>

#include "base/text/buffer.h"

struct report_host {
    char *name;
    uint64_t done, failed;
};

struct report_time; /* when a task ran, and on which GPU */

/* A zeroed struct is empty, but has no file. */
struct report_rows {
    FILE *file;
    struct report_host *hosts;
    size_t n_hosts;
    struct report_time *times; /* one for each record, in the order of the file */
    size_t n, room;
    double first, last; /* Unix time; 0: no task ran */
    struct gd__buffer bytes;
};

/* Return 0, or -1 with gd__fail_text(). */
int report_rows_open(struct report_rows *rows);
int report_rows_add(struct report_rows *rows, const struct gd_queue_record *r);
int report_rows_complete(struct report_rows *rows); /* after the last one: finds the workers */
void report_rows_free(struct report_rows *rows);

/* Reads the records as gd_journal_reader_each() does. Only GD_JOURNAL_BY_ID, and GD_JOURNAL_SLOWEST with a limit. */
int report_rows_each(struct report_rows *rows, const struct gd_journal_query *q,
                     int (*fn)(void *user, const struct gd_journal_record *record), void *user);

#endif
