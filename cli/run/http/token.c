/* SPDX-License-Identifier: MIT
 *
 * Reads the token that the user chose for --http. If a token is too long, one byte more than the limit is kept. So it
 * is refused later, and not cut to a valid token. */
#include "cli/run/http/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"
#include "web/access/guard.h"

#define VARIABLE "GPU_DISPATCH_HTTP_TOKEN"

enum { ROOM = WEB_TOKEN_LONGEST + 2 };

static char taken[ROOM], read_in[ROOM];

/* The bytes are overwritten too: /proc/PID/environ shows the memory in which the process got its environment. */
void cli_token_take(void)
{
    char *value = getenv(VARIABLE);
    if (!value)
        return;
    snprintf(taken, sizeof taken, "%s", value);
    explicit_bzero(value, strlen(value));
    (void)unsetenv(VARIABLE); /* fails for bad names only */
}

/* A secret must not be in a file that others can read. */
static int check_private(int fd, const char *path)
{
    struct stat s;
    if (fstat(fd, &s) < 0)
        return gd__fail("--http-token-file %s: %s", path, strerror(errno));
    if (!S_ISREG(s.st_mode) && !S_ISFIFO(s.st_mode))
        return gd__fail("--http-token-file %s: this is not a regular file", path);
    if (s.st_mode & 077)
        return gd__fail("--http-token-file %s: other users can access this file (mode %03o): run chmod 600 on it", path,
                        (unsigned)s.st_mode & 0777);
    if (s.st_uid != geteuid() && s.st_uid != 0)
        return gd__fail("--http-token-file %s: this file belongs to another user (%u): use a file of your own", path,
                        (unsigned)s.st_uid);
    return 0;
}

/* Reads the whole file, or as much as fits. */
static int read_token(int fd, const char *path)
{
    size_t size = 0;
    while (size < sizeof read_in - 1) {
        const ssize_t n = read(fd, read_in + size, sizeof read_in - 1 - size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return gd__fail("--http-token-file %s: %s", path, strerror(errno));
        if (n == 0)
            break;
        size += (size_t)n;
    }
    if (size > 0 && read_in[size - 1] == '\n')
        size--;
    if (memchr(read_in, '\0', size))
        size = 0; /* a token with a NUL must not be accepted as a shorter one; an empty token is refused */
    read_in[size] = '\0';
    return 0;
}

int cli_token_given(const char *file, const char **token, const char **from)
{
    *token = *taken ? taken : NULL;
    *from = "$" VARIABLE;
    if (!file)
        return 0;
    const int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return gd__fail("--http-token-file %s: %s", file, strerror(errno));
    const int rc = check_private(fd, file) < 0 ? -1 : read_token(fd, file);
    close(fd);
    *token = read_in;
    *from = file;
    return rc;
}
