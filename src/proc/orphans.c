/* Adopts the orphaned processes of workers.
 *
 * A process whose parent has ended becomes a child of its nearest ancestor that is a subreaper, or of the first process
 * of its PID namespace. A subreaper must also wait for these children. Otherwise they stay in the process table after
 * they end.
 *
 * SIGCHLD reports that a child has ended. It is read from a signalfd, so there is no handler, and no system call of the
 * program is interrupted. For that the signal must be blocked in every thread, because a thread that does not block it
 * may receive and discard it. One signal may report several children, so all children are checked each time. A zombie
 * is waited for by its process id, which cannot be reused before that.
 */
#include "proc/orphans.h"

#include <errno.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "proc/descendants.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned n_adopting; /* under the lock */
static int before;          /* whether this process was a subreaper before */

int gd__orphans_adopt(void)
{
    int rc = 0;
    pthread_mutex_lock(&lock);
    if (n_adopting == 0 &&
        (GD__FAULT("prctl") || prctl(PR_GET_CHILD_SUBREAPER, &before) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0))
        rc = gd__error_errno("cannot become the parent of processes that workers leave behind");
    n_adopting += rc == 0;
    pthread_mutex_unlock(&lock);
    return rc;
}

void gd__orphans_leave(void)
{
    pthread_mutex_lock(&lock);
    if (n_adopting > 0 && --n_adopting == 0)
        (void)prctl(PR_SET_CHILD_SUBREAPER, before);
    pthread_mutex_unlock(&lock);
}

int gd__ended_children_open(struct gd__ended_children *e)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &one, &e->mask);
    e->fd = GD__FAULT("signalfd") ? -1 : gd__fd_above_stdio(signalfd(-1, &one, SFD_CLOEXEC | SFD_NONBLOCK));
    if (e->fd >= 0)
        return 0;
    const int rc = gd__error_errno("cannot create a signalfd");
    pthread_sigmask(SIG_SETMASK, &e->mask, NULL);
    return rc;
}

void gd__ended_children_close(struct gd__ended_children *e)
{
    if (e->fd < 0)
        return;
    close(e->fd);
    e->fd = -1;
    pthread_sigmask(SIG_SETMASK, &e->mask, NULL);
}

struct reaping {
    gd__spared_fn *is_spared;
    void *user;
};

static void reap_one(void *user, pid_t pid)
{
    const struct reaping *r = user;
    if (r->is_spared(r->user, pid))
        return;
    while (waitpid(pid, NULL, WNOHANG) < 0 && errno == EINTR)
        ;
}

void gd__ended_children_reap(struct gd__ended_children *e, gd__spared_fn *is_spared, void *user)
{
    struct reaping r = { is_spared, user };
    struct signalfd_siginfo info[16];
    while (read(e->fd, info, sizeof info) > 0)
        ;
    gd__children_each(reap_one, &r);
}
