/* A reader of a journal, or of another database that is already open. See reader.c. */
#ifndef GD_JOURNAL_READ_READER_H
#define GD_JOURNAL_READ_READER_H

#include <gpu_dispatch/journal.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

struct gd_journal_reader {
    sqlite3 *db;
    char *path;
    char *command, *outcome, *host; /* of the last summary */
    bool merged;                    /* the records of several journals are in a temporary file */
    int64_t looks_left;             /* how many more times the current query may take STEPS_A_LOOK steps */
};

/* Makes a reader that closes db with itself. path: for error messages, and to find out whether a run uses the journal;
 * NULL: db has the records of several journals. Returns 0, or GD_E_NO_MEMORY; then db stays open. */
int gd__reader_of(struct gd_journal_reader **out, sqlite3 *db, const char *path);

/* Called before a query that reads rows: limits its steps. Errors are ignored here, because the query itself will report
 * them. */
void gd__reader_begin(struct gd_journal_reader *r);
int gd__reader_failed(struct gd_journal_reader *r);        /* sets the error message; returns the code */
char *gd__reader_copy_column(sqlite3_stmt *s, int column); /* a text, which the caller frees; NULL: none */

#endif
