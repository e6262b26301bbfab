/* NVIDIA devices, through NVML.
 *
 * NVML also counts GPUs that this process may not open (in a container, for example). Those are skipped, as CUDA does.
 * The order of NVML does not matter, because devices are sorted by PCI bus id later. A GPU with MIG on is listed as its
 * instances. Each instance has its own handle, memory and processes. Its temperature and power are those of its GPU.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gpu/backends/backend.h"
#include "gpu/backends/nvml_api.h"
#include "gpu/groups/connection.h"
#include "gpu/numa.h"

/* True if the function exists and succeeds. */
#define ASK(call, ...) ((call) && (call)(__VA_ARGS__) == GD__NVML_SUCCESS)

enum { PROCESS_TRIES = 4, PROCESS_SPARE = 16, PCI_DIRECTORY_MAX = 64 };

/* --- figures --- */

static int processes(const struct gd__found *f, struct gd_device_process *out, size_t max);

static void refresh(struct gd__found *f)
{
    char why[GD__WHY_MAX];
    const struct gd__nvml *n = gd__nvml_open(why);
    struct gd__nvml_memory memory = { 0 };
    struct gd__nvml_utilization used = { 0 };
    unsigned degrees = 0, milliwatts = 0;
    if (!n)
        return;
    gd__set_known(&f->d, GD_KNOWN_MEMORY, ASK(n->memory, f->handle, &memory) && memory.total > 0);
    gd__set_known(&f->d, GD_KNOWN_UTILIZATION, ASK(n->utilization, f->handle, &used));
    gd__set_known(&f->d, GD_KNOWN_TEMPERATURE, ASK(n->temperature, f->gpu_handle, GD__NVML_TEMPERATURE_GPU, &degrees));
    gd__set_known(&f->d, GD_KNOWN_POWER, ASK(n->power, f->gpu_handle, &milliwatts));
    f->d.memory_total = memory.total;
    f->d.memory_free = memory.free;
    f->d.utilization = used.gpu;
    f->d.temperature = (int)degrees;
    f->d.power_mw = milliwatts;
    const int count = processes(f, NULL, 0);
    gd__set_known(&f->d, GD_KNOWN_PROCESSES, count >= 0);
    f->d.n_processes = count > 0 ? (unsigned)count : 0;
}

/* --- processes --- */

static void copy_process(struct gd_device_process *out, const void *all, unsigned i, bool v1)
{
    const struct gd__nvml_process *current = all;
    const struct gd__nvml_process_v1 *old = all;
    const unsigned long long memory = v1 ? old[i].memory : current[i].memory;
    out->pid = (int)(v1 ? old[i].pid : current[i].pid);
    out->memory = memory == GD__NVML_NOT_KNOWN ? 0 : memory;
}

/* The list may grow between the call for its length and the call for its entries, so this is tried several times. */
static int processes(const struct gd__found *f, struct gd_device_process *out, size_t max)
{
    char why[GD__WHY_MAX];
    const struct gd__nvml *n = gd__nvml_open(why);
    const bool v1 = n && !n->processes;
    int (*list)(gd__nvml_device, unsigned *, void *) = !n ? NULL : v1 ? n->processes_v1 : n->processes;
    unsigned count = 0;
    int rc = list ? list(f->handle, &count, NULL) : GD__NVML_NOT_SUPPORTED;
    void *all = NULL;
    for (int i = 0; rc == GD__NVML_INSUFFICIENT_SIZE && i < PROCESS_TRIES; i++) {
        gd__free(all);
        count += PROCESS_SPARE;
        all = gd__calloc(count, sizeof(struct gd__nvml_process));
        if (!all)
            return gd__error(GD_E_NO_MEMORY, "no memory for a device's processes");
        rc = list(f->handle, &count, all);
    }
    if (rc == GD__NVML_SUCCESS && all)
        for (unsigned i = 0; i < count && i < max; i++)
            copy_process(&out[i], all, i, v1);
    gd__free(all);
    return rc == GD__NVML_SUCCESS ? (int)count : GD_E_UNSUPPORTED;
}

