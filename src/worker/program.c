/* A program at the other end of two pipes.
 *
 * Both sides may have more to write than a pipe holds, so a side that blocked in a write could block both. Therefore we
 * wait for both pipes at once, and write without blocking.
 *
 * We also wait for the end of the program. A process that it started may hold its end of a pipe open, and then the pipe
 * would never report the end. When the program closes its input, unsent data is dropped. We then wait for its answers
 * or its end, but not for ever, because it may not have read the last lines.
 */
#include "worker/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "proc/descendants.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

enum {
    PIPE_BYTES = 1 << 20,  /* requested size; if the kernel does not allow it, the default is used */
    READ_BYTES = 1 << 18,  /* the minimum room for a read */
    KEEP_BYTES = 16 << 20, /* a buffer that has grown larger is freed */
    DEAF_WAIT_MS = 1000,   /* how long to wait for output from a program that has closed its input */
};

extern char **environ;

/* ---- starting ---- */

static int make_pipe(int ends[2])
{
    if (GD__FAULT("pipe") || pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    (void)fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES);
    return 0;
}

/* Returns an error number. */
static int spawn_program(pid_t *pid, char *const *words, int in, int out)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc)
        return rc;
    if ((rc = posix_spawnattr_init(&attributes)))
        goto out_actions;
    if ((rc = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO)) ||
        (rc = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO)) ||
        (rc = gd__spawn_attributes(&attributes, 0)))
        goto out;
    rc = GD__FAULT("spawn") ? errno : posix_spawnp(pid, words[0], &actions, &attributes, words, environ);
out:
    posix_spawnattr_destroy(&attributes);
out_actions:
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

int gd__program_start(struct gd__program *p, char *const *words)
{
    int in[2] = { -1, -1 }, out[2] = { -1, -1 }, rc = 0, failed;
    *p = (struct gd__program){ .pidfd = -1, .in_fd = -1, .out = -1 };
    if (make_pipe(in) < 0 || make_pipe(out) < 0 || fcntl(in[1], F_SETFL, O_NONBLOCK) < 0 ||
        fcntl(out[0], F_SETFL, O_NONBLOCK) < 0) {
        rc = gd__error_errno("can't create the pipes to %s", words[0]);
        goto out;
    }
    if ((failed = spawn_program(&p->pid, words, in[0], out[1]))) {
        errno = failed;
        p->pid = 0;
        rc = gd__error_errno("can't start %s (is it in PATH, and executable?)", words[0]);
        goto out;
    }
    p->in_fd = in[1];
    p->out = out[0];
    in[1] = out[0] = -1;
    p->pidfd = GD__FAULT("pidfd") ? -1 : (int)syscall(SYS_pidfd_open, p->pid, 0);
    if (p->pidfd < 0) {
        rc = gd__error_errno("can't open a pidfd of the process of %s", words[0]);
        gd__program_kill(p);
    }
out:
    for (int i = 0; i < 2; i++) {
        gd__fd_close(&in[i]);
        gd__fd_close(&out[i]);
    }
    return rc;
}

/* ---- sending ---- */

/* Moves the contents to the front and makes room after them. */
static bool make_room(struct gd__program_bytes *b, size_t n)
{
    const size_t there = b->size - b->from;
    if (b->from > 0 && there > 0)
        memmove(b->bytes, b->bytes + b->from, there);
    b->from = 0;
    b->size = there;
    if (b->room - there >= n)
        return true;
    const size_t twice = 2 * b->room, room = there + n > twice ? there + n : twice;
    char *bytes = room < n ? NULL : gd__realloc(b->bytes, room);
    if (!bytes)
        return false;
    b->bytes = bytes;
    b->room = room;
    return true;
}

static void empty(struct gd__program_bytes *b)
{
    b->from = b->size = 0;
    if (b->room <= KEEP_BYTES)
        return;
    gd__free(b->bytes);
    *b = (struct gd__program_bytes){ 0 };
}

char *gd__program_room(struct gd__program *p, size_t n)
{
    return p->to.room - p->to.size >= n || make_room(&p->to, n) ? p->to.bytes + p->to.size : NULL;
}

void gd__program_put(struct gd__program *p, size_t n)
{
    p->to.size += n;
    if (p->in_fd < 0)
        empty(&p->to);
}

size_t gd__program_unsent(const struct gd__program *p)
{
    return p->to.size - p->to.from;
}

/* Writes as much as the pipe takes. */
static void write_some(struct gd__program *p)
{
    struct gd__program_bytes *b = &p->to;
    while (b->from < b->size) {
        const ssize_t n = write(p->in_fd, b->bytes + b->from, b->size - b->from);
        if (n >= 0)
            b->from += (size_t)n;
        else if (errno == EAGAIN)
            return;
        else if (errno != EINTR)
            gd__program_close_input(p); /* EPIPE: the program has closed it */
    }
    empty(b);
}

void gd__program_close_input(struct gd__program *p)
{
    gd__fd_close(&p->in_fd);
    empty(&p->to);
}

/* ---- receiving ---- */

