/* A shortage: the machine cannot start a process because no more processes or memory are available. No task and no
 * worker caused that, so none is charged. The task goes back to the backlog. The worker rests, longer after each
 * shortage in a row. sched.h has the rules.
 */
#include "core/internal.h"

#define SHORTAGE_DELAY_MIN (GD__NS_PER_S / 10)
#define SHORTAGE_DELAY_MAX (5 * GD__NS_PER_S)

uint64_t gd__shortage_delay(struct gd__sched_worker *w)
{
    const unsigned doublings = w->shortages > 6 ? 6 : w->shortages;
    w->shortages++;
    return gd__min64(SHORTAGE_DELAY_MIN << doublings, SHORTAGE_DELAY_MAX);
}

/* Whether some worker has tasks and is not short of a process. */
static bool something_runs(const struct gd__sched *s)
{
    for (unsigned i = 0; i < s->config.n_workers; i++) {
        const struct gd__sched_worker *w = &s->workers[i];
        if (w->state != GD__WORKER_SHORT && w->shortages == 0 && gd__load(w) > 0)
            return true;
    }
    return false;
}

bool gd__short_of(struct gd__sched *s, uint64_t now, unsigned i, const char *message, uint64_t size)
{
    if (s->short_since == 0)
        s->short_since = now;
    s->fx->shortage(s->ctx, i, message, size);
    return now - s->short_since >= s->config.shortage_wait_ns && !something_runs(s);
}

/* Tasks that are still in the worker's window keep their deadline. */
void gd__arm_short(struct gd__sched *s, unsigned i, uint64_t deadline)
{
    gd__worker_arm(s, i, gd__min64(s->workers[i].short_until, deadline));
}

void gd__worker_short(struct gd__sched *s, uint64_t now, unsigned i)
{
    struct gd__sched_worker *w = &s->workers[i];
    gd__worker_set_state(s, now, i, GD__WORKER_SHORT);
    gd__window_take_back(s, i, gd__first_unasked(w));
    w->short_until = now + gd__shortage_delay(w);
    gd__arm_short(s, i, gd__after(now, gd__head_limit(s, w)));
}
