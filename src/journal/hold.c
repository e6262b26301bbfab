/* A journal is held by a lock on a file beside it, JOURNAL-lock, that also says who holds it.
 *
 * Not on the journal itself: SQLite's own locks there belong to the process, and closing any descriptor of the file
 * would drop them. The lock is one of an open file description (F_OFD_SETLK): it ends with the process however that
 * ends, keeps two runs in one process apart too, and can be tested without being taken. (A child that is just being
 * started shares it until it executes its program: if its parent is killed at that moment, until then.) The file is
 * removed by its holder, so whoever gets the lock looks whether the file is still the one at that path, and begins anew
 * if not.
 */
#include "journal/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "journal/db.h"

enum { TRIES = 100, NUMBER_MAX = 32 };

/* Beside the journal itself, so that one that is reached by two names is held once; and in full, so that it is found
 * again after a change of the working directory. */
static char *lock_path(const char *journal)
{
    char full[PATH_MAX];
    const char *real = gd__db_full_path(journal, full);
    const size_t size = strlen(real) + sizeof "-lock";
    char *path = gd__calloc(1, size);
    if (path)
        snprintf(path, size, "%s-lock", real);
    return path;
}

static uint64_t read_pid(int fd)
{
    char text[NUMBER_MAX] = "";
    return pread(fd, text, sizeof text - 1, 0) > 0 ? strtoull(text, NULL, 10) : 0;
}

static bool is_at(int fd, const char *path)
{
    struct stat ours, there;
    return fstat(fd, &ours) == 0 && stat(path, &there) == 0 && ours.st_ino == there.st_ino &&
           ours.st_dev == there.st_dev;
}

static int refuse(int fd, const char *journal)
{
    const uint64_t pid = read_pid(fd);
    if (pid > 0)
        return gd__error(GD_E_BUSY, "%s is in use by the run of process %llu: wait for its end, or use another journal",
                         journal, (unsigned long long)pid);
    return gd__error(GD_E_BUSY, "%s is in use by another run: wait for its end, or use another journal", journal);
}

/* 1: held; 0: the file was removed meanwhile; or negative. */
static int try_take(struct gd__hold *h, const char *journal)
{
    struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    const int fd = GD__FAULT("open") ? -1 : gd__fd_above_stdio(open(h->path, O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (fd < 0)
        return gd__error_errno("cannot make %s, which holds the journal while a run writes to it", h->path);
    int rc = 0;
    if (fcntl(fd, F_OFD_SETLK, &all) < 0)
        rc = errno == EAGAIN || errno == EACCES ? refuse(fd, journal) : gd__error_errno("cannot lock %s", h->path);
    else if (is_at(fd, h->path))
        rc = 1;
    if (rc == 1)
        h->fd = fd;
    else
        close(fd);
    return rc;
}

static void write_pid(int fd)
{
    char text[NUMBER_MAX];
    const int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n)
        return; /* it holds all the same: only who it is will not be said */
}

int gd__hold_take(struct gd__hold *h, const char *journal)
{
    h->fd = -1;
    h->path = lock_path(journal);
    if (!h->path)
        return gd__error(GD_E_NO_MEMORY, "no memory for the name of a lock");
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < TRIES; i++)
        rc = try_take(h, journal);
    if (rc == 1) {
        write_pid(h->fd);
        return 0;
    }
    gd__free(h->path);
    h->path = NULL;
    return rc < 0 ? rc : gd__error(GD_E_BUSY, "%s is being opened and closed by other runs: try again", journal);
}

void gd__hold_release(struct gd__hold *h)
{
    if (h->fd >= 0) {
        if (is_at(h->fd, h->path))
            unlink(h->path);
        close(h->fd);
    }
    gd__free(h->path);
    h->fd = -1;
    h->path = NULL;
}

bool gd__hold_is_lost(const struct gd__hold *h)
{
    struct stat info;
    return fstat(h->fd, &info) == 0 && info.st_nlink == 0;
}

bool gd__hold_test(const char *journal, uint64_t *pid)
{
    struct flock all = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
    char *path = lock_path(journal);
    const int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    const bool held = fd >= 0 && fcntl(fd, F_OFD_GETLK, &all) == 0 && all.l_type != F_UNLCK;
    *pid = held ? read_pid(fd) : 0;
    if (fd >= 0)
        close(fd);
    gd__free(path);
    return held;
}
