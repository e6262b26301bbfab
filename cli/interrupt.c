/* SPDX-License-Identifier: MIT
 *
 * The dispatcher could take these signals by itself; here they are taken for it, since a person who presses Ctrl-C
 * wants to be told at once what happens next. Both signals are blocked in every thread and read from a signalfd by one
 * thread, which sleeps in poll() until one comes or until it is told to end.
 */
#include "interrupt.h"

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
#include <sys/signalfd.h>
#include <unistd.h>

#include "bytes.h"
#include "thread.h"

struct cli_interrupt {
    struct gd_dispatcher *d;
    void (*say)(void *user, const char *words);
    void *user;
    int signals, end; /* signalfd, eventfd */
    atomic_uint count;
    bool watched; /* the thread runs */
    pthread_t thread;
    sigset_t before;
};

/* The figures may be a moment old: a run that has just begun may show none running though there are. */
static void first(struct cli_interrupt *i)
{
    char words[128], count[32] = "";
    struct gd_stats s = { .size = sizeof s };
    if (gd_dispatcher_stats(i->d, &s) == 0 && s.running > 0)
        snprintf(count, sizeof count, "%llu ", (unsigned long long)s.running);
    gd_dispatcher_shutdown(i->d);
    const bool one = s.running == 1;
    snprintf(words, sizeof words, "interrupted: %srunning task%s may finish; Ctrl-C again ends %s at once", count,
             one ? "" : "s", one ? "it" : "them");
    i->say(i->user, words);
}

static void *watch(void *arg)
{
    struct cli_interrupt *i = arg;
    for (;;) {
        struct pollfd p[] = { { i->signals, POLLIN, 0 }, { i->end, POLLIN, 0 } };
        struct signalfd_siginfo info;
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return NULL;
        if (p[1].revents)
            return NULL;
        if (!p[0].revents || read(i->signals, &info, sizeof info) != (ssize_t)sizeof info)
            continue;
        if (atomic_fetch_add(&i->count, 1) == 0)
            first(i);
        else
            gd_dispatcher_abort(i->d);
    }
}

int cli_interrupt_open(struct cli_interrupt **out, struct gd_dispatcher *d, void (*say)(void *user, const char *words),
                       void *user)
{
    sigset_t ours;
    struct cli_interrupt *i = calloc(1, sizeof *i);
    if (!i)
        return cli_error("out of memory");
    *i = (struct cli_interrupt){ .d = d, .say = say, .user = user, .signals = -1, .end = -1 };
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ours, &i->before);
    i->signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    i->end = eventfd(0, EFD_CLOEXEC);
    int rc = i->signals < 0 || i->end < 0 ? errno : cli_thread_start(&i->thread, "gd-interrupt", watch, i);
    i->watched = rc == 0;
    if (rc == 0) {
        *out = i;
        return 0;
    }
    if (i->signals >= 0)
        close(i->signals);
    if (i->end >= 0)
        close(i->end);
    pthread_sigmask(SIG_SETMASK, &i->before, NULL);
    free(i);
    return cli_error("cannot watch for Ctrl-C: %s", strerror(rc));
}

unsigned cli_interrupt_count(const struct cli_interrupt *i)
{
    return i ? atomic_load(&i->count) : 0;
}

void cli_interrupt_stop(struct cli_interrupt *i)
{
    const uint64_t one = 1;
    if (!i || !i->watched)
        return;
    i->watched = false;
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
    cli_interrupt_stop(i);
    close(i->signals);
    close(i->end);
    pthread_sigmask(SIG_SETMASK, &i->before, NULL);
    free(i);
}
