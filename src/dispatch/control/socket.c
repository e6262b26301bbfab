/* The control socket of a job, served by the run's event loop.
 *
 * Only processes of the same user are served. The directory and the mode of the file already keep others out, and the
 * kernel says whose process is at the other end.
 *
 * The run never waits for a client. Each client has one buffer for its line and one for the answer. Nothing more is
 * read from a client before its answer is sent, and only a few requests are carried out at a time. If there are too
 * many clients, the one that was silent the longest is closed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "dispatch/control/protocol.h"
#include "dispatch/internal.h"

enum { CLIENTS = 16, LINES_AT_ONCE = 8, NAME = 128 };

struct client {
    struct gd__watch watch; /* must be first; fd -1: no client */
    struct gd__control_socket *of;
    uint64_t heard; /* number of the last event from it */
    bool ended;     /* the client sends no more requests */
    struct gd__control_input in;
    char answer[GD__CONTROL_ANSWER];
    size_t sent, size;
};

struct gd__control_socket {
    struct gd_dispatcher *d;
    struct gd__watch watch; /* of the listening socket */
    int fd, directory;
    char name[NAME];
    struct stat made; /* our file, so that no other one is removed */
    uint64_t events;
    struct client clients[CLIENTS];
};

/* --- a client --- */

static void close_client(struct client *c)
{
    const int fd = c->watch.fd;
    gd__loop_remove(&c->of->d->loop, &c->watch);
    close(fd);
    c->watch.fd = -1;
}

static size_t answer_line(struct client *c, const char *line, size_t size)
{
    struct gd_dispatcher *d = c->of->d;
    struct gd__control request;
    struct gd__control_answer answer = { .code = GD_E_INVALID };
    if (gd__control_parse(line, size, &request) < 0) {
        snprintf(answer.text, sizeof answer.text, "%s", gd_error_text());
    } else if (request.kind == GD__CONTROL_STATUS) {
        gd__stats_publish(d, true);
        return gd__control_write_status(c->answer, &d->stats, d->sched.stopping);
    } else {
        gd__control_do(d, &request, &answer);
    }
    return gd__control_write_answer(c->answer, &answer);
}

/* Carries out the first request that came. Returns false if none is complete. */
static bool answer_one(struct client *c)
{
    size_t size;
    if (gd__control_line(&c->in, &size)) {
        c->size = answer_line(c, c->in.bytes, size);
        gd__control_drop(&c->in, size);
    } else if (gd__control_is_full(&c->in)) {
        struct gd__control_answer answer = { .code = GD_E_TOO_LARGE };
        snprintf(answer.text, sizeof answer.text, "a line must be shorter than %d bytes", GD__CONTROL_LINE);
        c->size = gd__control_write_answer(c->answer, &answer);
        c->in.n = 0;
        c->ended = true; /* where the next line begins is unknown */
    } else {
        return false;
    }
    c->sent = 0;
    return true;
}

