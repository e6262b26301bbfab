/* SPDX-License-Identifier: MIT
 *
 * A library that looks like NVML, for tests. It is written from NVML's documentation. On purpose, it does not use our
 * own declarations. Environment variables control it:
 *
 *   FAKE_NVML_GPUS=2         number of GPUs, listed in reverse order of their bus ids; a real driver may do this too
 *   FAKE_NVML_CLOSED=1       no permission to open GPU 1
 *   FAKE_NVML_PROHIBITED=1   the compute mode of GPU 1 is "prohibited"
 *   FAKE_NVML_MIG=1:2        GPU 1 has MIG on and two instances
 *   FAKE_NVML_PROCESSES=3    three processes on each device
 *   FAKE_NVML_INIT=9         the return value of nvmlInit
 *   FAKE_NVML_THREAD=1       nvmlInit starts a thread that keeps running and blocks no signal
 *   FAKE_NVML_LINKS=0-1x2,2-3  two NVLinks between GPUs 0 and 1, one between 2 and 3; each GPU also has a
 *                            link to a switch that connects to nothing
 *   FAKE_NVML_P2P=0-2,1-3    GPUs 0 and 2, and 1 and 3, reach each other by NVLink through a switch
 *   FAKE_NVML_ANCESTORS=0-1=10,0-2=40  the topology level of GPUs 0 and 1 is 10 (one PCIe switch); others: 50
 *   FAKE_NVML_EVENTS=PATH    a FIFO of lines "gpu xid gi ci"; xid 0 or 79: the GPU is lost; -1: waiting always fails
 *
 * Every call about a lost GPU returns NVML_ERROR_GPU_IS_LOST, as the documentation of nearly all calls says.
 *
 * Builds: FAKE_BARE has no optional function, FAKE_OLD has the first versions of functions, FAKE_BROKEN lacks
 * functions that are required.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct fake_device *nvmlDevice_t;
typedef struct fake_events *nvmlEventSet_t;

struct fake_device {
    int gpu, instance; /* instance -1: the GPU itself */
};
struct fake_events {
    int from; /* not a FILE: exit() would wait for the lock that a reader in another thread holds */
};

typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;
typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;
typedef struct {
    unsigned int gpu, memory;
} nvmlUtilization_t;
typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
#ifndef FAKE_OLD
    unsigned int gpuInstanceId, computeInstanceId;
#endif
} nvmlProcessInfo_t;
typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
#ifndef FAKE_OLD
    unsigned int gpuInstanceId, computeInstanceId;
#endif
} nvmlEventData_t;

enum {
    MOST = 16,
    INSTANCES = 7,
    NOT_SUPPORTED = 3,
    NO_PERMISSION = 4,
    NOT_FOUND = 6,
    TOO_SMALL = 7,
    LOST = 15,
    FALLEN_OFF = 79,
    UNKNOWN = 999
};

static struct fake_device gpus[MOST], instances[MOST][INSTANCES];
static int lost = -1;

