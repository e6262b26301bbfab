/* SPDX-License-Identifier: MIT
 *
 * Operations on files and names. Each is carried out on the backing directory, between gate_enter() and gate_leave().
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "network_fs.h"

/* Begins an operation. Replies and returns from the function if the mount fails. */
#define BEGIN_WITH(enter)                     \
    do {                                      \
        const int enter_error = (enter);      \
        if (enter_error) {                    \
            fuse_reply_err(req, enter_error); \
            return;                           \
        }                                     \
    } while (0)
#define BEGIN()               BEGIN_WITH(gate_enter())
#define BEGIN_CHANGE()        BEGIN_WITH(gate_enter_change())
#define BEGIN_ON(file)        BEGIN_WITH(node_enter(file, false))
#define BEGIN_CHANGE_ON(file) BEGIN_WITH(node_enter(file, true))

/* Ends an operation that replies with 0 or an errno. */
static void end(fuse_req_t req, bool good)
{
    const int error = good ? 0 : errno;
    gate_leave();
    fuse_reply_err(req, error);
}

static void proc_path(char path[64], fuse_ino_t ino)
{
    snprintf(path, 64, "/proc/self/fd/%d", node_of(ino)->fd);
}

/* --- names --- */

static void end_with_entry(fuse_req_t req, fuse_ino_t parent, const char *name, bool good)
{
    struct fuse_entry_param e;
    int error = good ? node_find(parent, name, &e) : errno;
    gate_leave();
    if (error == ENOENT && good && settings.cache_missing) /* the kernel also remembers that there is no such name */
        fuse_reply_entry(req, &e);
    else if (error)
        fuse_reply_err(req, error);
    else if (fuse_reply_entry(req, &e) < 0)
        node_forget(e.ino, 1);
}

static void do_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    BEGIN();
    end_with_entry(req, parent, name, true);
}

/* Not an operation of a process, so a cut mount can forget. */
static void do_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups)
{
    node_forget(ino, lookups);
    fuse_reply_none(req);
}

static void do_forget_multi(fuse_req_t req, size_t n, struct fuse_forget_data *forgets)
{
    for (size_t i = 0; i < n; i++)
        node_forget(forgets[i].ino, forgets[i].nlookup);
    fuse_reply_none(req);
}

static void do_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t dev)
{
    BEGIN_CHANGE();
    end_with_entry(req, parent, name, mknodat(node_of(parent)->fd, name, mode, dev) == 0);
}

static void do_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
    BEGIN_CHANGE();
    end_with_entry(req, parent, name, symlinkat(target, node_of(parent)->fd, name) == 0);
}

static void do_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
    char path[64];
    BEGIN_CHANGE();
    errno = EPERM;
    proc_path(path, ino);
    bool good = !settings.no_links && linkat(AT_FDCWD, path, node_of(parent)->fd, name, AT_SYMLINK_FOLLOW) == 0;
    if (good && settings.repeat_links)
        good = linkat(AT_FDCWD, path, node_of(parent)->fd, name, AT_SYMLINK_FOLLOW) == 0;
    end_with_entry(req, parent, name, good);
}

static void do_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    BEGIN_CHANGE();
    node_mark_removed(parent, name);
    end(req, unlinkat(node_of(parent)->fd, name, 0) == 0);
}

static void do_rename(fuse_req_t req, fuse_ino_t from, const char *name, fuse_ino_t to, const char *new_name,
                      unsigned flags)
{
    BEGIN_CHANGE();
    node_mark_removed(to, new_name);
    errno = EINVAL;
    end(req, (flags == 0 || !settings.no_rename_flags) &&
                 renameat2(node_of(from)->fd, name, node_of(to)->fd, new_name, flags) == 0);
}

static void do_readlink(fuse_req_t req, fuse_ino_t ino)
{
    char target[4097];
    BEGIN();
    const ssize_t n = readlinkat(node_of(ino)->fd, "", target, sizeof target - 1);
    const int error = n < 0 ? errno : 0;
    gate_leave();
    if (error) {
        fuse_reply_err(req, error);
    } else {
        target[n] = '\0';
        fuse_reply_readlink(req, target);
    }
}

/* --- attributes --- */

static void end_with_attributes(fuse_req_t req, fuse_ino_t ino, bool good)
{
    struct stat s;
    const int error = good && fstatat(node_of(ino)->fd, "", &s, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
    gate_leave();
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_attr(req, &s, settings.cache_s);
}

static void do_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)fi;
    BEGIN_ON(ino);
    end_with_attributes(req, ino, true);
}

static void set_times(const struct stat *s, int which, struct timespec out[2])
{
    out[0] = (struct timespec){ .tv_nsec = UTIME_OMIT };
    out[1] = (struct timespec){ .tv_nsec = UTIME_OMIT };
    if (which & FUSE_SET_ATTR_ATIME_NOW)
        out[0].tv_nsec = UTIME_NOW;
    else if (which & FUSE_SET_ATTR_ATIME)
        out[0] = s->st_atim;
    if (which & FUSE_SET_ATTR_MTIME_NOW)
        out[1].tv_nsec = UTIME_NOW;
    else if (which & FUSE_SET_ATTR_MTIME)
        out[1] = s->st_mtim;
}