/* Sends what is left of the answer. Returns false if the client is gone. */
static bool send_answer(struct client *c)
{
    while (c->sent < c->size) {
        const ssize_t n = send(c->watch.fd, c->answer + c->sent, c->size - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK;
        c->sent += (size_t)n;
    }
    return true;
}

/* Returns false if the client is gone. */
static bool receive(struct client *c)
{
    const size_t room = sizeof c->in.bytes - c->in.n;
    if (room == 0 || c->ended)
        return true;
    const ssize_t n = recv(c->watch.fd, c->in.bytes + c->in.n, room, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    c->in.n += (size_t)n;
    c->ended = n == 0;
    return true;
}

/* Answers some requests. Returns false if the client is done or gone. */
static bool serve(struct client *c)
{
    if (!send_answer(c))
        return false;
    for (int i = 0; i < LINES_AT_ONCE && c->sent == c->size; i++) {
        if (!answer_one(c))
            return !c->ended;
        if (!send_answer(c))
            return false;
    }
    return true;
}

static void client_ready(struct gd__watch *w, uint32_t events)
{
    struct client *c = (struct client *)w;
    c->heard = ++c->of->events;
    const bool is_gone = (events & (EPOLLERR | EPOLLHUP)) && !(events & EPOLLIN);
    const bool may_read = c->sent == c->size && (events & EPOLLIN);
    if (is_gone || (may_read && !receive(c)) || !serve(c)) {
        close_client(c);
        return;
    }
    /* Requests that were read already are answered when the loop comes here again, as soon as the client takes more. */
    size_t size;
    const bool more = c->sent < c->size || gd__control_line(&c->in, &size) || gd__control_is_full(&c->in);
    if (gd__loop_change(&c->of->d->loop, &c->watch, more ? EPOLLOUT : EPOLLIN) < 0)
        close_client(c);
}

/* --- new clients --- */

static bool is_same_user(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

/* Returns a free place for a client. If no place is free, closes the client that was silent the longest. */
static struct client *find_place(struct gd__control_socket *s)
{
    struct client *oldest = &s->clients[0];
    for (int i = 0; i < CLIENTS; i++) {
        struct client *c = &s->clients[i];
        if (c->watch.fd < 0)
            return c;
        if (c->heard < oldest->heard)
            oldest = c;
    }
    close_client(oldest);
    return oldest;
}

static void welcome(struct gd__control_socket *s, int fd)
{
    struct client *c = find_place(s);
    c->of = s;
    c->heard = ++s->events;
    c->ended = false;
    c->in.n = c->sent = c->size = 0;
    if (gd__loop_add(&s->d->loop, &c->watch, fd, EPOLLIN, client_ready) < 0) {
        c->watch.fd = -1;
        close(fd);
    }
}

/* Edge-triggered: if no descriptor is left for a client, the loop must not come here again and again. */
static void client_came(struct gd__watch *w, uint32_t events)
{
    struct gd__control_socket *s =
        (struct gd__control_socket *)((char *)w - offsetof(struct gd__control_socket, watch));
    (void)events;
    for (;;) {
        const int fd = gd__fd_above_stdio(accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0)
            return;
        if (is_same_user(fd))
            welcome(s, fd);
        else
            close(fd);
    }
}

/* --- the socket --- */

/* The name is reached through the directory's descriptor, because the path may be longer than an address can be. */
static int make_socket(struct gd__control_socket *s)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    const int n = snprintf(at.sun_path, sizeof at.sun_path, "/proc/self/fd/%d/%s", s->directory, s->name);
    if (n < 0 || (size_t)n >= sizeof at.sun_path)
        return gd__error(GD_E_TOO_LARGE, "the name %s is too long for a socket", s->name);
    s->fd =
        GD__FAULT("socket") ? -1 : gd__fd_above_stdio(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (s->fd < 0)
        return gd__error_errno("cannot create the control socket");
    if (unlinkat(s->directory, s->name, 0) < 0 && errno != ENOENT) /* left by an earlier process with our pid */
        return gd__error_errno("cannot remove %s", s->name);
    /* The mode of the socket is the mode of its file. */
    if (fchmod(s->fd, 0600) < 0 || bind(s->fd, (const struct sockaddr *)&at, sizeof at) < 0)
        return gd__error_errno("cannot bind the control socket %s", s->name);
    if (fstatat(s->directory, s->name, &s->made, AT_SYMLINK_NOFOLLOW) < 0 || listen(s->fd, CLIENTS) < 0)
        return gd__error_errno("cannot listen on the control socket %s", s->name);
    return gd__loop_add(&s->d->loop, &s->watch, s->fd, EPOLLIN | EPOLLET, client_came);
}

void gd__control_listen(struct gd_dispatcher *d)
{
    const char *page = NULL;
    const int directory = gd__publish_place(d, &page);
    struct gd__control_socket *s = directory < 0 ? NULL : gd__calloc(1, sizeof *s);
    if (!s)
        return;
    s->d = d;
    s->fd = s->watch.fd = -1;
    s->directory = fcntl(directory, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    snprintf(s->name, sizeof s->name, "%s.control", page);
    for (int i = 0; i < CLIENTS; i++)
        s->clients[i].watch.fd = -1;
    d->control_socket = s;
    if (s->directory < 0 || make_socket(s) < 0)
        gd__control_hang_up(d);
}

static void remove_file(const struct gd__control_socket *s)
{
    struct stat now;
    if (fstatat(s->directory, s->name, &now, AT_SYMLINK_NOFOLLOW) == 0 && now.st_ino == s->made.st_ino &&
        now.st_dev == s->made.st_dev)
        unlinkat(s->directory, s->name, 0);
}

void gd__control_hang_up(struct gd_dispatcher *d)
{
    struct gd__control_socket *s = d->control_socket;
    d->control_socket = NULL;
    if (!s)
        return;
    for (int i = 0; i < CLIENTS; i++)
        if (s->clients[i].watch.fd >= 0)
            close_client(&s->clients[i]);
    gd__loop_remove(&d->loop, &s->watch);
    if (s->directory >= 0)
        remove_file(s);
    gd__fd_close(&s->directory);
    gd__fd_close(&s->fd);
    gd__free(s);
}