static int number(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

__attribute__((unused)) static int instances_of(int gpu)
{
    int which = -1, n = 0;
    const char *text = getenv("FAKE_NVML_MIG");
    if (text && sscanf(text, "%d:%d", &which, &n) == 2 && which == gpu)
        return n;
    return -1;
}

static void *stay(void *arg)
{
    for (;;)
        pause();
    return arg;
}

int nvmlInit_v2(void);
int nvmlInit_v2(void)
{
    pthread_t thread;
    if (number("FAKE_NVML_THREAD", 0) && pthread_create(&thread, NULL, stay, NULL) == 0)
        pthread_detach(thread);
    for (int i = 0; i < MOST; i++) {
        gpus[i] = (struct fake_device){ i, -1 };
        for (int k = 0; k < INSTANCES; k++)
            instances[i][k] = (struct fake_device){ i, k };
    }
    return number("FAKE_NVML_INIT", 0);
}

const char *nvmlErrorString(int rc);
const char *nvmlErrorString(int rc)
{
    return rc == 9 ? "Driver Not Loaded" : "Unknown Error";
}

int nvmlDeviceGetCount_v2(unsigned *n);
int nvmlDeviceGetCount_v2(unsigned *n)
{
    *n = (unsigned)number("FAKE_NVML_GPUS", 2);
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, nvmlDevice_t *out);
int nvmlDeviceGetHandleByIndex_v2(unsigned i, nvmlDevice_t *out)
{
    if ((int)i == number("FAKE_NVML_CLOSED", -1))
        return NO_PERMISSION;
    *out = &gpus[i];
    return 0;
}

int nvmlDeviceGetName(nvmlDevice_t d, char *out, unsigned size);
int nvmlDeviceGetName(nvmlDevice_t d, char *out, unsigned size)
{
    snprintf(out, size, d->instance < 0 ? "Fake %d" : "Fake %d MIG 1g.%d", d->gpu, d->instance);
    return 0;
}

int nvmlDeviceGetUUID(nvmlDevice_t d, char *out, unsigned size);
int nvmlDeviceGetUUID(nvmlDevice_t d, char *out, unsigned size)
{
    if (d->gpu == lost)
        return LOST;
    if (d->instance < 0)
        snprintf(out, size, "GPU-fa%d", d->gpu);
    else
        snprintf(out, size, "MIG-fa%d%d", d->gpu, d->instance);
    return 0;
}

int nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *out);
int nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *out)
{
    memset(out, 0, sizeof *out);
    out->bus = 0xF0 - 0x10 * (unsigned)d->gpu;
    snprintf(out->busIdLegacy, sizeof out->busIdLegacy, "0000:%02X:00.0", out->bus & 0xff);
    snprintf(out->busId, sizeof out->busId, "00000000:%02X:00.0", out->bus & 0xff);
    return 0;
}

#ifndef FAKE_BROKEN
int nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *out);
int nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *out)
{
    if (d->gpu == lost)
        return LOST;
    out->total = (d->instance < 0 ? 80ULL : 10ULL) << 30;
    out->free = out->total - (1ULL << 30);
    out->used = 1ULL << 30;
    return 0;
}

#ifndef FAKE_BARE

int nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *out);
int nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *out)
{
    *out = (nvmlUtilization_t){ .gpu = 42, .memory = 7 };
    return d->instance < 0 ? 0 : NOT_SUPPORTED;
}

int nvmlDeviceGetTemperature(nvmlDevice_t d, int sensor, unsigned *out);
int nvmlDeviceGetTemperature(nvmlDevice_t d, int sensor, unsigned *out)
{
    *out = 50 + (unsigned)d->gpu;
    return d->instance < 0 && sensor == 0 ? 0 : NOT_SUPPORTED;
}

int nvmlDeviceGetPowerUsage(nvmlDevice_t d, unsigned *out);
int nvmlDeviceGetPowerUsage(nvmlDevice_t d, unsigned *out)
{
    *out = 123456;
    return d->instance < 0 ? 0 : NOT_SUPPORTED;
}

static int list_processes(unsigned *n, nvmlProcessInfo_t *out)
{
    const unsigned all = (unsigned)number("FAKE_NVML_PROCESSES", 0), room = *n;
    *n = all;
    if (room < all)
        return TOO_SMALL;
    for (unsigned i = 0; i < all; i++) {
        out[i].pid = 100 + i;
        out[i].usedGpuMemory = i == 1 ? ~0ULL : (i + 1ULL) << 20;
    }
    return 0;
}

#ifdef FAKE_OLD
int nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_t *out);
int nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_t *out)
#else
int nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_t *out);
int nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_t *out)
#endif
{
    (void)d;
    return list_processes(n, out);
}

#ifndef FAKE_OLD
/* The version in the first R535 drivers. Its entries are longer than in the versions before and after it. */
typedef struct {
    nvmlProcessInfo_t info;
    unsigned long long usedGpuCcProtectedMemory;
} longerProcessInfo_t;

