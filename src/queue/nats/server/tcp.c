/* Short TCP connections with a deadline: see tcp.h. */
#include "queue/nats/server/tcp.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"

/* Waits until the descriptor is ready. Returns false if the time is over. It looks at least once. */
static bool wait_ready(int fd, short events, uint64_t deadline_ns)
{
    for (;;) {
        struct pollfd p = { .fd = fd, .events = events };
        const uint64_t now_ns = gd__now_ns();
        const uint64_t ms = now_ns < deadline_ns ? (deadline_ns - now_ns) / GD__NS_PER_MS + 1 : 0;
        const int n = poll(&p, 1, ms > INT32_MAX ? INT32_MAX : (int)ms);
        if (n > 0)
            return true;
        if (ms == 0 || (n < 0 && errno != EINTR))
            return false;
    }
}

/* Returns a connected socket, or -1 with errno. */
static int connect_to(const struct addrinfo *a, uint64_t deadline_ns)
{
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol), failure = 0;
    socklen_t size = sizeof failure;
    fd = gd__fd_above_stdio(fd);
    if (fd < 0)
        return -1;
    if (connect(fd, a->ai_addr, a->ai_addrlen) < 0)
        failure = errno;
    if (failure == EINPROGRESS) {
        failure = ETIMEDOUT;
        if (wait_ready(fd, POLLOUT, deadline_ns) && getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) < 0)
            failure = errno;
    }
    if (failure) {
        gd__fd_close(&fd);
        errno = failure;
    }
    return fd;
}

static int cannot_reach(const char *server, int failure)
{
    if (failure == ECONNREFUSED)
        return gd__error(GD_E_BUSY,
                         "no server listens on %s: start one there with: nats-server -c gpu-dispatch.conf. If it runs, "
                         "check its line \"listen\"",
                         server);
    if (failure == ETIMEDOUT)
        return gd__error(GD_E_BUSY, "%s does not answer: check the address, and that no firewall is between", server);
    const bool may_pass = failure == ECONNRESET || failure == ECONNABORTED || failure == EHOSTUNREACH;
    return gd__error(may_pass ? GD_E_BUSY : GD_E_FAILED, "cannot connect to %s: %s", server, strerror(failure));
}

/* Tries all addresses of the host. Returns a socket or a negative code. */
int gd__tcp_connect(const struct gd__queue_server *s, uint64_t deadline_ns)
{
    char server[GD__QUEUE_SERVER_TEXT_ROOM];
    const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    char port[8];
    int fd = -1, failure = 0;
    (void)snprintf(port, sizeof port, "%u", s->port);
    const int rc = getaddrinfo(s->host, port, &hints, &found);
    if (rc != 0)
        return gd__error(rc == EAI_AGAIN ? GD_E_BUSY : GD_E_FAILED, "there is no host \"%s\": %s", s->host,
                         gai_strerror(rc));
    for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
        fd = connect_to(a, deadline_ns);
        if (fd < 0 && failure != ECONNREFUSED)
            failure = errno;
    }
    freeaddrinfo(found);
    return fd >= 0 ? fd : cannot_reach(gd__tcp_server_text(server, s), failure);
}

char *gd__tcp_server_text(char out[GD__QUEUE_SERVER_TEXT_ROOM], const struct gd__queue_server *s)
{
    const bool is_ipv6 = strchr(s->host, ':') != NULL;
    (void)snprintf(out, GD__QUEUE_SERVER_TEXT_ROOM, is_ipv6 ? "[%s]:%u" : "%s:%u", s->host, s->port);
    return out;
}

size_t gd__tcp_read(int fd, char *to, size_t room, int stop, uint64_t deadline_ns)
{
    size_t size = 0;
    while (size < room && wait_ready(fd, POLLIN, deadline_ns)) {
        const ssize_t n = read(fd, to + size, room - size);
        if (n <= 0 && !(n < 0 && (errno == EINTR || errno == EAGAIN)))
            break;
        size += n > 0 ? (size_t)n : 0;
        if (n > 0 && stop >= 0 && memchr(to + size - n, stop, (size_t)n))
            break;
    }
    return size;
}

bool gd__tcp_write(int fd, const char *text, uint64_t deadline_ns)
{
    size_t left = strlen(text);
    while (left > 0 && wait_ready(fd, POLLOUT, deadline_ns)) {
        const ssize_t n = send(fd, text, left, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return false;
        text += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    return left == 0;
}
