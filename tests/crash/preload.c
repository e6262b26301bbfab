/* SPDX-License-Identifier: MIT
 *
 * Loaded before everything else (LD_PRELOAD) into the command under test. Counts the calls that change files. At the
 * n-th call it kills the process, or makes calls fail from then on.
 *
 *   GD_PRELOAD_FILES   count only files whose path contains this text, or one of several texts separated by "|"
 *   GD_PRELOAD_AT      n, from 1
 *   GD_PRELOAD_HOW     kill: SIGKILL instead of the call; torn: SIGKILL after half of the write; ENOSPC, EIO: the n-th
 *                      and all later calls fail
 *   GD_PRELOAD_TOLD    a file that is created at the n-th call
 *
 * Workers have this library loaded too, but they do not write to these files.
 */
#undef _FILE_OFFSET_BITS /* otherwise pwrite is another name of pwrite64 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long calls;

static bool is_meant(const char *path)
{
    const char *list = getenv("GD_PRELOAD_FILES");
    while (list && *list) {
        const size_t length = strcspn(list, "|");
        if (length && memmem(path, strlen(path), list, length))
            return true;
        list += length + (list[length] == '|');
    }
    return false;
}

static bool is_meant_fd(int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0)
        return false;
    path[n] = '\0';
    return is_meant(path);
}

static void tell(void)
{
    const char *path = getenv("GD_PRELOAD_TOLD");
    const int fd = path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (fd >= 0)
        close(fd);
}

enum verdict { GO_ON, TEAR, FAIL };

/* Decides what happens to this call. Does not return if the process must be killed before the call. */
static enum verdict judge(void)
{
    const char *at = getenv("GD_PRELOAD_AT"), *how = getenv("GD_PRELOAD_HOW");
    const long wanted = at ? atol(at) : 0, now = atomic_fetch_add(&calls, 1) + 1;
    if (wanted == 0 || !how || now < wanted)
        return GO_ON;
    if (now == wanted)
        tell();
    if (strcmp(how, "kill") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(how, "torn") == 0)
        return now == wanted ? TEAR : GO_ON;
    errno = strcmp(how, "EIO") == 0 ? EIO : ENOSPC;
    return FAIL;
}

/* The original function. */
#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

#define HALF_THEN_DIE(call)      \
    do {                         \
        (void)!(call);           \
        kill(getpid(), SIGKILL); \
    } while (0)

ssize_t write(int fd, const void *data, size_t size)
{
    const enum verdict v = is_meant_fd(fd) ? judge() : GO_ON;
    if (v == TEAR)
        HALF_THEN_DIE(REAL(write)(fd, data, size / 2));
    return v == FAIL ? -1 : REAL(write)(fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
    const enum verdict v = is_meant_fd(fd) ? judge() : GO_ON;
    if (v == TEAR)
        HALF_THEN_DIE(REAL(pwrite)(fd, data, size / 2, at));
    return v == FAIL ? -1 : REAL(pwrite)(fd, data, size, at);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
    const enum verdict v = is_meant_fd(fd) ? judge() : GO_ON;
    if (v == TEAR)
        HALF_THEN_DIE(REAL(pwrite64)(fd, data, size / 2, at));
    return v == FAIL ? -1 : REAL(pwrite64)(fd, data, size, at);
}

ssize_t writev(int fd, const struct iovec *parts, int n)
{
    const enum verdict v = is_meant_fd(fd) ? judge() : GO_ON;
    if (v == TEAR)
        HALF_THEN_DIE(REAL(write)(fd, parts[0].iov_base, parts[0].iov_len / 2));
    return v == FAIL ? -1 : REAL(writev)(fd, parts, n);
}

int ftruncate(int fd, off_t size)
{
    const enum verdict v = is_meant_fd(fd) ? judge() : GO_ON;
    if (v == TEAR)
        HALF_THEN_DIE(REAL(ftruncate)(fd, size));
    return v == FAIL ? -1 : REAL(ftruncate)(fd, size);
}

int ftruncate64(int fd, off64_t size)
{
    const enum verdict v = is_meant_fd(fd) ? judge() : GO_ON;
    if (v == TEAR)
        HALF_THEN_DIE(REAL(ftruncate64)(fd, size));
    return v == FAIL ? -1 : REAL(ftruncate64)(fd, size);
}

int fsync(int fd)
{
    const enum verdict v = is_meant_fd(fd) ? judge() : GO_ON;
    if (v == TEAR)
        HALF_THEN_DIE(REAL(fsync)(fd));
    return v == FAIL ? -1 : REAL(fsync)(fd);
}

int fdatasync(int fd)
{
    const enum verdict v = is_meant_fd(fd) ? judge() : GO_ON;
    if (v == TEAR)
        HALF_THEN_DIE(REAL(fdatasync)(fd));
    return v == FAIL ? -1 : REAL(fdatasync)(fd);
}

int rename(const char *from, const char *to)
{
    const enum verdict v = is_meant(to) ? judge() : GO_ON;
    if (v == TEAR)
        HALF_THEN_DIE(REAL(rename)(from, to));
    return v == FAIL ? -1 : REAL(rename)(from, to);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    const enum verdict v = is_meant_fd(to_dir) ? judge() : GO_ON;
    if (v == TEAR)
        HALF_THEN_DIE(REAL(renameat)(from_dir, from, to_dir, to));
    return v == FAIL ? -1 : REAL(renameat)(from_dir, from, to_dir, to);
}

int unlink(const char *path)
{
    const enum verdict v = is_meant(path) ? judge() : GO_ON;
    if (v == TEAR)
        HALF_THEN_DIE(REAL(unlink)(path));
    return v == FAIL ? -1 : REAL(unlink)(path);
}
