/* SPDX-License-Identifier: MIT
 *
 * Parts: files that are written beside their final place.
 *
 * A part is .gd-PID-N.part in the directory of the output that it becomes. The name is short, because an output's own
 * name may already have the maximum length. Its writer holds a lock on it (flock). If a part can be locked, it was left
 * by a killed process, perhaps on another machine or in another container. Such parts are removed before the next run.
 * On a file system without locks, parts are not removed.
 *
 * A part is made long before it is filled. So a disk that is full or read-only is detected before the long computation
 * of the text. Space is reserved for the same reason.
 */
#include "apps/transcribe/output/parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/transcribe/output/shown.h"
#include "base/failure.h"
#include "base/file/write.h"
#include "base/text/buffer.h"

static const char *remedy(int error)
{
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return "; free some space there, or use another output directory";
    case EFBIG:
        return "; raise the limit (ulimit -f)";
    case EACCES:
    case EPERM:
    case EROFS:
        return "; allow this user to write there, or use another output directory";
    default:
        return "";
    }
}

int tr_path_error(const char *path, const char *what, int error)
{
    char room[TR_SHOWN];
    return gd__fail("%s: %s: %s%s", tr_shown(room, path), what, strerror(error), remedy(error));
}

/* --- directories ------------------------------------------------------------------ */

int tr_make_directories(char *path)
{
    char *slash = path + strspn(path, "/");
    while (slash) {
        slash = strchr(slash, '/');
        if (slash)
            *slash = '\0';
        const int error = mkdir(path, 0777) < 0 && errno != EEXIST ? errno : 0;
        if (error)
            tr_path_error(path, "this directory cannot be created", error);
        if (slash) {
            *slash = '/';
            slash += strspn(slash, "/");
            slash = *slash ? slash : NULL;
        }
        if (error)
            return -1;
    }
    return 0;
}

/* --- parts ------------------------------------------------------------------------ */

