/* SPDX-License-Identifier: MIT
 *
 * Handles the signals of a run. The dispatcher could handle these signals itself. The command handles them instead,
 * because it reports at once what a Ctrl-C will do.
 *
 * The signals are blocked in every thread except one, which sleeps in poll() until a signal comes or
 * cli_interrupt_close() is called. A driver's library may start threads that do not block them. So a handler writes to
 * an eventfd for that thread. A signalfd would miss signals that were delivered to another thread.
 *
 *   SIGINT    the first lets running tasks finish, however long they take; a SIGINT after any other signal ends
 *             everything
 *   SIGTERM   the same as the first SIGINT, but the whole run has to end within --stop-grace: see limits[]. More of them
 *             change nothing: Slurm sends three when it preempts a job, two of them long before its SIGKILL
 *   SIGHUP    lets running tasks finish, and never ends them: it comes more than once when a terminal is closed
 *   SIGTSTP   Ctrl-Z. If there is a panel, the panel handles it, because it must restore the terminal first.
 *   SIGCONT   cancels a SIGTSTP that has not stopped the process yet
 *
 * If SIGHUP or SIGTSTP is ignored when the run begins (nohup, a shell without job control), it stays ignored. */
#include "cli/run/stop/interrupt.h"

#include <errno.h>
#include <limits.h>
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

#include "base/clock.h"
#include "base/failure.h"
#include "base/text/figures.h"
#include "base/thread.h"
#include "cli/run/stop/suspend.h"

enum { SIGNALS = 5, RESERVE_MOST_MS = 5000 };
static const int numbers[SIGNALS] = { SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT };
static atomic_bool stop_wanted, interrupt_wanted, term_wanted, hangup_wanted; /* set by a signal */
static atomic_bool hung_up;                                                   /* SIGHUP came */
/* The eventfd that the handler writes to. It is never closed, because a handler may be about to write. */
static atomic_int wake_fd = -1;
static atomic_int latest; /* the last SIGINT or SIGTERM */

struct cli_interrupt {
    struct gd__run *run;
    void (*say)(void *user, const char *message);
    void (*hurry)(void *user, unsigned count);
    void *user;
    int end; /* eventfd: ends the thread */
    atomic_uint count;
    atomic_int first; /* the first signal that ended the run; 0: none */
    unsigned grace_ms;
    uint64_t term_ns;     /* when SIGTERM came; 0: it has not come */
    unsigned n_limits;    /* how many of limits[] were reached */
    pthread_mutex_t lock; /* held during a call to the dispatcher; protects the next two fields */
    bool over;            /* the run is over */
    unsigned late;        /* signals that came after the run was over */
    pthread_t thread;
    sigset_t ours, mask_before;
    struct sigaction before[SIGNALS];
};

/* Handlers of the panel, which are called too. NULL: none. */
static void (*panel_stop)(int number), (*panel_continue)(int number);

/* The handler of SIGCONT, and of SIGTSTP if there is a panel. The panel then stops the process. */
static void on_job_control(int number)
{
    void (*panel)(int) = number == SIGTSTP ? panel_stop : panel_continue;
    cli_suspend_note(number);
    if (panel)
        panel(number);
}

static void on_signal(int number)
{
    static const uint64_t one = 1;
    const int saved = errno;
    if (number == SIGINT || number == SIGTERM)
        latest = number;
    if (number == SIGHUP)
        hung_up = true;
    cli_suspend_note(number);
    *(number == SIGTSTP   ? &stop_wanted
      : number == SIGHUP  ? &hangup_wanted
      : number == SIGTERM ? &term_wanted
                          : &interrupt_wanted) = true;
    (void)!write(wake_fd, &one, sizeof one); /* if it is full, the thread is woken anyway */
    errno = saved;
}

/* Whether any signal came since the last call. */
static bool take_wakeup(void)
{
    uint64_t n;
    return read(wake_fd, &n, sizeof n) == (ssize_t)sizeof n;
}

/* Whether SIGINT came since the last call. */
static bool take_interrupt(void)
{
    return atomic_exchange(&interrupt_wanted, false);
}

/* Whether SIGTERM came since the last call. */
static bool take_term(void)
{
    return atomic_exchange(&term_wanted, false);
}

/* For the error messages of tasks that are not done. */
static const char *reason_for(int number)
{
    return number == SIGTERM  ? "the run was ended by SIGTERM"
           : number == SIGHUP ? "the run was ended by SIGHUP"
                              : "the run was interrupted (SIGINT)";
}

/* What happens when a part of --stop-grace is over. The rest of the time is for writing the remaining output and the
 * journal. */
