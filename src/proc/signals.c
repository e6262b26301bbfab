/* SIGINT and SIGTERM, passed on to every run that subscribed, through eventfds.
 *
 * The handler may run on any thread at any instruction, so it takes no lock. Subscribers are an array of atomics.
 * Unsubscribing is the difficult part, because a handler on another thread may have read the descriptor and not yet
 * written to it. So running handlers are counted, in one of two counts. A run that unsubscribes empties its slot, makes
 * new handlers use the other count, and sleeps until the old count is zero. (A single count might never reach zero if
 * many signals come.) All of this is sequentially consistent. So a handler that is not waited for has started later,
 * and reads the empty slot.
 *
 * Our handler may also run without a subscriber, in a fork of the program, or before the previous handler is restored.
 * It then calls the previous handler.
 */
#include "proc/signals.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"

enum { N_SIGNALS = 2 };
static const int watched[N_SIGNALS] = { SIGINT, SIGTERM };

static atomic_int slots[GD__SIGNAL_SUBSCRIBERS]; /* fd + 1; 0: free */
static _Atomic uint32_t handlers_running[2];     /* also futexes: unsubscribing sleeps on them */
static atomic_uint turn;                         /* the lowest bit selects which of the two counts new handlers use */
static atomic_bool someone_leaves;
static _Atomic pid_t owner; /* the process that subscribed, not a fork of it */

/* Used under the lock. Only the handler reads previous[] and displaced[] without the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int n_subscribers;
static struct sigaction previous[N_SIGNALS];
static bool displaced[N_SIGNALS]; /* another handler replaced ours before, and may call ours */

static void on_signal(int signal, siginfo_t *info, void *context);

static bool handler_is_ours(const struct sigaction *a)
{
    return (a->sa_flags & SA_SIGINFO) && a->sa_sigaction == on_signal;
}

static void hand_to_previous(int signal, siginfo_t *info, void *context)
{
    int i = signal == watched[0] ? 0 : 1;
    const struct sigaction *p = &previous[i];
    struct sigaction now;

    /* Another handler is installed and has called ours. That handler decides what happens. */
    if (sigaction(signal, NULL, &now) < 0 || !handler_is_ours(&now))
        return;
    if (!(p->sa_flags & SA_SIGINFO) && p->sa_handler == SIG_IGN)
        return;
    if (!(p->sa_flags & SA_SIGINFO) && p->sa_handler == SIG_DFL) {
        sigaction(signal, p, NULL);
        raise(signal); /* delivered when our handler returns, because it is blocked in our handler */
    } else if (displaced[i]) {
        return; /* the previous handler may call ours again, without end */
    } else if (p->sa_flags & SA_SIGINFO) {
        p->sa_sigaction(signal, info, context);
    } else {
        p->sa_handler(signal);
    }
}

