/* Device back ends: one constant table of functions per vendor, and the struct that they fill in. */
#ifndef GD_GPU_BACKENDS_BACKEND_H
#define GD_GPU_BACKENDS_BACKEND_H

#include <gpu_dispatch/devices.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

/* Environment variables of this module, for unusual installations and for tests. */
#define GD__ENV_SIM     "GPU_DISPATCH_SIM"     /* simulated devices instead of real ones: sim.c */
#define GD__ENV_SIM_XID "GPU_DISPATCH_SIM_XID" /* a FIFO or file that reports their failures: health_sim.c */
#define GD__ENV_NVML    "GPU_DISPATCH_NVML"    /* path of the NVML library */
#define GD__ENV_SYSFS   "GPU_DISPATCH_SYSFS"   /* instead of /sys */

enum { GD__WHY_MAX = 256 };

/* One device, as its back end found it. */
struct gd__found {
    struct gd_device d; /* the public part; id is set when the visible devices are known */
    const struct gd__backend *backend;
    void *handle, *gpu_handle; /* NVML handles of the device, and of the GPU that a MIG instance is part of */
    char gpu_uuid[96];         /* the UUID of that GPU; d.uuid if this is not a MIG instance */
    int mig_index;             /* which MIG instance of its GPU; -1: not a MIG instance */
    int gi, ci;                /* ids of GPU instance and compute instance; -1: not a MIG instance */
    int runtime_number;        /* its number in the vendor's runtime: d.index, except for AMD */
    int number;                /* its number in a list reduced by a variable: see visible_list.h */
    unsigned kfd_id, kfd_node; /* AMD: its id in the driver, and its node in the topology */
    char directory[64];        /* its path below the root of sysfs: "class/drm/renderD128/device" */
    bool prohibited;           /* its compute mode prohibits programs */
    bool mig_empty;            /* MIG is on but there is no instance: nothing can run on it */
    unsigned group;            /* from 1: devices with this number were listed as one group ("0+1"); 0: by itself */
    int nvlink, pcie_switch;   /* simulated: its NVLink domain and PCIe switch; -1: none */
    bool has_cpus;             /* cpus is set; d.cpus may be empty, because the text did not fit */
    cpu_set_t cpus;
};

/* Records whether some figures are known. */
static inline void gd__set_known(struct gd_device *d, enum gd_device_known which, bool known)
{
    d->known = known ? d->known | (unsigned)which : d->known & ~(unsigned)which;
}

struct gd__found_list {
    struct gd__found *items;
    size_t n, capacity;
};

int gd__found_add(struct gd__found_list *list, const struct gd__found *item); /* copied */
void gd__found_clear(struct gd__found_list *list);                            /* frees its memory and leaves it empty */

struct gd__backend {
    const char *name;
    enum gd_vendor vendor;
    /* Adds the devices found, in any order. Finding none is not an error. Then a short reason is written to why. */
    int (*detect)(struct gd__found_list *out, char why[GD__WHY_MAX]);
    /* Reads memory, utilisation, temperature, power and processes. A figure that cannot be read becomes unknown. */
    void (*refresh)(struct gd__found *f);
    /* Like gd_devices_processes(). NULL: not supported. */
    int (*processes)(const struct gd__found *f, struct gd_device_process *out, size_t max);
    /* How well two devices of this back end are connected: see groups/connection.h. NULL: not known. */
    int (*connection)(const struct gd__found *a, const struct gd__found *b);
};

extern const struct gd__backend gd__nvml_backend, gd__amd_backend, gd__intel_backend, gd__sim_backend;

#endif
