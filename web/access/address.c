/* SPDX-License-Identifier: MIT
 *
 * Parses the address of the page, and opens its socket. An address is a number or "localhost". Other names are refused,
 * because a name may lead to another machine later. */
#include "web/access/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/text/parse.h"

/* How many connections may wait to be accepted; the system may allow fewer. */
enum { BACKLOG = 128 };

static int set_v4(struct web_address *a, const char *host, uint16_t port)
{
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
    if (inet_pton(AF_INET, host, &in.sin_addr) != 1)
        return -1;
    memcpy(&a->at, &in, sizeof in);
    a->size = sizeof in;
    a->loopback = ntohl(in.sin_addr.s_addr) >> 24 == 127;
    a->any = in.sin_addr.s_addr == htonl(INADDR_ANY);
    snprintf(a->host, sizeof a->host, "%s", host);
    return 0;
}

static int set_v6(struct web_address *a, const char *host, uint16_t port)
{
    struct sockaddr_in6 in = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
    if (inet_pton(AF_INET6, host, &in.sin6_addr) != 1)
        return -1;
    memcpy(&a->at, &in, sizeof in);
    a->size = sizeof in;
    a->loopback = IN6_IS_ADDR_LOOPBACK(&in.sin6_addr);
    a->any = IN6_IS_ADDR_UNSPECIFIED(&in.sin6_addr);
    snprintf(a->host, sizeof a->host, "[%s]", host);
    return 0;
}

int web_address_parse(struct web_address *a, const char *text)
{
    char host[64] = "127.0.0.1";
    const char *colon = strrchr(text, ':'), *port_text = colon ? colon + 1 : text;
    uint64_t port;
    *a = (struct web_address){ 0 };
    if (gd__parse_number("--http", port_text, 0, 65535, &port) < 0)
        return gd__fail("--http %s: write a port from 0 to 65535, or ADDRESS:PORT, as in 8080 or 0.0.0.0:8080", text);
    size_t length = colon ? (size_t)(colon - text) : 0;
    if (length >= sizeof host)
        return gd__fail("--http %s: the address is too long: write an IP address or localhost, as in 0.0.0.0:8080",
                        text);
    if (colon)
        snprintf(host, sizeof host, "%.*s", (int)length, text);
    a->port = (unsigned)port;
    if (host[0] == '[' && host[length - 1] == ']') {
        host[length - 1] = '\0';
        if (set_v6(a, host + 1, (uint16_t)port) == 0)
            return 0;
    } else if (set_v4(a, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, (uint16_t)port) == 0) {
        return 0;
    }
    if (strchr(host, ':') && host[0] != '[')
        return gd__fail("--http %s: write an IPv6 address in brackets, as in [::1]:8080", text);
    return gd__fail("--http %s: the address must be an IP address or localhost, as in 0.0.0.0:8080 or [::1]:8080",
                    text);
}

/* Sets a->port to the port that the system chose. */
static int learn_port(struct web_address *a, int fd)
{
    struct sockaddr_storage at = { 0 };
    socklen_t size = sizeof at;
    if (getsockname(fd, (struct sockaddr *)&at, &size) < 0)
        return -1;
    in_port_t port;
    memcpy(&port,
           (const char *)&at + (at.ss_family == AF_INET6 ? offsetof(struct sockaddr_in6, sin6_port)
                                                         : offsetof(struct sockaddr_in, sin_port)),
           sizeof port);
    a->port = ntohs(port);
    return 0;
}

int web_address_listen(struct web_address *a)
{
    const int on = 1, family = a->at.ss_family;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return gd__fail("--http: cannot create a socket: %s", strerror(errno));
    /* Lets a run use the port of a run that has just ended. Two runs at a time still cannot share a port. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (family == AF_INET6 && !a->any)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&a->at, a->size) == 0 && listen(fd, BACKLOG) == 0 && learn_port(a, fd) == 0)
        return fd;
    const int why = errno;
    close(fd);
    if (why == EADDRINUSE)
        return gd__fail("--http: port %u of %s is in use: choose another port, or 0 for any free one", a->port,
                        a->host);
    if (why == EACCES)
        return gd__fail("--http: you are not allowed to use port %u: choose a port from 1024 up, or 0 for any free one",
                        a->port);
    if (why == EADDRNOTAVAIL)
        return gd__fail(
            "--http: %s is not an address of this machine: choose one that \"ip address\" lists, or give only a port",
            a->host);
    return gd__fail("--http: cannot listen on %s port %u: %s", a->host, a->port, strerror(why));
}

void web_address_url(const struct web_address *a, char *out, size_t size)
{
    char name[128];
    const char *host = a->host;
    if (a->any && gethostname(name, sizeof name) == 0) {
        name[sizeof name - 1] = '\0';
        host = name;
    }
    snprintf(out, size, "http://%s:%u/", host, a->port);
}
