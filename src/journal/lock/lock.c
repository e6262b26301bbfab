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
 * Why a lock that is in use cannot be replaced: D is dead if its byte 0 is unlocked, or if the process it names is
 * gone. Byte 0 is locked before the file gets its name, and never again. So after step 2 no process removes D: only its
 * holder does that, before it unlocks byte 0, and the holder is gone or has unlocked it. No other process replaces D
 * either, because that needs the lock on byte 1. And (a) never replaces a file. So D is still at JOURNAL-lock when the
 * new file is renamed over it. If two runs find the same dead file, one of them locks byte 1. The other is refused, or
 * finds the new file of the first one when it tries again.
 *
 * Several hosts
 *
 * All this needs locks that every process sees. A file system that several hosts use may have such locks (NFS, GPFS,
 * Lustre with -o flock), locks that only processes of the same host see (NFS with nolock, Lustre with localflock, many
 * FUSE file systems), or none (ENOSYS, ENOLCK). Which kind it is cannot be found out. So on every file system that is
 * not known to be local:
 *
 *   | the holder                                 | byte 0     | the file is dead                            |
 *   |--------------------------------------------|------------|---------------------------------------------|
 *   | its process is certainly gone (holder.c)   | any        | at once                                     |
 *   | anything else                              | locked     | never: the holder, or its host, is alive    |
 *   | anything else                              | free, none | when its heartbeat has stood still for 60 s |
 *
 * The holder beats every 5 s (heart.c). The newcomer opens the file anew for each look and measures with its own clock,
 * so clocks of hosts need not agree. A look that comes late counts as two normal ones at most: if the file system did
 * not answer for a minute, the holder could not beat either. So at least 30 looks in a row must find the same beat.
 *
 * The lock on byte 1 may exclude nobody there. So in (b) the new file is also linked to JOURNAL-lock.next, before step
 * 2. Only one process can do this. It removes that name when it is done. The same rules as above say whether a file
 * that was left there is dead. A dead one is removed. A holder that removes its own lock file does the same first, so
 * that a holder that was given up, and goes on, cannot remove the file of its successor.
 *
 * What remains: a process can be stopped at any instruction for longer than 60 s, between its last check and what it
 * does next. No lock can prevent that without the help of what is written to. So the locks above decide who may begin,
 * and the database decides who may write: a run puts a random number, its nonce, into its row before anything else,
 * and removes that of all other rows. Every transaction first compares it (write/store.c). A run that was given up
 * finds that its nonce is gone, and stops. This relies on SQLite's locks between hosts, which are of the same kind as
 * ours. Without any of these, a run that is stopped in the middle of a transaction for more than 60 s, and then goes on
 * while another run writes, can damage the journal. To make that less likely, a run makes a heartbeat and looks at the
 * lock file right before each commit, if its last heartbeat is old.
 *
 * If other users may write to the directory, they may have put something at that name. So links are not followed, and
 * an existing file is never written to. Only its owner can read the lock file, so no other user can lock it.
 */
#include "journal/lock/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "journal/lock/life.h"

enum { TRIES = 100, MESSAGE_MAX = 512 };
/* A newcomer. */
struct taking {
    struct gd__journal_lock *h;
    const char *journal;
    struct gd__watch file, next;   /* of JOURNAL-lock, and of JOURNAL-lock.next */
    struct gd__lock_holder holder; /* that was found last */
    bool was_silent;               /* the dead file was dead only because of its heartbeat */
};

static bool is_at(int fd, const char *path)
{
    struct stat ours, there;
    return fstat(fd, &ours) == 0 && lstat(path, &there) == 0 && ours.st_ino == there.st_ino &&
           ours.st_dev == there.st_dev;
}

static bool is_dead(struct taking *t, int fd)
{
    const enum gd__life life = gd__lock_look(fd, &t->file, &t->h->settings, t->h->shared, &t->holder);
    t->was_silent = life == GD__HOLDER_SILENT;
    return life != GD__HOLDER_ALIVE;
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
    h->shared = gd__lock_is_shared(&h->settings, h->path);
    gd__lock_holder_self(&h->me);
    /* If the holder is not known, the lock is still valid on a local file system. */
    const bool written = gd__lock_holder_write(fd, &h->me);
    const enum gd__byte byte = gd__lock_byte(&h->settings, fd, GD__HOLDER_BYTE);
    h->shared = h->shared || byte == GD__BYTE_NO_LOCKS;
    if ((byte == GD__BYTE_FREE || byte == GD__BYTE_NO_LOCKS) && (!h->shared || (written && fdatasync(fd) == 0)))
        return 0;
    const int rc = gd__error_errno("cannot %s %s", byte == GD__BYTE_ERROR ? "lock" : "write", h->path);
    unlink(*name);
    return rc;
}

