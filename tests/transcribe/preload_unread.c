/* SPDX-License-Identifier: MIT
 *
 * Loaded before everything else (LD_PRELOAD) into workers under test. Makes files unreadable for a while.
 *
 *   GD_UNREAD_OPEN     opening files whose path contains this fails
 *   GD_UNREAD_READ     reading files whose path contains this fails
 *   GD_UNREAD_CHANGE   reading files whose path contains this changes the time of their last change
 *   GD_UNREAD_ERROR    the errno, a number
 *   GD_UNREAD_TIMES    how often each call fails, in all processes together
 *   GD_UNREAD_COUNTS   a directory with files that count the failures: each failure adds a byte
 */
#undef _FILE_OFFSET_BITS /* otherwise open is another name of open64 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The original function. */
#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

static bool is_meant(const char *variable, const char *path)
{
    const char *part = getenv(variable);
    return part && *part && strstr(path, part);
}

/* Whether this call must fail. Sets errno if so. */
static bool fails(const char *variable, const char *path)
{
    char counts[4200];
    const char *directory = getenv("GD_UNREAD_COUNTS"), *times = getenv("GD_UNREAD_TIMES"),
               *error = getenv("GD_UNREAD_ERROR");
    if (!is_meant(variable, path) || !directory || !times || !error)
        return false;
    snprintf(counts, sizeof counts, "%s/%s", directory, variable);
    const int fd = REAL(open)(counts, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        abort();
    const bool enough = lseek(fd, 0, SEEK_END) >= atol(times);
    if (!enough && write(fd, "x", 1) != 1)
        abort();
    close(fd);
    errno = (int)strtol(error, NULL, 10);
    return !enough;
}

static void change(int fd, const char *path)
{
    static const struct timespec never[2] = { { 1, 0 }, { 1, 0 } };
    if (fails("GD_UNREAD_CHANGE", path) && futimens(fd, never) < 0)
        abort();
}

static bool fails_fd(int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    change(fd, path);
    return fails("GD_UNREAD_READ", path);
}

static mode_t mode_of(int flags, va_list args)
{
    return flags & O_CREAT ? va_arg(args, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const mode_t mode = mode_of(flags, args);
    va_end(args);
    return fails("GD_UNREAD_OPEN", path) ? -1 : REAL(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const mode_t mode = mode_of(flags, args);
    va_end(args);
    return fails("GD_UNREAD_OPEN", path) ? -1 : REAL(open64)(path, flags, mode);
}

ssize_t pread(int fd, void *to, size_t size, off_t at)
{
    return fails_fd(fd) ? -1 : REAL(pread)(fd, to, size, at);
}

ssize_t pread64(int fd, void *to, size_t size, off64_t at)
{
    return fails_fd(fd) ? -1 : REAL(pread64)(fd, to, size, at);
}
