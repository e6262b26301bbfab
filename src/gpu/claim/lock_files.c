/* Locks on devices: see lock_files.h.
 *
 * Two users cannot both get a lock. Each user first makes a file, then lists all files, then locks all files in the
 * list. If two users do this at the same time, at least one of them sees the other's file, and both lock in the same
 * order.
 *
 * All files are opened for reading only, which is enough for flock(). An existing file is never opened with O_CREAT,
 * because with fs.protected_regular the kernel refuses this for files of other users.
 */
#include "gpu/claim/lock_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/file/shared.h"
#include "base/process/fork.h"

#define PREFIX "gpu-dispatch."

enum { K_DIGITS = 4, K_END = 10000, OWNER_MOST = 64, TRIES = 8, READABLE = S_IRUSR | S_IRGRP | S_IROTH };

struct gd__lock_held {
    struct gd__lock_held *next;
    struct gd__fork_guard guard;
};

/* --- the directory --- */

static bool is_for_everybody(const char *path)
{
    struct stat s;
    struct statvfs v;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == 0 && (s.st_mode & S_ISVTX) &&
           (s.st_mode & S_IWOTH) && statvfs(path, &v) == 0 && !(v.f_flag & ST_RDONLY) && !gd__place_is_shared(path);
}

static const char *find_directory(void)
{
    static const char *const usual[] = { "/run/lock", "/dev/shm", "/tmp" };
    const char *own = getenv(GD__ENV_LOCKS);
    if (own && *own)
        return own;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (is_for_everybody(usual[i]))
            return usual[i];
    return NULL;
}

int gd__lock_directory_open(struct gd__lock_directory *d)
{
    const char *path = find_directory();
    d->fd = -1;
    if (!path)
        return gd__error(
            GD_E_SYSTEM,
            "no directory for the locks of GPUs: none of /run/lock, /dev/shm and /tmp belongs to root with "
            "mode 1777; set " GD__ENV_LOCKS " to a directory that all users of the GPUs can write to");
    if (snprintf(d->path, sizeof d->path, "%s", path) >= (int)sizeof d->path)
        return gd__error(GD_E_INVALID, GD__ENV_LOCKS " is too long for a path");
    if (gd__place_is_shared(path))
        return gd__error(GD_E_UNSUPPORTED,
                         "%s, the directory of the locks of GPUs, is on a file system that other machines may use: "
                         "set " GD__ENV_LOCKS " to a directory on a local one, or do not set it",
                         path);
    d->fd = GD__FAULT("open") ? -1 : gd__fd_above_stdio(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (d->fd < 0)
        return gd__error_errno(
            "cannot open %s, the directory of the locks of GPUs (it can be set with " GD__ENV_LOCKS ")", path);
    return 0;
}

void gd__lock_directory_close(struct gd__lock_directory *d)
{
    gd__fd_close(&d->fd);
}

/* --- the files of a device --- */

struct file {
    unsigned k;
    uid_t owner;
    struct gd__lock_file_id id;
};

struct files {
    struct file *items;
    size_t n, capacity;
};

static void file_name(char *out, size_t size, const char *name, unsigned k)
{
    snprintf(out, size, PREFIX "%s.%u", name, k);
}

/* Returns the K of a file name, or -1 if the file does not belong to this device. */
static long number_of(const char *file, const char *name)
{
    const size_t prefix = strlen(PREFIX), length = strlen(name);
    if (strncmp(file, PREFIX, prefix) != 0 || strncmp(file + prefix, name, length) != 0)
        return -1;
    const char *dot = file + prefix + length, *digits = dot + 1;
    if (*dot != '.' || !*digits || strlen(digits) > K_DIGITS || strspn(digits, "0123456789") != strlen(digits))
        return -1;
    if (digits[0] == '0' && digits[1]) /* "01" is not a name that we make */
        return -1;
    return strtol(digits, NULL, 10);
}

static bool is_lock_file(const struct stat *s)
{
    return S_ISREG(s->st_mode) && s->st_size == 0 && (s->st_mode & READABLE) == READABLE;
}

static int add_file(struct files *list, const struct file *f)
{
    if (list->n == list->capacity) {
        const size_t more = list->capacity ? 2 * list->capacity : 8;
        struct file *items = gd__realloc(list->items, more * sizeof *items);
        if (!items)
            return gd__error(GD_E_NO_MEMORY, "no memory for the locks of a GPU");
        list->items = items;
        list->capacity = more;
    }
    list->items[list->n++] = *f;
    return 0;
}

static int by_number(const void *a, const void *b)
{
    const struct file *x = a, *y = b;
    return (x->k > y->k) - (x->k < y->k);
}

/* Keeps only the first OWNER_MOST files of each owner, so that a user cannot make us open any number of files. */
static void limit_owners(struct files *list)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->n; i++) {
        unsigned same = 0;
        for (size_t k = 0; k < kept; k++)
            same += list->items[k].owner == list->items[i].owner;
        if (same < OWNER_MOST)
            list->items[kept++] = list->items[i];
    }
    list->n = kept;
}

