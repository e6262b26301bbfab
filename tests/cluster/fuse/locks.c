/* SPDX-License-Identifier: MIT
 *
 * Locks that all mounts of a directory see. A lock of a process or of an open file becomes a lock of an open file
 * description (F_OFD_SETLK) on the backing file, so the kernel lets the mounts' locks conflict. Each owner that the
 * kernel names has its own open file description.
 *
 * The locks of a process end when it closes the file, with any of its descriptors: that is a flush, with the owner. The
 * kernel reports no end of the locks of an open file: they end with the release of that file. The release comes a
 * moment after the process has ended, as on a network.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "network_fs.h"

struct holder {
    struct holder *next;
    struct node *node;
    uint64_t owner, fh;
    int fd;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct holder *holders;

/* A descriptor for the locks of the owner. The mutex must be held. Returns 0 or an errno. */
static int holder_fd(fuse_ino_t ino, const struct fuse_file_info *fi, int *fd)
{
    struct node *node = node_of(ino);
    for (struct holder *h = holders; h; h = h->next) {
        if (h->node == node && h->owner == fi->lock_owner) {
            *fd = h->fd;
            return 0;
        }
    }
    struct holder *h = calloc(1, sizeof *h);
    int error = h ? node_reopen(ino, O_RDWR, fd) : ENOMEM;
    if (error == EACCES || error == EROFS)
        error = node_reopen(ino, O_RDONLY, fd);
    if (error) {
        free(h);
        return error;
    }
    *h = (struct holder){ .next = holders, .node = node, .owner = fi->lock_owner, .fh = fi->fh, .fd = *fd };
    holders = h;
    return 0;
}

static void drop(bool (*matches)(const struct holder *, const void *), const void *what)
{
    pthread_mutex_lock(&mutex);
    for (struct holder **at = &holders; *at;) {
        struct holder *h = *at;
        if (matches(h, what)) {
            *at = h->next;
            close(h->fd); /* ends its locks */
            free(h);
        } else {
            at = &h->next;
        }
    }
    pthread_mutex_unlock(&mutex);
}

static bool is_of_owner(const struct holder *h, const void *what)
{
    const struct holder *wanted = what;
    return h->node == wanted->node && h->owner == wanted->owner;
}

static bool is_of_file(const struct holder *h, const void *what)
{
    return h->fh == *(const uint64_t *)what;
}

void locks_drop_owner(fuse_ino_t ino, uint64_t owner)
{
    const struct holder wanted = { .node = node_of(ino), .owner = owner };
    drop(is_of_owner, &wanted);
}

void locks_drop_file(uint64_t fh)
{
    drop(is_of_file, &fh);
}

static int try_lock(fuse_ino_t ino, const struct fuse_file_info *fi, struct flock *lock, int command)
{
    int fd;
    pthread_mutex_lock(&mutex);
    int error = holder_fd(ino, fi, &fd);
    lock->l_pid = 0;
    if (!error && fcntl(fd, command, lock) < 0)
        error = errno;
    pthread_mutex_unlock(&mutex);
    return error;
}

/* Asks again after a while, as NFS does. */
static void wait_a_moment(void)
{
    const struct timespec moment = { .tv_nsec = 5000000 };
    nanosleep(&moment, NULL);
}

void locks_getlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lock)
{
    int error = settings.locks == LOCKS_NONE ? ENOSYS : node_enter(ino, false);
    if (!error) {
        error = try_lock(ino, fi, lock, F_OFD_GETLK);
        gate_leave();
    }
    if (error) {
        fuse_reply_err(req, error);
    } else {
        lock->l_pid = 0; /* a process of another machine */
        fuse_reply_lock(req, lock);
    }
}

/* What others have written before must be seen under a lock. */
static void forget_data(fuse_ino_t ino)
{
    if (settings.cache_s > 0)
        fuse_lowlevel_notify_inval_inode(session, ino, 0, 0);
}

void locks_setlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lock, int wait)
{
    int error = settings.locks == LOCKS_NONE ? ENOSYS : 0;
    while (!error && !(error = node_enter(ino, false))) {
        error = try_lock(ino, fi, lock, F_OFD_SETLK);
        gate_leave();
        if (!wait || (error != EAGAIN && error != EACCES))
            break;
        error = fuse_req_interrupted(req) ? EINTR : 0;
        wait_a_moment();
    }
    if (!error && lock->l_type != F_UNLCK)
        forget_data(ino);
    fuse_reply_err(req, error);
}

void locks_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, int op)
{
    int error = settings.locks == LOCKS_NONE ? ENOSYS : 0;
    while (!error && !(error = node_enter(ino, false))) {
        error = flock((int)fi->fh, op | LOCK_NB) < 0 ? errno : 0;
        gate_leave();
        if ((op & LOCK_NB) || error != EWOULDBLOCK)
            break;
        error = fuse_req_interrupted(req) ? EINTR : 0;
        wait_a_moment();
    }
    fuse_reply_err(req, error);
}
