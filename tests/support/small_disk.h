/* SPDX-License-Identifier: MIT
 *
 * A file system of a few pages, which a case can fill. Only this process and its children see it, and it disappears
 * when they end. The case is skipped if mounting is not allowed.
 */
#ifndef GD_TESTS_SUPPORT_SMALL_DISK_H
#define GD_TESTS_SUPPORT_SMALL_DISK_H

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "support/test.h"

static bool small_disk_write(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    const bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return written;
}

/* Root may mount a file system directly. Other users may mount one in their own user namespace. */
static bool small_disk_allowed(void)
{
    char map[64];
    const unsigned user = geteuid(), group = getegid();
    if (user == 0)
        return unshare(CLONE_NEWNS) == 0;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return false;
    snprintf(map, sizeof map, "0 %u 1", user);
    bool written = small_disk_write("/proc/self/uid_map", map) && small_disk_write("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "0 %u 1", group);
    return written && small_disk_write("/proc/self/gid_map", map);
}

/* Mounts the file system at a directory, which is created. */
TEST_UNUSED static void small_disk(const char *path, unsigned kib)
{
    char size[32];
    snprintf(size, sizeof size, "size=%uk", kib);
    CHECK_EQ(mkdir(path, 0755), 0);
    if (!small_disk_allowed() || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", path, "tmpfs", 0, size) < 0)
        SKIP("mounting is not allowed here");
}

/* Fills the disk with one file. The case may remove that file. */
TEST_UNUSED static void small_disk_fill(const char *file)
{
    static const char page[4096];
    const int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    while (write(fd, page, sizeof page) > 0)
        ;
    CHECK_EQ(errno, ENOSPC);
    close(fd);
}

#endif