static DIR *open_entries(const struct gd__lock_directory *d)
{
    const int fd = GD__FAULT("open") ? -1 : gd__fd_above_stdio(openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !entries)
        close(fd);
    return entries;
}

/* Finds the files of a device, in the order of their numbers. On success the list has to be freed. */
static int find_files(struct files *out, const struct gd__lock_directory *d, const char *name)
{
    DIR *entries = open_entries(d);
    const struct dirent *e;
    int rc = 0;
    *out = (struct files){ 0 };
    if (!entries)
        return gd__error_errno("cannot read %s, the directory of the locks of GPUs", d->path);
    while (rc == 0 && (e = readdir(entries))) {
        const long k = number_of(e->d_name, name);
        struct stat s;
        if (k < 0 || fstatat(d->fd, e->d_name, &s, AT_SYMLINK_NOFOLLOW) < 0 || !is_lock_file(&s))
            continue;
        struct file f = { .k = (unsigned)k, .owner = s.st_uid, .id = { .device = s.st_dev, .inode = s.st_ino } };
        file_name(f.id.name, sizeof f.id.name, name, f.k);
        rc = add_file(out, &f);
    }
    closedir(entries);
    if (rc < 0) {
        gd__free(out->items);
        return rc;
    }
    if (out->n > 1)
        qsort(out->items, out->n, sizeof *out->items, by_number);
    limit_owners(out);
    return 0;
}

static bool has_own(const struct files *list)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->items[i].owner == geteuid())
            return true;
    return false;
}

/* Makes a file of this user, with the first name that does not exist yet. If this process dies before the mode is set,
 * the file is never used, and the next file gets another name. */
static int make_file(const struct gd__lock_directory *d, const char *name)
{
    char file[sizeof((struct gd__lock_file_id *)0)->name];
    int fd = -1;
    errno = 0;
    for (unsigned k = 0; fd < 0 && k < K_END && (k == 0 || errno == EEXIST); k++) {
        file_name(file, sizeof file, name, k);
        fd = GD__FAULT("open") ? -1
                               : openat(d->fd, file, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, READABLE);
    }
    if (fd < 0)
        return gd__error_errno("cannot lock a GPU: cannot create %s/%s; make %s writable for all users of the GPUs "
                               "(mode 1777), or set " GD__ENV_LOCKS " to a directory that is",
                               d->path, file, d->path);
    const int rc = fchmod(fd, READABLE) < 0 ? gd__error_errno("cannot set the mode of %s/%s", d->path, file) : 0;
    close(fd);
    return rc;
}

/* Lists all files. First makes a file of this user if this user has no file yet. */
static int find_with_own(struct files *out, const struct gd__lock_directory *d, const char *name)
{
    int rc = find_files(out, d, name);
    for (int i = 0; rc == 0 && !has_own(out) && i < TRIES; i++) {
        gd__free(out->items);
        *out = (struct files){ 0 };
        rc = make_file(d, name);
        if (rc == 0)
            rc = find_files(out, d, name);
    }
    if (rc == 0 && !has_own(out)) {
        gd__free(out->items);
        return gd__error(GD_E_SYSTEM, "cannot lock a GPU: the lock files in %s are removed as soon as they are made",
                         d->path);
    }
    return rc;
}

/* --- locking --- */

/* Opens a file and adds it to the lock. Returns 1 if the file is ignored, because it cannot be opened or is not the
 * same lock file any more. */
