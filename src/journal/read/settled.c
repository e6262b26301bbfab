/* Reading a journal that is being written: see settled.h.
 *
 * How a disturbance is found: SQLite's commit first writes page 1, which has a counter of all changes. So if the counter
 * is the same as before the transaction, no commit has begun to write pages. A very large transaction writes pages
 * earlier, but before that it writes FILE-journal. So a FILE-journal with a transaction is a disturbance too, unless we
 * see the lock of its writer: then the locks work, and the writer waits for us.
 */
#include "journal/read/settled.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file/shared.h"
#include "journal/db.h"
#include "journal/lock/lock.h"

enum { COUNTER_AT = 24, COUNTER_SIZE = 16, WAIT_MS = 30000, PAUSE_MS = 5 };

/* The part of page 1 that every commit changes. */
struct mark {
    unsigned char counter[COUNTER_SIZE];
};

static sqlite3_file *file_of(sqlite3 *db)
{
    sqlite3_file *file = NULL;
    const int rc = sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    return rc == SQLITE_OK && file && file->pMethods ? file : NULL;
}

/* Reads the file with SQLite's own descriptor. Another descriptor would end all locks of this process on the file when
 * it is closed. */
static bool get_mark(sqlite3 *db, struct mark *out)
{
    sqlite3_file *file = file_of(db);
    memset(out, 0, sizeof *out);
    return file && file->pMethods->xRead(file, out->counter, COUNTER_SIZE, COUNTER_AT) == SQLITE_OK;
}

/* Whether FILE-journal begins with something else than zeros. */
static bool has_transaction(const char *path)
{
    char full[PATH_MAX], byte = 0;
    char *name = sqlite3_mprintf("%s-journal", gd__db_full_path(path, full));
    const int fd = name ? open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    const bool has = fd >= 0 && read(fd, &byte, 1) == 1 && byte != 0;
    if (fd >= 0)
        close(fd);
    sqlite3_free(name);
    return has;
}

static bool sees_writer(sqlite3 *db)
{
    sqlite3_file *file = file_of(db);
    int reserved = 0;
    return file && file->pMethods->xCheckReservedLock(file, &reserved) == SQLITE_OK && reserved;
}

/* Called before the transaction ends. */
static bool is_disturbed(sqlite3 *db, const char *path, const struct mark *before)
{
    struct mark now;
    if (!get_mark(db, &now) || memcmp(&now, before, sizeof now) != 0)
        return true;
    return has_transaction(path) && !sees_writer(db);
}

bool gd__settled_is_unfinished(sqlite3 *db)
{
    return sqlite3_extended_errcode(db) == SQLITE_READONLY_ROLLBACK;
}

uint64_t gd__settled_until(void)
{
    return gd__now_ns() + WAIT_MS * GD__NS_PER_MS;
}

/* The writer may be on another machine, which sends no event to this one. So a reader can only look again. */
static void pause_a_moment(void)
{
    const struct timespec moment = { .tv_nsec = PAUSE_MS * (long)GD__NS_PER_MS };
    nanosleep(&moment, NULL);
}

/* Undoes the transaction of a run that was killed: the first read of a connection that may write does it. Returns false
 * if a run has locked the journal, or the files cannot be written. */
static bool undo(const char *path)
{
    struct gd__journal_lock lock;
    if (gd__journal_lock_take(&lock, path) < 0)
        return false;
    const bool undone = gd__db_undo(path) == 0;
    gd__journal_lock_release(&lock);
    return undone;
}

int gd__settled_wait(const char *path, uint64_t until_ns)
{
    uint64_t pid;
    const bool held = gd__journal_lock_test(path, &pid);
    if (!held && has_transaction(path)) /* otherwise the run has ended meanwhile, and there is nothing to undo */
        return undo(path);
    if (gd__now_ns() >= until_ns)
        return 0;
    pause_a_moment();
    return 1;
}

bool gd__settled_is_written(const char *path)
{
    uint64_t pid;
    const bool held = gd__journal_lock_test(path, &pid);
    if (held)
        pause_a_moment();
    return held;
}

static int is_written_all_the_time(const char *path)
{
    return gd__error(GD_E_BUSY, "cannot read %s: a run writes to it all the time: try again later", path);
}

/* One attempt. Sets *again if it must be repeated. */
static int attempt(sqlite3 *db, const char *path, int (*read)(void *user), void *user, bool *again)
{
    struct mark before;
    const bool marked = get_mark(db, &before);
    if (gd__db_exec(db, "BEGIN") != SQLITE_OK)
        return gd__db_error(db, "read", path);
    const int rc = read(user);
    const bool unfinished = rc < 0 && gd__settled_is_unfinished(db);
    *again = unfinished || (marked && is_disturbed(db, path, &before));
    (void)gd__db_exec(db, "ROLLBACK"); /* nothing was changed */
    return rc;
}

int gd__settled_read(sqlite3 *db, const char *path, int (*read)(void *user), void (*forget)(void *user), void *user)
{
    const bool shared = gd__file_is_shared(path);
    const uint64_t until = gd__settled_until();
    for (;;) {
        bool again = false;
        const int rc = attempt(db, path, read, user, &again);
        if (!again || !shared)
            return rc;
        forget(user);
        const int more = gd__settled_wait(path, until);
        if (more <= 0)
            return more < 0 ? more : is_written_all_the_time(path);
    }
}
