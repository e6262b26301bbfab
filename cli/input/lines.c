/* SPDX-License-Identifier: MIT
 *
 * Reads records. When the buffer is full, its contents are moved to the front. If one record fills the whole buffer,
 * the buffer is doubled. No byte is searched for a delimiter twice, so a record of a gigabyte costs no more than a
 * gigabyte of short records. Before each read, this code waits for the input or the cancel descriptor, because a pipe
 * or a terminal may send nothing for a long time. For a file this costs one system call for each 64 KiB.
 */
#include "cli/input/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"

enum { FIRST_ROOM = 64 * 1024 };

struct cli_lines {
    int fd, cancel_fd;
    char delimiter;
    bool ended;
    char *name; /* for error messages */
    char *data;
    size_t room, start, end; /* bytes that were read but not returned: start to end */
    size_t searched;         /* how many of these bytes are known to contain no delimiter */
};

static int open_path(const char *path)
{
    struct stat st;
    if (strcmp(path, "-") == 0)
        return STDIN_FILENO;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return gd__fail("cannot open input file %s: %s", path, strerror(errno));
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        close(fd);
        return gd__fail("%s is a directory: use --input-dir for the files in it", path);
    }
    return fd;
}

int cli_lines_open(struct cli_lines **out, const char *path, char delimiter, int cancel_fd)
{
    int fd = open_path(path);
    if (fd < 0)
        return -1;
    struct cli_lines *l = calloc(1, sizeof *l);
    if (!l) {
        if (fd != STDIN_FILENO)
            close(fd);
        return gd__fail("out of memory");
    }
    *l = (struct cli_lines){ .fd = fd, .cancel_fd = cancel_fd, .delimiter = delimiter };
    l->name = strdup(fd == STDIN_FILENO ? "standard input" : path);
    l->data = malloc(FIRST_ROOM);
    l->room = FIRST_ROOM;
    if (!l->name || !l->data) {
        cli_lines_close(&l);
        return gd__fail("out of memory");
    }
    *out = l;
    return 0;
}

/* Makes room at the end of the buffer. */
static int make_room(struct cli_lines *l)
{
    if (l->end < l->room)
        return 0;
    if (l->start > 0) {
        memmove(l->data, l->data + l->start, l->end - l->start);
        l->end -= l->start;
        l->start = 0;
        return 0;
    }
    char *data = l->room > SIZE_MAX / 2 ? NULL : realloc(l->data, l->room * 2);
    if (!data)
        return gd__fail("a record of %s does not fit into memory (%zu bytes so far)", l->name, l->room);
    l->data = data;
    l->room *= 2;
    return 0;
}

/* Waits for input. Returns 1 if there is input or the file has ended, and 0 if cancelled. */
static int await(const struct cli_lines *l)
{
    struct pollfd p[2] = { { .fd = l->cancel_fd, .events = POLLIN }, { .fd = l->fd, .events = POLLIN } };
    while (poll(p, 2, -1) < 0) {
        if (errno != EINTR && errno != EAGAIN)
            return gd__fail("cannot wait for %s: %s", l->name, strerror(errno));
    }
    return !p[0].revents;
}

/* Reads more. Returns 1 if there is more, 0 if cancelled or at the end (l->ended), -1 on an error. */
static int refill(struct cli_lines *l)
{
    if (make_room(l) < 0)
        return -1;
    for (;;) {
        int ready = await(l);
        if (ready <= 0)
            return ready;
        ssize_t n = read(l->fd, l->data + l->end, l->room - l->end);
        if (n > 0) {
            l->end += (size_t)n;
            return 1;
        }
        if (n == 0) {
            l->ended = true;
            return 0;
        }
        if (errno != EINTR && errno != EAGAIN)
            return gd__fail("cannot read %s: %s", l->name, strerror(errno));
    }
}

static void take(struct cli_lines *l, size_t length, size_t skip, const char **data, size_t *size)
{
    *data = l->data + l->start;
    *size = length;
    l->start += length + skip;
    l->searched = 0;
}

int cli_lines_next(struct cli_lines *l, const char **data, size_t *size)
{
    for (;;) {
        const char *from = l->data + l->start + l->searched;
        size_t left = l->end - l->start - l->searched;
        const char *found = left ? memchr(from, l->delimiter, left) : NULL;
        if (found) {
            take(l, (size_t)(found - l->data) - l->start, 1, data, size);
            return 1;
        }
        l->searched += left;
        int more = l->ended ? 0 : refill(l);
        if (more > 0)
            continue;
        if (more < 0 || !l->ended || l->start == l->end)
            return more;
        take(l, l->end - l->start, 0, data, size);
        return 1;
    }
}

void cli_lines_close(struct cli_lines **l)
{
    if (!*l)
        return;
    if ((*l)->fd != STDIN_FILENO)
        close((*l)->fd);
    free((*l)->name);
    free((*l)->data);
    free(*l);
    *l = NULL;
}
