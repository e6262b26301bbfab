/* A reader of a database that is already open. See reader.c. */
#ifndef GD_JOURNAL_READ_READER_H
#define GD_JOURNAL_READ_READER_H

#include <gpu_dispatch/journal.h>
#include <sqlite3.h>

/* Makes a reader that closes db with itself. path: for error messages, and to find out whether a run uses the journal;
 * NULL: db has the records of several journals. Returns 0, or GD_E_NO_MEMORY; then db stays open. */
int gd__reader_of(struct gd_journal_reader **out, sqlite3 *db, const char *path);

#endif
