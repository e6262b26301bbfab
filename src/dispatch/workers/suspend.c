/* Measures how long the run was frozen, so that this time does not count towards time limits. There are two cases.
 *
 * The program suspends the run (Ctrl-Z). Every worker's process group is stopped, and all are continued together. No
 * timer fires meanwhile. Afterwards every deadline is moved by the time that passed.
 *
 * The run is frozen from outside (SIGSTOP to every process of the job, a cgroup's freezer). Nothing reports that. We
 * notice it because we wake up much later than planned. Then deadlines are moved by all the time since we went to
 * sleep. The moment at which the freeze began is not known, and a limit that is too long does less harm than one that
 * is too short. To keep the error small, one sleep lasts an eighth of the time to the next deadline, but at least a
 * second. If only a worker is stopped, we wake up as planned, and its deadline is not moved. If we wake up that late
 * because the machine is very busy, the workers have not had their time either. But if every sleep ended late, no limit
 * would ever be reached. So if the previous sleep ended late too, deadlines are moved only by the delay of the wake-up.
 */
#include <signal.h>

#include "dispatch/internal.h"
#include "proc/descendants.h"

#define LATE_NS   (250 * GD__NS_PER_MS) /* a delay that is not normal */
#define STRIDE_NS GD__NS_PER_S
enum { STRIDES = 8 };

/* --- suspended --- */

void gd__children_lock(struct gd_dispatcher *d)
{
    pthread_mutex_lock(&d->child_lock);
}

void gd__children_unlock(struct gd_dispatcher *d)
{
    pthread_mutex_unlock(&d->child_lock);
}

bool gd__is_suspended(const struct gd_dispatcher *d)
{
    return atomic_load(&d->suspended_at) != 0;
}

/* Also signals the processes that have left the group. A stopped group starts no new process that could leave it. */
static void signal_child(struct gd__seat *seat, int signal)
{
    if (seat->child.pid <= 0)
        return;
    gd__child_signal(&seat->child, signal);
    gd__descendants_signal(seat->child.pid, signal, false);
}

void gd__child_started(struct gd__seat *seat)
{
    if (gd__is_suspended(seat->d))
        signal_child(seat, SIGSTOP);
}

static void signal_all(struct gd_dispatcher *d, int signal)
{
    for (unsigned i = 0; d->seats && i < d->n_workers; i++)
        signal_child(&d->seats[i], signal);
}

void gd_dispatcher_suspend(struct gd_dispatcher *d)
{
    if (!d)
        return;
    gd__children_lock(d);
    if (!gd__is_suspended(d)) {
        atomic_fetch_add(&d->suspend_turns, 1);
        atomic_store(&d->suspended_at, gd__now_ns());
        signal_all(d, SIGSTOP);
    }
    gd__children_unlock(d);
}

void gd_dispatcher_resume(struct gd_dispatcher *d)
{
    if (!d)
        return;
    gd__children_lock(d);
    const uint64_t since = atomic_load(&d->suspended_at);
    if (since != 0) {
        signal_all(d, SIGCONT);
        atomic_fetch_add(&d->suspend_turns, 1);
        atomic_fetch_add(&d->lost_ns, gd__now_ns() - since);
        atomic_store(&d->suspended_at, 0); /* last, so that a thread that sees this also sees lost_ns */
    }
    gd__children_unlock(d);
    gd__dispatcher_wake(d);
}

/* --- frozen --- */

static uint64_t next_wake_ns(uint64_t now, uint64_t until_ns)
{
    if (until_ns == GD__NEVER || until_ns <= now + STRIDE_NS)
        return until_ns;
    const uint64_t part = (until_ns - now) / STRIDES;
    return now + (part > STRIDE_NS ? part : STRIDE_NS);
}

void gd__sleep(struct gd_dispatcher *d, uint64_t until_ns)
{
    if (until_ns == 0) {
        if (gd__loop_wait(&d->loop, 0) == 0)
            gd__note_gap(d, d->now, gd__now_ns());
        return;
    }
    const uint64_t since = d->now, until = next_wake_ns(since, until_ns);
    gd__loop_wait(&d->loop, until);
    const bool late = until != GD__NEVER && d->loop.woke_ns > until + LATE_NS;
    if (late)
        gd__note_gap(d, d->woke_late ? until : since, d->loop.woke_ns);
    d->woke_late = late;
}

/* If workers were suspended or resumed since the last call, that time is counted already. */
void gd__note_gap(struct gd_dispatcher *d, uint64_t since, uint64_t now)
{
    const uint32_t turns = atomic_load(&d->suspend_turns);
    const bool known = turns != d->turns_seen || gd__is_suspended(d);
    d->turns_seen = turns;
    if (!known && now > since + LATE_NS)
        atomic_fetch_add(&d->lost_ns, now - since);
}

void gd__tell_lost(struct gd_dispatcher *d)
{
    if (gd__is_suspended(d))
        return;
    const uint64_t lost = atomic_exchange(&d->lost_ns, 0);
    if (lost == 0)
        return;
    gd__sched_frozen(&d->sched, d->now, lost);
    if (d->feeder_deadline != GD__NEVER)
        d->feeder_deadline += lost;
}
