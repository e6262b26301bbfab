/* Devices: when one is taken out of use with all its workers, and when its workers are started again. A device is
 * identified by the index of its first worker.
 */
#include "core/internal.h"

enum { LOST_LIMIT = 2 };

static void take_device_out(struct gd__sched *s, uint64_t now, unsigned device, const char *message)
{
    if (!s->workers[device].device_out && !s->stopping && !s->workers_stopped) {
        s->workers[device].device_out = true;
        s->fx->device_out(s->ctx, device, message);
    }
    for (unsigned k = device; k < s->config.n_workers; k++) {
        if (s->workers[k].device != device)
            continue;
        s->workers[k].given_up = true; /* mark all before killing any: the end of one worker lets another start */
        s->workers[k].wants_start = false;
    }
    for (unsigned k = device; k < s->config.n_workers; k++) {
        struct gd__sched_worker *w = &s->workers[k];
        if (w->device != device)
            continue;
        if (gd__has_no_process(w->state)) {
            gd__heap_disarm(&s->heap, &w->timer);
            gd__worker_set_state(s, now, k, GD_WORKER_FAILED);
        } else if (gd__takes_tasks(w->state) || w->state == GD_WORKER_STARTING) {
            gd__worker_kill(s, now, k, GD__KILL_DEVICE_LOST);
        }
    }
}

/* A device that is lost twice, with no success in between, is taken out of use with all its workers. */
void gd__device_lost(struct gd__sched *s, uint64_t now, unsigned i)
{
    const unsigned device = s->workers[i].device;
    if (++s->workers[device].lost_in_row >= LOST_LIMIT)
        take_device_out(s, now, device, "its workers lost it twice in a row");
    else
        gd__worker_kill(s, now, i, GD__KILL_DEVICE_LOST);
}

void gd__sched_device_failed(struct gd__sched *s, uint64_t now, unsigned w, const char *message)
{
    take_device_out(s, now, s->workers[w].device, message);
    gd__check_done(s, now);
}

/* A worker that is still in setup is left alone: if the error concerns it, its setup fails. */
void gd__sched_device_restart(struct gd__sched *s, uint64_t now, unsigned w)
{
    const unsigned device = s->workers[w].device;
    for (unsigned k = device; k < s->config.n_workers; k++)
        if (s->workers[k].device == device && gd__takes_tasks(s->workers[k].state))
            gd__worker_kill(s, now, k, GD__KILL_DEVICE_ERROR);
}
