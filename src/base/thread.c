/* Threads of the library in a user's program.
 *
 * The handlers of the program's signals must not run on a thread of the library, because it may hold a lock. A thread
 * inherits the signal mask of the thread that creates it, so every signal is blocked while it is created. If the new
 * thread blocked them itself, a signal could arrive before that.
 */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>

#include "base/fault.h"

void gd__signals_block(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
}

void gd__signals_restore(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

int gd__thread_start(pthread_t *out, const char *name, gd__thread_fn *run, void *arg)
{
    pthread_t thread;
    sigset_t before;
    gd__signals_block(&before);
    const int rc = GD__FAULT("thread") ? EAGAIN : pthread_create(out ? out : &thread, NULL, run, arg);
    gd__signals_restore(&before);
    if (rc != 0)
        return rc;
    /* Name the thread before it is detached, because a detached thread may have ended already. */
    pthread_setname_np(out ? *out : thread, name);
    if (!out)
        pthread_detach(thread);
    return 0;
}