static void drop_file(struct gd__journal_lock *h, char *name)
{
    if (name && h->file.fd >= 0)
        unlink(name);
    gd__fork_close(&h->file);
    gd__free(name);
}

/* The result of giving a file a name that no file may have. */
enum { NAME_TAKEN = 0, IN_PLACE = 1, NO_LINKS = 2 };

/* Returns one of these, or a negative code. */
static int link_without_replacing(const struct gd__journal_lock *h, const char *name, const char *path)
{
    if (h->settings.no_links)
        errno = EOPNOTSUPP;
    else if (link(name, path) == 0)
        return IN_PLACE;
    if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK)
        return NO_LINKS;
    if (errno != EEXIST)
        return cannot_create(path);
    /* NFS: the answer to the first request may have been lost, and the request was sent again */
    return is_at(h->file.fd, path) ? IN_PLACE : NAME_TAKEN;
}

/* Likewise. */
static int rename_without_replacing(const struct gd__journal_lock *h, const char *name, const char *path)
{
    if (h->settings.no_links)
        return NO_LINKS;
    const int rc = renameat2(AT_FDCWD, name, AT_FDCWD, path, RENAME_NOREPLACE);
    if (rc < 0 && (errno == EINVAL || errno == ENOSYS)) {
        const int linked = link_without_replacing(h, name, path);
        if (linked == IN_PLACE)
            unlink(name);
        return linked;
    }
    if (rc < 0 && errno != EEXIST)
        return cannot_create(path);
    return rc == 0 || is_at(h->file.fd, path) ? IN_PLACE : NAME_TAKEN;
}

/* --- the existing file --- */

static int already_in_use(const struct taking *t)
{
    char who[GD__LOCK_HOLDER_TEXT];
    gd__lock_holder_describe(&t->holder, who);
    if (t->h->shared && !gd__lock_holder_is_here(&t->holder))
        return gd__error(GD_E_BUSY,
                         "%s is in use by a run%s%s that may be on another host: wait until it ends, or use another "
                         "journal. If that host is gone, wait: a run that gives no sign of life for %u s is given up, "
                         "unless the file system still holds its lock. If it holds the lock for ever, remove %s",
                         t->journal, *who ? ", " : "", who, t->h->settings.stale_ms / 1000, t->h->path);
    return gd__error(GD_E_BUSY, "%s is in use by another run%s%s%s: wait until it ends, or use another journal",
                     t->journal, *who ? " (" : "", who, *who ? ")" : "");
}

/* Checks that the existing file is a regular file of this user. Compares its owner with that of our new file, because
 * some file systems change owners. */
static int check_file(int fd, const struct gd__journal_lock *h, const char *path)
{
    struct stat there, ours;
    if (fstat(fd, &there) < 0 || (h->file.fd >= 0 && fstat(h->file.fd, &ours) < 0))
        return gd__error_errno("cannot read the attributes of %s", path);
    if (!S_ISREG(there.st_mode))
        return gd__error(GD_E_SYSTEM, "%s is not the lock file of a run: remove it, or use another journal", path);
    if (h->file.fd >= 0 && there.st_uid != ours.st_uid)
        return gd__error(GD_E_SYSTEM,
                         "%s belongs to user %ld, not to you: if no run of that user is active, have the file removed, "
                         "or use another journal",
                         path, (long)there.st_uid);
    return 0;
}

/* Opens the existing file. *out is its descriptor, or -1 if the file has been removed. */
static int open_existing(const struct gd__journal_lock *h, const char *path, int *out)
{
    const int fd = gd__fd_above_stdio(open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    int rc = 0;
    *out = fd;
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 && (errno == ELOOP || errno == EISDIR || errno == ENXIO))
        rc = gd__error(GD_E_SYSTEM, "%s is not the lock file of a run: remove it, or use another journal", path);
    else if (fd < 0)
        rc = gd__error_errno("cannot open %s, the lock file of the journal", path);
    else
        rc = check_file(fd, h, path);
    if (rc < 0 && fd >= 0) {
        close(fd);
        *out = -1;
    }
    return rc;
}

/* Calls fn for the file at that path, with its descriptor. Returns what fn returns, or 0 if there is no file. */
static int with_existing(struct taking *t, const char *path, int (*fn)(struct taking *t, int fd, void *user),
                         void *user)
{
    struct gd__fork_guard guard;
    int fd;
    gd__fork_hold();
    int rc = open_existing(t->h, path, &fd);
    gd__fork_guard(&guard, fd);
    gd__fork_let();
    if (rc == 0 && fd >= 0)
        rc = fn(t, fd, user);
    gd__fork_close(&guard);
    return rc;
}

/* --- JOURNAL-lock.next --- */

