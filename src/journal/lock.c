/* A journal is locked by a lock on a file in its directory, JOURNAL-lock. That file also names the holder of the lock.
 *
 * The lock is not on the journal itself: SQLite's own locks there belong to the process, and closing any descriptor of
 * the file would drop them. It is an open file description lock (F_OFD_SETLK) on byte 0. The kernel releases it when
 * the process ends, even if it is killed. It also keeps two runs in one process apart, and can be tested without being
 * taken.
 *
 * But copies of the process hold the lock too: a child that is being started, until it executes its program, and a fork
 * of the program. A fork closes its copy (base/process/fork.h), unless it was made by a call that runs no fork
 * handlers. So the file names its holder by process id, start time of the process, boot of the machine and PID
 * namespace. If boot and namespace are ours and that process is gone, the file is dead, even if another process still
 * has the lock.
 *
 * The file at JOURNAL-lock is always complete: a new file is written and locked under a temporary name. It is then put
 * in place in one of two ways.
 *
 *   a) No file is there: the new file is renamed without replacing (or linked). This fails if a file has appeared.
 *   b) A dead file D is there: the new file is renamed over D, but only after this process has
 *      1. locked byte 1 of D, 2. found that D is dead, 3. found that D is (still) at JOURNAL-lock.
 *
 * Why a lock that is in use cannot be replaced: D is dead if its byte 0 could be locked, or if the process it names is
 * gone. After step 2 no process removes D: only its holder does that, before it unlocks byte 0, and the holder is gone
 * or has unlocked it. No other process replaces D either, because that needs the lock on byte 1. And (a) never replaces
 * a file. So D is still at JOURNAL-lock when the new file is renamed over it. If two runs find the same dead file, one
 * of them locks byte 1. The other is refused, or finds the new file of the first one when it tries again.
 *
 * If other users may write to the directory, they may have put something at that name. So links are not followed, and
 * an existing file is never written to. Only its owner can read the lock file, so no other user can lock it.
 */
#include "journal/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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
#include "base/process/owner.h"
#include "journal/db.h"

enum { TRIES = 100, TEXT_MAX = 256 };
enum { HOLDER_BYTE, REPLACER_BYTE };

/* The path is in the directory of the real journal, so a journal with two names has one lock. It is absolute, so it is
 * still right after the working directory has changed. */
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

static bool is_at(int fd, const char *path)
{
    struct stat ours, there;
    return fstat(fd, &ours) == 0 && lstat(path, &there) == 0 && ours.st_ino == there.st_ino &&
           ours.st_dev == there.st_dev;
}

static int lock_byte(int fd, int byte)
{
    struct flock one = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };
    return fcntl(fd, F_OFD_SETLK, &one);
}

/* --- the holder --- */

struct holder {
    struct gd__owner owner; /* pid 0: not known */
    char boot[GD__BOOT_ID_MAX];
};

static void write_holder(int fd)
{
    struct holder me;
    char text[TEXT_MAX];
    gd__owner_self(&me.owner);
    gd__owner_boot_id(me.boot);
    const int n = snprintf(text, sizeof text, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n", me.owner.pid, me.owner.start,
                           me.owner.space, me.boot);
    if (pwrite(fd, text, (size_t)n, 0) != n)
        return; /* the lock is still valid; only its holder is unknown */
}

static void read_holder(int fd, struct holder *out)
{
    char text[TEXT_MAX] = "";
    *out = (struct holder){ .boot = "" };
    if (pread(fd, text, sizeof text - 1, 0) > 0)
        (void)sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %63s", &out->owner.pid, &out->owner.start,
                     &out->owner.space, out->boot);
}

/* True only if the holder is certainly gone. Nothing is known about a holder from another boot or PID namespace, or
 * about a holder that could not record these. */
static bool is_gone(const struct holder *h)
{
    char boot[GD__BOOT_ID_MAX];
    gd__owner_boot_id(boot);
    return h->owner.pid > 0 && h->owner.start > 0 && h->owner.space > 0 && *boot && strcmp(boot, h->boot) == 0 &&
           gd__owner_is_ours(&h->owner) && !gd__owner_alive(&h->owner);
}

