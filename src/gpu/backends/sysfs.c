/* AMD and Intel devices, through sysfs.
 *
 * AMD: ROCm can use the nodes of the KFD topology that have SIMD units. It numbers them in the order of those nodes,
 * not by PCI bus id. A node names the DRM device that has the figures. Intel: DRM devices with their own memory are
 * used. A GPU that is part of the processor is not used.
 */
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "gpu/backends/backend.h"
#include "gpu/backends/sysfs_file.h"
#include "gpu/backends/sysfs_links.h"
#include "gpu/numa.h"

#define KFD_NODES     "class/kfd/kfd/topology/nodes"
#define KFD_PROCESSES "class/kfd/kfd/proc"
#define DRM           "class/drm"

enum { VENDOR_INTEL = 0x8086, MOST_NODES = 1024 };

/* --- figures --- */

/* The directory of the device's sensors, "<directory>/hwmon/hwmon3". */
static bool find_sensors(const struct gd__found *f, char *out, size_t size)
{
    char directory[sizeof f->directory + 8];
    snprintf(directory, sizeof directory, "%s/hwmon", f->directory);
    DIR *dir = gd__sysfs_open(directory);
    bool found = false;
    for (struct dirent *e; dir && !found && (e = readdir(dir));) {
        found = gd__sysfs_numbered(e->d_name, "hwmon") >= 0;
        if (found)
            snprintf(out, size, "%s/%.32s", directory, e->d_name);
    }
    if (dir)
        closedir(dir);
    return found;
}

static void read_sensors(struct gd__found *f)
{
    char directory[2 * sizeof f->directory];
    uint64_t milli_degrees = 0, microwatts = 0;
    const bool there = find_sensors(f, directory, sizeof directory);
    gd__set_known(&f->d, GD_KNOWN_TEMPERATURE, there && gd__sysfs_number(directory, "temp1_input", &milli_degrees));
    gd__set_known(&f->d, GD_KNOWN_POWER,
                  there && (gd__sysfs_number(directory, "power1_average", &microwatts) ||
                            gd__sysfs_number(directory, "power1_input", &microwatts)));
    f->d.temperature = (int)(milli_degrees / 1000);
    f->d.power_mw = (unsigned)(microwatts / 1000);
}

/* Reads the PCI bus id of a device, its NUMA node and the CPUs near it. */
static bool read_pci(struct gd__found *f)
{
    char path[GD__SYSFS_PATH_MAX], target[PATH_MAX];
    const ssize_t n = gd__sysfs_path(path, f->directory, NULL) ? readlink(path, target, sizeof target - 1) : -1;
    if (n <= 0)
        return false;
    target[n] = '\0';
    const char *base = strrchr(target, '/');
    snprintf(f->d.pci, sizeof f->d.pci, "%.31s", base ? base + 1 : target);
    gd__numa_read(f, f->directory);
    return true;
}

/* --- AMD --- */

/* Every process that has opened KFD has a directory with a file per GPU, which contains how much memory the process
 * uses there. */
static int amd_processes(const struct gd__found *f, struct gd_device_process *out, size_t max)
{
    char directory[sizeof KFD_PROCESSES + 32], file[32];
    uint64_t memory;
    size_t n = 0;
    DIR *dir = gd__sysfs_open(KFD_PROCESSES);
    if (!dir)
        return GD_E_UNSUPPORTED;
    snprintf(file, sizeof file, "vram_%u", f->kfd_id);
    for (struct dirent *e; (e = readdir(dir));) {
        const int pid = gd__sysfs_numbered(e->d_name, "");
        snprintf(directory, sizeof directory, "%s/%d", KFD_PROCESSES, pid);
        if (pid < 0 || !gd__sysfs_number(directory, file, &memory) || memory == 0)
            continue;
        if (n < max)
            out[n] = (struct gd_device_process){ .pid = pid, .memory = memory };
        n++;
    }
    closedir(dir);
    return (int)n;
}

static void amd_refresh(struct gd__found *f)
{
    uint64_t total = 0, used = 0, busy = 0;
    gd__set_known(&f->d, GD_KNOWN_MEMORY,
                  gd__sysfs_number(f->directory, "mem_info_vram_total", &total) &&
                      gd__sysfs_number(f->directory, "mem_info_vram_used", &used));
    gd__set_known(&f->d, GD_KNOWN_UTILIZATION, gd__sysfs_number(f->directory, "gpu_busy_percent", &busy));
    f->d.memory_total = total;
    f->d.memory_free = used < total ? total - used : 0;
    f->d.utilization = (unsigned)busy;
    read_sensors(f);
    const int n = amd_processes(f, NULL, 0);
    gd__set_known(&f->d, GD_KNOWN_PROCESSES, n >= 0);
    f->d.n_processes = n > 0 ? (unsigned)n : 0;
}

static void amd_name(struct gd__found *f, const char *node)
{
    uint64_t id = 0;
    if (gd__sysfs_read(f->directory, "product_name", f->d.name, sizeof f->d.name) ||
        gd__sysfs_read(node, "name", f->d.name, sizeof f->d.name))
        return;
    gd__sysfs_number(f->directory, "device", &id);
    snprintf(f->d.name, sizeof f->d.name, "AMD GPU %04x", (unsigned)id & 0xffff);
}

/* Returns false if this node is not a GPU, or if this process may not use it (then the contents of its files are
 * hidden). */
