/* See folder.h. /dev/shm belongs to everybody, so what is found there may be somebody's trap: the folder must be a
 * folder (no link to one), the user's, and closed to others; all that is done in it is done through its descriptor. A
 * page is made under a temporary name and gets its own when it is whole. Its room is reserved first: writing to a
 * mapped page that the file system has no room for would be a SIGBUS.
 */
#include "stats/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"

/* False: there is no such folder. */
static bool path_of(unsigned i, char path[PATH_MAX])
{
    struct stat s;
    const char *own = getenv("GPU_DISPATCH_JOBS"), *runtime = getenv("XDG_RUNTIME_DIR");
    int n = -1;
    if (own && *own)
        n = i == 0 ? snprintf(path, PATH_MAX, "%s", own) : -1;
    else if (i == 1)
        n = snprintf(path, PATH_MAX, "/dev/shm/gpu-dispatch-%u", (unsigned)geteuid());
    else if (runtime && runtime[0] == '/' && stat(runtime, &s) == 0 && s.st_uid == geteuid()) /* not under sudo -E */
        n = snprintf(path, PATH_MAX, "%s/gpu-dispatch", runtime);
    return n > 0 && n < PATH_MAX;
}

static int check(int fd, const char *path)
{
    struct stat s;
    if (fstat(fd, &s) < 0)
        return gd__error_errno("%s", path);
    if (s.st_uid != geteuid())
        return gd__error(GD_E_INVALID,
                         "%s belongs to another user (%u): remove it, or set GPU_DISPATCH_JOBS to a folder of yours",
                         path, (unsigned)s.st_uid);
    if (s.st_mode & 077)
        return gd__error(GD_E_INVALID, "%s is open to other users (mode %03o): chmod 700 it", path,
                         (unsigned)s.st_mode & 0777);
    return 0;
}

int gd__folder_open(unsigned i, bool make)
{
    char path[PATH_MAX];
    if (!path_of(i, path))
        return GD_E_NO_JOB;
    if (make && mkdir(path, 0700) < 0 && errno != EEXIST)
        return gd__error_errno("cannot make the folder %s", path);
    const int fd =
        GD__FAULT("open") ? -1 : gd__fd_above_stdio(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd < 0)
        return errno == ENOENT ? GD_E_NO_JOB : gd__error_errno("cannot open the folder %s", path);
    const int rc = check(fd, path);
    if (rc == 0)
        return fd;
    close(fd);
    return rc;
}

/* Past RLIMIT_FSIZE there would not only be an error but SIGXFSZ, which kills. */
static bool may_be_as_large(size_t size)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur;
}

int gd__folder_create(int folder, const char *name, size_t size, char temporary[GD__PAGE_NAME])
{
    snprintf(temporary, GD__PAGE_NAME, ".%s", name);
    if (!may_be_as_large(size))
        return gd__error(GD_E_SYSTEM,
                         "the limit on the size of files (ulimit -f) leaves no room for a page of %zu bytes", size);
    if (unlinkat(folder, temporary, 0) < 0 && errno != ENOENT) /* of an earlier process with our number */
        return gd__error_errno("cannot remove %s", temporary);
    /* Nobody needs to open it for writing, and a run would not outlive that its page is cut short. */
    const int fd =
        GD__FAULT("open")
            ? -1
            : gd__fd_above_stdio(openat(folder, temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400));
    if (fd < 0)
        return gd__error_errno("cannot make the file %s", temporary);
    const int rc = GD__FAULT("fallocate") ? ENOMEM : posix_fallocate(fd, 0, (off_t)size);
    if (rc == 0)
        return fd;
    close(fd);
    unlinkat(folder, temporary, 0);
    errno = rc;
    return gd__error_errno("no room for a page of %zu bytes", size);
}

int gd__folder_commit(int folder, const char *temporary, const char *name)
{
    if (GD__FAULT("rename") || renameat(folder, temporary, folder, name) < 0)
        return gd__error_errno("cannot rename %s", temporary);
    return 0;
}

int gd__folder_read(int folder, const char *name)
{
    struct stat s;
    const int fd =
        GD__FAULT("open")
            ? -1
            : gd__fd_above_stdio(openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (fd < 0)
        return -1;
    if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid())
        return fd;
    close(fd);
    return -1;
}

void gd__folder_remove(int folder, const char *name, int fd)
{
    struct stat ours, theirs;
    if (fstat(fd, &ours) == 0 && fstatat(folder, name, &theirs, AT_SYMLINK_NOFOLLOW) == 0 &&
        ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino)
        unlinkat(folder, name, 0);
}
