/* SPDX-License-Identifier: MIT
 *
 * The proxy of the tests (proxy.h). One process with one poll loop. The test sends it commands as single messages, and
 * it answers each of them with one message.
 */
#include "queue/proxy.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "queue/server.h"
#include "support/test.h"

enum { MOST_CONNECTIONS = 200, BUFFER = 65536, TEXT = 128 };

enum order { SET, TRAP, AWAIT_TRAP, CUT, REFUSE, ACCEPT };

struct command {
    enum order order;
    enum proxy_direction direction, then;
    enum proxy_mode mode;
    char text[TEXT];
};

/* What goes in one direction of one connection. */
struct flow {
    size_t begin, end;
    char bytes[BUFFER];
    char seen[2 * TEXT]; /* the end of what has passed, to find a text that comes in two parts */
    size_t n_seen;
};

struct connection {
    int ends[2]; /* ends[PROXY_UP] is that of the client, where what goes up is read */
    struct flow flows[2];
};

static struct connection *all[MOST_CONNECTIONS];
static unsigned n_all;
static enum proxy_mode modes[2];
static struct command trap;
static bool has_trap, is_trapped, is_awaited, refuses;
static struct sockaddr_in server;

/* --- the process of the proxy ------------------------------------------------------------------ */

static void forget(unsigned i)
{
    close(all[i]->ends[0]);
    close(all[i]->ends[1]);
    free(all[i]);
    all[i] = all[--n_all];
}

static void accept_one(int listener)
{
    const int on = 1, client = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0)
        return;
    const int up = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (refuses || n_all == MOST_CONNECTIONS || connect(up, (struct sockaddr *)&server, sizeof server) < 0) {
        close(up);
        close(client);
        return;
    }
    fcntl(up, F_SETFL, O_NONBLOCK);
    setsockopt(up, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct connection *c = calloc(1, sizeof *c);
    if (!c)
        _exit(1);
    c->ends[PROXY_UP] = client;
    c->ends[PROXY_DOWN] = up;
    all[n_all++] = c;
}

static void answer(int control, unsigned number)
{
    if (write(control, &number, sizeof number) != sizeof number)
        _exit(0);
}

/* Looks for the text of the trap in what has just been read. */
static void look(struct flow *f, enum proxy_direction direction, size_t from, int control)
{
    const char *bytes = f->bytes + from;
    size_t n = f->end - from;
    while (n > 0) {
        const size_t part = n < TEXT ? n : TEXT;
        if (f->n_seen + part > sizeof f->seen) {
            memmove(f->seen, f->seen + f->n_seen - TEXT, TEXT);
            f->n_seen = TEXT;
        }
        memcpy(f->seen + f->n_seen, bytes, part);
        f->n_seen += part;
        bytes += part;
        n -= part;
        if (has_trap && trap.direction == direction && memmem(f->seen, f->n_seen, trap.text, strlen(trap.text))) {
            has_trap = false;
            is_trapped = true;
            modes[trap.then] = trap.mode;
            if (is_awaited)
                answer(control, 1);
            is_awaited = false;
        }
    }
}

/* False: the connection has ended. */
static bool receive(struct connection *c, enum proxy_direction d, int control)
{
    struct flow *f = &c->flows[d];
    if (f->begin == f->end)
        f->begin = f->end = 0;
    const ssize_t n = read(c->ends[d], f->bytes + f->end, BUFFER - f->end);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (n == 0)
        return false;
    f->end += (size_t)n;
    look(f, d, f->end - (size_t)n, control);
    return true;
}

