/* The database after another run was given up.
 *
 * If the last run was given up because its heartbeat stood still (lock/lock.c), its process may still exist, on another
 * machine, in the middle of a transaction. When its machine comes back, writes that were on their way are carried out,
 * before the process can notice anything. If the locks of the file system exclude nobody, they would destroy what this
 * run has written. So this run does not continue the same file. It copies the database and its rollback journal, undoes
 * the transaction in the copy, and puts the copy in place. The old run writes to files without a name, and finds with its
 * next transaction that its file was replaced.
 *
 * The old run may go on while its files are copied. So what every transaction changes is compared before and after that,
 * and the files are copied again if it differs. The rollback journal is copied last: then it has the old contents of all
 * pages that the copy has of an unfinished transaction.
 *
 * If this run is killed after the copy is in place and before the old rollback journal is removed, the next run undoes
 * the same transaction again. That changes nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/file/replace.h"
#include "base/file/write.h"
#include "journal/internal.h"

enum { CHUNK = 256 << 10, TRIES = 1000 };
enum { COUNTER_AT = 24, COUNTER_SIZE = 16, HEADER_SIZE = 28 };

struct renewal {
    char *database, *rollback, *log; /* JOURNAL, JOURNAL-journal, JOURNAL-wal */
    char *copy, *copy_rollback;
};

static int copy_bytes(int from, int to)
{
    char *room = gd__calloc(1, CHUNK);
    ssize_t n = room ? 1 : -1;
    while (n > 0) {
        n = read(from, room, CHUNK);
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n > 0 && gd__write_all(to, room, (size_t)n) < 0)
            n = -1;
    }
    gd__free(room);
    return n < 0 ? -1 : 0;
}

/* Copies a file with its mode, and flushes the copy to disk. Returns 1, 0 if there is no such file, or -1. */
static int copy_file(const char *from, const char *to)
{
    struct stat info;
    int source = gd__fd_above_stdio(open(from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (source < 0)
        return errno == ENOENT ? 0 : -1;
    int target = GD__FAULT("open") ? -1 : gd__fd_above_stdio(gd__open_temporary(AT_FDCWD, to, 0600));
    int rc = target >= 0 && fstat(source, &info) == 0 ? copy_bytes(source, target) : -1;
    if (rc == 0 && fchown(target, info.st_uid, info.st_gid) < 0)
        errno = 0; /* not permitted: the copy belongs to this user */
    if (rc == 0 && (fchmod(target, info.st_mode & 0777) < 0 || fsync(target) < 0))
        rc = -1;
    const int error = errno;
    gd__fd_close(&source);
    gd__fd_close(&target);
    errno = error;
    return rc < 0 ? -1 : 1;
}

/* What a transaction changes: the counter in page 1 of the database, and the header of the rollback journal. */
struct mark {
    unsigned char counter[COUNTER_SIZE], header[HEADER_SIZE];
};

/* Sets the bytes to 0 if they cannot be read. */
static void read_at(const char *path, off_t at, unsigned char *out, size_t size)
{
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    memset(out, 0, size);
    if (fd < 0)
        return;
    if (pread(fd, out, size, at) != (ssize_t)size)
        memset(out, 0, size);
    close(fd);
}

static void get_mark(const struct renewal *r, struct mark *out)
{
    read_at(r->database, COUNTER_AT, out->counter, sizeof out->counter);
    read_at(r->rollback, 0, out->header, sizeof out->header);
}

/* Returns 1 if the old run wrote meanwhile. */
static int copy_once(const struct renewal *r)
{
    struct mark before, after;
    (void)unlink(r->copy); /* of the attempt before */
    (void)unlink(r->copy_rollback);
    get_mark(r, &before);
    if (copy_file(r->database, r->copy) < 0 || copy_file(r->rollback, r->copy_rollback) < 0)
        return gd__error_errno("cannot copy the journal %s, whose last run may still write to it", r->database);
    get_mark(r, &after);
    return memcmp(&before, &after, sizeof before) != 0;
}

static int copy_both(const struct renewal *r)
{
    int rc = 1;
    for (unsigned i = 0; rc == 1 && i < TRIES; i++)
        rc = copy_once(r);
    return rc == 1 ? gd__error(GD_E_BUSY,
                               "cannot copy the journal %s: the run that was given up writes to it all the "
                               "time. Try again later",
                               r->database)
                   : rc;
}

static int put_in_place(const struct renewal *r)
{
    if (rename(r->copy, r->database) < 0)
        return gd__error_errno("cannot put the copy %s in place", r->copy);
    GD__KILL_POINT("journal_renewed");
    if (unlink(r->rollback) < 0 && errno != ENOENT)
        return gd__error_errno("cannot remove %s", r->rollback);
    return gd__sync_directory_of(r->database) < 0 ? gd__error_errno("cannot flush the directory of %s", r->database)
                                                  : 0;
}

static int renew(const struct renewal *r)
{
    struct stat info;
    if (stat(r->database, &info) < 0 || stat(r->log, &info) == 0)
        return 0; /* the last run had written nothing, also if a copied write-ahead log was not converted yet */
    int rc = copy_both(r);
    if (rc == 0)
        rc = gd__db_undo(r->copy);
    (void)unlink(r->copy_rollback); /* SQLite leaves it if it has no transaction */
    if (rc == 0)
        rc = put_in_place(r);
    if (rc < 0)
        (void)unlink(r->copy);
    return rc;
}

int gd__database_renew(const struct gd_journal *j)
{
    char full[PATH_MAX];
    const char *path = gd__db_full_path(j->path, full), *nonce = j->hold.me.nonce;
    struct renewal r = { sqlite3_mprintf("%s", path), sqlite3_mprintf("%s-journal", path),
                         sqlite3_mprintf("%s-wal", path), sqlite3_mprintf("%s.%s.part", path, nonce),
                         sqlite3_mprintf("%s.%s.part-journal", path, nonce) };
    const int rc = r.database && r.rollback && r.log && r.copy && r.copy_rollback
                       ? renew(&r)
                       : gd__error(GD_E_NO_MEMORY, "no memory for a path");
    sqlite3_free(r.database);
    sqlite3_free(r.rollback);
    sqlite3_free(r.log);
    sqlite3_free(r.copy);
    sqlite3_free(r.copy_rollback);
    return rc;
}
