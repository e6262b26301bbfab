/* A record as a reader passes it on: its values are in range, whatever the file has. */
#ifndef GD_JOURNAL_READ_RECORD_H
#define GD_JOURNAL_READ_RECORD_H

#include <gpu_dispatch/journal.h>
#include <sqlite3.h>

/* The columns that gd__read_record() expects. */
#define GD__READ_COLUMNS                                                                                         \
    "id, key, version, state, attempts, number, run, started, seconds, worker, gpu, exit_code, signal, failure," \
    " input_size, input, output, error, stderr"

/* The record of the current row. It is valid until the next step. */
void gd__read_record(sqlite3_stmt *s, struct gd_journal_record *out);

/* Copies a record and the data that it points to into one block, and adds its size to *bytes. Returns NULL if there is
 * no memory. */
struct gd_journal_record *gd__read_copy(const struct gd_journal_record *r, size_t *bytes);

#endif
