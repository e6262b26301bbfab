/* A worker's output. It is read from a pipe and passed on, and its end is kept.
 *
 * Nothing here may block, even if our own standard output is a terminal or a pipe that accepts no more. That descriptor
 * is shared with other processes, so it cannot be made non-blocking. It is written to as follows:
 *
 *   pipe, terminal   opened again through /proc, which makes a new, non-blocking open file description
 *   socket           send() with MSG_DONTWAIT
 *   anything else    a duplicate, written at most PIPE_BUF bytes at a time after a poll(); a file is always ready
 *
 * While it accepts no more, the pipe is not read. When the pipe is full the worker waits, as it would with the terminal
 * itself. Only gd__output_open() needs memory. Pausing and resuming only change existing watches. A paused watch is
 * edge-triggered with no events, because end of file cannot be masked and would be reported for ever.
 */
#include "proc/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"

enum { READ_PER_WAKE = 64 * 1024 }; /* a limit, so that a worker that prints much does not delay the others */

enum forward_kind { FORWARD_NONBLOCKING, FORWARD_SOCKET, FORWARD_POLLED };

static const uint32_t PAUSED = EPOLLET;

/* --- the tail ----------------------------------------------------------- */

static void keep_tail(struct gd__output *o, const char *text, size_t n)
{
    size_t drop = o->tail_size + n > GD__TAIL_BYTES ? o->tail_size + n - GD__TAIL_BYTES : 0;
    size_t old = drop < o->tail_size ? drop : o->tail_size; /* how many of these bytes are dropped from the old tail */

    if (drop > 0) {
        char last = drop <= o->tail_size ? o->tail[drop - 1] : text[drop - o->tail_size - 1];

        o->tail_cut = last != '\n';
    }
    memmove(o->tail, o->tail + old, o->tail_size - old);
    o->tail_size -= old;
    memcpy(o->tail + o->tail_size, text + (drop - old), n - (drop - old));
    o->tail_size += n - (drop - old);
}

static size_t line_start(const struct gd__output *o, size_t end)
{
    while (end > 0 && o->tail[end - 1] != '\n')
        end--;
    return end;
}

/* Returns the start of the last whole lines that fit, or end if none fits. */
static size_t whole_lines(const struct gd__output *o, size_t end, unsigned max_lines, size_t room)
{
    size_t start = end, line_end = end;

    for (unsigned lines = 0; lines < max_lines; lines++) {
        size_t at = line_start(o, line_end);

        if ((at == 0 && o->tail_cut) || end - at > room)
            break;
        start = at;
        if (at == 0)
            break;
        line_end = at - 1;
    }
    return start;
}

/* For a line that is too long, returns the start of its last part that fits, without splitting a UTF-8 character. */
static size_t end_of_line(const struct gd__output *o, size_t end, size_t room)
{
    size_t start = line_start(o, end);

    if (end - start > room)
        start = end - room;
    while (start < end && ((unsigned char)o->tail[start] & 0xc0) == 0x80)
        start++;
    return start;
}

static char printable_or_mark(char c)
{
    unsigned char u = (unsigned char)c;

    return u == '\t' || u == '\n' || (u >= 0x20 && u != 0x7f) ? c : '?';
}

size_t gd__output_last_lines(const struct gd__output *o, unsigned max_lines, char *text, size_t size)
{
    size_t end = o->tail_size, length = 0;

    if (size == 0)
        return 0;
    while (end > 0 && o->tail[end - 1] == '\n')
        end--;
    if (max_lines > 0) {
        size_t start = whole_lines(o, end, max_lines, size - 1);

        if (start == end)
            start = end_of_line(o, end, size - 1);
        while (start < end)
            text[length++] = printable_or_mark(o->tail[start++]);
    }
    text[length] = 0;
    return length;
}

/* --- forwarding --------------------------------------------------------- */

/* A write() that does not raise SIGPIPE in the program. The signal goes to the thread that writes. It is blocked here,
 * so it stays pending and can be removed. A SIGPIPE that was pending before belongs to the program and is not
 * removed. */
