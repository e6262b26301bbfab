/* Write-ahead log or rollback journal: see mode.h.
 *
 * The rollback journal is kept between transactions (PERSIST): the end of a transaction overwrites its header with
 * zeros. There are two reasons. Creating and removing a file for each transaction is slow on network file systems. And
 * another machine may remember for some seconds that a file does not exist, or is empty. If it took over the journal of
 * a run that was killed in a transaction, it could overlook the file that it must roll back. A file that is always
 * there, and never empty, is opened, and then a network file system returns its present contents.
 *
 * A file with a write-ahead log may be copied to a shared file system. It is converted there by the run that has locked
 * the journal. SQLite reads the log without FILE-shm if the connection locks the file for itself alone (EXCLUSIVE). This
 * must be set before the first read.
 */
#include "journal/mode.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "journal/db.h"

/* Runs a statement that returns a text, such as the mode in effect. Returns a result code of SQLite. */
static int get_text(sqlite3 *db, const char *sql, char *out, size_t room)
{
    sqlite3_stmt *s = NULL;
    *out = '\0';
    int rc = gd__db_prepare(db, sql, &s);
    if (rc == SQLITE_OK && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(s, 0);
        (void)snprintf(out, room, "%s", text ? text : "");
        rc = SQLITE_OK;
    }
    sqlite3_finalize(s);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

bool gd__mode_is_rollback(sqlite3 *db)
{
    static const char *const modes[] = { "delete", "persist", "truncate" };
    char mode[16];
    const int rc = get_text(db, "PRAGMA journal_mode", mode, sizeof mode);
    for (size_t i = 0; rc == SQLITE_OK && i < sizeof modes / sizeof *modes; i++)
        if (strcmp(mode, modes[i]) == 0)
            return true;
    return false; /* a log, or a temporary file that has neither */
}

int gd__mode_begin(sqlite3 *db, const char *path, bool shared)
{
    char mode[16];
    if (!shared || get_text(db, "PRAGMA locking_mode = EXCLUSIVE", mode, sizeof mode) == SQLITE_OK)
        return 0;
    return gd__db_error(db, "open", path);
}

/* Returns 1 if the file has a write-ahead log now, 0 if it cannot have one, or a negative code. A program that reads
 * the file may keep it from being converted. */
static int use_log(sqlite3 *db, const char *path)
{
    char mode[16];
    const int rc = get_text(db, "PRAGMA journal_mode = WAL", mode, sizeof mode);
    if (rc == SQLITE_OK)
        return strcmp(mode, "wal") == 0 && !GD__FAULT("sqlite_wal");
    return (rc & 0xff) == SQLITE_BUSY ? 0 : gd__db_error(db, "write to", path);
}

/* SQLite reports no error if it cannot use the mode, but returns the mode that is in effect. */
static int use_rollback(sqlite3 *db, const char *path)
{
    static const char *const steps[][2] = { { "PRAGMA journal_mode = DELETE", "delete" },
                                            { "PRAGMA journal_mode = PERSIST", "persist" } };
    for (size_t i = 0; i < 2; i++) {
        char mode[16];
        if (get_text(db, steps[i][0], mode, sizeof mode) != SQLITE_OK)
            return gd__db_error(db, "write to", path);
        if (strcmp(mode, steps[i][1]) != 0)
            return gd__error(GD_E_SYSTEM,
                             "cannot use %s: SQLite cannot write it without its write-ahead log (the mode is \"%s\"): "
                             "put the journal on a local disk",
                             path, mode);
    }
    return 0;
}

/* A copy of FILE-shm may have come with a file that had a write-ahead log. */
static void remove_index(const char *path)
{
    char full[PATH_MAX];
    char *name = sqlite3_mprintf("%s-shm", gd__db_full_path(path, full));
    if (name)
        (void)unlink(name); /* usually there is none */
    sqlite3_free(name);
}

/* The lock on the whole file is released with the next read. */
static int end_exclusive(sqlite3 *db, const char *path)
{
    char mode[16];
    int64_t any;
    if (get_text(db, "PRAGMA locking_mode = NORMAL", mode, sizeof mode) == SQLITE_OK &&
        gd__db_integer(db, "SELECT count(*) FROM sqlite_master", &any) == SQLITE_OK)
        return 0;
    return gd__db_error(db, "use", path);
}

int gd__mode_choose(sqlite3 *db, const char *path, bool shared)
{
    int rc = shared ? 0 : use_log(db, path);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    const bool converted = shared && !gd__mode_is_rollback(db);
    rc = use_rollback(db, path);
    if (rc == 0 && converted)
        remove_index(path);
    return rc == 0 && shared ? end_exclusive(db, path) : rc;
}

void gd__mode_end(sqlite3 *db)
{
    if (db && gd__mode_is_rollback(db))
        (void)gd__db_exec(db, "PRAGMA journal_mode = DELETE");
}

/* The end of a rollback journal may name another file, which SQLite then reads, and may delete. It is for transactions
 * over several databases, which we never have. */
int gd__mode_check_file(const char *path, const char *rollback_journal)
{
    static const unsigned char magic[8] = { 0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7 };
    unsigned char end[sizeof magic];
    const int fd = open(rollback_journal, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return 0; /* SQLite reports why it cannot be opened */
    const off_t size = lseek(fd, 0, SEEK_END);
    const bool names_file = size > (off_t)sizeof end &&
                            pread(fd, end, sizeof end, size - (off_t)sizeof end) == (ssize_t)sizeof end &&
                            memcmp(end, magic, sizeof end) == 0;
    close(fd);
    return names_file
               ? gd__error(GD_E_CORRUPT,
                           "%s was not written by gpu_dispatch: it names another file. Give another journal than "
                           "%s, or remove it if you trust neither",
                           rollback_journal, path)
               : 0;
}
