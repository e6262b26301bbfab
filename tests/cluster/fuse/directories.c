/* SPDX-License-Identifier: MIT
 *
 * Operations on directories.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "network_fs.h"

static void do_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    struct fuse_entry_param e;
    int error = gate_enter_change();
    if (!error) {
        error = mkdirat(node_of(parent)->fd, name, mode) < 0 ? errno : node_find(parent, name, &e);
        gate_leave();
    }
    if (error)
        fuse_reply_err(req, error);
    else if (fuse_reply_entry(req, &e) < 0)
        node_forget(e.ino, 1);
}

static void do_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    int error = gate_enter_change();
    if (!error) {
        error = unlinkat(node_of(parent)->fd, name, AT_REMOVEDIR) < 0 ? errno : 0;
        gate_leave();
    }
    fuse_reply_err(req, error);
}

static void do_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    DIR *d = NULL;
    int fd, error = gate_enter();
    if (!error) {
        error = node_reopen(ino, O_RDONLY | O_DIRECTORY, &fd);
        if (!error && !(d = fdopendir(fd))) {
            error = errno;
            close(fd);
        }
        gate_leave();
    }
    if (error) {
        fuse_reply_err(req, error);
        return;
    }
    fi->fh = (uintptr_t)d;
    if (fuse_reply_open(req, fi) < 0)
        closedir(d);
}

/* Fills the buffer with entries. Returns its size, or a negative errno. */
static ssize_t fill(fuse_req_t req, DIR *d, char *buffer, size_t size)
{
    size_t used = 0;
    for (;;) {
        const long before = telldir(d);
        errno = 0;
        const struct dirent *e = readdir(d);
        if (!e)
            return errno && used == 0 ? -errno : (ssize_t)used;
        const struct stat s = { .st_ino = e->d_ino, .st_mode = (mode_t)e->d_type << 12 };
        const size_t entry = fuse_add_direntry(req, buffer + used, size - used, e->d_name, &s, telldir(d));
        if (entry > size - used) { /* it does not fit */
            seekdir(d, before);
            return (ssize_t)used;
        }
        used += entry;
    }
}

static void do_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t at, struct fuse_file_info *fi)
{
    DIR *d = (DIR *)(uintptr_t)fi->fh;
    char *buffer = calloc(1, size);
    int error = buffer ? gate_enter() : ENOMEM;
    ssize_t n = 0;
    (void)ino;
    if (!error) {
        seekdir(d, at);
        n = fill(req, d, buffer, size);
        error = n < 0 ? (int)-n : 0;
        gate_leave();
    }
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_buf(req, buffer, (size_t)n);
    free(buffer);
}

static void do_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    closedir((DIR *)(uintptr_t)fi->fh);
    fuse_reply_err(req, 0);
}

static void do_fsyncdir(fuse_req_t req, fuse_ino_t ino, int only_data, struct fuse_file_info *fi)
{
    int error = gate_enter_change();
    (void)ino, (void)only_data;
    if (!error) {
        error = fsync(dirfd((DIR *)(uintptr_t)fi->fh)) < 0 ? errno : 0;
        gate_leave();
    }
    fuse_reply_err(req, error);
}

void directories_add(struct fuse_lowlevel_ops *to)
{
    to->mkdir = do_mkdir;
    to->rmdir = do_rmdir;
    to->opendir = do_opendir;
    to->readdir = do_readdir;
    to->releasedir = do_releasedir;
    to->fsyncdir = do_fsyncdir;
}