static ssize_t write_without_sigpipe(int fd, const char *text, size_t n)
{
    static const struct timespec at_once = { 0, 0 };
    sigset_t pipe_only, before, pending;

    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigemptyset(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
    sigpending(&pending);
    ssize_t rc = write(fd, text, n);
    int saved_errno = errno;
    if (rc < 0 && saved_errno == EPIPE && !sigismember(&pending, SIGPIPE)) {
        while (sigtimedwait(&pipe_only, NULL, &at_once) < 0 && errno == EINTR)
            ;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved_errno;
    return rc;
}

static ssize_t forward_some(const struct gd__output *o, const char *text, size_t n)
{
    if (o->forward_kind == FORWARD_SOCKET)
        return send(o->forward_fd, text, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (o->forward_kind == FORWARD_POLLED) {
        struct pollfd p = { .fd = o->forward_fd, .events = POLLOUT };

        if (poll(&p, 1, 0) == 0) {
            errno = EAGAIN;
            return -1;
        }
        if (n > PIPE_BUF)
            n = PIPE_BUF;
    }
    return write_without_sigpipe(o->forward_fd, text, n);
}

static void unblock(struct gd__output *o)
{
    if (!o->blocked)
        return;
    o->blocked = false;
    if (o->forward_watch.fd >= 0)
        (void)gd__loop_change(o->loop, &o->forward_watch, PAUSED);
    if (o->watch.fd >= 0)
        (void)gd__loop_change(o->loop, &o->watch, EPOLLIN);
}

static void stop_forwarding(struct gd__output *o)
{
    gd__loop_remove(o->loop, &o->forward_watch);
    if (o->forward_fd >= 0)
        close(o->forward_fd);
    o->forward_fd = -1;
    o->held_at = o->held_size = 0;
    unblock(o);
}

static void block(struct gd__output *o)
{
    if (o->blocked)
        return;
    o->blocked = true;
    /* Without a watch the output would never resume and the worker would wait for ever. So stop forwarding instead. */
    if (o->forward_watch.fd < 0 || gd__loop_change(o->loop, &o->forward_watch, EPOLLOUT) < 0 ||
        (o->watch.fd >= 0 && gd__loop_change(o->loop, &o->watch, PAUSED) < 0))
        stop_forwarding(o);
}

static void flush(struct gd__output *o)
{
    while (o->held_at < o->held_size) {
        ssize_t n = forward_some(o, o->held + o->held_at, o->held_size - o->held_at);

        if (n > 0) {
            o->held_at += (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            block(o);
            return;
        } else if (n == 0 || errno != EINTR) {
            stop_forwarding(o);
            return;
        }
    }
    unblock(o);
}

static void on_forward_ready(struct gd__watch *w, uint32_t events)
{
    struct gd__output *o = (struct gd__output *)((char *)w - offsetof(struct gd__output, forward_watch));

    if (!o->blocked)
        return;
    flush(o);
    if (o->blocked && (events & (EPOLLERR | EPOLLHUP)))
        stop_forwarding(o); /* the descriptor is broken, and the event would be reported for ever */
}

/* --- reading ------------------------------------------------------------ */

/* Returns the number of bytes read, 0 at end of file, or -1 if there is nothing to read now. */
static ssize_t read_into_tail(struct gd__output *o, char *buffer, size_t size)
{
    ssize_t n;

    do {
        n = read(o->fd, buffer, size);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return -1;
    if (n <= 0) {
        gd__loop_remove(o->loop, &o->watch);
        return 0;
    }
    keep_tail(o, buffer, (size_t)n);
    return n;
}

/* Call it only while no bytes are held. The callback may close o. */
static ssize_t read_and_pass_on(struct gd__output *o, size_t size)
{
    ssize_t n = read_into_tail(o, o->held, size < sizeof o->held ? size : sizeof o->held);

    if (n <= 0)
        return n;
    if (o->forward_fd >= 0) {
        o->held_at = 0;
        o->held_size = (size_t)n;
        flush(o);
    } else if (o->fn) {
        o->fn(o->user, o->stream, o->held, (size_t)n);
    }
    return n;
}

static void on_readable(struct gd__watch *w, uint32_t events)
{
    struct gd__output *o = (struct gd__output *)w;
    ssize_t n = 1;

    (void)events;
    for (size_t total = 0; total < READ_PER_WAKE && n > 0; total += (size_t)n) {
        if (o->blocked || o->waits || o->fd < 0)
            return;
        n = read_and_pass_on(o, sizeof o->held);
    }
}

void gd__output_hold(struct gd__output *o, bool hold)
{
    if (!o->fn || o->waits == hold || o->watch.fd < 0)
        return;
    if (gd__loop_change(o->loop, &o->watch, hold ? PAUSED : EPOLLIN) == 0)
        o->waits = hold;
}

void gd__output_drain(struct gd__output *o)
{
    char buffer[PIPE_BUF];
    int there = 0;

    /* Read only the bytes that are in the pipe now, because a process that the worker started may continue to write. */
    if (o->fd < 0 || ioctl(o->fd, FIONREAD, &there) < 0)
        return;
    if (o->blocked)
        flush(o);
    while (there > 0 && o->fd >= 0) {
        size_t left = (size_t)there;
        ssize_t n = o->blocked ? read_into_tail(o, buffer, left < sizeof buffer ? left : sizeof buffer)
                               : read_and_pass_on(o, left);

        if (n <= 0)
            return;
        there -= (int)n;
    }
}

/* --- opening and closing ------------------------------------------------ */

static int open_again(int fd)
{
    char path[32];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* Opens fd again or duplicates it. Returns -1 with errno on failure. */
static int forward_open(int fd, int *kind)
{
    struct stat s;
    int mode = fcntl(fd, F_GETFL);

    if (GD__FAULT("dup") || mode < 0 || fstat(fd, &s) < 0)
        return -1;
    if ((mode & O_ACCMODE) == O_RDONLY) { /* a write would always fail, and poll() reports only "not ready" */
        errno = EBADF;
        return -1;
    }
    if (S_ISFIFO(s.st_mode) || isatty(fd)) {
        int again = open_again(fd); /* fails without /proc or on another user's terminal; then it is duplicated */

        *kind = FORWARD_NONBLOCKING;
        if (again >= 0)
            return again;
    }
    *kind = S_ISSOCK(s.st_mode) ? FORWARD_SOCKET : FORWARD_POLLED;
    return fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

/* Moves fd out of 0..2. There the program, or the forwarding of the other stream, would use it as a standard stream. */
static int move_above_stdio(int *fd)
{
    if (*fd > STDERR_FILENO)
        return 0;
    int up = GD__FAULT("dup") ? -1 : fcntl(*fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (up < 0)
        return -1;
    close(*fd);
    *fd = up;
    return 0;
}

static int start_forwarding(struct gd__output *o, int fd)
{
    o->forward_fd = forward_open(fd, &o->forward_kind);
    if (o->forward_fd < 0 && errno == EBADF)
        return 0; /* a program may run with its standard streams closed */
    if (o->forward_fd < 0 || move_above_stdio(&o->forward_fd) < 0)
        return gd__error_errno("cannot copy descriptor %d", fd);
    int rc = gd__loop_add(o->loop, &o->forward_watch, o->forward_fd, PAUSED, on_forward_ready);
    return rc < 0 && errno != EPERM ? rc : 0; /* EPERM: a file, always ready */
}

static int open_pipe(struct gd__output *o, int *child_fd)
{
    int ends[2];

    if (GD__FAULT("pipe") || pipe2(ends, O_CLOEXEC) < 0)
        return gd__error_errno("cannot create a pipe for a worker's output");
    o->fd = ends[0];
    *child_fd = ends[1];
    /* Only our end is non-blocking. The worker's writes block, as programs expect. */
    if (move_above_stdio(&o->fd) < 0 || move_above_stdio(child_fd) < 0 || fcntl(o->fd, F_SETFL, O_NONBLOCK) < 0)
        return gd__error_errno("cannot set up the pipe for a worker's output");
    return 0;
}

int gd__output_open(struct gd__output *o, struct gd__loop *loop, int stream, int forward_fd, gd__output_fn *fn,
                    void *user, int *child_fd)
{
    int rc = 0;

    memset(o, 0, offsetof(struct gd__output, tail));
    o->watch.fd = o->forward_watch.fd = o->fd = o->forward_fd = *child_fd = -1;
    o->loop = loop;
    o->stream = stream;
    o->fn = forward_fd >= 0 ? NULL : fn;
    o->user = user;
    if (forward_fd >= 0 && (rc = start_forwarding(o, forward_fd)) < 0)
        goto fail;
    if ((rc = open_pipe(o, child_fd)) < 0)
        goto fail;
    if ((rc = gd__loop_add(loop, &o->watch, o->fd, EPOLLIN, on_readable)) < 0)
        goto fail;
    return 0;
fail:
    if (*child_fd >= 0)
        close(*child_fd);
    *child_fd = -1;
    gd__output_close(o);
    return rc;
}

void gd__output_close(struct gd__output *o)
{
    if (o->forward_fd >= 0)
        flush(o); /* for the last time: bytes that are not accepted now are lost */
    gd__loop_remove(o->loop, &o->watch);
    stop_forwarding(o);
    if (o->fd >= 0)
        close(o->fd);
    o->fd = -1;
}