static int read_some(struct gd__program *p)
{
    struct gd__program_bytes *b = &p->back;
    ssize_t n;
    if (b->from == b->size)
        empty(b);
    if (!make_room(b, READ_BYTES))
        return gd__error_errno("no memory for a line of more than %zu bytes", b->size);
    do
        n = read(p->out, b->bytes + b->size, b->room - b->size);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return GD__PROGRAM_SILENT;
    if (n < 0)
        return gd__error_errno("can't read the program's output");
    b->size += (size_t)n;
    return n > 0 ? GD__PROGRAM_SPOKE : GD__PROGRAM_ENDED;
}

static bool is_readable(const struct pollfd *f)
{
    return f->revents & (POLLIN | POLLHUP | POLLERR);
}

int gd__program_watch(struct gd__program *p, struct pollfd fds[GD__PROGRAM_FDS])
{
    write_some(p);
    fds[0] = (struct pollfd){ .fd = p->out, .events = POLLIN };
    fds[1] = (struct pollfd){ .fd = p->pidfd, .events = POLLIN };
    fds[2] = (struct pollfd){ .fd = p->in_fd, .events = gd__program_unsent(p) ? POLLOUT : 0 };
    return p->in_fd < 0 ? DEAF_WAIT_MS : -1;
}

int gd__program_is_deaf(void)
{
    return gd__error(GD_E_FAILED, "it closed its standard input but kept running");
}

int gd__program_look(struct gd__program *p)
{
    write_some(p);
    return read_some(p);
}

int gd__program_take(struct gd__program *p, const struct pollfd fds[GD__PROGRAM_FDS])
{
    if (is_readable(&fds[0]))
        return read_some(p);
    if (fds[1].revents)
        return GD__PROGRAM_ENDED;
    if (fds[2].revents & (POLLERR | POLLHUP))
        gd__program_close_input(p);
    return GD__PROGRAM_SILENT;
}

int gd__program_move(struct gd__program *p)
{
    for (;;) {
        struct pollfd fds[GD__PROGRAM_FDS];
        const int wait_ms = gd__program_watch(p, fds), n = poll(fds, GD__PROGRAM_FDS, wait_ms);
        if (n < 0 && errno != EINTR)
            return gd__error_errno("can't wait for the program");
        if (n == 0)
            return gd__program_is_deaf();
        const int taken = n < 0 ? GD__PROGRAM_SILENT : gd__program_take(p, fds);
        if (taken != GD__PROGRAM_SILENT)
            return taken;
    }
}

bool gd__program_has_spoken(const struct gd__program *p)
{
    struct pollfd both[] = { { .fd = p->out, .events = POLLIN }, { .fd = p->pidfd, .events = POLLIN } };
    return p->back.from < p->back.size || (poll(both, 2, 0) > 0 && (is_readable(&both[0]) || both[1].revents));
}

bool gd__program_line(struct gd__program *p, const char **line, size_t *size)
{
    struct gd__program_bytes *b = &p->back;
    const size_t there = b->size - b->from;
    if (there == p->looked)
        return false;
    char *first = b->bytes + b->from;
    const char *end = memchr(first + p->looked, '\n', there - p->looked);
    if (!end) {
        p->looked = there;
        return false;
    }
    *line = first;
    *size = (size_t)(end - first);
    b->from += *size + 1;
    p->looked = 0;
    return true;
}

size_t gd__program_rest(const struct gd__program *p, const char **bytes)
{
    *bytes = p->back.bytes ? p->back.bytes + p->back.from : "";
    return p->back.size - p->back.from;
}

/* ---- its end ---- */

static bool reap(struct gd__program *p, struct gd__exit *out)
{
    siginfo_t info = { 0 };
    int rc;
    do
        rc = waitid(P_PID, (id_t)p->pid, &info, WEXITED);
    while (rc < 0 && errno == EINTR);
    *out = (struct gd__exit){ .known = rc == 0 };
    if (rc == 0 && info.si_code == CLD_EXITED)
        out->code = info.si_status;
    else if (rc == 0)
        out->signal = info.si_status;
    p->pid = 0;
    gd__fd_close(&p->pidfd);
    return true;
}

bool gd__program_wait(struct gd__program *p, int ms, struct gd__exit *out)
{
    char waste[4096];
    for (;;) {
        struct pollfd both[] = { { .fd = p->pidfd, .events = POLLIN }, { .fd = p->out, .events = POLLIN } };
        const int n = poll(both, 2, ms);
        if (n == 0)
            return false;
        if (n < 0 && errno != EINTR)
            return reap(p, out);
        if (n > 0 && both[0].revents)
            return reap(p, out);
        if (n > 0 && is_readable(&both[1]) && read(p->out, waste, sizeof waste) <= 0)
            gd__fd_close(&p->out);
    }
}

void gd__program_kill(struct gd__program *p)
{
    struct gd__exit unused;
    if (p->pid <= 0)
        return;
    gd__descendants_kill(p->pid, false); /* its process group is also ours, and this process ends soon */
    kill(p->pid, SIGKILL);
    reap(p, &unused);
}
