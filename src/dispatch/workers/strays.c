/* Processes that a dead worker left running.
 *
 * If a command has moved to a new session or process group, it survives when its worker is killed, and would run at the
 * same time as its own second attempt. If the dispatcher adopts orphans (gd_options.orphans), such processes have
 * become its children by the time the worker's end is known. The variable GPU_DISPATCH_PROCESS in their environment
 * distinguishes them from the program's other children. Every worker process has its own value, and a command's value
 * ends with the position of its task in the worker's ring. The number of the task would not do: each run of a dispatcher
 * counts its tasks from 0.
 *
 *   WORKER           not started by a command: killed
 *   WORKER:POSITION  started by a command: killed if the task there has no result; otherwise it is a daemon that the
 *                    command left running on purpose, and it stays
 *
 * They are killed and waited for, and the search is repeated until it finds no more. After that the death of the worker
 * is reported to the scheduler. So no process of the worker runs at the same time as the next attempt. The loop
 * continues meanwhile. If a process cannot be killed, the wait ends after WAIT_S seconds, as for a worker.
 *
 * Processes in the worker's own group were killed with it, but may not have ended yet. They are waited for too, because
 * their children become children of the dispatcher only after that.
 *
 * A process that has cleared its environment, or whose environment may not be read, is not found.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/process/owner.h"
#include "dispatch/internal.h"
#include "proc/descendants.h"
#include "proc/orphans.h"

enum { WAIT_S = 5 };

#define WAIT_FOR_PIDFD ((idtype_t)3) /* P_PIDFD: see proc/child.c */

/* --- names --- */

void gd__strays_name(struct gd__seat *seat)
{
    const struct gd_dispatcher *d = seat->d;
    struct gd__owner me;
    gd__owner_self(&me);
    snprintf(seat->name, sizeof seat->name, GD__PROCESS_ENV "=%" PRIu64 "-%" PRIx64 "-%u-%u-%" PRIu64, me.pid, me.start,
             d->number, seat->index, d->sched.workers[seat->index].restarts);
}

/* Whether the task that a command belongs to has no result. Commands run one at a time, so only the task at head can be
 * in flight. */
static bool is_in_flight(const struct gd__seat *seat, const char *position)
{
    const struct gd__sched_worker *w = &seat->d->sched.workers[seat->index];
    char expected[32];
    if (w->head == w->tail)
        return false;
    snprintf(expected, sizeof expected, "%" PRIu64, w->head);
    return strcmp(position, expected) == 0;
}

static bool is_stray(void *user, const char *value)
{
    const struct gd__seat *seat = user;
    const char *ours = seat->name + sizeof GD__PROCESS_ENV; /* after the '=' */
    const size_t n = strlen(ours);
    if (strncmp(value, ours, n) != 0)
        return false;
    return value[n] == '\0' || (value[n] == ':' && is_in_flight(seat, value + n + 1));
}

/* --- waiting for them --- */

/* Reaps all of them. Those that have ended are children of this process by now. */
static void drop_round(struct gd__seat *seat)
{
    struct gd__strays *s = &seat->strays;
    for (size_t i = 0; i < s->n; i++) {
        siginfo_t info;
        gd__loop_remove(&seat->d->loop, &s->of[i].watch);
        (void)waitid(WAIT_FOR_PIDFD, (id_t)s->of[i].pidfd, &info, WEXITED | WNOHANG);
        close(s->of[i].pidfd);
    }
    s->n = s->n_alive = 0;
}

void gd__strays_forget(struct gd__seat *seat)
{
    drop_round(seat);
    gd__loop_remove(&seat->d->loop, &seat->strays.timer_watch);
    if (seat->strays.timer >= 0)
        close(seat->strays.timer);
    seat->strays.timer = -1;
}

static void stop_waiting(struct gd__seat *seat)
{
    gd__strays_forget(seat);
    gd__seat_ended(seat);
}

static void waited_too_long(struct gd__watch *w, uint32_t events)
{
    (void)events;
    stop_waiting((struct gd__seat *)((char *)w - offsetof(struct gd__seat, strays.timer_watch)));
}

