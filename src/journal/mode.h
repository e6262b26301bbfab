/* How SQLite makes a journal's transactions atomic: with a write-ahead log, or with a rollback journal.
 *
 *   write-ahead log    FILE-wal and FILE-shm. Readers and the writer never wait for each other. But all of them must be
 *                      on one machine, because they share memory (FILE-shm).
 *   rollback journal   FILE-journal has the old contents of the pages that a transaction changes. The next program that
 *                      opens the file undoes a transaction that was not completed. It needs only locks on the file. A
 *                      writer waits for readers before it commits, and readers wait until it has.
 *
 * On a file system that is not known to be local, a rollback journal is used.
 */
#ifndef GD_JOURNAL_MODE_H
#define GD_JOURNAL_MODE_H

#include <sqlite3.h>
#include <stdbool.h>

/* Called before the first read of a connection that will write. shared: the file system is not known to be local. */
int gd__mode_begin(sqlite3 *db, const char *path, bool shared);

/* Called when the file is known to be a journal, or is new. Chooses the mode, and converts the file if it has another. */
int gd__mode_choose(sqlite3 *db, const char *path, bool shared);

/* Whether the file has a rollback journal. Every connection to it sees the same. False if it cannot be read. */
bool gd__mode_is_rollback(sqlite3 *db);

/* Called before a connection that wrote is closed: removes FILE-journal. A failure does no harm. */
void gd__mode_end(sqlite3 *db);

/* Checks FILE-journal before a connection is opened. It may come from another person, like the file itself. Returns 0 or
 * GD_E_CORRUPT. */
int gd__mode_check_file(const char *path, const char *rollback_journal);

#endif
