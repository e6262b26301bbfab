/* SPDX-License-Identifier: MIT
 *
 * The devices of this machine: which exist, which of them this process may use,
 * and what is known of each.
 *
 *     struct gd_devices *all;
 *     if (gd_devices_open(&all, "auto") < 0)
 *         return fprintf(stderr, "%s\n", gd_error_text()), 1;
 *     for (size_t i = 0; i < gd_devices_count(all); i++) {
 *         struct gd_device d = { .size = sizeof d };
 *         gd_devices_get(all, i, &d);
 *         printf("GPU %d: %s, %llu bytes free\n", d.id, d.name, (unsigned long long)d.memory_free);
 *     }
 *     gd_devices_close(&all);
 *
 * A list of devices is a snapshot. NVIDIA devices are found through NVML, which is opened at run time; AMD and Intel
 * ones through sysfs. Neither is needed to build or to run. If the environment variable GPU_DISPATCH_SIM is set, the
 * machine has simulated devices instead of real ones: `GPU_DISPATCH_SIM=4`, with more detail as described
 * in gpu-dispatch-gpus(1).
 *
 * Numbers. Devices are numbered from 0 in the order in which this process may use them: by PCI bus id, NVIDIA before
 * AMD before Intel, each MIG instance on its own; and where CUDA_VISIBLE_DEVICES (HIP_VISIBLE_DEVICES,
 * ROCR_VISIBLE_DEVICES, ZE_AFFINITY_MASK) is set, by a scheduler or by hand, in the order of that list and nothing that
 * is not in it.
 *
 * Threads: a list may be used by one thread at a time, several lists by several.
 */
#ifndef GPU_DISPATCH_DEVICES_H
#define GPU_DISPATCH_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/error.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

struct gd_devices;

enum gd_vendor {
    GD_VENDOR_CPU = 0, /* no device: a worker that computes on the processor ("cpu:8") */
    GD_VENDOR_NVIDIA = 1,
    GD_VENDOR_AMD = 2,
    GD_VENDOR_INTEL = 3,
    GD_VENDOR_SIMULATED = 4,
};

/* "CPU", "NVIDIA", ... Static. */
const char *gd_vendor_name(enum gd_vendor vendor);

/* Which fields of a struct gd_device are known. */
enum gd_device_known {
    GD_KNOWN_MEMORY = 1 << 0,      /* memory_total, memory_free */
    GD_KNOWN_UTILIZATION = 1 << 1, /* utilization */
    GD_KNOWN_TEMPERATURE = 1 << 2, /* temperature */
    GD_KNOWN_POWER = 1 << 3,       /* power_mw */
    GD_KNOWN_NUMA = 1 << 4,        /* numa_node */
    GD_KNOWN_CPUS = 1 << 5,        /* cpus */
    GD_KNOWN_MIG = 1 << 6,         /* mig_enabled */
    GD_KNOWN_PROCESSES = 1 << 7,   /* n_processes */
};

struct gd_device {
    size_t size;    /* set to sizeof(struct gd_device) before the call */
    int id;         /* its number for this process */
    int index;      /* its number on the machine, among its vendor's, by PCI bus id; a MIG instance has its GPU's */
    int vendor;     /* enum gd_vendor */
    unsigned known; /* enum gd_device_known */
    char name[96];
    char uuid[96];         /* "GPU-...", "MIG-..."; empty if it has none */
    char pci[32];          /* "0000:3b:00.0"; may be empty too */
    uint64_t memory_total; /* bytes */
    uint64_t memory_free;
    unsigned utilization; /* percent of time that something ran on it */
    int temperature;      /* degrees Celsius */
    unsigned power_mw;    /* milliwatts */
    int numa_node;
    char cpus[256]; /* near it: "0-15,32-47" */
    bool is_mig;    /* this is a MIG instance */
    bool mig_enabled;
    unsigned n_processes; /* that compute on it */
};

struct gd_device_process {
    int pid;
    uint64_t memory; /* bytes; 0: not known */
};

/* Lists devices. spec:
 *
 *   NULL          all that this process may use; the list may be empty
 *   "auto","all"  the same, but an empty list is GD_E_NO_DEVICES; the message says what to do instead
 *   "0,2", "0-3"  by number; ranges and single ones mixed, in that order
 *   "GPU-8d2f"    by UUID, or a beginning of one that fits a single device; "MIG-..." likewise
 *   "0:1"         MIG instance 1 of GPU 0
 *   "sim:4"       four simulated devices, whatever the machine has
 *   "cpu", "cpu:8" workers without a device
 *
 * A device that does not exist, is ambiguous or is listed twice is GD_E_NO_DEVICES or GD_E_INVALID. The message names
 * it and lists what exists. Release with gd_devices_close(). */
int gd_devices_open(struct gd_devices **out, const char *spec);

void gd_devices_close(struct gd_devices **list); /* sets it to NULL; NULL is fine */

size_t gd_devices_count(const struct gd_devices *list);

/* What is known of the i-th. */
int gd_devices_get(const struct gd_devices *list, size_t i, struct gd_device *out);

/* The index in the list of the device with that number, or GD_E_NO_DEVICES. */
int gd_devices_find(const struct gd_devices *list, int id);

/* 0 if every one of these numbers is in the list; otherwise GD_E_NO_DEVICES, and gd_error_text() names the missing one
 * and what exists. A number that is given twice is GD_E_INVALID. */
int gd_devices_validate(const struct gd_devices *list, const int *ids, size_t n);

/* True if the list has an NVIDIA device that CUDA could use. */
bool gd_devices_cuda(const struct gd_devices *list);

/* Asks again for memory, utilisation, temperature, power and processes. */
int gd_devices_refresh(struct gd_devices *list);

/* The processes that compute on the i-th: the first max. Returns how many there are, GD_E_UNSUPPORTED if not known.
 * element_size is sizeof(struct gd_device_process). */
int gd_devices_processes(const struct gd_devices *list, size_t i, struct gd_device_process *out, size_t element_size,
                         size_t max);

/* How many workers fit on the i-th if each needs this many bytes of device memory. A tenth of the free memory, and at
 * least 256 MiB, stays free. GD_E_UNSUPPORTED if the free memory is not known; GD_E_TOO_LARGE if not even one fits,
 * with the figures in the message. */
int gd_devices_room(const struct gd_devices *list, size_t i, uint64_t bytes);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
