/* Sleeping until the lock of a journal may be free.
 *
 * On this host there are events: the holder's process ends (pidfd), or the lock file is removed or replaced (inotify).
 * Other hosts send none, so the sleep also ends after a while, and the caller looks again.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "journal/lock/lock.h"

enum { STOP, CHANGED, ENDED, DESCRIPTORS };

static int watch_file(const char *path)
{
    const int fd = gd__fd_above_stdio(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    if (fd >= 0)
        (void)inotify_add_watch(fd, path, IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF);
    return fd;
}

/* Signals are blocked from the call of on_wait() until the sleep, so that no signal is missed in between. */
int gd__lock_sleep(const char *path, const struct gd__lock_holder *holder, const struct gd__journal_lock_ask *ask,
                   unsigned ms)
{
    const struct timespec time = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * (long)GD__NS_PER_MS };
    struct pollfd fds[DESCRIPTORS] = {
        [STOP] = { .fd = ask->stop_fd > 0 ? ask->stop_fd : -1, .events = POLLIN },
        [CHANGED] = { .fd = watch_file(path), .events = POLLIN },
        [ENDED] = { .fd = gd__lock_holder_is_here(holder) ? gd__owner_pidfd(&holder->owner) : -1, .events = POLLIN },
    };
    sigset_t ours, before;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ours, &before);
    const bool stop = ask->on_wait && ask->on_wait(ask->user, NULL) != 0;
    const int rc = stop ? 0 : ppoll(fds, DESCRIPTORS, &time, &before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    gd__fd_close(&fds[CHANGED].fd);
    gd__fd_close(&fds[ENDED].fd);
    if (stop || (rc > 0 && fds[STOP].revents))
        return gd__error(GD_E_INTERRUPTED, "interrupted while waiting for the journal's lock, %s", path);
    return 0;
}