static bool transmit(struct connection *c, enum proxy_direction d)
{
    struct flow *f = &c->flows[d];
    if (modes[d] == PROXY_DROP)
        f->begin = f->end;
    if (f->begin == f->end || modes[d] == PROXY_HOLD)
        return true;
    const ssize_t n = send(c->ends[!d], f->bytes + f->begin, f->end - f->begin, MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    f->begin += (size_t)n;
    return true;
}

static void obey(int control)
{
    struct command command;
    if (read(control, &command, sizeof command) != sizeof command)
        _exit(0);
    unsigned number = 0;
    switch (command.order) {
    case SET:
        modes[command.direction] = command.mode;
        break;
    case TRAP:
        trap = command;
        has_trap = true;
        is_trapped = false;
        break;
    case AWAIT_TRAP:
        is_awaited = !is_trapped;
        if (is_awaited)
            return; /* the answer comes later */
        break;
    case CUT:
        for (number = n_all; n_all;)
            forget(n_all - 1);
        break;
    case REFUSE:
    case ACCEPT:
        refuses = command.order == REFUSE;
        break;
    }
    answer(control, number);
}

static short wanted(const struct connection *c, enum proxy_direction end)
{
    const struct flow *in = &c->flows[end], *out = &c->flows[!end];
    const bool reads = modes[end] != PROXY_HOLD && (in->begin == in->end || in->end < BUFFER);
    const bool writes = out->begin != out->end && modes[!end] != PROXY_HOLD;
    return (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
}

static void serve(int listener, int control)
{
    static struct pollfd p[2 + 2 * MOST_CONNECTIONS];
    p[0] = (struct pollfd){ control, POLLIN, 0 };
    p[1] = (struct pollfd){ listener, POLLIN, 0 };
    for (unsigned i = 0; i < n_all; i++) {
        for (unsigned d = 0; d < 2; d++) {
            const short events = wanted(all[i], d);
            /* A connection that is held back is not looked at, so that its end is not noticed either. */
            p[2 + 2 * i + d] = (struct pollfd){ events ? all[i]->ends[d] : -1, events, 0 };
        }
    }
    const unsigned n = n_all;
    if (poll(p, 2 + 2 * n, -1) < 0)
        return;
    for (unsigned i = n; i-- > 0;) {
        bool lives = true;
        for (unsigned d = 0; d < 2; d++) {
            if (lives && (p[2 + 2 * i + d].revents & (POLLIN | POLLHUP | POLLERR)))
                lives = receive(all[i], d, control);
            lives = lives && transmit(all[i], d);
        }
        if (!lives)
            forget(i);
    }
    if (p[1].revents)
        accept_one(listener);
    if (p[0].revents)
        obey(control);
}

/* --- the side of the test ------------------------------------------------------------------------ */

static int listen_on(unsigned port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    CHECK_EQ(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    CHECK_EQ(listen(fd, 100), 0);
    return fd;
}

void proxy_start(struct proxy *p, unsigned server_port)
{
    int pair[2];
    *p = (struct proxy){ .port = reserve_port() };
    snprintf(p->hosts, sizeof p->hosts, "127.0.0.1:%u", p->port);
    const int listener = listen_on(p->port);
    const pid_t parent = getpid();
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    server = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)server_port) };
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fflush(NULL);
    p->pid = fork();
    CHECK(p->pid >= 0);
    if (p->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(pair[0]);
        while (getppid() == parent)
            serve(listener, pair[1]);
        _exit(0);
    }
    close(listener);
    close(pair[1]);
    p->control = pair[0];
}

static unsigned order(struct proxy *p, const struct command *command)
{
    unsigned number;
    CHECK_EQ(write(p->control, command, sizeof *command), sizeof *command);
    CHECK_EQ(read(p->control, &number, sizeof number), sizeof number);
    return number;
}

void proxy_set(struct proxy *p, enum proxy_direction direction, enum proxy_mode mode)
{
    order(p, &(struct command){ .order = SET, .direction = direction, .mode = mode });
}

void proxy_trap(struct proxy *p, enum proxy_direction direction, const char *text, enum proxy_direction then,
                enum proxy_mode mode)
{
    struct command c = { .order = TRAP, .direction = direction, .then = then, .mode = mode };
    CHECK_LT(strlen(text), sizeof c.text);
    strcpy(c.text, text);
    order(p, &c);
}

void proxy_await_trap(struct proxy *p)
{
    order(p, &(struct command){ .order = AWAIT_TRAP });
}

unsigned proxy_cut(struct proxy *p)
{
    return order(p, &(struct command){ .order = CUT });
}

void proxy_refuse(struct proxy *p)
{
    order(p, &(struct command){ .order = REFUSE });
}

void proxy_accept(struct proxy *p)
{
    order(p, &(struct command){ .order = ACCEPT });
}

void proxy_end(struct proxy *p)
{
    close(p->control);
    kill(p->pid, SIGKILL);
    waitpid(p->pid, NULL, 0);
    p->pid = 0;
}
