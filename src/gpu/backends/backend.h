/* Where devices come from: one const table of functions per vendor, and what each of them fills in. */
#ifndef GD_GPU_BACKENDS_BACKEND_H
#define GD_GPU_BACKENDS_BACKEND_H

#include <gpu_dispatch/devices.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

/* Environment variables of this module, for odd installations and for tests. */
#define GD__ENV_SIM     "GPU_DISPATCH_SIM"     /* simulated devices instead of real ones: sim.c */
#define GD__ENV_SIM_XID "GPU_DISPATCH_SIM_XID" /* a FIFO or file that tells of their failures: health.c */
#define GD__ENV_NVML    "GPU_DISPATCH_NVML"    /* path of the NVML library */
#define GD__ENV_SYSFS   "GPU_DISPATCH_SYSFS"   /* instead of /sys */

enum { GD__WHY_MAX = 256 };

/* One device as its back end found it. */
struct gd__found {
    struct gd_device d; /* what users see; id is set once it is known who may be used */
    const struct gd__backend *backend;
    void *handle, *gpu_handle; /* NVML's: of the device, and of the GPU that a MIG instance is part of */
    char gpu_uuid[96];         /* of that GPU, or d.uuid */
    int mig_index;             /* which instance of its GPU; -1: it is none */
    int gi, ci;                /* ids of GPU instance and compute instance; -1 likewise */
    int runtime_number;        /* how the vendor's runtime counts it: d.index but for AMD */
    int number;                /* how it counts within a list that has been cut down: see visible_list.h */
    unsigned kfd_id;           /* AMD: the driver's name for it */
    char folder[64];           /* in sysfs, below its root: "class/drm/renderD128/device" */
    bool prohibited;           /* its compute mode lets nobody in */
    bool mig_empty;            /* MIG is on and there is no instance: nothing can run on it */
    bool has_cpus;             /* near it, as a set: d.cpus may be too short for the words */
    cpu_set_t cpus;
};

/* Notes whether some figures are known. */
static inline void gd__set_known(struct gd_device *d, enum gd_device_known which, bool known)
{
    d->known = known ? d->known | (unsigned)which : d->known & ~(unsigned)which;
}

struct gd__found_list {
    struct gd__found *items;
    size_t n, capacity;
};

int gd__found_add(struct gd__found_list *list, const struct gd__found *item); /* copied */
void gd__found_clear(struct gd__found_list *list);                            /* empty and without memory */

struct gd__backend {
    const char *name;
    enum gd_vendor vendor;
    /* Adds what there is, sorted or not. Nothing is no error: why then says the reason in a few words. */
    int (*detect)(struct gd__found_list *out, char why[GD__WHY_MAX]);
    /* Memory, utilisation, temperature, power, processes; what fails is unknown. */
    void (*refresh)(struct gd__found *f);
    /* As gd_devices_processes(). NULL: never known. */
    int (*processes)(const struct gd__found *f, struct gd_device_process *out, size_t max);
};

extern const struct gd__backend gd__nvml_backend, gd__amd_backend, gd__intel_backend, gd__sim_backend;

#endif