/* --- a new file --- */

/* Reports why the lock file cannot be created. The usual cause is the directory of the journal. */
static int cannot_create(const char *lock)
{
    const char *slash = strrchr(lock, '/');
    const int length = !slash || slash == lock ? 1 : (int)(slash - lock);
    const char *directory = slash ? lock : ".";
    switch (errno) {
    case ENOENT:
        return gd__error(GD_E_SYSTEM, "cannot create the journal: the directory %.*s does not exist. Create it first",
                         length, directory);
    case ENOTDIR:
        return gd__error(GD_E_SYSTEM, "cannot create the journal: %.*s is not a directory", length, directory);
    case EACCES:
    case EPERM:
    case EROFS:
        return gd__error_errno("cannot create the lock file of the journal, %s: the directory %.*s must be writable",
                               lock, length, directory);
    default:
        return gd__error_errno("cannot create %s, the lock file of the journal", lock);
    }
}

/* Creates and locks the new file under a temporary name, which the caller frees. */
static int make_file(struct gd__journal_lock *h, char **name)
{
    const size_t size = strlen(h->path) + sizeof ".XXXXXX";
    *name = gd__calloc(1, size);
    if (!*name)
        return gd__error(GD_E_NO_MEMORY, "no memory for the name of the lock file");
    snprintf(*name, size, "%s.XXXXXX", h->path);
    gd__fork_hold();
    const int fd = GD__FAULT("open") ? -1 : gd__fd_above_stdio(mkostemp(*name, O_CLOEXEC));
    gd__fork_guard(&h->file, fd);
    gd__fork_let();
    if (fd < 0)
        return cannot_create(h->path);
    write_holder(fd);
    if (lock_byte(fd, HOLDER_BYTE) == 0)
        return 0;
    const int rc = gd__error_errno("cannot lock %s", h->path);
    unlink(*name);
    return rc;
}

/* Returns 1 if the file is in place, 0 if another file is there, or a negative code. */
static int rename_without_replacing(const char *name, const char *path)
{
    int rc = renameat2(AT_FDCWD, name, AT_FDCWD, path, RENAME_NOREPLACE);
    if (rc < 0 && (errno == EINVAL || errno == ENOSYS)) {
        rc = link(name, path);
        if (rc == 0)
            unlink(name);
    }
    if (rc == 0)
        return 1;
    return errno == EEXIST ? 0 : cannot_create(path);
}

/* --- the existing file --- */

static int already_in_use(int fd, const char *journal)
{
    struct holder h;
    read_holder(fd, &h);
    if (h.owner.pid > 0)
        return gd__error(GD_E_BUSY,
                         "%s is in use by another run (process %llu): wait until it ends, or use another journal",
                         journal, (unsigned long long)h.owner.pid);
    return gd__error(GD_E_BUSY, "%s is in use by another run: wait until it ends, or use another journal", journal);
}

/* Checks that the existing file is a regular file of this user. Compares its owner with that of our new file, because
 * some file systems change owners. */
static int check_file(int fd, const struct gd__journal_lock *h)
{
    struct stat there, ours;
    if (fstat(fd, &there) < 0 || fstat(h->file.fd, &ours) < 0)
        return gd__error_errno("cannot read the attributes of %s", h->path);
    if (!S_ISREG(there.st_mode))
        return gd__error(GD_E_SYSTEM, "%s is not the lock file of a run: remove it, or use another journal", h->path);
    if (there.st_uid != ours.st_uid)
        return gd__error(GD_E_SYSTEM,
                         "%s belongs to user %ld, not to you: if no run of that user is active, have the file removed, "
                         "or use another journal",
                         h->path, (long)there.st_uid);
    return 0;
}

