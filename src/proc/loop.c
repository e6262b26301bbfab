/* The event loop: epoll, one watch per descriptor, events fetched in batches.
 *
 * A callback may remove any watch, even one whose event has been fetched and not yet delivered. So the batch is kept in
 * the loop, and removing a watch also removes its events from the rest of the batch.
 *
 * Deadlines need more precision than the milliseconds of epoll_wait: epoll_pwait2 takes nanoseconds (Linux 5.11). If
 * the kernel or a sandbox does not allow it, the first wait fails. After that milliseconds are used, rounded up so that
 * a wait does not end early and spin.
 */
#include "proc/loop.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"

#ifdef SYS_epoll_pwait2
static atomic_bool only_milliseconds; /* epoll_pwait2 failed once: do not try it again */
#endif

int gd__loop_open(struct gd__loop *l)
{
    l->n_pending = l->at = 0;
    l->broken = false;
    l->fd = GD__FAULT("epoll") ? -1 : gd__fd_above_stdio(epoll_create1(EPOLL_CLOEXEC));
    return l->fd < 0 ? gd__error_errno("cannot create an epoll descriptor") : 0;
}

void gd__loop_close(struct gd__loop *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    l->n_pending = l->at = 0;
}

int gd__loop_add(struct gd__loop *l, struct gd__watch *w, int fd, uint32_t events,
                 void (*ready)(struct gd__watch *, uint32_t))
{
    struct epoll_event e = { .events = events, .data.ptr = w };

    if (GD__FAULT("epoll_add") || epoll_ctl(l->fd, EPOLL_CTL_ADD, fd, &e) < 0)
        return gd__error_errno("cannot watch descriptor %d", fd);
    w->fd = fd;
    w->ready = ready;
    return 0;
}

int gd__loop_change(struct gd__loop *l, struct gd__watch *w, uint32_t events)
{
    struct epoll_event e = { .events = events, .data.ptr = w };

    if (epoll_ctl(l->fd, EPOLL_CTL_MOD, w->fd, &e) < 0)
        return gd__error_errno("cannot change the watch of descriptor %d", w->fd);
    return 0;
}

void gd__loop_remove(struct gd__loop *l, struct gd__watch *w)
{
    struct epoll_event unused = { 0 };

    if (w->fd < 0)
        return;
    /* An error means that the descriptor was closed before, and the kernel no longer watches it. */
    (void)epoll_ctl(l->fd, EPOLL_CTL_DEL, w->fd, &unused);
    w->fd = -1;
    for (int i = l->at; i < l->n_pending; i++) {
        if (l->pending[i].data.ptr == w)
            l->pending[i].data.ptr = NULL;
    }
}

static int wait_milliseconds(struct gd__loop *l, const uint64_t *left_ns)
{
    int ms = -1;

    if (left_ns) {
        uint64_t up = *left_ns / GD__NS_PER_MS + (*left_ns % GD__NS_PER_MS != 0);

        ms = up > INT_MAX ? INT_MAX : (int)up;
    }
    return epoll_wait(l->fd, l->pending, GD__LOOP_BATCH, ms);
}

/* left_ns NULL: no time limit. */
static int wait_left(struct gd__loop *l, const uint64_t *left_ns)
{
#ifdef SYS_epoll_pwait2
    if (!atomic_load_explicit(&only_milliseconds, memory_order_relaxed)) {
        struct {
            int64_t s, ns; /* the kernel's timespec, which may differ from the C library's on a 32-bit machine */
        } t = { 0, 0 };
        long n;

        if (left_ns) {
            t.s = (int64_t)(*left_ns / GD__NS_PER_S);
            t.ns = (int64_t)(*left_ns % GD__NS_PER_S);
        }
        n = syscall(SYS_epoll_pwait2, l->fd, l->pending, GD__LOOP_BATCH, left_ns ? &t : NULL, NULL, 0);
        /* Some container sandboxes return EPERM for an unknown system call. */
        if (n >= 0 || (errno != ENOSYS && errno != EPERM))
            return (int)n;
        atomic_store_explicit(&only_milliseconds, true, memory_order_relaxed);
    }
#endif
    return wait_milliseconds(l, left_ns);
}

static int fetch(struct gd__loop *l, uint64_t until_ns)
{
    uint64_t left_ns = 0;

    if (until_ns == GD__NEVER)
        return wait_left(l, NULL);
    if (until_ns != 0) {
        uint64_t now = gd__now_ns();

        left_ns = until_ns > now ? until_ns - now : 0;
    }
    return wait_left(l, &left_ns);
}

static int fail(struct gd__loop *l)
{
    l->broken = true;
    return gd__error_errno("cannot wait for events");
}

int gd__loop_wait(struct gd__loop *l, uint64_t until_ns)
{
    int called = 0;

    l->n_pending = l->at = 0;
    int n = fetch(l, until_ns);
    int why = errno;
    if (until_ns != 0)
        l->woke_ns = gd__now_ns();
    errno = why;
    if (n < 0)
        return errno == EINTR ? 0 : fail(l);

    l->n_pending = n;
    while (l->at < l->n_pending) { /* a callback may change both */
        struct epoll_event e = l->pending[l->at++];
        struct gd__watch *w = e.data.ptr;

        if (!w)
            continue;
        called++;
        w->ready(w, e.events);
    }
    l->n_pending = l->at = 0;
    return called;
}