static uint64_t reserve_ms(const struct cli_interrupt *i)
{
    return i->grace_ms / 5 < RESERVE_MOST_MS ? i->grace_ms / 5 : RESERVE_MOST_MS;
}

static void end_tasks(struct cli_interrupt *i)
{
    if (!i->over)
        gd__run_abort(i->run, reason_for(SIGTERM));
    i->hurry(i->user, 2);
}

static void end_output(struct cli_interrupt *i)
{
    i->hurry(i->user, 3);
}

static const struct {
    unsigned halves; /* how many halves of the reserve are left */
    void (*reached)(struct cli_interrupt *i);
} limits[] = { { 2, end_tasks }, { 1, end_output } };
enum { LIMITS = sizeof limits / sizeof *limits };

/* The time of the next limit. GD__NEVER: no limit is left. */
static uint64_t next_limit(const struct cli_interrupt *i)
{
    if (i->term_ns == 0 || i->n_limits == LIMITS)
        return GD__NEVER;
    const uint64_t left_ms = reserve_ms(i) * limits[i->n_limits].halves / 2;
    return i->term_ns + (i->grace_ms - left_ms) * GD__NS_PER_MS;
}

static int ms_to(uint64_t at_ns)
{
    const uint64_t now = gd__now_ns();
    if (at_ns == GD__NEVER)
        return -1;
    const uint64_t ms = at_ns > now ? (at_ns - now + GD__NS_PER_MS - 1) / GD__NS_PER_MS : 0;
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

/* "2 running tasks may finish", as far as the number is known. The figures may be a moment old: a run that has just
 * begun may show no running tasks although it has some. */
static const char *count_tasks(const struct cli_interrupt *i, char *text, size_t size)
{
    struct gd_stats s = { .size = sizeof s };
    char count[32] = "";
    if (gd_dispatcher_stats(i->run->d, &s) == 0 && s.running > 0)
        snprintf(count, sizeof count, "%llu ", (unsigned long long)s.running);
    snprintf(text, size, "%srunning task%s may finish", count, s.running == 1 ? "" : "s");
    return s.running == 1 ? "it" : "them";
}

/* Prints what the first SIGINT does. A SIGINT that comes before the message is printed does not count as a second
 * request: timeout(1) signals a process and then its whole group. */
static void say_interrupted(struct cli_interrupt *i)
{
    char message[192], tasks[64];
    const char *them = count_tasks(i, tasks, sizeof tasks);
    snprintf(message, sizeof message, "interrupted: %s; Ctrl-C again ends %s at once", tasks, them);
    (void)take_interrupt();
    i->say(i->user, message);
}

static void say_terminated(struct cli_interrupt *i)
{
    char message[192], tasks[64], time[32];
    const char *them = count_tasks(i, tasks, sizeof tasks);
    const double seconds = (double)(i->grace_ms - reserve_ms(i)) / 1000;
    snprintf(message, sizeof message, "terminated: %s within %s; SIGINT (Ctrl-C) ends %s at once", tasks,
             gd__text_duration(time, sizeof time, seconds), them);
    i->say(i->user, message);
}

/* Lets running tasks finish after SIGHUP: the terminal was closed, or somebody sent the signal. */
static void drain(struct cli_interrupt *i)
{
    char message[128], tasks[64];
    int none = 0;
    if (i->over || !atomic_compare_exchange_strong(&i->first, &none, SIGHUP))
        return;
    (void)count_tasks(i, tasks, sizeof tasks);
    gd__run_shutdown(i->run, reason_for(SIGHUP));
    snprintf(message, sizeof message, "SIGHUP: %s, and no more are started", tasks);
    i->say(i->user, message);
}

static void begin_shutdown(struct cli_interrupt *i, int number)
{
    i->first = number;
    gd__run_shutdown(i->run, reason_for(number));
}

static void act_on_interrupt(struct cli_interrupt *i)
{
    if (i->over) {
        i->late++;
    } else if (atomic_fetch_add(&i->count, 1) > 0) {
        gd__run_abort(i->run, reason_for(SIGINT));
    } else {
        begin_shutdown(i, SIGINT);
        say_interrupted(i);
    }
    i->hurry(i->user, atomic_load(&i->count) + i->late);
}

/* Only the first SIGTERM counts. If it comes after Ctrl-C, the tasks that may finish get a time limit. */
static void act_on_term(struct cli_interrupt *i)
{
    if (i->term_ns != 0)
        return;
    i->term_ns = gd__now_ns();
    if (i->over) {
        i->late++;
    } else {
        if (atomic_fetch_add(&i->count, 1) == 0)
            begin_shutdown(i, SIGTERM);
        say_terminated(i);
    }
    i->hurry(i->user, atomic_load(&i->count) + i->late);
}

static void act_on_wakeup(struct cli_interrupt *i)
{
    pthread_mutex_lock(&i->lock);
    if (atomic_exchange(&hangup_wanted, false))
        drain(i);
    if (take_interrupt())
        act_on_interrupt(i);
    if (take_term())
        act_on_term(i);
    while (next_limit(i) <= gd__now_ns())
        limits[i->n_limits++].reached(i);
    pthread_mutex_unlock(&i->lock);
}

static void *watch(void *arg)
{
    struct cli_interrupt *i = arg;
    pthread_sigmask(SIG_UNBLOCK, &i->ours, NULL);
    for (;;) {
        struct pollfd p[] = { { wake_fd, POLLIN, 0 }, { i->end, POLLIN, 0 } };
        if (poll(p, 2, ms_to(next_limit(i))) < 0) {
            if (errno == EINTR)
                continue;
            return NULL;
        }
        if (p[1].revents)
            return NULL;
        (void)take_wakeup();
        if (atomic_exchange(&stop_wanted, false))
            cli_suspend();
        act_on_wakeup(i);
    }
}

static bool is_job_control(int number)
{
    return number == SIGTSTP || number == SIGCONT;
}

static bool has_handler(const struct sigaction *a)
{
    return a->sa_handler != SIG_DFL && a->sa_handler != SIG_IGN;
}

/* A SIGTSTP that the thread has not acted on stops this process, unless a SIGCONT came after it. A SIGTSTP that comes now
 * is blocked until the mask is restored. SIGCONT is not blocked: our own SIGTSTP would discard it. */
static void stop_now(void)
{
    sigset_t both, stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    both = stop;
    sigaddset(&both, SIGCONT);
    pthread_sigmask(SIG_UNBLOCK, &both, NULL);
    pthread_sigmask(SIG_BLOCK, &stop, NULL);
    if (atomic_exchange(&stop_wanted, false))
        cli_suspend();
}

/* Restores the signals, except those of the panel: it is closed, and has restored them itself. A signal that came
 * meanwhile is raised again, so that it has its usual effect. */
static void restore_signals(struct cli_interrupt *i)
{
    stop_now();
    for (int k = 0; k < SIGNALS; k++)
        if (!is_job_control(numbers[k]) || !has_handler(&i->before[k]))
            sigaction(numbers[k], &i->before[k], NULL);
    pthread_sigmask(SIG_SETMASK, &i->mask_before, NULL);
    (void)take_wakeup();
    const bool came = take_interrupt(), ended = take_term(), interrupted = came || ended || i->late > 0;
    if (interrupted)
        (void)raise(latest);
}

static void take_one(struct cli_interrupt *i, int k)
{
    const int number = numbers[k];
    struct sigaction ours = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    sigaction(number, NULL, &i->before[k]);
    const bool ignored = i->before[k].sa_handler == SIG_IGN, has_panel = has_handler(&i->before[k]);
    if (ignored && (number == SIGTSTP || number == SIGHUP))
        return;
    if (number == SIGCONT || (number == SIGTSTP && has_panel))
        ours.sa_handler = on_job_control;
    sigaddset(&ours.sa_mask, SIGTSTP); /* so that the handlers run in the order in which the signals came */
    sigaddset(&ours.sa_mask, SIGCONT);
    if (is_job_control(number))
        *(number == SIGTSTP ? &panel_stop : &panel_continue) = has_panel ? i->before[k].sa_handler : NULL;
    sigaction(number, &ours, NULL);
}

static void take(struct cli_interrupt *i)
{
    sigemptyset(&i->ours);
    for (int k = 0; k < SIGNALS; k++)
        sigaddset(&i->ours, numbers[k]);
    pthread_sigmask(SIG_BLOCK, &i->ours, &i->mask_before);
    for (int k = 0; k < SIGNALS; k++)
        take_one(i, k);
}

int cli_interrupt_open(struct cli_interrupt **out, struct gd__run *run, unsigned stop_grace_ms,
                       void (*say)(void *user, const char *message), void (*hurry)(void *user, unsigned count),
                       void *user)
{
    struct cli_interrupt *i = calloc(1, sizeof *i);
    if (!i)
        return gd__fail("out of memory");
    *i = (struct cli_interrupt){
        .run = run, .grace_ms = stop_grace_ms, .say = say, .hurry = hurry, .user = user, .end = eventfd(0, EFD_CLOEXEC)
    };
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

int cli_interrupt_signal(const struct cli_interrupt *i)
{
    return i ? atomic_load(&i->first) : 0;
}

bool cli_interrupt_hung_up(void)
{
    return hung_up;
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
