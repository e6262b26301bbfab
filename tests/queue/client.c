/* SPDX-License-Identifier: MIT
 *
 * The client of the tests (client.h).
 */
#include "queue/client.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "support/test.h"

static void send_all(struct client *c, const char *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t sent = send(c->fd, bytes, n, MSG_NOSIGNAL);
        CHECK(sent > 0);
        bytes += sent;
        n -= (size_t)sent;
    }
}

static void receive(struct client *c)
{
    CHECK_LT(c->n, CLIENT_ROOM - 1);
    const ssize_t n = read(c->fd, c->buffer + c->n, CLIENT_ROOM - 1 - c->n);
    CHECK(n > 0);
    c->n += (size_t)n;
    c->buffer[c->n] = '\0';
}

static void forget(struct client *c, size_t n)
{
    memmove(c->buffer, c->buffer + n, c->n - n + 1);
    c->n -= n;
}

/* Waits for a whole line, and returns its length without \r\n. */
static size_t await_line(struct client *c)
{
    char *end;
    while (!(end = strstr(c->buffer, "\r\n")))
        receive(c);
    return (size_t)(end - c->buffer);
}

void client_open(struct client *c, unsigned port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    static unsigned clients;
    const int on = 1;
    char hello[256];
    *c = (struct client){ .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .buffer = calloc(1, CLIENT_ROOM) };
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(c->fd >= 0 && c->buffer);
    CHECK_EQ(connect(c->fd, (struct sockaddr *)&a, sizeof a), 0);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const size_t n = await_line(c);
    CHECK_EQ(strncmp(c->buffer, "INFO ", 5), 0);
    forget(c, n + 2);
    snprintf(c->inbox, sizeof c->inbox, "gdtest-%d-%u", (int)getpid(), ++clients);
    snprintf(hello, sizeof hello,
             "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true}\r\n"
             "SUB %s.* 1\r\nPING\r\n",
             c->inbox);
    send_all(c, hello, strlen(hello));
    while (strncmp(c->buffer, "PONG", 4) != 0 || !strstr(c->buffer, "\r\n")) {
        if (strncmp(c->buffer, "-ERR", 4) == 0)
            FAIL("the server says %s", c->buffer);
        receive(c);
    }
    forget(c, await_line(c) + 2);
}

void client_close(struct client *c)
{
    close(c->fd);
    free(c->buffer);
    free(c->subject);
    *c = (struct client){ .fd = -1 };
}

void client_publish(struct client *c, const char *subject, const char *reply, const char *headers, const void *data,
                    size_t size)
{
    char line[2048], head[1024] = "";
    int n;
    if (headers)
        snprintf(head, sizeof head, "NATS/1.0\r\n%s\r\n", headers);
    if (headers)
        n = snprintf(line, sizeof line, "HPUB %s %s %zu %zu\r\n%s", subject, reply ? reply : "", strlen(head),
                     strlen(head) + size, head);
    else
        n = snprintf(line, sizeof line, "PUB %s %s %zu\r\n", subject, reply ? reply : "", size);
    CHECK(n > 0 && n < (int)sizeof line);
    send_all(c, line, (size_t)n);
    send_all(c, data, size);
    send_all(c, "\r\n", 2);
}

/* Cuts a message out of the buffer. `line` is a copy of its first line. */
static void take_message(struct client *c, char *line)
{
    char *words[6] = { 0 }, *rest = NULL;
    unsigned n = 0;
    for (char *w = strtok_r(line, " ", &rest); w && n < 6; w = strtok_r(NULL, " ", &rest))
        words[n++] = w;
    const bool has_headers = line[0] == 'H';
    const unsigned numbers = has_headers ? 2 : 1;
    CHECK_GE(n, 3 + numbers);
    const bool has_reply = n == 4 + numbers;
    const size_t all = strtoul(words[n - 1], NULL, 10), head = has_headers ? strtoul(words[n - 2], NULL, 10) : 0;
    const size_t first = await_line(c) + 2;
    while (c->n < first + all + 2)
        receive(c);
    free(c->subject);
    const size_t subject_size = strlen(words[1]) + 1, reply_size = has_reply ? strlen(words[3]) + 1 : 1;
    c->subject = calloc(1, subject_size + reply_size + head + all + 3);
    CHECK(c->subject != NULL);
    c->reply = c->subject + subject_size;
    c->headers = c->reply + reply_size;
    c->data = c->headers + head + 1;
    c->data_size = all - head;
    memcpy(c->subject, words[1], subject_size);
    if (has_reply)
        memcpy(c->reply, words[3], reply_size);
    memcpy(c->headers, c->buffer + first, head);
    memcpy(c->data, c->buffer + first + head, c->data_size);
    forget(c, first + all + 2);
}