/* Makes and locks a file. Returns 1 if it worked, 0 if another name must be tried, -1 with errno. */
static int open_part(struct tr_part *part)
{
    struct stat st;
    part->fd = open(part->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (part->fd < 0)
        return errno == EEXIST ? 0 : -1;
    /* A failure does not matter: on a file system without locks no process removes parts. */
    while (flock(part->fd, LOCK_EX) < 0 && errno == EINTR)
        ;
    /* Before the lock was taken, another process may have removed the part as stale. */
    if (fstat(part->fd, &st) == 0 && st.st_nlink > 0)
        return 1;
    close(part->fd);
    part->fd = -1;
    return 0;
}

/* Some file systems report a full disk only on close. A duplicate is closed, because closing the last descriptor would
 * release the lock. Returns 0, or -1 with errno. */
static int close_copy(int fd)
{
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return copy < 0 ? -1 : close(copy);
}

/* Reserves disk space. It is not an error if the file system can't do so, or if the reserve exceeds the limit on the
 * size of files: the text may be shorter. Returns 0, or -1 with errno. */
static int set_aside(int fd, uint64_t room)
{
    int error;
    do
        error = room > 0 ? posix_fallocate(fd, 0, (off_t)room) : 0;
    while (error == EINTR);
    if (error == EOPNOTSUPP || error == EINVAL || error == ENOSYS || error == EFBIG)
        error = 0;
    errno = error;
    return error ? -1 : close_copy(fd);
}

/* Removes the part itself, but not its final path. */
static void remove_part(struct tr_part *part)
{
    const int error = errno;
    if (part->path)
        unlink(part->path);
    if (part->fd >= 0)
        close(part->fd);
    free(part->path);
    part->path = NULL;
    part->fd = -1;
    errno = error;
}

/* Opens a part under an unused name. Returns 0, or -1 with errno. */
static int open_anywhere(struct tr_part *part, const char *beside)
{
    static atomic_uint numbers;
    const int above = (int)(basename(beside) - beside);
    int opened = 0;
    for (int tries = 0; tries < 1000 && opened == 0; tries++) {
        if (asprintf(&part->path, "%.*s.gd-%d-%u.part", above, beside, (int)getpid(), atomic_fetch_add(&numbers, 1)) <
            0) {
            part->path = NULL;
            errno = ENOMEM;
            return -1;
        }
        opened = open_part(part);
        if (opened <= 0) {
            const int error = errno;
            free(part->path);
            part->path = NULL;
            errno = error;
        }
    }
    return opened > 0 ? 0 : -1;
}

int tr_part_open(struct tr_part *part, const char *beside, uint64_t room)
{
    return open_anywhere(part, beside) < 0 ? -1 : set_aside(part->fd, room);
}

int tr_part_create(struct tr_part *part, uint64_t room)
{
    if (tr_part_open(part, part->final, room) == 0)
        return 0;
    if (errno == ENOENT) {
        char *directory = strndup(part->final, (size_t)(basename(part->final) - part->final));
        const int made = directory ? tr_make_directories(directory) : gd__fail("no memory for the outputs");
        free(directory);
        if (made < 0)
            return -1;
        if (tr_part_open(part, part->final, room) == 0)
            return 0;
    }
    return tr_path_error(part->final, "cannot be written", errno);
}

/* Whether the part still has its name. If the output directory is emptied meanwhile, the text must not be lost. */
static bool has_name(const struct tr_part *part)
{
    struct stat opened, named;
    return fstat(part->fd, &opened) == 0 && lstat(part->path, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

int tr_part_fill(struct tr_part *part, const struct gd__buffer *contents, bool sync)
{
    if (!has_name(part)) {
        free(part->path); /* a file that has that name now is not ours */
        part->path = NULL;
        remove_part(part);
        if (tr_part_create(part, 0) < 0)
            return -1;
    }
    /* ftruncate() frees the space that was reserved and not needed. */
    if (gd__write_all(part->fd, contents->data, contents->size) < 0 || ftruncate(part->fd, (off_t)contents->size) < 0 ||
        (sync && fsync(part->fd) < 0) || close_copy(part->fd) < 0)
        return tr_path_error(part->final, "cannot be written", errno);
    return 0;
}

int tr_part_place(struct tr_part *part, bool sync)
{
    if (rename(part->path, part->final) < 0 || (sync && gd__sync_directory_of(part->final) < 0))
        return tr_path_error(part->final, "cannot be written", errno);
    free(part->path);
    part->path = NULL;
    return 0;
}

void tr_part_drop(struct tr_part *part)
{
    remove_part(part);
    free(part->final);
    part->final = NULL;
}

/* --- parts of killed processes ------------------------------------------------------ */

/* ".gd-PID-N.part" */
static bool is_part_name(const char *name)
{
    if (strncmp(name, ".gd-", 4) != 0)
        return false;
    const size_t pid = strspn(name + 4, "0123456789");
    const char *rest = name + 4 + pid;
    const size_t number = *rest == '-' ? strspn(rest + 1, "0123456789") : 0;
    return pid > 0 && number > 0 && strcmp(rest + 1 + number, ".part") == 0;
}

/* Removes a part if its lock is free, because then its writer is gone. */
static void remove_if_stale(int dir, const char *name)
{
    struct stat opened, named;
    const int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    /* The name may belong to another file by now. Only the file that was locked is removed. */
    if (fstat(fd, &opened) == 0 && S_ISREG(opened.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
        fstatat(dir, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && opened.st_dev == named.st_dev &&
        opened.st_ino == named.st_ino)
        (void)unlinkat(dir, name, 0);
    close(fd);
}

enum { DEEPEST = 200 }; /* directories open at the same time */

static void remove_stale(int dir, int depth);

static void look_at_entry(int dir, const struct dirent *e, int depth)
{
    const bool dots = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    if (is_part_name(e->d_name)) {
        remove_if_stale(dir, e->d_name);
    } else if (!dots && depth < DEEPEST && (e->d_type == DT_DIR || e->d_type == DT_UNKNOWN)) {
        const int fd = openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0)
            remove_stale(fd, depth + 1);
    }
}

/* Removes stale parts in a directory and those below it, and closes dir. Links are not followed. Files that can't be
 * read or removed stay, and do no harm. */
static void remove_stale(int dir, int depth)
{
    DIR *d = fdopendir(dir);
    if (!d) {
        close(dir);
        return;
    }
    for (const struct dirent *e; (e = readdir(d));)
        look_at_entry(dirfd(d), e, depth);
    closedir(d);
}

void tr_parts_tidy(const char *directory)
{
    const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        remove_stale(fd, 0);
}
