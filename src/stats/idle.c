/* Why a worker has nothing to do. Its state often gives the reason. Otherwise the reason is what the worker waits for.
 */
#include "stats/idle.h"

enum { DEPENDS = -1 }; /* the state alone does not give the reason */

static const int by_state[] = {
    [GD_WORKER_OFF] = GD_IDLE_SETTING_UP,
    [GD_WORKER_STARTING] = GD_IDLE_SETTING_UP,
    [GD_WORKER_IDLE] = DEPENDS,
    [GD_WORKER_BUSY] = DEPENDS,
    [GD_WORKER_CANCELLING] = GD_IDLE_NOT,
    [GD_WORKER_KILLING] = GD_IDLE_RESTARTING,
    [GD_WORKER_RESTING] = GD_IDLE_RESTARTING,
    [GD_WORKER_STOPPING] = GD_IDLE_AT_END,
    [GD_WORKER_FINISHED] = GD_IDLE_AT_END,
    [GD_WORKER_FAILED] = GD_IDLE_AT_END,
    [GD_WORKER_LOST] = GD_IDLE_AT_END,
};

static const char *const names[] = {
    [GD_IDLE_NOT] = "busy",
    [GD_IDLE_NO_INPUT] = "no input",
    [GD_IDLE_SETTING_UP] = "setting up",
    [GD_IDLE_LOADING] = "loading",
    [GD_IDLE_RESULTS] = "waiting for results to be taken",
    [GD_IDLE_BATCH] = "held back",
    [GD_IDLE_RESTARTING] = "restarting",
    [GD_IDLE_AT_END] = "nothing left",
    [GD_IDLE_PAUSED] = "paused",
    [GD_IDLE_REMOVED] = "not in use",
};

const char *gd_idle_reason_name(enum gd_idle_reason idle)
{
    return (size_t)idle < sizeof names / sizeof *names ? names[idle] : "unknown";
}

/* A worker writes one record for each task that ends. If as many records wait as it has tasks, it has finished all. */
static enum gd_idle_reason with_tasks(const struct gd__idle_facts *f)
{
    if (f->wants_room || f->results_waiting >= f->handed)
        return GD_IDLE_RESULTS;
    return f->is_loading && !f->is_started ? GD_IDLE_LOADING : GD_IDLE_NOT;
}

static enum gd_idle_reason without_tasks(const struct gd__idle_facts *f)
{
    if (f->waiting > 0)
        return f->is_paused ? GD_IDLE_PAUSED : GD_IDLE_BATCH;
    if (f->source_ended)
        return GD_IDLE_AT_END;
    return f->queue_is_full && f->parked > 0 ? GD_IDLE_RESULTS : GD_IDLE_NO_INPUT;
}

enum gd_idle_reason gd__idle_why(const struct gd__idle_facts *f)
{
    const size_t n = sizeof by_state / sizeof *by_state;
    const int known = (size_t)f->state < n ? by_state[f->state] : GD_IDLE_AT_END;
    if (f->is_spare)
        return GD_IDLE_REMOVED;
    if (known != DEPENDS)
        return (enum gd_idle_reason)known;
    return f->state == GD_WORKER_BUSY ? with_tasks(f) : without_tasks(f);
}
