/* SPDX-License-Identifier: MIT
 *
 * Files that are written line by line, without buffering beyond the line. So the output of a task is in the file before
 * the next task is handled, and a reader (`tail -f`) never sees half a line. A line that could not be written
 * completely (a full disk) is removed.
 */
#include "cli/output/files/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/file/write.h"
#include "base/text/buffer.h"

int cli_logfile_open(struct cli_logfile *f, const char *path, bool append)
{
    *f = (struct cli_logfile){ .fd = STDOUT_FILENO, .path = strdup(path) };
    if (!f->path)
        return gd__fail("out of memory");
    if (strcmp(path, "-") == 0)
        return 0;
    f->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | (append ? 0 : O_TRUNC), 0666);
    if (f->fd >= 0)
        return 0;
    free(f->path);
    f->path = NULL;
    return gd__fail_to_write(path, errno);
}

/* The file may have been cut since it was opened, so its end is looked up when the first line is written. */
static void find_end(struct cli_logfile *f)
{
    if (f->end == 0)
        f->end = lseek(f->fd, 0, SEEK_END);
}

static void written(struct cli_logfile *f, size_t size)
{
    if (f->end >= 0)
        f->end += (off_t)size;
}

/* Removes the written part of a line that failed. */
static void cut_back(struct cli_logfile *f)
{
    const int saved = errno;
    if (f->end >= 0 && f->fd != STDOUT_FILENO && ftruncate(f->fd, f->end) < 0)
        f->end = -1; /* the partial line stays; a run that resumes cuts it off */
    errno = saved;
}

int cli_logfile_put(struct cli_logfile *f)
{
    int result = 0;
    find_end(f);
    if (f->line.failed)
        result = gd__fail("out of memory: a line for %s is lost", f->path);
    else if (!f->broken && gd__write_all(f->fd, f->line.data, f->line.size) < 0) {
        f->broken = true;
        /* A reader that went away (`| head`) is not an error. */
        f->unread = errno == EPIPE;
        cut_back(f);
        result = f->unread ? 0 : gd__fail("cannot write %s: %s", f->path, strerror(errno));
    } else if (!f->broken) {
        written(f, f->line.size);
    }
    if (f->line.failed)
        gd__buffer_free(&f->line);
    f->line.size = 0;
    return result;
}

int cli_logfile_close(struct cli_logfile *f)
{
    int result = 0;
    if (f->fd != STDOUT_FILENO && close(f->fd) < 0 && !f->broken)
        result = gd__fail("cannot write %s: %s", f->path, strerror(errno));
    gd__buffer_free(&f->line);
    free(f->path);
    return result;
}