static int open_file(struct gd__device_lock *lock, const struct gd__lock_directory *d, const struct file *f, int *fd)
{
    struct stat s;
    struct gd__lock_held *held = gd__calloc(1, sizeof *held);
    if (!held)
        return gd__error(GD_E_NO_MEMORY, "no memory for the locks of a GPU");
    gd__fork_hold();
    *fd =
        GD__FAULT("open")
            ? -1
            : gd__fd_above_stdio(openat(d->fd, f->id.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    const bool same = *fd >= 0 && fstat(*fd, &s) == 0 && is_lock_file(&s) && s.st_ino == f->id.inode &&
                      s.st_dev == f->id.device && s.st_nlink > 0;
    if (same)
        gd__fork_guard(&held->guard, *fd);
    gd__fork_let();
    const int error = *fd < 0 ? errno : 0;
    if (same) {
        held->next = lock->first;
        lock->first = held;
        return 0;
    }
    gd__fd_close(fd);
    gd__free(held);
    /* Without descriptors or memory it is not known whether another process has the lock. */
    if (error == EMFILE || error == ENFILE || error == ENOMEM || error == EINTR)
        return gd__error(GD_E_SYSTEM, "cannot open %s/%s, a lock of a GPU: %s", d->path, f->id.name, strerror(error));
    return 1;
}

static int lock_files(struct gd__device_lock *lock, const struct gd__lock_directory *d, const struct files *list,
                      enum gd__lock_kind kind, struct gd__lock_file_id *busy)
{
    const int operation = (kind == GD__LOCK_EXCLUSIVE ? LOCK_EX : LOCK_SH) | LOCK_NB;
    for (size_t i = 0; i < list->n; i++) {
        int fd = -1, rc = open_file(lock, d, &list->items[i], &fd);
        if (rc < 0)
            return rc;
        if (rc > 0)
            continue;
        while ((rc = flock(fd, operation)) < 0 && errno == EINTR)
            ;
        if (rc < 0 && errno != EWOULDBLOCK)
            return gd__error_errno("cannot lock %s/%s", d->path, list->items[i].id.name);
        if (rc < 0) {
            *busy = list->items[i].id;
            return GD_E_BUSY;
        }
    }
    return 0;
}

/* Returns true if a locked file of this user is still in the directory. */
static bool holds_own(const struct gd__device_lock *lock)
{
    for (const struct gd__lock_held *h = lock->first; h; h = h->next) {
        struct stat s;
        if (fstat(h->guard.fd, &s) == 0 && s.st_uid == geteuid() && s.st_nlink > 0)
            return true;
    }
    return false;
}

int gd__device_lock_take(struct gd__device_lock *lock, const struct gd__lock_directory *d, const char *name,
                         enum gd__lock_kind kind, struct gd__lock_file_id *busy)
{
    int rc = 0;
    for (int i = 0; i < TRIES; i++) {
        struct files list;
        rc = find_with_own(&list, d, name);
        const bool own = rc == 0;
        if (rc < 0 && kind == GD__LOCK_SHARED)
            rc = find_files(&list, d, name);
        if (rc < 0)
            return rc;
        rc = lock_files(lock, d, &list, kind, busy);
        gd__free(list.items);
        if (rc == 0 && (!own || holds_own(lock)))
            return 0;
        gd__device_lock_release(lock);
        if (rc < 0)
            return rc;
    }
    return gd__error(GD_E_SYSTEM, "cannot lock a GPU: the lock files in %s are removed as soon as they are made",
                     d->path);
}

/* Returns false if the program has closed the descriptor by mistake. Its number may now belong to another file. */
static bool is_still_ours(const struct gd__fork_guard *g)
{
    struct stat s;
    return g->fd >= 0 && fstat(g->fd, &s) == 0 && s.st_dev == g->device && s.st_ino == g->inode;
}

/* Unlocks each file before it is closed, because the close wakes waiting processes, which must find it unlocked. */
void gd__device_lock_release(struct gd__device_lock *lock)
{
    while (lock->first) {
        struct gd__lock_held *h = lock->first;
        lock->first = h->next;
        if (is_still_ours(&h->guard))
            (void)flock(h->guard.fd, LOCK_UN);
        gd__fork_close(&h->guard);
        gd__free(h);
    }
}

int gd__lock_files_each(const struct gd__lock_directory *d, const char *name, gd__lock_file_fn *fn, void *user)
{
    struct files list;
    const int rc = find_files(&list, d, name);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < list.n && fn(user, &list.items[i].id); i++)
        ;
    gd__free(list.items);
    return 0;
}
