/* Reading a journal that a run on another machine may be writing to, on a file system that is not known to be local.
 *
 * With a rollback journal, SQLite relies on locks on the file. But the locks of such a file system may exclude only
 * processes of the same machine, and nobody can tell. So there:
 *
 *   - A reader does not undo a transaction that it finds in FILE-journal. It may be one that is being written: undoing
 *     it would destroy records. Only a process that has locked the journal (lock/lock.h) may do this.
 *   - After a reader has read some records, it checks that no transaction was written meanwhile. Otherwise it reads them
 *     again.
 */
#ifndef GD_JOURNAL_READ_SETTLED_H
#define GD_JOURNAL_READ_SETTLED_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

/* Calls read() within a transaction, and again if a writer has disturbed it. forget() is called before each further
 * call: it drops what was read. Returns what the last read() returned, or a negative code. */
int gd__settled_read(sqlite3 *db, const char *path, int (*read)(void *user), void (*forget)(void *user), void *user);

/* Whether the last error of the connection says that FILE-journal has a transaction. */
bool gd__settled_is_unfinished(sqlite3 *db);

/* Called when a reader was disturbed, or could not read because of a transaction in FILE-journal. If there is one and no
 * run has locked the journal, undoes it. Otherwise waits a moment, because a run may be writing. Returns 1 if the caller
 * should try again, 0 if it has waited until the time `until_ns` without success, or a negative code. */
int gd__settled_wait(const char *path, uint64_t until_ns);
bool gd__settled_is_written(const char *path); /* whether a run has locked the journal. Then waits a moment */
uint64_t gd__settled_until(void);              /* how long to wait, as the time when to stop */

#endif
