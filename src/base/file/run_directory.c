/* Finds and checks the private directory of a user's runs. Every user can write to /dev/shm, so another user may have
 * created the directory. It must be a real directory (not a link to one), belong to this user, and not be accessible to
 * others. Files in it are opened only through its descriptor. */
#include "base/file/run_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/file/shared.h"

/* Returns false if there is no i-th directory. */
static bool path_of(unsigned i, char path[PATH_MAX])
{
    struct stat s;
    const char *own = getenv("GPU_DISPATCH_JOBS"), *runtime = getenv("XDG_RUNTIME_DIR");
    int n = -1;
    if (own && *own)
        n = i == 0 ? snprintf(path, PATH_MAX, "%s", own) : -1;
    else if (i == 1)
        n = snprintf(path, PATH_MAX, "/dev/shm/gpu-dispatch-%u", (unsigned)geteuid());
    else if (runtime && runtime[0] == '/' && stat(runtime, &s) == 0 && s.st_uid == geteuid() && /* not under sudo -E */
             !gd__place_is_shared(runtime))
        n = snprintf(path, PATH_MAX, "%s/gpu-dispatch", runtime);
    return n > 0 && n < PATH_MAX;
}

static int check_owner(int fd, const char *path)
{
    struct stat s;
    if (fstat(fd, &s) < 0)
        return gd__error_errno("%s", path);
    if (s.st_uid != geteuid())
        return gd__error(
            GD_E_INVALID,
            "%s belongs to another user (%u): remove it, or set GPU_DISPATCH_JOBS to a directory of your own", path,
            (unsigned)s.st_uid);
    if (s.st_mode & 077)
        return gd__error(GD_E_INVALID,
                         "%s is accessible to other users (mode %03o): run chmod 700 on it, or set GPU_DISPATCH_JOBS "
                         "to another directory",
                         path, (unsigned)s.st_mode & 0777);
    return 0;
}

int gd__run_directory_open(unsigned i, bool make, char path[PATH_MAX])
{
    char own[PATH_MAX];
    path = path ? path : own;
    if (!path_of(i, path))
        return GD_E_NO_JOB;
    if (gd__place_is_shared(path))
        return gd__error(GD_E_UNSUPPORTED,
                         "%s is on a file system that other machines may use: set GPU_DISPATCH_JOBS to a directory on "
                         "a local one, or do not set it",
                         path);
    if (make && mkdir(path, 0700) < 0 && errno != EEXIST)
        return gd__error_errno("cannot create the directory %s", path);
    const int fd =
        GD__FAULT("open") ? -1 : gd__fd_above_stdio(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd < 0)
        return errno == ENOENT ? GD_E_NO_JOB : gd__error_errno("cannot open the directory %s", path);
    const int rc = check_owner(fd, path);
    if (rc == 0)
        return fd;
    close(fd);
    return rc;
}
