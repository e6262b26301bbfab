/* SPDX-License-Identifier: MIT
 *
 * An HTTP server on a thread of the test program. The program's function answer() writes the whole answer to a request.
 */
#ifndef GD_TESTS_TRANSCRIBE_HTTP_SERVER_H
#define GD_TESTS_TRANSCRIBE_HTTP_SERVER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/test.h"

enum { REQUEST_ROOM = 4096, ADDRESS_ROOM = 64 };

static int listener = -1;
static char http_base[ADDRESS_ROOM]; /* "http://127.0.0.1:12345/audio/" */

/* request: the first line and the headers. */
static void answer(int s, const char *request);

TEST_UNUSED static void send_all(int s, const void *data, size_t size)
{
    for (const char *at = data; size > 0;) {
        const ssize_t n = send(s, at, size, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        at += n;
        size -= (size_t)n;
    }
}

TEST_UNUSED static void send_text(int s, const char *text)
{
    send_all(s, text, strlen(text));
}

static void *serve(void *unused)
{
    char request[REQUEST_ROOM];
    (void)unused;
    for (;;) {
        const int s = accept(listener, NULL, NULL);
        size_t size = 0;
        if (s < 0)
            return NULL;
        while (size < sizeof request - 1) {
            const ssize_t n = recv(s, request + size, sizeof request - 1 - size, 0);
            if (n <= 0)
                break;
            size += (size_t)n;
            request[size] = '\0';
            if (strstr(request, "\r\n\r\n"))
                break;
        }
        request[size] = '\0';
        if (size > 4)
            answer(s, request);
        close(s);
    }
}

static void http_begin(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof at;
    pthread_t thread;
    unsetenv("http_proxy");
    unsetenv("all_proxy");
    unsetenv("ALL_PROXY");
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(listener >= 0);
    CHECK_EQ(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    CHECK_EQ(listen(listener, 8), 0);
    CHECK_EQ(getsockname(listener, (struct sockaddr *)&at, &size), 0);
    snprintf(http_base, sizeof http_base, "http://127.0.0.1:%u/audio/", ntohs(at.sin_port));
    CHECK_EQ(pthread_create(&thread, NULL, serve, NULL), 0);
    pthread_detach(thread);
}

#endif