int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned *n, longerProcessInfo_t *out);
int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned *n, longerProcessInfo_t *out)
{
    nvmlProcessInfo_t all[64] = { 0 };
    const int rc = *n > 64 ? UNKNOWN : list_processes(n, all);
    (void)d;
    for (unsigned i = 0; rc == 0 && i < *n; i++)
        out[i] = (longerProcessInfo_t){ .info = all[i] };
    return rc;
}
#endif

#ifndef FAKE_OLD
int nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned *now, unsigned *later);
int nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned *now, unsigned *later)
{
    *now = *later = instances_of(d->gpu) >= 0;
    return 0;
}

int nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned *n);
int nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned *n)
{
    if (d->gpu == lost)
        return LOST;
    *n = instances_of(d->gpu) >= 0 ? INSTANCES : 0;
    return 0;
}

int nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned i, nvmlDevice_t *out);
int nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned i, nvmlDevice_t *out)
{
    if ((int)i >= instances_of(d->gpu))
        return NOT_FOUND;
    *out = &instances[d->gpu][i];
    return 0;
}

int nvmlDeviceGetGpuInstanceId(nvmlDevice_t d, unsigned *out);
int nvmlDeviceGetGpuInstanceId(nvmlDevice_t d, unsigned *out)
{
    *out = (unsigned)d->instance + 3;
    return d->instance < 0 ? NOT_SUPPORTED : 0;
}

int nvmlDeviceGetComputeInstanceId(nvmlDevice_t d, unsigned *out);
int nvmlDeviceGetComputeInstanceId(nvmlDevice_t d, unsigned *out)
{
    *out = 0;
    return d->instance < 0 ? NOT_SUPPORTED : 0;
}

int nvmlDeviceGetComputeMode(nvmlDevice_t d, int *out);
int nvmlDeviceGetComputeMode(nvmlDevice_t d, int *out)
{
    *out = d->gpu == number("FAKE_NVML_PROHIBITED", -1) ? 2 : 0;
    return 0;
}

/* Reads the number after the pair of GPUs in a list "0-1x2,2-3". 0: the pair is not in it; 1: there is no number. */
static int number_of_pair(const char *variable, int a, int b, char sign)
{
    const char *at = getenv(variable);
    for (; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        int x = -1, y = -1, value = 1;
        char mark = 0;
        const int n = sscanf(at, "%d-%d%c%d", &x, &y, &mark, &value);
        if (n >= 2 && ((x == a && y == b) || (x == b && y == a)))
            return n == 4 && mark == sign ? value : 1;
    }
    return 0;
}

/* The GPU that a link leads to. MOST: the switch. -1: the link is off. */
static int end_of_link(const struct fake_device *d, unsigned link)
{
    int at = 0;
    for (int other = 0; other < MOST; other++)
        for (int k = number_of_pair("FAKE_NVML_LINKS", d->gpu, other, 'x'); k > 0; k--)
            if (at++ == (int)link)
                return other;
    return getenv("FAKE_NVML_LINKS") && at == (int)link ? MOST : -1;
}

int nvmlDeviceGetNvLinkState(nvmlDevice_t d, unsigned link, int *is_active);
int nvmlDeviceGetNvLinkState(nvmlDevice_t d, unsigned link, int *is_active)
{
    *is_active = end_of_link(d, link) >= 0;
    return link >= 18 ? 2 : getenv("FAKE_NVML_LINKS") ? 0 : NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t d, unsigned link, nvmlPciInfo_t *out);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t d, unsigned link, nvmlPciInfo_t *out)
{
    const int to = end_of_link(d, link);
    memset(out, 0, sizeof *out);
    if (to >= 0 && to < MOST)
        return nvmlDeviceGetPciInfo_v3(&gpus[to], out);
    snprintf(out->busId, sizeof out->busId, "00000000:07:00.0");
    out->bus = 7;
    return to < 0 ? NOT_SUPPORTED : 0;
}

int nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, int what, int *status);
int nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, int what, int *status)
{
    *status = what == 2 && number_of_pair("FAKE_NVML_P2P", a->gpu, b->gpu, 0) ? 0 : 5;
    return what == 2 ? 0 : NOT_SUPPORTED;
}

int nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b, int *level);
int nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b, int *level)
{
    const int given = number_of_pair("FAKE_NVML_ANCESTORS", a->gpu, b->gpu, '=');
    *level = given > 0 ? given : 50;
    return 0;
}

int nvmlDeviceGetCpuAffinity(nvmlDevice_t d, unsigned n, unsigned long *out);
int nvmlDeviceGetCpuAffinity(nvmlDevice_t d, unsigned n, unsigned long *out)
{
    (void)d;
    memset(out, 0, n * sizeof *out);
    out[0] = 0xF0;
    return 0;
}

int nvmlDeviceGetSupportedEventTypes(nvmlDevice_t d, unsigned long long *out);
int nvmlDeviceGetSupportedEventTypes(nvmlDevice_t d, unsigned long long *out)
{
    (void)d;
    *out = getenv("FAKE_NVML_EVENTS") ? 0xF : 0;
    return 0;
}
#endif

int nvmlEventSetCreate(nvmlEventSet_t *out);
int nvmlEventSetCreate(nvmlEventSet_t *out)
{
    const char *path = getenv("FAKE_NVML_EVENTS");
    struct fake_events *e = calloc(1, sizeof *e);
    if (e)
        e->from = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    *out = e;
    return e && (!path || e->from >= 0) ? 0 : UNKNOWN;
}

int nvmlDeviceRegisterEvents(nvmlDevice_t d, unsigned long long types, nvmlEventSet_t e);
int nvmlDeviceRegisterEvents(nvmlDevice_t d, unsigned long long types, nvmlEventSet_t e)
{
    return d->instance < 0 && types == 8 && e->from >= 0 ? 0 : NOT_SUPPORTED;
}

int nvmlEventSetFree(nvmlEventSet_t e);
int nvmlEventSetFree(nvmlEventSet_t e)
{
    if (e->from >= 0)
        close(e->from);
    free(e);
    return 0;
}

static bool read_line(int fd, char *line, size_t size)
{
    size_t n = 0;
    while (n + 1 < size && read(fd, &line[n], 1) == 1 && line[n] != '\n')
        n++;
    line[n] = '\0';
    return n > 0;
}

static int wait_event(nvmlEventSet_t e, nvmlEventData_t *out)
{
    int gpu = 0, xid = 0;
    unsigned gi = ~0u, ci = ~0u;
    char line[128];
    if (!read_line(e->from, line, sizeof line) || sscanf(line, "%d %d %u %u", &gpu, &xid, &gi, &ci) < 2)
        return UNKNOWN;
    if (xid <= 0 || xid == FALLEN_OFF)
        lost = gpu;
    if (xid <= 0)
        return xid == 0 ? LOST : UNKNOWN;
    memset(out, 0, sizeof *out);
    out->device = &gpus[gpu];
    out->eventType = 8;
    out->eventData = (unsigned long long)xid;
#ifndef FAKE_OLD
    out->gpuInstanceId = gi;
    out->computeInstanceId = ci;
#endif
    return 0;
}

#ifdef FAKE_OLD
int nvmlEventSetWait(nvmlEventSet_t e, nvmlEventData_t *out, unsigned ms);
int nvmlEventSetWait(nvmlEventSet_t e, nvmlEventData_t *out, unsigned ms)
#else
int nvmlEventSetWait_v2(nvmlEventSet_t e, nvmlEventData_t *out, unsigned ms);
int nvmlEventSetWait_v2(nvmlEventSet_t e, nvmlEventData_t *out, unsigned ms)
#endif
{
    (void)ms;
    return wait_event(e, out);
}

#endif
#endif
