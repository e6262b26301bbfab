/* SPDX-License-Identifier: MIT
 *
 * FIFOs that let a test of the command and the tasks of its run wait for each other.
 */
#ifndef GD_TESTS_SUPPORT_FIFO_H
#define GD_TESTS_SUPPORT_FIFO_H

#include "support/shell.h"

/* Makes a FIFO in the case's directory and opens it for reading and writing. Because of that, writers do not block and
 * readers do not see end of file. */
TEST_UNUSED static int fifo(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", sh_dir(), name);
    CHECK_EQ(mkfifo(path, 0600), 0);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

/* Opens a second reading end. It sees end of file when no process has the FIFO open for writing any more. */
TEST_UNUSED static int open_to_read(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", sh_dir(), name);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

TEST_UNUSED static void await_lines(int fd, int n)
{
    char c;
    while (n > 0) {
        CHECK_EQ(read(fd, &c, 1), 1);
        n -= c == '\n';
    }
}

/* Reads one line, without its newline. */
TEST_UNUSED static void read_line(int fd, char *line, size_t size)
{
    for (size_t n = 0;; n++) {
        CHECK(n < size);
        CHECK_EQ(read(fd, line + n, 1), 1);
        if (line[n] == '\n') {
            line[n] = '\0';
            return;
        }
    }
}

#endif