static char *next_path(const struct gd__journal_lock *h)
{
    const size_t size = strlen(h->path) + sizeof ".next";
    char *next = gd__calloc(1, size);
    if (next)
        snprintf(next, size, "%s.next", h->path);
    return next;
}

static int remove_dead_next(struct taking *t, int fd, void *user)
{
    const char *next = user;
    struct gd__lock_holder holder;
    const bool dead = gd__lock_look(fd, &t->next, &t->h->settings, t->h->shared, &holder) != GD__HOLDER_ALIVE;
    return dead && is_at(fd, next) && unlink(next) == 0;
}

/* Makes the file. On a file system without hard links it is a file of its own. */
static int make_next(const struct gd__journal_lock *h, const char *name, const char *next)
{
    int rc = link_without_replacing(h, name, next);
    if (rc != NO_LINKS)
        return rc;
    const int fd = gd__fd_above_stdio(open(next, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (fd < 0)
        return errno == EEXIST ? NAME_TAKEN : cannot_create(next);
    rc = gd__lock_holder_write(fd, &h->me) && fdatasync(fd) == 0 ? IN_PLACE : gd__error_errno("cannot write %s", next);
    close(fd);
    if (rc < 0)
        unlink(next);
    return rc;
}

/* Gets the right to replace, make or remove the file at JOURNAL-lock. Returns 1, or 0 if another process has it, or a
 * negative code. */
static int take_next(struct taking *t, const char *name, const char *next)
{
    int rc = make_next(t->h, name, next);
    if (rc == NAME_TAKEN && (rc = with_existing(t, next, remove_dead_next, (void *)(uintptr_t)next)) == 1)
        rc = make_next(t->h, name, next);
    return rc;
}

/* Whether the same file is there that was found dead. Opens it anew, because the file system may cache its data. */
static int is_same_file(struct taking *t, int fd, void *user)
{
    struct gd__lock_holder now;
    gd__lock_holder_read(fd, &now);
    (void)user;
    return strcmp(now.nonce, t->holder.nonce) == 0 && now.owner.pid == t->holder.owner.pid &&
           now.beat == t->holder.beat;
}

static int is_our_file(struct taking *t, int fd, void *user)
{
    struct gd__lock_holder now;
    gd__lock_holder_read(fd, &now);
    (void)user;
    return strcmp(now.nonce, t->h->me.nonce) == 0;
}

/* --- replacing --- */

/* Renames the new file over the dead one, or if `replaces` is false, over none. Returns 1 if the new file is in place, 0
 * if the caller must try again, or a negative code. */
static int rename_as_next(struct taking *t, const char *name, bool replaces)
{
    struct stat info;
    const char *path = t->h->path;
    char *next = next_path(t->h);
    if (!next)
        return gd__error(GD_E_NO_MEMORY, "no memory for the name of the lock file");
    int rc = take_next(t, name, next);
    if (rc == 0)
        rc = already_in_use(t);
    if (rc == 1) {
        GD__KILL_POINT("lock_next");
        rc = replaces ? with_existing(t, path, is_same_file, NULL) : lstat(path, &info) < 0;
        if (rc == 1 && rename(name, path) < 0)
            rc = gd__error_errno("cannot rename %s to %s", name, path);
        GD__KILL_POINT("lock_replaced");
        unlink(next);
        if (rc == 1)
            rc = with_existing(t, path, is_our_file, NULL);
    }
    gd__free(next);
    return rc;
}

/* Returns 1 if the new file is in place, 0 if the caller must try again, or a negative code. (b) above explains the
 * order. */
static int replace_dead(struct taking *t, int present, void *user)
{
    const char *name = user;
    const enum gd__byte byte = gd__lock_byte(&t->h->settings, present, GD__REPLACER_BYTE);
    if (byte == GD__BYTE_ERROR)
        return gd__error_errno("cannot lock %s", t->h->path);
    if (byte == GD__BYTE_LOCKED)
        gd__lock_holder_read(present, &t->holder);
    if (byte == GD__BYTE_LOCKED || !is_dead(t, present))
        return already_in_use(t);
    if (!t->h->shared && !is_at(present, t->h->path))
        return 0;
    int rc = 1;
    if (t->h->shared)
        rc = rename_as_next(t, name, true);
    else if (rename(name, t->h->path) < 0)
        rc = gd__error_errno("cannot replace %s", t->h->path);
    t->h->took_over = rc == 1 && t->was_silent;
    if (rc == 1 && !t->was_silent)
        memcpy(t->h->gone, t->holder.nonce, sizeof t->h->gone);
    return rc;
}

static int put_in_place(struct taking *t, char *name)
{
    const int rc = rename_without_replacing(t->h, name, t->h->path);
    struct stat info;
    if (rc == NO_LINKS && lstat(t->h->path, &info) < 0)
        return rename_as_next(t, name, false);
    return rc < 0 || rc == IN_PLACE ? rc : with_existing(t, t->h->path, replace_dead, name);
}

/* --- the interface --- */

/* Tries to get the lock. Returns 0 or a negative code. */
static int attempt(struct taking *t)
{
    char *name = NULL;
    int rc = make_file(t->h, &name), placed = rc;
    for (unsigned i = 0; rc == 0 && placed == 0 && i < TRIES; i++)
        placed = put_in_place(t, name);
    if (placed == 1) {
        gd__free(name);
        return t->h->shared ? gd__heart_start(t->h) : 0;
    }
    drop_file(t->h, name);
    if (placed == 0)
        return gd__error(GD_E_BUSY, "%s is being opened and closed by other runs: try again later", t->journal);
    return placed;
}

/* Returns 1 if the file is dead. */
static int look_at(struct taking *t, int fd, void *user)
{
    (void)user;
    return is_dead(t, fd);
}

/* Looks at the file, without making a new one. Returns whether an attempt may succeed. */
static bool may_be_free(struct taking *t)
{
    struct stat info;
    if (lstat(t->h->path, &info) < 0)
        return true;
    return with_existing(t, t->h->path, look_at, NULL) != 0; /* attempt() reports an error */
}

static void tell(const struct taking *t, const struct gd__journal_lock_ask *ask, char message[MESSAGE_MAX])
{
    char who[GD__LOCK_HOLDER_TEXT];
    gd__lock_holder_describe(&t->holder, who);
    snprintf(message, MESSAGE_MAX, "waiting up to %u s for %s: another run uses it%s%s%s", (ask->wait_ms + 999) / 1000,
             t->journal, *who ? " (" : "", who, *who ? ")" : "");
}

static int wait_and_take(struct taking *t, const struct gd__journal_lock_ask *ask)
{
    const uint64_t until = gd__now_ns() + ask->wait_ms * GD__NS_PER_MS;
    char message[MESSAGE_MAX];
    int rc = attempt(t);
    if (rc != GD_E_BUSY || ask->wait_ms == 0)
        return rc;
    tell(t, ask, message);
    if (ask->on_wait && ask->on_wait(ask->user, message) != 0)
        return gd__error(GD_E_INTERRUPTED, "interrupted while %s", message);
    for (uint64_t now; rc == GD_E_BUSY && (now = gd__now_ns()) < until;) {
        const uint64_t left = (until - now) / GD__NS_PER_MS + 1, look = t->h->settings.look_ms;
        const int slept = gd__lock_sleep(t->h->path, &t->holder, ask, (unsigned)(left < look ? left : look));
        if (slept < 0)
            return slept;
        if (may_be_free(t))
            rc = attempt(t);
    }
    return rc == GD_E_BUSY ? already_in_use(t) : rc; /* on_wait() may have changed the error message */
}

int gd__journal_lock_wait(struct gd__journal_lock *h, const char *journal, const struct gd__journal_lock_ask *ask)
{
    struct taking t = { .h = h, .journal = journal };
    *h = (struct gd__journal_lock)GD__JOURNAL_LOCK_NONE;
    h->pid = getpid();
    gd__lock_settings_read(&h->settings);
    h->path = gd__lock_path(journal);
    if (!h->path)
        return gd__error(GD_E_NO_MEMORY, "no memory for the name of the lock file");
    const int rc = wait_and_take(&t, ask);
    if (rc < 0)
        gd__journal_lock_release(h);
    return rc;
}

int gd__journal_lock_take(struct gd__journal_lock *h, const char *journal)
{
    return gd__journal_lock_wait(h, journal, &(struct gd__journal_lock_ask){ .wait_ms = 0 });
}

/* Removes the lock file, but not that of a successor: see above. If it stays, it is dead. */
static void remove_shared(struct gd__journal_lock *h)
{
    struct taking t = { .h = h, .journal = h->path };
    if (!is_at(h->file.fd, h->path))
        return; /* the lock was lost, and a message about that must stay */
    char *next = next_path(h);
    if (next && take_next(&t, h->path, next) == 1) {
        if (with_existing(&t, h->path, is_our_file, NULL) == 1)
            unlink(h->path);
        unlink(next);
    }
    gd__free(next);
}

void gd__journal_lock_release(struct gd__journal_lock *h)
{
    gd__heart_stop(h);
    if (h->file.fd >= 0 && h->pid == getpid()) {
        if (h->shared)
            remove_shared(h);
        else if (is_at(h->file.fd, h->path))
            unlink(h->path); /* before byte 0 is unlocked: see above */
    }
    gd__fork_close(&h->file);
    gd__free(h->path);
    h->path = NULL;
}
