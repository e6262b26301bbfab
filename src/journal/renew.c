/* A followed file after another run was given up.
 *
 * If the last run was given up because its heartbeat stood still, its process may still exist, on another host, and have
 * the file open. It finds out with its next transaction that it was given up, but until then it may append lines: of
 * tasks that have no record and that this run runs again. So this run does not continue the same file. It copies the
 * recorded part into a new file, which replaces the old one, and the old run appends to a file without a name. The
 * descriptor of the caller is made to refer to the new file.
 *
 * The transaction that ends the generation of the old run also marks all files (gd__follow_mark()). A file loses the mark
 * when it has been replaced. So this is done even if the run that took over was killed before it.
 *
 * A file that is not recorded may have been made by a run that was given up before it could record it. So it is replaced
 * too, if there ever was such a run (follow.c).
 *
 * Files are not copied after a run that ended, or that is certainly gone: the copy takes time.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/failure.h"
#include "base/fd.h"
#include "base/file/replace.h"
#include "journal/internal.h"

enum { CHUNK = 64 << 10 };

static int copy_part(const struct gd__follow *f, FILE *to, uint64_t size)
{
    for (uint64_t at = 0; at < size;) {
        const size_t want = size - at < CHUNK ? (size_t)(size - at) : CHUNK;
        const ssize_t n = pread(f->reader, f->room, want, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO; /* the file became shorter */
        if (n <= 0 || fwrite(f->room, 1, (size_t)n, to) != (size_t)n)
            return -1;
        at += (uint64_t)n;
    }
    return 0;
}

static int replace_by_copy(const struct gd__follow *f, uint64_t size)
{
    struct gd__replacement p;
    int rc = gd__replace_begin(&p, f->path, true);
    if (rc == 0 && copy_part(f, p.to, size) < 0)
        rc = gd__fail("cannot copy %s: %s", f->path, strerror(errno));
    rc = gd__replace_end(&p, rc, true);
    return rc < 0 ? gd__error(GD_E_SYSTEM, "%s", gd__fail_text()) : 0;
}

/* Makes the caller's descriptor refer to the new file. */
static int exchange(struct gd__follow *f)
{
    const int flags = fcntl(f->fd, F_GETFL), cloexec = fcntl(f->fd, F_GETFD);
    const int fd = flags < 0 ? -1 : open(f->path, (flags & (O_ACCMODE | O_APPEND)) | O_NOFOLLOW | O_CLOEXEC);
    const bool done = fd >= 0 && dup3(fd, f->fd, cloexec & FD_CLOEXEC ? O_CLOEXEC : 0) >= 0;
    const int rc = done && lseek(f->fd, 0, SEEK_END) >= 0 ? 0 : gd__error_errno("cannot open %s", f->path);
    if (fd >= 0)
        close(fd);
    if (rc == 0) {
        gd__fd_close(&f->reader);
        f->reader = gd__fd_above_stdio(open(f->path, O_RDONLY | O_NOCTTY | O_CLOEXEC));
    }
    return rc;
}

int gd__follow_renew(struct gd__follow *f, uint64_t size)
{
    if (f->reader < 0) /* the path leads to another file, or to one that cannot be read */
        return 0;
    const int rc = replace_by_copy(f, size);
    return rc < 0 ? rc : exchange(f);
}
