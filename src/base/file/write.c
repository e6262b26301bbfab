/* Writes that are complete. A pipe may accept only part of a write, and a signal may interrupt a write. A terminal may
 * be full and non-blocking, because all programs of a shell share its open file, and another program may have set the
 * flag. gd__write_all() continues until everything is written. */
#include "base/file/write.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/failure.h"

int gd__write_all(int fd, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t n = write(fd, at, size);
        if (n >= 0) {
            at += n;
            size -= (size_t)n;
        } else if (errno == EAGAIN) {
            struct pollfd p = { .fd = fd, .events = POLLOUT };
            if (poll(&p, 1, -1) < 0 && errno != EINTR)
                return -1;
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return 0;
}

static char *directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
}

int gd__sync_directory_of(const char *path)
{
    char *directory = directory_of(path);
    const int fd = directory ? open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    free(directory);
    if (fd < 0)
        return -1;
    /* Some file systems do not support this and do not need it. */
    const int result = fsync(fd) < 0 && errno != EINVAL ? -1 : 0, saved = errno;
    close(fd);
    errno = saved;
    return result;
}

int gd__fail_to_write(const char *path, int error)
{
    char *directory = error == ENOENT ? directory_of(path) : NULL;
    if (directory && access(directory, F_OK) < 0)
        (void)gd__fail("cannot write %s: the directory %s does not exist", path, directory);
    else
        (void)gd__fail("cannot write %s: %s", path, strerror(error));
    free(directory);
    return -1;
}