/* --- detection --- */

/* NVML writes "00000000:3B:00.0", sysfs "0000:3b:00.0". */
static void write_pci(char *out, size_t size, const struct gd__nvml_pci *pci)
{
    unsigned domain, bus, device, function = 0;
    if (sscanf(pci->bus_id, "%x:%x:%x.%x", &domain, &bus, &device, &function) < 3) /* NOLINT(cert-err34-c) */
        domain = pci->domain, bus = pci->bus, device = pci->device;
    snprintf(out, size, "%04x:%02x:%02x.%x", domain, bus & 0xff, device & 0x1f, function & 7);
}

static void ask_cpus(const struct gd__nvml *n, struct gd__found *f)
{
    char directory[PCI_DIRECTORY_MAX];
    union {
        cpu_set_t set; /* on Linux an array of unsigned long, as in NVML */
        unsigned long words[sizeof(cpu_set_t) / sizeof(unsigned long)];
    } near = { .words = { 0 } };
    snprintf(directory, sizeof directory, "bus/pci/devices/%s", f->d.pci);
    gd__numa_read(f, directory);
    if (!f->has_cpus && f->d.known & GD_KNOWN_NUMA &&
        ASK(n->cpus, f->gpu_handle, sizeof near.words / sizeof *near.words, near.words))
        gd__numa_set_cpus(f, &near.set);
}

static bool describe(const struct gd__nvml *n, struct gd__found *f, gd__nvml_device handle)
{
    struct gd__nvml_pci pci = { .bus_id = "" };
    unsigned mig = 0, pending;
    int mode = 0;
    *f = (struct gd__found){ .backend = &gd__nvml_backend, .handle = handle, .gpu_handle = handle };
    f->mig_index = f->gi = f->ci = -1;
    f->d.vendor = GD_VENDOR_NVIDIA;
    if (!ASK(n->uuid, handle, f->d.uuid, sizeof f->d.uuid) || !ASK(n->pci, handle, &pci))
        return false;
    if (!ASK(n->name, handle, f->d.name, sizeof f->d.name))
        snprintf(f->d.name, sizeof f->d.name, "NVIDIA GPU");
    memcpy(f->gpu_uuid, f->d.uuid, sizeof f->gpu_uuid);
    write_pci(f->d.pci, sizeof f->d.pci, &pci);
    f->prohibited = ASK(n->compute_mode, handle, &mode) && mode == GD__NVML_MODE_PROHIBITED;
    if (ASK(n->mig_mode, handle, &mig, &pending)) {
        f->d.known |= GD_KNOWN_MIG;
        f->d.mig_enabled = mig == GD__NVML_MIG_ENABLED;
    }
    ask_cpus(n, f);
    return true;
}

static bool describe_instance(const struct gd__nvml *n, struct gd__found *f, const struct gd__found *gpu, unsigned i)
{
    unsigned gi = 0, ci = 0;
    *f = *gpu;
    if (!ASK(n->mig_handle, gpu->handle, i, &f->handle) || !ASK(n->uuid, f->handle, f->d.uuid, sizeof f->d.uuid))
        return false;
    if (!ASK(n->name, f->handle, f->d.name, sizeof f->d.name))
        memcpy(f->d.name, gpu->d.name, sizeof f->d.name);
    f->d.is_mig = true;
    f->gi = ASK(n->gpu_instance, f->handle, &gi) ? (int)gi : -1;
    f->ci = ASK(n->compute_instance, f->handle, &ci) ? (int)ci : -1;
    refresh(f);
    return true;
}

/* Adds the instances of a GPU. Returns how many. */
static int add_instances(const struct gd__nvml *n, struct gd__found_list *out, const struct gd__found *gpu)
{
    unsigned most = 0;
    int count = 0;
    struct gd__found f;
    if (!ASK(n->mig_most, gpu->handle, &most))
        return 0;
    for (unsigned i = 0; i < most; i++) {
        if (!describe_instance(n, &f, gpu, i))
            continue; /* numbers of instances may have gaps */
        f.mig_index = (int)i;
        const int rc = gd__found_add(out, &f);
        if (rc < 0)
            return rc;
        count++;
    }
    return count;
}

