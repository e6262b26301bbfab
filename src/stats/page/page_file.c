/* The files of pages. A file is made under a temporary name and gets its final name when it is complete. Its space is
 * reserved first, because writing to mapped memory would cause SIGBUS if the file system had no space left. */
#include "stats/page/page_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"

/* A file that exceeds RLIMIT_FSIZE causes SIGXFSZ, which kills the process. */
static bool is_within_size_limit(size_t size)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur;
}

int gd__page_file_create(int directory, const char *name, size_t size, char temporary[GD__PAGE_NAME])
{
    snprintf(temporary, GD__PAGE_NAME, ".%s", name);
    if (!is_within_size_limit(size))
        return gd__error(
            GD_E_SYSTEM,
            "the limit on file sizes (ulimit -f) is below the %zu bytes that the status page of a run needs", size);
    if (unlinkat(directory, temporary, 0) < 0 && errno != ENOENT) /* left by an earlier process with our pid */
        return gd__error_errno("cannot remove %s", temporary);
    /* Mode 0400: no other process needs to write to it, and the run would crash if its page were truncated. */
    const int fd = GD__FAULT("open")
                       ? -1
                       : gd__fd_above_stdio(
                             openat(directory, temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400));
    if (fd < 0)
        return gd__error_errno("cannot create the file %s", temporary);
    const int rc = GD__FAULT("fallocate") ? ENOMEM : posix_fallocate(fd, 0, (off_t)size);
    if (rc == 0)
        return fd;
    close(fd);
    unlinkat(directory, temporary, 0);
    errno = rc;
    return gd__error_errno("no space for the status page of a run (%zu bytes)", size);
}

int gd__page_file_commit(int directory, const char *temporary, const char *name)
{
    if (GD__FAULT("rename") || renameat(directory, temporary, directory, name) < 0)
        return gd__error_errno("cannot rename %s", temporary);
    return 0;
}

int gd__page_file_read(int directory, const char *name)
{
    struct stat s;
    const int fd =
        GD__FAULT("open")
            ? -1
            : gd__fd_above_stdio(openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (fd < 0)
        return -1;
    if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid())
        return fd;
    close(fd);
    return -1;
}

void gd__page_file_remove(int directory, const char *name, int fd)
{
    struct stat ours, theirs;
    if (fstat(fd, &ours) == 0 && fstatat(directory, name, &theirs, AT_SYMLINK_NOFOLLOW) == 0 &&
        ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino)
        unlinkat(directory, name, 0);
}