static bool amd_describe(struct gd__found *f, unsigned number)
{
    char node[sizeof KFD_NODES + 16], text[4096];
    uint64_t simds = 0, minor = 0, unique = 0, id = 0;
    snprintf(node, sizeof node, "%s/%u", KFD_NODES, number);
    if (!gd__sysfs_read(node, "properties", text, sizeof text) || !gd__sysfs_property(text, "simd_count", &simds) ||
        simds == 0 || !gd__sysfs_property(text, "drm_render_minor", &minor))
        return false;
    *f = (struct gd__found){ .backend = &gd__amd_backend, .mig_index = -1, .gi = -1, .ci = -1 };
    f->d.vendor = GD_VENDOR_AMD;
    snprintf(f->directory, sizeof f->directory, "%s/renderD%u/device", DRM, (unsigned)minor);
    if (!read_pci(f))
        return false;
    gd__sysfs_number(node, "gpu_id", &id);
    f->kfd_id = (unsigned)id;
    f->kfd_node = number;
    if (gd__sysfs_property(text, "unique_id", &unique) && unique != 0)
        snprintf(f->d.uuid, sizeof f->d.uuid, "GPU-%016" PRIx64, unique); /* as ROCm writes it */
    memcpy(f->gpu_uuid, f->d.uuid, sizeof f->gpu_uuid);
    amd_name(f, node);
    amd_refresh(f);
    return true;
}

static int amd_connection(const struct gd__found *a, const struct gd__found *b)
{
    return gd__kfd_connection(KFD_NODES, a, b);
}

static int amd_detect(struct gd__found_list *out, char why[GD__WHY_MAX])
{
    struct gd__found f;
    int n = 0;
    char path[GD__SYSFS_PATH_MAX];
    if (!gd__sysfs_path(path, KFD_NODES, NULL) || access(path, F_OK) < 0) {
        snprintf(why, GD__WHY_MAX, "the amdgpu driver is not loaded");
        return 0;
    }
    for (unsigned i = 0; i < MOST_NODES; i++) {
        char node[32];
        snprintf(node, sizeof node, "%u", i);
        if (!gd__sysfs_path(path, KFD_NODES, node) || access(path, F_OK) < 0)
            break; /* nodes are numbered without gaps */
        if (!amd_describe(&f, i))
            continue;
        f.runtime_number = n++;
        const int rc = gd__found_add(out, &f);
        if (rc < 0)
            return rc;
    }
    snprintf(why, GD__WHY_MAX, "the driver reports no GPU that this process may use");
    return 0;
}

const struct gd__backend gd__amd_backend = {
    .name = "AMD",
    .vendor = GD_VENDOR_AMD,
    .detect = amd_detect,
    .refresh = amd_refresh,
    .processes = amd_processes,
    .connection = amd_connection,
};

/* --- Intel --- */

/* The files in which drivers (i915, xe) report the size of a card's own memory. */
static const struct {
    const char *directory; /* after "class/drm/card0/" */
    const char *total, *free;
} intel_memory[] = {
    { ".", "lmem_total_bytes", "lmem_avail_bytes" },
    { "device/tile0", "physical_vram_size_bytes", NULL },
};

/* Returns false if the card has no memory of its own. The memory counts as known only if the free memory is known
 * too. */
static bool intel_read_memory(struct gd__found *f)
{
    uint64_t total, available;
    gd__set_known(&f->d, GD_KNOWN_MEMORY, false);
    for (size_t i = 0; i < sizeof intel_memory / sizeof *intel_memory; i++) {
        char directory[sizeof f->directory + 32];
        snprintf(directory, sizeof directory, "%.*s%s", (int)(strlen(f->directory) - strlen("device")), f->directory,
                 intel_memory[i].directory);
        if (!gd__sysfs_number(directory, intel_memory[i].total, &total) || total == 0)
            continue;
        f->d.memory_total = total;
        f->d.memory_free = 0;
        if (intel_memory[i].free && gd__sysfs_number(directory, intel_memory[i].free, &available)) {
            f->d.memory_free = available;
            gd__set_known(&f->d, GD_KNOWN_MEMORY, true);
        }
        return true;
    }
    return false;
}

static void intel_refresh(struct gd__found *f)
{
    intel_read_memory(f);
    read_sensors(f);
}

static bool intel_describe(struct gd__found *f, int card)
{
    uint64_t vendor = 0, id = 0;
    *f = (struct gd__found){ .backend = &gd__intel_backend, .mig_index = -1, .gi = -1, .ci = -1 };
    f->d.vendor = GD_VENDOR_INTEL;
    snprintf(f->directory, sizeof f->directory, "%s/card%d/device", DRM, card);
    if (!gd__sysfs_number(f->directory, "vendor", &vendor) || vendor != VENDOR_INTEL || !read_pci(f))
        return false;
    const bool has_memory = intel_read_memory(f);
    if (!has_memory && strncmp(f->d.pci, "0000:00:", 8) == 0)
        return false; /* part of the processor: only such GPUs are on its own bus */
    gd__sysfs_number(f->directory, "device", &id);
    snprintf(f->d.name, sizeof f->d.name, "Intel GPU %04x", (unsigned)id & 0xffff);
    intel_refresh(f);
    return true;
}

static int intel_detect(struct gd__found_list *out, char why[GD__WHY_MAX])
{
    struct gd__found f;
    int rc = 0;
    DIR *dir = gd__sysfs_open(DRM);
    snprintf(why, GD__WHY_MAX, "no graphics card with its own memory");
    for (struct dirent *e; dir && rc == 0 && (e = readdir(dir));) {
        const int card = gd__sysfs_numbered(e->d_name, "card");
        if (card >= 0 && intel_describe(&f, card))
            rc = gd__found_add(out, &f);
    }
    if (dir)
        closedir(dir);
    return rc;
}

const struct gd__backend gd__intel_backend = {
    .name = "Intel",
    .vendor = GD_VENDOR_INTEL,
    .detect = intel_detect,
    .refresh = intel_refresh,
    .processes = NULL,
    .connection = gd__pci_connection,
};
