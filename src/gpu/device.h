/* What the rest of the library needs from devices: the environment variables that make them visible to a worker, the
 * CPUs near them, and reports of their failures. The list of devices is public: <gpu_dispatch/devices.h>.
 */
#ifndef GD_GPU_DEVICE_H
#define GD_GPU_DEVICE_H

#include <gpu_dispatch/devices.h>
#include <gpu_dispatch/dispatcher.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

#include "gpu/groups/groups.h"

enum { GD__DEVICE_VARIABLES = 5, GD__DEVICE_VARIABLE_MAX = 1536 };

/* What is needed to start a worker on a device, or on a group of devices. */
struct gd__worker_device {
    int gpu_id; /* number of the first device */
    size_t n_gpus;
    int gpu_ids[GD__GROUP_MOST];
    size_t n_variables;
    char variables[GD__DEVICE_VARIABLES][GD__DEVICE_VARIABLE_MAX]; /* "CUDA_VISIBLE_DEVICES=GPU-..." */
    bool has_cpus; /* the worker is bound to cpus, which is not empty and within our own mask */
    cpu_set_t cpus;
};

/* Fills in *out for the devices of a group. A device that is not in the list is shown by its number, as for workers
 * that need no device. list may be NULL if none of them is in it. */
int gd__worker_group(struct gd__worker_device *out, const struct gd_devices *list, const struct gd__chosen *chosen,
                     const struct gd__group *group, enum gd_visible_devices form);

/* Writes why no worker that needs this many bytes fits on device i: "it has 2.0 GiB free, ...". */
void gd__devices_explain_room(const struct gd_devices *list, size_t i, uint64_t bytes, char *out, size_t size);

/* How failures of a device are recognised. */
struct gd__device_names {
    bool is_watched;   /* its failures are reported: see below */
    char uuid[96];     /* empty: none */
    char gpu_uuid[96]; /* for a MIG instance: its GPU, whose failures concern it too; otherwise the same as uuid */
};
void gd__device_names(struct gd__device_names *out, const struct gd_devices *list, size_t i);

enum gd__health {
    GD__HEALTH_RESTART, /* the device works, but programs that use it must be started again */
    GD__HEALTH_FAILED,  /* the device must not be used any more */
};

/* Calls fn for failures of devices that the driver reports (Xid events). A thread of this module waits for them until
 * the process ends, and calls fn. A table in health.c has the meaning of each Xid. Many need no action and are not
 * reported. Returns a token or a negative code. The code is GD_E_UNSUPPORTED if there is nothing to watch. */
typedef void gd__health_fn(void *user, const char *uuid, enum gd__health health, const char *why);
int gd__health_subscribe(gd__health_fn *fn, void *user);
void gd__health_unsubscribe(int token); /* fn is not called after this returns; negative: no-op */

#endif