/* Opens the existing file. *out is its descriptor, or -1 if the file has been removed. */
static int open_existing(const struct gd__journal_lock *h, int *out)
{
    const int fd = gd__fd_above_stdio(open(h->path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    int rc = 0;
    *out = fd;
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 && (errno == ELOOP || errno == EISDIR || errno == ENXIO))
        rc = gd__error(GD_E_SYSTEM, "%s is not the lock file of a run: remove it, or use another journal", h->path);
    else if (fd < 0)
        rc = gd__error_errno("cannot open %s, the lock file of the journal", h->path);
    else
        rc = check_file(fd, h);
    if (rc < 0 && fd >= 0) {
        close(fd);
        *out = -1;
    }
    return rc;
}

static bool is_dead(int fd)
{
    struct holder h;
    if (lock_byte(fd, HOLDER_BYTE) == 0)
        return true;
    read_holder(fd, &h);
    return is_gone(&h);
}

/* Returns 1 if the new file is in place, 0 if the caller must try again, or a negative code. (b) above explains the
 * order. */
static int replace_dead(const struct gd__journal_lock *h, const char *name, const char *journal, int present)
{
    const bool alone = lock_byte(present, REPLACER_BYTE) == 0;
    if (!alone && errno != EAGAIN && errno != EACCES)
        return gd__error_errno("cannot lock %s", h->path);
    if (!alone || !is_dead(present))
        return already_in_use(present, journal);
    if (!is_at(present, h->path))
        return 0;
    return rename(name, h->path) == 0 ? 1 : gd__error_errno("cannot replace %s", h->path);
}

static int put_in_place(const struct gd__journal_lock *h, const char *name, const char *journal)
{
    int rc = rename_without_replacing(name, h->path);
    if (rc != 0)
        return rc;
    struct gd__fork_guard guard;
    int present;
    gd__fork_hold();
    rc = open_existing(h, &present);
    gd__fork_guard(&guard, present);
    gd__fork_let();
    if (rc == 0 && present >= 0)
        rc = replace_dead(h, name, journal, present);
    gd__fork_close(&guard);
    return rc;
}

/* --- the interface --- */

static int take(struct gd__journal_lock *h, const char *journal)
{
    char *name = NULL;
    int rc = make_file(h, &name), placed = rc;
    for (unsigned i = 0; rc == 0 && placed == 0 && i < TRIES; i++)
        placed = put_in_place(h, name, journal);
    if (rc == 0 && placed != 1)
        unlink(name);
    gd__free(name);
    if (placed == 0)
        return gd__error(GD_E_BUSY, "%s is being opened and closed by other runs: try again later", journal);
    return placed == 1 ? 0 : placed;
}

int gd__journal_lock_take(struct gd__journal_lock *h, const char *journal)
{
    *h = (struct gd__journal_lock)GD__JOURNAL_LOCK_NONE;
    h->path = lock_path(journal);
    if (!h->path)
        return gd__error(GD_E_NO_MEMORY, "no memory for the name of the lock file");
    const int rc = take(h, journal);
    if (rc < 0) {
        gd__fork_close(&h->file);
        gd__free(h->path);
        h->path = NULL;
    }
    return rc;
}

void gd__journal_lock_release(struct gd__journal_lock *h)
{
    if (h->file.fd >= 0 && is_at(h->file.fd, h->path))
        unlink(h->path); /* before byte 0 is unlocked: see above */
    gd__fork_close(&h->file);
    gd__free(h->path);
    h->path = NULL;
}

bool gd__journal_lock_is_lost(const struct gd__journal_lock *h)
{
    struct stat info;
    return fstat(h->file.fd, &info) == 0 && info.st_nlink == 0;
}

bool gd__journal_lock_test(const char *journal, uint64_t *pid)
{
    struct flock one = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = HOLDER_BYTE, .l_len = 1 };
    struct holder h = { .boot = "" };
    char *path = lock_path(journal);
    const int fd = path ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    bool held = fd >= 0 && fcntl(fd, F_OFD_GETLK, &one) == 0 && one.l_type != F_UNLCK;
    if (held) {
        read_holder(fd, &h);
        held = !is_gone(&h);
    }
    *pid = held ? h.owner.pid : 0;
    if (fd >= 0)
        close(fd);
    gd__free(path);
    return held;
}
