/* SPDX-License-Identifier: MIT
 *
 * The workers are stopped first: if this process stopped before them, they would continue alone. When this process is
 * continued, in the foreground or in the background, it continues the workers itself, because the shell cannot.
 */
#include "cli/run/stop/suspend.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gd_dispatcher *dispatcher; /* under the lock, because the run may end meanwhile */

void cli_suspend_with(struct gd_dispatcher *d)
{
    pthread_mutex_lock(&lock);
    dispatcher = d;
    pthread_mutex_unlock(&lock);
}

static void stop_process(void)
{
    sigset_t only, old;
    struct sigaction usual = { .sa_handler = SIG_DFL }, ours;
    sigemptyset(&only);
    sigaddset(&only, SIGTSTP);
    sigaction(SIGTSTP, &usual, &ours);
    pthread_kill(pthread_self(), SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &only, &old);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    sigaction(SIGTSTP, &ours, NULL);
}

static void tell_workers(void (*what)(struct gd_dispatcher *d))
{
    pthread_mutex_lock(&lock);
    if (dispatcher)
        what(dispatcher);
    pthread_mutex_unlock(&lock);
}

void cli_suspend(void)
{
    tell_workers(gd_dispatcher_suspend);
    stop_process();
    tell_workers(gd_dispatcher_resume);
}
