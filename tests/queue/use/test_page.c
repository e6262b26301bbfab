/* SPDX-License-Identifier: MIT
 *
 * The web page of a node shows all nodes of its queue.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>

#include "queue/server.h"
#include "queue/work.h"
#include "support/test.h"

enum { ANSWER = 64 << 10 };

static char answer[ANSWER];

/* The port and the token of the page, from "this run is shown at http://127.0.0.1:PORT/#token=TOKEN". Standard error is a
 * file that others may read, so the test chooses the token. */
static unsigned port_of(const struct node *n)
{
    unsigned port = 0;
    node_await_error(n, "this run is shown at http://127.0.0.1:");
    const char *at = strstr(node_errors(n), "http://127.0.0.1:");
    CHECK(at && sscanf(at, "http://127.0.0.1:%u", &port) == 1); /* NOLINT(cert-err34-c) */
    return port;
}

static const char *get(unsigned port, const char *path)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    char text[512];
    size_t size = 0;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    const int length = snprintf(text, sizeof text,
                                "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nConnection: close\r\n"
                                "Authorization: Bearer token-of-the-test\r\n\r\n",
                                path, port);
    CHECK_EQ(send(fd, text, (size_t)length, MSG_NOSIGNAL), length);
    for (ssize_t n; (n = recv(fd, answer + size, sizeof answer - 1 - size, 0)) > 0;)
        size += (size_t)n;
    answer[size] = '\0';
    close(fd);
    CHECK_CONTAINS(answer, " 200 OK\r\n");
    return answer;
}

static unsigned count(const char *text, const char *part)
{
    unsigned n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        n++;
    return n;
}

TEST(page_of_a_node_shows_all_nodes)
{
    struct server s;
    server_start(&s, NULL);
    work_begin(s.hosts);
    CHECK_EQ(setenv("GPU_DISPATCH_HTTP_TOKEN", "token-of-the-test", 1), 0);
    list_add("gate", 0, 4);
    list_add("quick", 0, 20);
    CHECK_EQ(push("").status, 0);
    struct node a = node_start("--gpus sim:2 --http 127.0.0.1:0"), b = node_start("--gpus sim:2");
    await_log_lines("start gate", 4); /* two on each */
    const unsigned port = port_of(&a);
    while (count(get(port, "/api/queue"), "\"state\":\"running\"") < 2 || !strstr(answer, "\"tasks\":24,"))
        sched_yield(); /* until both have published their status, and the messages were counted */
    CHECK_EQ(count(answer, "\"workers\":2,"), 2);
    CHECK_CONTAINS(answer, "{\"connected\":true,");
    snprintf(answer, sizeof answer, "\"http\":\"http://127.0.0.1:%u/\"", port);
    char *address = strdup(answer);
    CHECK_CONTAINS(get(port, "/api/queue"), address);
    free(address);
    CHECK_CONTAINS(get(port, "/metrics"), "\ngpu_dispatch_queue_nodes 2\n");
    CHECK_CONTAINS(answer, "\ngpu_dispatch_queue_connected 1\n");
    CHECK_CONTAINS(answer, "\ngpu_dispatch_queue_task_messages 24\n");

    node_kill(&b); /* its last status stays, and nobody has it left */
    server_kill(&s);
    while (!strstr(get(port, "/api/queue"), "{\"connected\":false,"))
        sched_yield();
    CHECK_EQ(count(answer, "\"host\":"), 2); /* what was known */
    server_again(&s);
    open_gate();
    node_kill(&a);
}

WORK_MAIN()
