/* The database under a journal: opening, checking and making it. The only place that knows the schema's version. */
#ifndef GD_JOURNAL_DB_H
#define GD_JOURNAL_DB_H

#include <limits.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#define GD__DB_APPLICATION 0x67644a31 /* "gdJ1" */
enum { GD__DB_VERSION = 1 };

/* How a task ended, as task.state has it. */
enum gd__final { GD__FINAL_NONE = 0, GD__FINAL_DONE = 1, GD__FINAL_FAILED = 2 };

/* Opens for writing, and makes it if it is not there. */
int gd__db_open_write(sqlite3 **out, const char *path);
/* Opens for reading. */
int gd__db_open_read(sqlite3 **out, const char *path);

/* Sets the thread's error to what SQLite says: "cannot DOING PATH: ...". Returns the code that fits. */
int gd__db_error(sqlite3 *db, const char *doing, const char *path);
/* The same for a result that the connection does not know. */
int gd__db_code(int sqlite_code, const char *doing, const char *path);

/* The path from the root, without links, of a file that may not be there yet; path itself where that cannot be found.
 */
const char *gd__db_full_path(const char *path, char full[PATH_MAX]);

int gd__db_exec(sqlite3 *db, const char *sql);                  /* a result of SQLite's */
int gd__db_integer(sqlite3 *db, const char *sql, int64_t *out); /* likewise; the first value, 0 if there is none */
int gd__db_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **out); /* likewise */

/* Values as they may be, whatever the file holds: counts from 0 to GD__DB_COUNT_MOST, which a double holds exactly;
 * seconds and Unix times finite, from 0 to GD__DB_SECONDS_MOST (the year 9999). */
#define GD__DB_COUNT_MOST   (INT64_C(1) << 53)
#define GD__DB_SECONDS_MOST 253402300799.0
uint64_t gd__db_count(sqlite3_stmt *s, int column);
double gd__db_seconds(sqlite3_stmt *s, int column);

#endif