/* Handles the first line of the buffer, which is complete. True: it was that of a message. */
static bool take_line(struct client *c)
{
    const size_t n = await_line(c);
    char *line = strndup(c->buffer, n);
    CHECK(line != NULL);
    const bool is_message = strncmp(line, "MSG ", 4) == 0 || strncmp(line, "HMSG ", 5) == 0;
    if (is_message)
        take_message(c, line);
    else
        forget(c, n + 2);
    if (strncmp(line, "PING", 4) == 0)
        send_all(c, "PONG\r\n", 6);
    if (strncmp(line, "-ERR", 4) == 0)
        FAIL("the server says %s", line);
    free(line);
    return is_message;
}

void client_next(struct client *c)
{
    while (!take_line(c))
        ;
}

bool client_next_unless(struct client *c, int fd)
{
    do {
        while (!strstr(c->buffer, "\r\n")) {
            struct pollfd p[2] = { { c->fd, POLLIN, 0 }, { fd, POLLIN, 0 } };
            CHECK(poll(p, 2, -1) > 0 || errno == EINTR);
            if (p[0].revents)
                receive(c);
            else if (p[1].revents)
                return false;
        }
    } while (!take_line(c));
    return true;
}

/* Drops answers to earlier requests. */
static void await_answer(struct client *c, const char *inbox)
{
    do
        client_next(c);
    while (strcmp(c->subject, inbox) != 0 && strncmp(c->subject, c->inbox, strlen(c->inbox)) == 0);
}

const char *client_ask(struct client *c, const char *subject, const char *json)
{
    char inbox[64];
    snprintf(inbox, sizeof inbox, "%s.%u", c->inbox, ++c->next);
    client_publish(c, subject, inbox, NULL, json, strlen(json));
    await_answer(c, inbox);
    return c->data;
}

/* Returns when the server knows the subscription. */
void client_subscribe(struct client *c, const char *subject)
{
    char text[300];
    snprintf(text, sizeof text, "SUB %s 2\r\nPING\r\n", subject);
    send_all(c, text, strlen(text));
    while (!strstr(c->buffer, "PONG\r\n"))
        receive(c);
}

long client_number(const char *json, const char *name)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", name);
    const char *at = strstr(json, quoted);
    return at ? strtol(at + strlen(quoted), NULL, 10) : -1;
}

long client_count(struct client *c, const char *stream)
{
    char subject[256];
    snprintf(subject, sizeof subject, "$JS.API.STREAM.INFO.%s", stream);
    const char *json = client_ask(c, subject, "");
    return strstr(json, "\"error\"") ? -1 : client_number(json, "messages");
}

bool client_pull(struct client *c, const char *stream, const char *consumer)
{
    char subject[256], inbox[64];
    snprintf(subject, sizeof subject, "$JS.API.CONSUMER.MSG.NEXT.%s.%s", stream, consumer);
    snprintf(inbox, sizeof inbox, "%s.%u", c->inbox, ++c->next);
    static const char request[] = "{\"batch\":1,\"no_wait\":true}";
    client_publish(c, subject, inbox, NULL, request, sizeof request - 1);
    client_next(c); /* a message of the stream has its own subject, a status has that of the inbox */
    return strcmp(c->subject, inbox) != 0;
}

/* The value of a header; NULL: there is no such header. Valid until the next call. */
static const char *header(const struct client *c, const char *name)
{
    static char value[512];
    const char *at = strstr(c->headers, name);
    if (!at)
        return NULL;
    at += strlen(name);
    snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "\r"), at);
    return value;
}

/* Asks for many messages at once. A status without data ends the answer. */
void client_each(struct client *c, const char *stream,
                 void (*fn)(void *user, const char *subject, const char *data, size_t size), void *user)
{
    char api[256], request[128];
    snprintf(api, sizeof api, "$JS.API.DIRECT.GET.%s", stream);
    for (long next = 1, last = 0; last != next;) {
        last = next;
        snprintf(request, sizeof request, "{\"seq\":%ld,\"next_by_subj\":\">\",\"batch\":500}", next);
        client_ask(c, api, request);
        for (;; client_next(c)) {
            const char *sequence = header(c, "Nats-Sequence: ");
            if (!sequence || strncmp(c->headers, "NATS/1.0 ", 9) == 0)
                break;
            next = strtol(sequence, NULL, 10) + 1;
            fn(user, header(c, "Nats-Subject: "), c->data, c->data_size);
        }
    }
}
