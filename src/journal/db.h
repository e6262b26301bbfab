/* The database of a journal: creating, checking and opening it. Only this module uses the version of the schema. */
#ifndef GD_JOURNAL_DB_H
#define GD_JOURNAL_DB_H

#include <limits.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#define GD__DB_APPLICATION 0x67644a31                  /* "gdJ1" */
enum { GD__DB_VERSION = 2, GD__DB_VERSION_LEAST = 1 }; /* older versions are read, and upgraded when written to */

/* How a task ended, as stored in task.state. */
enum gd__final { GD__FINAL_NONE = 0, GD__FINAL_DONE = 1, GD__FINAL_FAILED = 2 };

/* Opens for writing. Creates the file if it does not exist. */
int gd__db_open_write(sqlite3 **out, const char *path);
int gd__db_open_read(sqlite3 **out, const char *path);
/* Opens a new journal that no other process uses until it is complete: nothing is written twice, so a process that is
 * killed leaves a damaged file. The file at path is empty. path "": a file without a name, which is removed when it is
 * closed. */
int gd__db_open_new(sqlite3 **out, const char *path);
/* Undoes the transaction that a killed run has left in FILE-journal. The caller holds the journal's lock. */
int gd__db_undo(const char *path);
/* Changes a journal of an older version to GD__DB_VERSION, in one transaction. The caller holds the journal's lock. */
int gd__db_upgrade(sqlite3 *db, const char *path);
/* SQL for the last run's shard: a column, or a NULL in a journal of version 1. Returns NULL if the version cannot be
 * read. */
const char *gd__db_shard_column(sqlite3 *db);

/* Sets the thread's error message from SQLite's: "cannot DOING PATH: ...". Returns the matching code. */
int gd__db_error(sqlite3 *db, const char *doing, const char *path);
/* The same for a result code that does not come from a connection. */
int gd__db_code(int sqlite_code, const char *doing, const char *path);

/* Returns the absolute path, without links, of a file that may not exist yet, or path itself if it cannot be found. */
const char *gd__db_full_path(const char *path, char full[PATH_MAX]);

int gd__db_exec(sqlite3 *db, const char *sql);                        /* returns a result code of SQLite */
int gd__db_integer(sqlite3 *db, const char *sql, int64_t *out);       /* likewise; *out: the first value, 0 if no row */
int gd__db_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **out); /* likewise */

/* Read a value and force it into its range, because a file may contain any value. Counts are from 0 to
 * GD__DB_COUNT_MOST, which a double holds exactly. Seconds and Unix times are finite, from 0 to GD__DB_SECONDS_MOST
 * (the year 9999). */
#define GD__DB_COUNT_MOST   (INT64_C(1) << 53)
#define GD__DB_SECONDS_MOST 253402300799.0
uint64_t gd__db_count(sqlite3_stmt *s, int column);
double gd__db_seconds(sqlite3_stmt *s, int column);

#endif
