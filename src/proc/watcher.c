/* If a worker is killed, the dispatcher kills the worker's process group. If the dispatcher is killed, the worker does
 * that. If both are killed at the same moment, this process does it, so that no command goes on without them.
 *
 * The watcher is in the group too. So it is gone as soon as somebody else has killed the group, and it never kills a
 * group that is in use again. It keeps nothing open except the two pidfds and a socket, and ignores the signals that are sent to the
 * group to stop a command.
 *
 * It is started by two forks. So it is a child of the process that adopts orphans, and not of the worker, which waits
 * for all its children. A worker that ends normally ends its watcher first, through the socket.
 */
#include "proc/watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"

enum { CALLER, OTHER, CONTROL, N_WATCHED };

static void await_end(int pidfd)
{
    struct pollfd p = { .fd = pidfd, .events = POLLIN };
    while (poll(&p, 1, -1) < 0 && errno == EINTR)
        ;
}

/* Waits until the caller is gone. Ends this process if the caller asks for that. */
static void await_caller(void)
{
    char byte;
    ssize_t n;
    do
        n = recv(CONTROL, &byte, 1, 0);
    while (n < 0 && errno == EINTR);
    if (n == 1)
        _exit(0);
    await_end(CALLER);
}

static void ignore_signals(void)
{
    static const int ignored[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE };
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
}

/* Moves the two pidfds to the lowest numbers and closes everything else. */
static int keep_only(int watched[N_WATCHED])
{
    for (int i = 0; i < N_WATCHED; i++) {
        const int high = fcntl(watched[i], F_DUPFD, N_WATCHED);
        if (high < 0)
            return -1;
        watched[i] = high;
    }
    for (int i = 0; i < N_WATCHED; i++)
        if (dup2(watched[i], i) < 0)
            return -1;
    return syscall(SYS_close_range, N_WATCHED, ~0u, 0) < 0 ? -1 : 0;
}

/* Only functions that are safe after the fork of a process with threads are called here. */
_Noreturn static void watch(int watched[N_WATCHED])
{
    ignore_signals();
    prctl(PR_SET_NAME, "gd-watcher");
    if (keep_only(watched) < 0)
        _exit(1);
    await_caller();
    await_end(OTHER);
    kill(0, SIGKILL);
    _exit(0);
}

static int open_control(int pair[2])
{
    return GD__FAULT("socketpair") ? -1 : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
}

int gd__watcher_start(int other)
{
    int pair[2], watched[N_WATCHED] = { [OTHER] = other };
    if (getpgrp() != getpid() || open_control(pair) < 0) /* if this is not the leader, it must not kill the group */
        return -1;
    watched[CONTROL] = pair[1];
    watched[CALLER] = GD__FAULT("pidfd") ? -1 : (int)syscall(SYS_pidfd_open, getpid(), 0);
    const pid_t pid = watched[CALLER] < 0 || GD__FAULT("fork") ? -1 : fork();
    if (pid == 0) {
        if (fork() == 0)
            watch(watched);
        _exit(0);
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    gd__fd_close(&watched[CALLER]);
    gd__fd_close(&pair[1]);
    if (pid < 0)
        gd__fd_close(&pair[0]);
    return pid < 0 ? -1 : pair[0];
}

void gd__watcher_stop(int *fd)
{
    char byte = 0;
    if (*fd >= 0 && send(*fd, &byte, 1, MSG_NOSIGNAL) == 1)
        while (recv(*fd, &byte, 1, 0) < 0 && errno == EINTR) /* until the watcher has closed its end */
            ;
    gd__fd_close(fd);
}
