/* SPDX-License-Identifier: MIT
 *
 * The inodes that the kernel knows. Each has a descriptor of the backing file, so it stays the same file if that is
 * renamed, also through another mount.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "network_fs.h"

enum { BUCKETS = 1024 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct node *buckets[BUCKETS];
static struct node root;

void nodes_open(const char *directory)
{
    root.fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root.fd < 0) {
        perror(directory);
        exit(1);
    }
}

struct node *node_of(fuse_ino_t ino)
{
    return ino == FUSE_ROOT_ID ? &root : (struct node *)(uintptr_t)ino;
}

static struct node **bucket_of(dev_t dev, ino_t ino)
{
    return &buckets[(dev ^ ino) % BUCKETS];
}

/* Returns the node of the file, and takes fd. NULL: no memory. */
static struct node *node_take(int fd, const struct stat *s)
{
    struct node **bucket = bucket_of(s->st_dev, s->st_ino), *n;
    pthread_mutex_lock(&mutex);
    for (n = *bucket; n && (n->dev != s->st_dev || n->ino != s->st_ino);)
        n = n->next;
    if (n) {
        close(fd);
    } else if ((n = calloc(1, sizeof *n))) {
        *n = (struct node){ .next = *bucket, .fd = fd, .dev = s->st_dev, .ino = s->st_ino };
        *bucket = n;
    } else {
        close(fd);
    }
    if (n)
        n->lookups++;
    pthread_mutex_unlock(&mutex);
    return n;
}

int node_find(fuse_ino_t parent, const char *name, struct fuse_entry_param *out)
{
    *out = (struct fuse_entry_param){ .attr_timeout = settings.cache_s, .entry_timeout = settings.cache_s };
    const int fd = openat(node_of(parent)->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno;
    if (fstat(fd, &out->attr) < 0) {
        const int error = errno;
        close(fd);
        return error;
    }
    struct node *n = node_take(fd, &out->attr);
    out->ino = (uintptr_t)n;
    return n ? 0 : ENOMEM;
}

int node_reopen(fuse_ino_t ino, int flags, int *fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", node_of(ino)->fd);
    *fd = open(path, (flags & ~O_NOFOLLOW) | O_CLOEXEC);
    return *fd < 0 ? errno : 0;
}

/* A file system that is not told of the other machine's unlink() learns of it from the server. */
static bool is_stale(const struct node *n)
{
    struct stat s;
    return settings.stale && !n->removed && fstat(n->fd, &s) == 0 && s.st_nlink == 0;
}

int node_enter(fuse_ino_t ino, bool change)
{
    const int error = change ? gate_enter_change() : gate_enter();
    if (error || !is_stale(node_of(ino)))
        return error;
    gate_leave();
    return ESTALE;
}

void node_mark_removed(fuse_ino_t parent, const char *name)
{
    struct stat s;
    if (!settings.stale || fstatat(node_of(parent)->fd, name, &s, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    pthread_mutex_lock(&mutex);
    for (struct node *n = *bucket_of(s.st_dev, s.st_ino); n; n = n->next) {
        if (n->dev == s.st_dev && n->ino == s.st_ino)
            n->removed = true;
    }
    pthread_mutex_unlock(&mutex);
}

void node_forget(fuse_ino_t ino, uint64_t lookups)
{
    struct node *n = node_of(ino);
    if (n == &root)
        return;
    pthread_mutex_lock(&mutex);
    n->lookups -= lookups;
    if (n->lookups == 0) {
        struct node **at = bucket_of(n->dev, n->ino);
        while (*at != n)
            at = &(*at)->next;
        *at = n->next;
        close(n->fd);
        free(n);
    }
    pthread_mutex_unlock(&mutex);
}