static int add_gpu(const struct gd__nvml *n, struct gd__found_list *out, struct gd__found *f)
{
    const int instances = f->d.mig_enabled ? add_instances(n, out, f) : 0;
    if (instances != 0)
        return instances < 0 ? instances : 0;
    f->mig_empty = f->d.mig_enabled;
    refresh(f);
    return gd__found_add(out, f);
}

static int detect(struct gd__found_list *out, char why[GD__WHY_MAX])
{
    const struct gd__nvml *n = gd__nvml_open(why);
    unsigned count = 0, closed = 0;
    if (!n)
        return 0;
    if (!ASK(n->count, &count))
        count = 0;
    for (unsigned i = 0; i < count; i++) {
        gd__nvml_device handle;
        struct gd__found f;
        if (!ASK(n->handle, i, &handle) || !describe(n, &f, handle)) {
            closed++;
            continue;
        }
        const int rc = add_gpu(n, out, &f);
        if (rc < 0)
            return rc;
    }
    if (closed > 0)
        snprintf(why, GD__WHY_MAX, "the driver reports %u GPU%s, but this process may not open %s", closed,
                 closed == 1 ? "" : "s", closed == 1 ? "it" : "them");
    else
        snprintf(why, GD__WHY_MAX, "the driver reports no GPU");
    return 0;
}

/* --- connections --- */

/* How many NVLinks lead from one GPU directly to the other. Links to an NVSwitch lead to no GPU. */
static int direct_links(const struct gd__nvml *n, const struct gd__found *a, const struct gd__found *b)
{
    int count = 0, is_active = 0;
    for (unsigned i = 0; i < GD__NVML_LINKS_MOST && ASK(n->link_state, a->handle, i, &is_active); i++) {
        struct gd__nvml_pci pci = { .bus_id = "" };
        char remote[sizeof b->d.pci];
        if (!is_active || !ASK(n->link_remote, a->handle, i, &pci))
            continue;
        write_pci(remote, sizeof remote, &pci);
        count += strcmp(remote, b->d.pci) == 0;
    }
    return count;
}

static int common_ancestor(const struct gd__nvml *n, const struct gd__found *a, const struct gd__found *b)
{
    int level = GD__NVML_SYSTEM;
    if (!ASK(n->ancestor, a->handle, b->handle, &level) || level > GD__NVML_NODE)
        return GD__CONNECTION_SYSTEM;
    if (level > GD__NVML_HOSTBRIDGE)
        return GD__CONNECTION_NODE;
    if (level > GD__NVML_MULTIPLE)
        return GD__CONNECTION_BRIDGE;
    if (level > GD__NVML_SINGLE)
        return GD__CONNECTION_SWITCHES;
    return level > GD__NVML_INTERNAL ? GD__CONNECTION_SWITCH : GD__CONNECTION_BOARD;
}

static int connection(const struct gd__found *a, const struct gd__found *b)
{
    char why[GD__WHY_MAX];
    const struct gd__nvml *n = gd__nvml_open(why);
    int status = -1;
    if (!n)
        return GD__CONNECTION_SYSTEM;
    const int links = direct_links(n, a, b);
    if (links > 0 || (ASK(n->p2p, a->handle, b->handle, GD__NVML_P2P_NVLINK, &status) && status == GD__NVML_P2P_OK))
        return GD__CONNECTION_NVLINK + links;
    return common_ancestor(n, a, b);
}

const struct gd__backend gd__nvml_backend = {
    .name = "NVIDIA",
    .vendor = GD_VENDOR_NVIDIA,
    .detect = detect,
    .refresh = refresh,
    .processes = processes,
    .connection = connection,
};
