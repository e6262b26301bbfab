/* Xid events of NVIDIA devices. The thread waits in nvmlEventSetWait. After a GPU is lost, that call always returns
 * this error at once. So the lost GPU is found, reported, and left out of a new set of events.
 */
#include <limits.h>
#include <stddef.h>

#include "base/alloc.h"
#include "gpu/backends/backend.h"
#include "gpu/backends/nvml_api.h"
#include "gpu/health/health.h"

/* About 25 days. This is the largest value that is valid if NVML treats it as a signed int. */
#define WAIT_MS ((unsigned)INT_MAX)

static struct {
    const struct gd__nvml *n;
    gd__nvml_events events;
    struct gd__nvml_gpu *gpus; /* the GPUs that are watched */
    unsigned n_gpus;
} state; /* made by open(), then used by the thread only */

static void free_events(void)
{
    if (state.events && state.n->events_free)
        state.n->events_free(state.events);
    state.events = NULL;
}

static bool has_xids(gd__nvml_device gpu)
{
    unsigned long long types = 0;
    return !state.n->event_types ||
           (state.n->event_types(gpu, &types) == GD__NVML_SUCCESS && types & GD__NVML_EVENT_XID);
}

/* Makes a new set of events for all watched GPUs. GPUs without events are dropped. Returns false if no GPU has
 * events. */
static bool make_events(void)
{
    unsigned kept = 0;
    free_events();
    if (state.n_gpus == 0 || state.n->events_create(&state.events) != GD__NVML_SUCCESS)
        return false;
    for (unsigned i = 0; i < state.n_gpus; i++)
        if (has_xids(state.gpus[i].handle) &&
            state.n->events_register(state.gpus[i].handle, GD__NVML_EVENT_XID, state.events) == GD__NVML_SUCCESS)
            state.gpus[kept++] = state.gpus[i];
    state.n_gpus = kept;
    return kept > 0;
}

static bool list_gpus(void)
{
    unsigned count = 0;
    if (state.n->count(&count) != GD__NVML_SUCCESS || count == 0)
        return false;
    state.gpus = gd__calloc(count, sizeof *state.gpus);
    state.n_gpus = 0;
    for (unsigned i = 0; state.gpus && i < count; i++) {
        struct gd__nvml_gpu *g = &state.gpus[state.n_gpus];
        if (state.n->handle(i, &g->handle) == GD__NVML_SUCCESS &&
            state.n->uuid(g->handle, g->uuid, sizeof g->uuid) == GD__NVML_SUCCESS)
            state.n_gpus++;
    }
    return state.gpus != NULL;
}

/* After a fork the set of events in the driver is shared with the parent, so it is not freed. */
static void close_nvml(bool forked)
{
    if (!forked)
        free_events();
    state.events = NULL;
    gd__free(state.gpus);
    state.gpus = NULL;
    state.n_gpus = 0;
}

static bool open_nvml(void)
{
    char why[GD__WHY_MAX];
    state.n = gd__nvml_open_locked(why);
    if (!state.n || !state.n->events_create || !state.n->events_register || !state.n->events_wait)
        return false;
    if (list_gpus() && make_events())
        return true;
    close_nvml(false);
    return false;
}

static void report_xid(void *user, const char *uuid)
{
    gd__health_report(uuid, *(const unsigned *)user);
}

static void report_lost(void *user, const char *uuid)
{
    (void)user;
    gd__health_report_lost(uuid);
}

static bool is_lost(gd__nvml_device gpu)
{
    struct gd__nvml_memory memory;
    return state.n->memory(gpu, &memory) == GD__NVML_GPU_IS_LOST;
}

/* Reports lost GPUs and continues without them. Returns false if no GPU is left to watch, or if no lost GPU was
 * found. */
static bool drop_lost(void)
{
    const unsigned before = state.n_gpus;
    unsigned kept = 0;
    for (unsigned i = 0; i < before; i++) {
        if (is_lost(state.gpus[i].handle))
            gd__nvml_each_uuid(state.n, &state.gpus[i], GD__NVML_NO_INSTANCE, GD__NVML_NO_INSTANCE, report_lost, NULL);
        else
            state.gpus[kept++] = state.gpus[i];
    }
    state.n_gpus = kept;
    return kept < before && make_events();
}

static const struct gd__nvml_gpu *find(gd__nvml_device handle)
{
    for (unsigned i = 0; i < state.n_gpus; i++)
        if (state.gpus[i].handle == handle)
            return &state.gpus[i];
    return NULL;
}

static bool watch_nvml(void)
{
    struct gd__nvml_event event = { .gpu_instance = GD__NVML_NO_INSTANCE, .compute_instance = GD__NVML_NO_INSTANCE };
    const int rc = state.n->events_wait(state.events, &event, WAIT_MS);
    if (rc == GD__NVML_TIMEOUT)
        return true;
    if (rc == GD__NVML_GPU_IS_LOST)
        return drop_lost();
    if (rc != GD__NVML_SUCCESS)
        return false;
    unsigned xid = (unsigned)event.data;
    const struct gd__nvml_gpu *gpu = find(event.device);
    if (gpu && event.type & GD__NVML_EVENT_XID)
        gd__nvml_each_uuid(state.n, gpu, event.gpu_instance, event.compute_instance, report_xid, &xid);
    return true;
}

const struct gd__health_source gd__health_nvml = {
    .name = "NVML",
    .open = open_nvml,
    .watch = watch_nvml,
    .close = close_nvml,
};
