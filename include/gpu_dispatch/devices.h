/* SPDX-License-Identifier: MIT
 *
 * The devices of this machine: which devices exist, which of them this process may use, and their properties.
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
 * A list of devices is a snapshot. NVIDIA devices are found through NVML, which is opened at run time. AMD and Intel
 * devices are found through sysfs. Neither NVML nor sysfs is needed to build or to run. If the environment variable
 * GPU_DISPATCH_SIM is set, simulated devices replace the real ones. For example, `GPU_DISPATCH_SIM=4` makes four. The
 * man page gpu-dispatch-gpus(1) has the details.
 *
 * Numbers. The devices that this process may use are numbered from 0: first NVIDIA, then AMD, then Intel. The devices
 * of one vendor are sorted by PCI bus id. Each MIG instance has its own number. If CUDA_VISIBLE_DEVICES (or
 * HIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, ZE_AFFINITY_MASK) is set, this process may use only the devices in that
 * variable. They are numbered in the order of the variable.
 *
 * Threads: a list may be used by one thread at a time. Different lists may be used by different threads at the same
 * time.
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

/* Returns the vendor's name: "CPU", "NVIDIA", ... The string is static. */
const char *gd_vendor_name(enum gd_vendor vendor);

/* The bits of gd_device.known. A bit is set if the fields named here are known. */
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
    size_t size; /* set to sizeof(struct gd_device) before the call */
    int id;      /* number of the device in this process; see "Numbers" above */
    int index;   /* position among the devices of its vendor, by PCI bus id; a MIG instance has the index of its GPU */
    int vendor;  /* enum gd_vendor */
    unsigned known; /* bits of enum gd_device_known */
    char name[96];
    char uuid[96];         /* "GPU-...", "MIG-..."; empty if not known */
    char pci[32];          /* "0000:3b:00.0"; empty if not known */
    uint64_t memory_total; /* bytes */
    uint64_t memory_free;
    unsigned utilization; /* percent of the time in which the device was busy */
    int temperature;      /* degrees Celsius */
    unsigned power_mw;    /* milliwatts */
    int numa_node;
    char cpus[256];       /* the CPUs near the device: "0-15,32-47" */
    bool is_mig;          /* this device is a MIG instance */
    bool mig_enabled;     /* MIG mode is on */
    unsigned n_processes; /* processes that compute on the device */
};

struct gd_device_process {
    int pid;
    uint64_t memory; /* bytes; 0: not known */
};

/* Makes a list of devices. spec is one of:
 *
 *   NULL           every device that this process may use; the list may be empty
 *   "auto", "all"  like NULL, but if there are no devices the call fails with GD_E_NO_DEVICES
 *   "0,2", "0-3"   devices by number, in this order; numbers and ranges may be mixed
 *   "0+1,2+3"      groups: each worker of a run gets the devices of one group; see gd_options.gpus_per_worker
 *   "GPU-8d2f"     a device by UUID, or by the beginning of a UUID if only one device matches; also "MIG-..."
 *   "0:1"          MIG instance 1 of GPU 0
 *   "free"         all free devices; the list may be empty. A device is free if no process computes on it, no other run
 *                  of gpu_dispatch has locked it, and at most 5 % of its memory (or 1 GiB, if that is more) is in use.
 *                  gd_dispatcher_open() waits until a device is free, and then locks all free devices.
 *   "free:2"       at most two free devices. gd_dispatcher_open() waits for two free devices, and then locks both.
 *   "sim:4"        four simulated devices, on any machine
 *   "cpu", "cpu:8" workers without a device
 *
 * Returns 0. Returns GD_E_NO_DEVICES if a device does not exist, and GD_E_INVALID if spec has a wrong form, a UUID
 * matches several devices, a device is listed twice or a group contains a MIG instance. The error message names the
 * device. If the device does not exist, the message also lists the devices that exist. Release with gd_devices_close().
 */
int gd_devices_open(struct gd_devices **out, const char *spec);

void gd_devices_close(struct gd_devices **list); /* sets *list to NULL; NULL is allowed */

size_t gd_devices_count(const struct gd_devices *list);

/* Fills *out for device i of the list. Returns 0 or a negative code. */
int gd_devices_get(const struct gd_devices *list, size_t i, struct gd_device *out);

/* Returns the index of the first device of the group ("0+1") that device i belongs to. Returns i if device i is not in
 * a group. The devices of a group are next to each other in the list. */
int gd_devices_group(const struct gd_devices *list, size_t i);

/* Finds a device by its number (gd_device.id). Returns its index in the list, or GD_E_NO_DEVICES. */
int gd_devices_find(const struct gd_devices *list, int id);

/* Checks n device numbers. Returns 0 if the list has all of them. Returns GD_E_NO_DEVICES if a number is missing: the
 * error message names this number and lists the devices that exist. Returns GD_E_INVALID if a number is given twice. */
int gd_devices_validate(const struct gd_devices *list, const int *ids, size_t n);

/* Returns true if the list contains an NVIDIA device that CUDA could use. */
bool gd_devices_cuda(const struct gd_devices *list);

/* Reads memory, utilisation, temperature, power and processes from the driver again. Adds and removes no devices. */
int gd_devices_refresh(struct gd_devices *list);

/* Copies at most max of the processes that compute on device i to out. Returns how many such processes there are in
 * all, or GD_E_UNSUPPORTED if that is not known. element_size is sizeof(struct gd_device_process). */
int gd_devices_processes(const struct gd_devices *list, size_t i, struct gd_device_process *out, size_t element_size,
                         size_t max);

/* Returns how many workers fit on device i if each needs this many bytes of device memory. A tenth of the free memory,
 * and at least 256 MiB, stays free. Returns GD_E_UNSUPPORTED if the free memory is not known. Returns GD_E_TOO_LARGE if
 * not even one worker fits. The error message contains the figures. */
int gd_devices_room(const struct gd_devices *list, size_t i, uint64_t bytes);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
