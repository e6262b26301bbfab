/* Opens NVML. A loop over a table finds its symbols. Each entry has the possible names of a symbol, best first, and
 * whether the symbol is optional. nvmlInit takes tens of milliseconds and wakes the driver, so it is called once, when
 * devices are first needed, and never undone. Handles stay valid as long as the process lives, and in forks of it.
 */
#include "gpu/backends/nvml_api.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backends/backend.h"
#include "gpu/lock.h"

#define LIBRARY "libnvidia-ml.so.1"

static struct gd__nvml api; /* protected by the lock until started is true, then constant */
static bool started;        /* protected by the lock */

static const struct {
    size_t slot; /* offset in struct gd__nvml */
    bool optional;
    const char *names[3]; /* the first one found is used */
} symbols[] = {
#define SLOT(field) offsetof(struct gd__nvml, field)
    { SLOT(init), false, { "nvmlInit_v2" } },
    { SLOT(error_string), false, { "nvmlErrorString" } },
    { SLOT(count), false, { "nvmlDeviceGetCount_v2" } },
    { SLOT(handle), false, { "nvmlDeviceGetHandleByIndex_v2" } },
    { SLOT(name), false, { "nvmlDeviceGetName" } },
    { SLOT(uuid), false, { "nvmlDeviceGetUUID" } },
    { SLOT(pci), false, { "nvmlDeviceGetPciInfo_v3" } },
    { SLOT(memory), false, { "nvmlDeviceGetMemoryInfo" } },
    { SLOT(utilization), true, { "nvmlDeviceGetUtilizationRates" } },
    { SLOT(temperature), true, { "nvmlDeviceGetTemperature" } },
    { SLOT(power), true, { "nvmlDeviceGetPowerUsage" } },
    /* The second version is preferred to the third. Both have the same entries, except in some R535 drivers, where the
     * entries of the third are longer. */
    { SLOT(processes), true, { "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses_v3" } },
    { SLOT(processes_v1), true, { "nvmlDeviceGetComputeRunningProcesses" } },
    { SLOT(mig_mode), true, { "nvmlDeviceGetMigMode" } },
    { SLOT(mig_most), true, { "nvmlDeviceGetMaxMigDeviceCount" } },
    { SLOT(mig_handle), true, { "nvmlDeviceGetMigDeviceHandleByIndex" } },
    { SLOT(gpu_instance), true, { "nvmlDeviceGetGpuInstanceId" } },
    { SLOT(compute_instance), true, { "nvmlDeviceGetComputeInstanceId" } },
    { SLOT(cpus), true, { "nvmlDeviceGetCpuAffinity" } },
    { SLOT(compute_mode), true, { "nvmlDeviceGetComputeMode" } },
    { SLOT(ancestor), true, { "nvmlDeviceGetTopologyCommonAncestor" } },
    { SLOT(p2p), true, { "nvmlDeviceGetP2PStatus" } },
    { SLOT(link_state), true, { "nvmlDeviceGetNvLinkState" } },
    { SLOT(link_remote), true, { "nvmlDeviceGetNvLinkRemotePciInfo_v2" } },
    { SLOT(event_types), true, { "nvmlDeviceGetSupportedEventTypes" } },
    { SLOT(events_create), true, { "nvmlEventSetCreate" } },
    { SLOT(events_register), true, { "nvmlDeviceRegisterEvents" } },
    { SLOT(events_wait), true, { "nvmlEventSetWait_v2", "nvmlEventSetWait" } },
    { SLOT(events_free), true, { "nvmlEventSetFree" } },
#undef SLOT
};

static void *find_symbol(void *library, const char *const names[3])
{
    for (int i = 0; i < 3 && names[i]; i++) {
        void *symbol = dlsym(library, names[i]);
        if (symbol)
            return symbol;
    }
    return NULL;
}

static bool find_symbols(void *library, struct gd__nvml *out, char *why)
{
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = find_symbol(library, symbols[i].names);
        if (!symbol && !symbols[i].optional) {
            snprintf(why, GD__WHY_MAX, "the NVML library is too old: it lacks %s", symbols[i].names[0]);
            return false;
        }
        memcpy((char *)out + symbols[i].slot, &symbol, sizeof symbol); /* ISO C has no such cast */
    }
    return true;
}

static void *open_library(char *why)
{
    const char *path = getenv(GD__ENV_NVML);
    if (!path || !*path)
        path = LIBRARY;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        snprintf(why, GD__WHY_MAX, "%s not found", path);
    return library;
}

static bool start(char *why)
{
    struct gd__nvml found = { 0 };
    void *library = open_library(why);
    if (!library)
        return false;
    if (!find_symbols(library, &found, why))
        goto failed;
    const int rc = found.init();
    if (rc != GD__NVML_SUCCESS) {
        const char *reason = found.error_string(rc);
        snprintf(why, GD__WHY_MAX, "NVML reports: %s", reason ? reason : "it cannot start");
        goto failed;
    }
    api = found;
    return true; /* the library is never closed */
failed:
    dlclose(library);
    return false;
}

const struct gd__nvml *gd__nvml_open_locked(char *why)
{
    started = started || start(why);
    return started ? &api : NULL;
}

const struct gd__nvml *gd__nvml_open(char *why)
{
    gd__gpu_lock();
    const struct gd__nvml *n = gd__nvml_open_locked(why);
    gd__gpu_unlock();
    return n;
}

/* --- UUIDs of a GPU and its MIG instances --- */

static bool is_instance(const struct gd__nvml *n, gd__nvml_device mig, unsigned gi, unsigned ci)
{
    unsigned own_gi = 0, own_ci = 0;
    if (gi == GD__NVML_NO_INSTANCE)
        return true;
    if (!n->gpu_instance || n->gpu_instance(mig, &own_gi) != GD__NVML_SUCCESS || own_gi != gi)
        return false;
    return ci == GD__NVML_NO_INSTANCE || !n->compute_instance ||
           n->compute_instance(mig, &own_ci) != GD__NVML_SUCCESS || own_ci == ci;
}

void gd__nvml_each_uuid(const struct gd__nvml *n, const struct gd__nvml_gpu *gpu, unsigned gi, unsigned ci,
                        gd__nvml_uuid_fn *fn, void *user)
{
    char uuid[GD__NVML_TEXT];
    unsigned most = 0;
    const bool answers = n->uuid(gpu->handle, uuid, sizeof uuid) == GD__NVML_SUCCESS;
    if (gi == GD__NVML_NO_INSTANCE || !answers)
        fn(user, gpu->uuid);
    if (!answers || !n->mig_most || !n->mig_handle || n->mig_most(gpu->handle, &most) != GD__NVML_SUCCESS)
        return;
    for (unsigned i = 0; i < most; i++) {
        gd__nvml_device mig;
        if (n->mig_handle(gpu->handle, i, &mig) == GD__NVML_SUCCESS && is_instance(n, mig, gi, ci) &&
            n->uuid(mig, uuid, sizeof uuid) == GD__NVML_SUCCESS)
            fn(user, uuid);
    }
}
