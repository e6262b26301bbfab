/* SPDX-License-Identifier: MIT
 *
 * The dispatcher could take these signals by itself; here they are taken for it, since a person who presses Ctrl-C
 * wants to be told at once what happens next. Both signals are blocked in every thread but one, which sleeps in poll()
 * until one comes or until it is told to end. A driver's library may have threads of its own which block nothing: so
 * there is a handler, which tells that thread through an eventfd, rather than a signalfd, which would tell of nothing
 * that another thread was sent.
 *
 * Ctrl-Z is taken the same way, unless it is ignored (a shell without job control wants no stops) or the panel has
 * taken it, which has to leave the terminal first.
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
static atomic_bool stop_wanted, interrupt_wanted; /* by a signal */
static atomic_int told = -1; /* the eventfd that the handler writes to; never closed, since it may be about to */
static atomic_int latest;    /* the signal, if it was to end the run */

struct cli_interrupt {
    struct gd__run *run;
    void (*say)(void *user, const char *words);
    void (*hurry)(void *user, unsigned count);
    void *user;
    int end; /* eventfd: there is nothing to watch for any more */
    atomic_uint count;
    pthread_mutex_t lock; /* held while the dispatcher is told, and of what follows */
    bool over;            /* the run */
    unsigned late;        /* that came since */
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
    (void)!write(told, &one, sizeof one); /* where it has no room, enough have come */
    errno = saved;
}

/* Whether any came since the last time. */
static bool take_told(void)
{
    uint64_t n;
    return read(told, &n, sizeof n) == (ssize_t)sizeof n;
}

/* Likewise, of those that are to end the run. */
static bool take_interrupt(void)
{
    return atomic_exchange(&interrupt_wanted, false);
}

/* The figures may be a moment old: a run that has just begun may show none running though there are. What comes before
 * anything was said is not a second wish: timeout(1) signals a process, and then its group with it. */
static void first(struct cli_interrupt *i)
{
    char words[128], count[32] = "";
    struct gd_stats s = { .size = sizeof s };
    if (gd_dispatcher_stats(i->run->d, &s) == 0 && s.running > 0)
        snprintf(count, sizeof count, "%llu ", (unsigned long long)s.running);
    gd__run_shutdown(i->run);
    const bool one = s.running == 1;
    snprintf(words, sizeof words, "interrupted: %srunning task%s may finish; Ctrl-C again ends %s at once", count,
             one ? "" : "s", one ? "it" : "them");
    (void)take_interrupt();
    i->say(i->user, words);
}

static void heed(struct cli_interrupt *i)
{
    if (i->over)
        i->late++;
    else if (atomic_fetch_add(&i->count, 1) == 0)
        first(i);
    else
        gd__run_abort(i->run);
    i->hurry(i->user, atomic_load(&i->count) + i->late);
}

static void *watch(void *arg)
{
    struct cli_interrupt *i = arg;
    pthread_sigmask(SIG_UNBLOCK, &i->ours, NULL);
    for (;;) {
        struct pollfd p[] = { { told, POLLIN, 0 }, { i->end, POLLIN, 0 } };
        if (poll(p, 2, -1) < 0) {
            if (errno == EINTR)
                continue;
            return NULL;
        }
        if (p[1].revents)
            return NULL;
        if (!take_told())
            continue;
        if (atomic_exchange(&stop_wanted, false))
            cli_suspend();
        if (!take_interrupt())
            continue;
        pthread_mutex_lock(&i->lock);
        heed(i);
        pthread_mutex_unlock(&i->lock);
    }
}

/* One that came meanwhile, to a thread that does not block it, does now what it did before us. */
static void give_back(struct cli_interrupt *i)
{
    for (int k = 0; k < SIGNALS; k++)
        sigaction(numbers[k], &i->before[k], NULL);
    pthread_sigmask(SIG_SETMASK, &i->mask_before, NULL);
    (void)take_told();
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

int cli_interrupt_open(struct cli_interrupt **out, struct gd__run *run, void (*say)(void *user, const char *words),
                       void (*hurry)(void *user, unsigned count), void *user)
{
    struct cli_interrupt *i = calloc(1, sizeof *i);
    if (!i)
        return gd__fail("out of memory");
    *i = (struct cli_interrupt){ .run = run, .say = say, .hurry = hurry, .user = user, .end = eventfd(0, EFD_CLOEXEC) };
    pthread_mutex_init(&i->lock, NULL);
    if (told < 0)
        told = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = i->end < 0 || told < 0 ? errno : 0;
    if (rc == 0) {
        take(i);
        rc = gd__thread_start(&i->thread, "gd-interrupt", watch, i);
        if (rc != 0)
            give_back(i);
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
    give_back(i);
    pthread_mutex_destroy(&i->lock);
    free(i);
}
