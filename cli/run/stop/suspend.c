/* SPDX-License-Identifier: MIT
 *
 * Stops and continues the workers together with this process, after Ctrl-Z. The workers are stopped first: if this
 * process stopped before them, they would continue alone. When this process is continued, in the foreground or in the
 * background, it continues the workers itself, because the shell cannot.
 *
 * A SIGCONT may come between Ctrl-Z and the stop. Then there must be no stop, because nobody would continue the
 * process. If the SIGCONT comes while our own SIGTSTP is pending, the kernel discards the SIGTSTP. If it came earlier,
 * the counters show it. */
#include "cli/run/stop/suspend.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gd_dispatcher *dispatcher; /* under the lock, because the run may end meanwhile */

void cli_suspend_with(struct gd_dispatcher *d)
{
    pthread_mutex_lock(&lock);
    dispatcher = d;
    pthread_mutex_unlock(&lock);
}

static atomic_uint continues;      /* how many SIGCONT came */
static atomic_uint continues_then; /* ... before the last SIGTSTP */

void cli_suspend_note(int number)
{
    if (number == SIGTSTP)
        atomic_store(&continues_then, atomic_load(&continues));
    else if (number == SIGCONT)
        atomic_fetch_add(&continues, 1);
}

static void stop_process(void)
{
    sigset_t only, old;
    struct sigaction usual = { .sa_handler = SIG_DFL }, ignored = { .sa_handler = SIG_IGN }, ours;
    sigemptyset(&only);
    sigaddset(&only, SIGTSTP);
    pthread_sigmask(SIG_BLOCK, &only, &old);
    sigaction(SIGTSTP, &usual, &ours);
    pthread_kill(pthread_self(), SIGTSTP);
    if (atomic_load(&continues) != atomic_load(&continues_then))
        sigaction(SIGTSTP, &ignored, NULL); /* discards it */
    pthread_sigmask(SIG_UNBLOCK, &only, NULL);
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