static int tell_subscribers(int signal)
{
    const uint64_t one = signal == SIGTERM ? GD__SIGNAL_TERM : GD__SIGNAL_INT;
    int n_told = 0;

    for (int i = 0; i < GD__SIGNAL_SUBSCRIBERS; i++) {
        int fd = atomic_load(&slots[i]) - 1;

        if (fd < 0)
            continue;
        n_told++;
        /* Not write(), because it is a cancellation point, and a cancelled thread would stay counted for ever. */
        (void)syscall(SYS_write, fd, &one, sizeof one);
    }
    return n_told;
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    int saved_errno = errno;
    int n_told = 0;

    if (atomic_load(&owner) == getpid()) {
        _Atomic uint32_t *running = &handlers_running[atomic_load(&turn) & 1];

        atomic_fetch_add(running, 1);
        n_told = tell_subscribers(signal);
        if (atomic_fetch_sub(running, 1) == 1 && atomic_load(&someone_leaves))
            (void)syscall(SYS_futex, running, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
    if (!n_told)
        hand_to_previous(signal, info, context);
    errno = saved_errno;
}

/* Waits until no handler that may have read the old slots is still running. */
static void await_handlers(void)
{
    _Atomic uint32_t *running = &handlers_running[atomic_fetch_add(&turn, 1) & 1];
    uint32_t n;

    atomic_store(&someone_leaves, true);
    while ((n = atomic_load(running)) != 0)
        (void)syscall(SYS_futex, running, FUTEX_WAIT_PRIVATE, n, NULL, NULL, 0);
    atomic_store(&someone_leaves, false);
}

static void restore(int i)
{
    struct sigaction now;

    if (sigaction(watched[i], NULL, &now) == 0 && handler_is_ours(&now))
        sigaction(watched[i], &previous[i], NULL);
    else
        displaced[i] = true; /* another handler is installed and stays */
}

static int install_one(int i)
{
    struct sigaction ours = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK };
    struct sigaction old;

    sigemptyset(&ours.sa_mask);
    for (int k = 0; k < N_SIGNALS; k++)
        sigaddset(&ours.sa_mask, watched[k]);
    if (GD__FAULT("sigaction") || sigaction(watched[i], &ours, &old) < 0)
        return gd__error_errno("cannot handle signal %d", watched[i]);
    /* If our handler was already installed (in a fork, or restored by another handler), previous[] is still valid. */
    if (!handler_is_ours(&old))
        previous[i] = old;
    return 0;
}

static int install(void)
{
    for (int i = 0; i < N_SIGNALS; i++) {
        int rc = install_one(i);

        if (rc < 0) {
            while (i-- > 0)
                restore(i);
            return rc;
        }
    }
    return 0;
}

/* Forgets the subscribers that a fork inherits, because they belong to its parent. */
static void forget_inherited(void)
{
    if (atomic_load(&owner) == getpid())
        return;
    for (int i = 0; i < GD__SIGNAL_SUBSCRIBERS; i++)
        atomic_store(&slots[i], 0);
    atomic_store(&handlers_running[0], 0);
    atomic_store(&handlers_running[1], 0);
    atomic_store(&someone_leaves, false);
    n_subscribers = 0;
    atomic_store(&owner, getpid());
}

/* Blocks our signals while the lock is held, because a previous handler may leave by longjmp() and never unlock it. */
static void lock_signals(sigset_t *mask)
{
    sigset_t ours;

    sigemptyset(&ours);
    for (int i = 0; i < N_SIGNALS; i++)
        sigaddset(&ours, watched[i]);
    pthread_sigmask(SIG_BLOCK, &ours, mask);
    pthread_mutex_lock(&lock);
}

static void unlock_signals(const sigset_t *mask)
{
    pthread_mutex_unlock(&lock);
    pthread_sigmask(SIG_SETMASK, mask, NULL);
}

/* Fills the slot before it installs the handlers, so that our handler never runs without a subscriber. */
static int subscribe_locked(int fd)
{
    int token = 0;

    while (token < GD__SIGNAL_SUBSCRIBERS && atomic_load(&slots[token]) != 0)
        token++;
    if (token == GD__SIGNAL_SUBSCRIBERS)
        return gd__error(GD_E_BUSY, "more than %d runs of this process handle signals at once", GD__SIGNAL_SUBSCRIBERS);
    atomic_store(&slots[token], fd + 1);
    int rc = n_subscribers == 0 ? install() : 0;
    if (rc < 0) {
        atomic_store(&slots[token], 0);
        await_handlers();
        return rc;
    }
    n_subscribers++;
    return token;
}

int gd__signals_subscribe(int fd)
{
    sigset_t mask;

    if (fd < 0)
        return gd__error(GD_E_INVALID, "cannot subscribe to signals: the descriptor is negative");
    lock_signals(&mask);
    forget_inherited();
    int rc = subscribe_locked(fd);
    unlock_signals(&mask);
    return rc;
}

void gd__signals_unsubscribe(int token)
{
    sigset_t mask;

    if (token < 0 || token >= GD__SIGNAL_SUBSCRIBERS)
        return;
    lock_signals(&mask);
    if (atomic_load(&owner) == getpid() && atomic_exchange(&slots[token], 0) != 0) {
        if (--n_subscribers == 0) {
            for (int i = 0; i < N_SIGNALS; i++)
                restore(i);
        }
        await_handlers();
    }
    unlock_signals(&mask);
}
