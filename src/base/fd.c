/* Keeps our descriptors off 0, 1 and 2.
 *
 * A program may run with some of its standard streams closed (a daemon, `program >&-`). Then the first descriptors that
 * are opened get those numbers. If the program then prints something, or a worker that inherits its stdout does, the
 * text goes into one of these descriptors, for example into an eventfd that reports SIGINT. So we move our descriptors
 * to higher numbers.
 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fault.h"

int gd__fd_above_stdio(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    int up = GD__FAULT("dup") ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int kept = errno;
    close(fd);
    errno = kept;
    return up;
}

void gd__fd_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}