static bool kill_round(struct gd__seat *seat);

static void stray_ended(struct gd__watch *w, uint32_t events)
{
    const struct gd__stray *stray = (const struct gd__stray *)w;
    struct gd__seat *seat = stray->seat;
    (void)events;
    gd__loop_remove(&seat->d->loop, w);
    if (--seat->strays.n_alive > 0)
        return;
    drop_round(seat);
    if (!kill_round(seat))
        stop_waiting(seat);
}

/* Kills all strays that it finds. Returns whether there is a process to wait for. A process that can't be watched is
 * not waited for. */
static bool kill_round(struct gd__seat *seat)
{
    struct gd__strays *s = &seat->strays;
    int pidfds[GD__STRAYS_MOST];
    const struct gd__adopted which = {
        .name = GD__PROCESS_ENV "=", .is_meant = is_stray, .user = seat, .group = seat->ended_pid
    };
    const size_t n = gd__adopted_kill(&which, pidfds, GD__STRAYS_MOST);
    for (size_t i = 0; i < n; i++) {
        struct gd__stray *stray = &s->of[s->n++];
        *stray = (struct gd__stray){ .watch = GD__WATCH_NONE, .seat = seat, .pidfd = pidfds[i] };
        s->n_alive += gd__loop_add(&seat->d->loop, &stray->watch, pidfds[i], EPOLLIN, stray_ended) == 0;
    }
    if (s->n_alive == 0)
        drop_round(seat);
    return s->n_alive > 0;
}

static int start_timer(struct gd__seat *seat)
{
    struct gd__strays *s = &seat->strays;
    const struct itimerspec once = { .it_value.tv_sec = WAIT_S };
    s->timer = GD__FAULT("timerfd") ? -1 : gd__fd_above_stdio(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
    if (s->timer < 0 || timerfd_settime(s->timer, 0, &once, NULL) < 0)
        return -1;
    return gd__loop_add(&seat->d->loop, &s->timer_watch, s->timer, EPOLLIN, waited_too_long);
}

bool gd__strays_end(struct gd__seat *seat)
{
    if (seat->d->o.orphans == GD_ORPHANS_LEAVE || (seat->said & 1u << GD__R_BYE) || !kill_round(seat))
        return false;
    if (start_timer(seat) == 0)
        return true;
    gd__strays_forget(seat); /* they are killed, but without a timer we do not wait for their end */
    return false;
}

/* --- adopting --- */

static bool is_worker(void *user, pid_t pid)
{
    const struct gd_dispatcher *d = user;
    for (unsigned i = 0; i < d->n_workers; i++)
        if (d->seats[i].child.pid == pid)
            return true;
    return false;
}

static void children_ended(struct gd__watch *w, uint32_t events)
{
    struct gd_dispatcher *d = (struct gd_dispatcher *)((char *)w - offsetof(struct gd_dispatcher, ended_watch));
    (void)events;
    gd__ended_children_reap(&d->ended, is_worker, d);
}

int gd__strays_open(struct gd_dispatcher *d)
{
    int rc = 0;
    if (d->o.orphans == GD_ORPHANS_LEAVE)
        return 0;
    if (!d->adopts)
        rc = gd__orphans_adopt();
    if (rc < 0)
        return rc;
    d->adopts = true;
    if (d->o.orphans != GD_ORPHANS_REAP)
        return 0;
    rc = gd__ended_children_open(&d->ended);
    if (rc == 0)
        rc = gd__loop_add(&d->loop, &d->ended_watch, d->ended.fd, EPOLLIN, children_ended);
    if (rc == 0)
        gd__ended_children_reap(&d->ended, is_worker, d); /* children that ended before the run */
    return rc;
}

void gd__strays_rest(struct gd_dispatcher *d)
{
    if (d->ended.fd >= 0)
        gd__ended_children_reap(&d->ended, is_worker, d);
    gd__loop_remove(&d->loop, &d->ended_watch);
    gd__ended_children_close(&d->ended);
}

void gd__strays_close(struct gd_dispatcher *d)
{
    gd__strays_rest(d);
    if (d->adopts)
        gd__orphans_leave();
    d->adopts = false;
}
