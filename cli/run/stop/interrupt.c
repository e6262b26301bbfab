/* SPDX-License-Identifier: MIT
 *
 * The dispatcher could handle these signals itself. The command handles them instead, because it reports at once what a
 * Ctrl-C will do.
 *
 * The signals are blocked in every thread except one, which sleeps in poll() until a signal comes or
 * cli_interrupt_close() is called. A driver's library may start threads that do not block them. So a handler writes to
 * an eventfd for that thread. A signalfd would miss signals that were delivered to another thread.
 *
 * Ctrl-Z is handled the same way, with two exceptions. If it is ignored (by a shell without job control), it stays
 * ignored. If there is a panel, the panel handles it, because it must restore the terminal first.
 */
#include "cli/run/stop/interrupt.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/thread.h"
#include "cli/run/stop/suspend.h"

enum { SIGNALS = 3 };
static const int numbers[SIGNALS] = { SIGINT, SIGTERM, SIGTSTP };
static atomic_bool stop_wanted, interrupt_wanted; /* set by a signal */
/* The eventfd that the handler writes to. It is never closed, because a handler may be about to write. */
static atomic_int wake_fd = -1;
static atomic_int latest; /* the last signal that asks to end the run */

struct cli_interrupt {
    struct gd__run *run;
    void (*say)(void *user, const char *message);
    void (*hurry)(void *user, unsigned count);
    void *user;
    int end; /* eventfd: ends the thread */
    atomic_uint count;
    pthread_mutex_t lock; /* held during a call to the dispatcher; protects the next two fields */
    bool over;            /* the run is over */
    unsigned late;        /* signals that came after the run was over */
    pthread_t thread;
    sigset_t ours, mask_before;
    struct sigaction before[SIGNALS];
};

static void on_signal(int number)
{
    static const uint64_t one = 1;
    const int saved = errno;
    if (number != SIGTSTP)
        latest = number;
    *(number == SIGTSTP ? &stop_wanted : &interrupt_wanted) = true;
    (void)!write(wake_fd, &one, sizeof one); /* if it is full, the thread is woken anyway */
    errno = saved;
}

/* Whether any signal came since the last call. */
static bool take_wakeup(void)
{
    uint64_t n;
    return read(wake_fd, &n, sizeof n) == (ssize_t)sizeof n;
}

/* Whether a signal that asks to end the run came since the last call. */
static bool take_interrupt(void)
{
    return atomic_exchange(&interrupt_wanted, false);
}

/* Shuts the run down at the first signal, and reports that. The figures may be a moment old: a run that has just begun
 * may show no running tasks although it has some. A signal that comes before the message is printed does not count as a
 * second request: timeout(1) signals a process and then its whole group. */
static void begin_shutdown(struct cli_interrupt *i)
{
    char message[128], count[32] = "";
    struct gd_stats s = { .size = sizeof s };
    if (gd_dispatcher_stats(i->run->d, &s) == 0 && s.running > 0)
        snprintf(count, sizeof count, "%llu ", (unsigned long long)s.running);
    gd__run_shutdown(i->run);
    const bool one = s.running == 1;
    snprintf(message, sizeof message, "interrupted: %srunning task%s may finish; Ctrl-C again ends %s at once", count,
             one ? "" : "s", one ? "it" : "them");
    (void)take_interrupt();
    i->say(i->user, message);
}

static void act_on_signal(struct cli_interrupt *i)
{
    if (i->over)
        i->late++;
    else if (atomic_fetch_add(&i->count, 1) == 0)
        begin_shutdown(i);
    else
        gd__run_abort(i->run);
    i->hurry(i->user, atomic_load(&i->count) + i->late);
}

static void *watch(void *arg)
{
    struct cli_interrupt *i = arg;
    pthread_sigmask(SIG_UNBLOCK, &i->ours, NULL);
    for (;;) {
        struct pollfd p[] = { { wake_fd, POLLIN, 0 }, { i->end, POLLIN, 0 } };
        if (poll(p, 2, -1) < 0) {
            if (errno == EINTR)
                continue;
            return NULL;
        }
        if (p[1].revents)
            return NULL;
        if (!take_wakeup())
            continue;
        if (atomic_exchange(&stop_wanted, false))
            cli_suspend();
        if (!take_interrupt())
            continue;
        pthread_mutex_lock(&i->lock);
        act_on_signal(i);
        pthread_mutex_unlock(&i->lock);
    }
}

/* Restores the signals. A signal that came meanwhile is raised again, so that it has its usual effect. */
static void restore_signals(struct cli_interrupt *i)
{
    for (int k = 0; k < SIGNALS; k++)
        sigaction(numbers[k], &i->before[k], NULL);
    pthread_sigmask(SIG_SETMASK, &i->mask_before, NULL);
    (void)take_wakeup();
    const bool interrupted = take_interrupt() || i->late > 0;
    if (atomic_exchange(&stop_wanted, false))
        (void)raise(SIGTSTP);
    if (interrupted)
        (void)raise(latest);
}

static void take(struct cli_interrupt *i)
{
    const struct sigaction ours = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    sigemptyset(&i->ours);
    for (int k = 0; k < SIGNALS; k++)
        sigaddset(&i->ours, numbers[k]);
    pthread_sigmask(SIG_BLOCK, &i->ours, &i->mask_before);
    for (int k = 0; k < SIGNALS; k++) {
        sigaction(numbers[k], NULL, &i->before[k]);
        if (numbers[k] != SIGTSTP || i->before[k].sa_handler == SIG_DFL)
            sigaction(numbers[k], &ours, NULL);
    }
}

int cli_interrupt_open(struct cli_interrupt **out, struct gd__run *run, void (*say)(void *user, const char *message),
                       void (*hurry)(void *user, unsigned count), void *user)
{
    struct cli_interrupt *i = calloc(1, sizeof *i);
    if (!i)
        return gd__fail("out of memory");
    *i = (struct cli_interrupt){ .run = run, .say = say, .hurry = hurry, .user = user, .end = eventfd(0, EFD_CLOEXEC) };
    pthread_mutex_init(&i->lock, NULL);
    if (wake_fd < 0)
        wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = i->end < 0 || wake_fd < 0 ? errno : 0;
    if (rc == 0) {
        take(i);
        rc = gd__thread_start(&i->thread, "gd-interrupt", watch, i);
        if (rc != 0)
            restore_signals(i);
    }
    if (rc == 0) {
        *out = i;
        return 0;
    }
    if (i->end >= 0)
        close(i->end);
    free(i);
    return gd__fail("cannot handle Ctrl-C: %s", strerror(rc));
}

unsigned cli_interrupt_count(const struct cli_interrupt *i)
{
    return i ? atomic_load(&i->count) : 0;
}

void cli_interrupt_over(struct cli_interrupt *i)
{
    if (!i)
        return;
    pthread_mutex_lock(&i->lock);
    i->over = true;
    pthread_mutex_unlock(&i->lock);
}

static void stop_watching(struct cli_interrupt *i)
{
    const uint64_t one = 1;
    while (write(i->end, &one, sizeof one) < 0 && errno == EINTR)
        ;
    pthread_join(i->thread, NULL);
}

void cli_interrupt_close(struct cli_interrupt **pointer)
{
    struct cli_interrupt *i = *pointer;
    if (!i)
        return;
    *pointer = NULL;
    stop_watching(i);
    close(i->end);
    restore_signals(i);
    pthread_mutex_destroy(&i->lock);
    free(i);
}