static void do_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *s, int which, struct fuse_file_info *fi)
{
    char path[64];
    struct timespec times[2];
    bool good = true;
    BEGIN_CHANGE_ON(ino);
    proc_path(path, ino);
    if (which & FUSE_SET_ATTR_MODE)
        good = chmod(path, s->st_mode) == 0;
    if (good && (which & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)))
        good = fchownat(node_of(ino)->fd, "", which & FUSE_SET_ATTR_UID ? s->st_uid : (uid_t)-1,
                        which & FUSE_SET_ATTR_GID ? s->st_gid : (gid_t)-1, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) == 0;
    if (good && (which & FUSE_SET_ATTR_SIZE))
        good = (fi ? ftruncate((int)fi->fh, s->st_size) : truncate(path, s->st_size)) == 0;
    if (good && (which & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME))) {
        set_times(s, which, times);
        good = utimensat(AT_FDCWD, path, times, 0) == 0;
    }
    end_with_attributes(req, ino, good);
}

static void do_statfs(fuse_req_t req, fuse_ino_t ino)
{
    struct statvfs s;
    BEGIN();
    const int error = fstatvfs(node_of(ino)->fd, &s) < 0 ? errno : 0;
    gate_leave();
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_statfs(req, &s);
}

/* --- open files --- */

static void set_cache(struct fuse_file_info *fi)
{
    fi->direct_io = settings.cache_s <= 0;
}

static void do_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    int fd;
    BEGIN_ON(ino);
    const int error = node_reopen(ino, fi->flags, &fd);
    gate_leave();
    if (error) {
        fuse_reply_err(req, error);
        return;
    }
    fi->fh = (uint64_t)fd;
    set_cache(fi);
    if (fuse_reply_open(req, fi) < 0)
        close(fd);
}

static void do_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
    struct fuse_entry_param e;
    BEGIN_CHANGE();
    const int fd = openat(node_of(parent)->fd, name, (fi->flags | O_CREAT | O_CLOEXEC) & ~O_NOFOLLOW, mode);
    const int error = fd < 0 ? errno : node_find(parent, name, &e);
    gate_leave();
    if (error) {
        if (fd >= 0)
            close(fd);
        fuse_reply_err(req, error);
        return;
    }
    fi->fh = (uint64_t)fd;
    set_cache(fi);
    if (fuse_reply_create(req, &e, fi) < 0) {
        close(fd);
        node_forget(e.ino, 1);
    }
}

static void do_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t at, struct fuse_file_info *fi)
{
    char *data = malloc(size);
    int error = data ? node_enter(ino, false) : ENOMEM;
    ssize_t n = 0;
    if (!error) {
        n = pread((int)fi->fh, data, size, at);
        error = n < 0 ? errno : 0;
        gate_leave();
    }
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_buf(req, data, (size_t)n);
    free(data);
}

static void do_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t at, struct fuse_file_info *fi)
{
    BEGIN_CHANGE_ON(ino);
    const ssize_t n = pwrite((int)fi->fh, data, size, at);
    const int error = n < 0 ? errno : 0;
    gate_leave();
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_write(req, (size_t)n);
}

static void do_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    BEGIN();
    if (settings.locks == LOCKS_SHARED)
        locks_drop_owner(ino, fi->lock_owner);
    end(req, true);
}

/* A file is closed even if the mount fails. A cut mount holds its locks until it is mended. */
static void do_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    const bool entered = gate_enter() == 0;
    (void)ino;
    locks_drop_file(fi->fh);
    close((int)fi->fh);
    if (entered)
        gate_leave();
    fuse_reply_err(req, 0);
}

static void do_fsync(fuse_req_t req, fuse_ino_t ino, int only_data, struct fuse_file_info *fi)
{
    BEGIN_CHANGE_ON(ino);
    end(req, (only_data ? fdatasync((int)fi->fh) : fsync((int)fi->fh)) == 0);
}

static void do_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t at, off_t size, struct fuse_file_info *fi)
{
    BEGIN_CHANGE_ON(ino);
    end(req, fallocate((int)fi->fh, mode, at, size) == 0);
}

void operations_add(struct fuse_lowlevel_ops *to)
{
    to->lookup = do_lookup;
    to->forget = do_forget;
    to->forget_multi = do_forget_multi;
    to->mknod = do_mknod;
    to->symlink = do_symlink;
    to->link = do_link;
    to->unlink = do_unlink;
    to->rename = do_rename;
    to->readlink = do_readlink;
    to->getattr = do_getattr;
    to->setattr = do_setattr;
    to->statfs = do_statfs;
    to->open = do_open;
    to->create = do_create;
    to->read = do_read;
    to->write = do_write;
    to->flush = do_flush;
    to->release = do_release;
    to->fsync = do_fsync;
    to->fallocate = do_fallocate;
    if (settings.locks != LOCKS_LOCAL) { /* otherwise the kernel has locks of this mount */
        to->getlk = locks_getlk;
        to->setlk = locks_setlk;
        to->flock = locks_flock;
    }
}
