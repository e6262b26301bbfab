/* SPDX-License-Identifier: MIT
 *
 * A client of a job's control socket, for tests. It finds the only socket in $GPU_DISPATCH_JOBS.
 */
#ifndef GD_TESTS_SUPPORT_CONTROL_CLIENT_H
#define GD_TESTS_SUPPORT_CONTROL_CLIENT_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/test.h"

/* Stores the path of the socket. Returns false if there is none. */
TEST_UNUSED static bool client_find(char *path, size_t size)
{
    const char *directory = getenv("GPU_DISPATCH_JOBS");
    DIR *dir = opendir(directory);
    bool found = false;
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        const size_t n = strlen(e->d_name);
        if (n < 8 || strcmp(e->d_name + n - 8, ".control") != 0)
            continue;
        snprintf(path, size, "%s/%s", directory, e->d_name);
        found = true;
    }
    if (dir)
        closedir(dir);
    return found;
}

/* Returns a connected socket, or -1. The address is made from a descriptor of the directory (/proc/self/fd/N/NAME),
 * because the full path may be longer than sun_path. */
TEST_UNUSED static int client_try(void)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    char path[1024];
    if (!client_find(path, sizeof path))
        return -1;
    const int directory = open(getenv("GPU_DISPATCH_JOBS"), O_PATH | O_DIRECTORY | O_CLOEXEC);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(directory >= 0 && fd >= 0);
    snprintf(at.sun_path, sizeof at.sun_path, "/proc/self/fd/%d/%.80s", directory, strrchr(path, '/') + 1);
    const int rc = connect(fd, (const struct sockaddr *)&at, sizeof at);
    close(directory);
    if (rc == 0)
        return fd;
    close(fd);
    return -1;
}

TEST_UNUSED static int client_open(void)
{
    const int fd = client_try();
    CHECK_GE(fd, 0);
    return fd;
}

TEST_UNUSED static void client_send(int fd, const char *bytes, size_t n)
{
    for (size_t sent = 0; sent < n;) {
        const ssize_t k = send(fd, bytes + sent, n - sent, MSG_NOSIGNAL);
        CHECK_GT(k, 0);
        sent += (size_t)k;
    }
}

/* Reads one line into text, without its newline. Returns false at the end of the connection. */
TEST_UNUSED static bool client_read(int fd, char *text, size_t size)
{
    for (size_t n = 0;; n++) {
        CHECK_LT(n, size);
        const ssize_t k = recv(fd, text + n, 1, 0);
        text[n] = k == 1 && text[n] != '\n' ? text[n] : '\0';
        if (k != 1)
            return false;
        if (text[n] == '\0')
            return true;
    }
}

/* Sends a request and returns its answer, which is valid until the next call. */
TEST_UNUSED static const char *client_ask(int fd, const char *request)
{
    static char answer[4096];
    client_send(fd, request, strlen(request));
    client_send(fd, "\n", 1);
    CHECK(client_read(fd, answer, sizeof answer));
    return answer;
}

#endif
