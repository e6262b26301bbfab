/* What the rest of the library needs from a device: the environment variables that make it visible to a worker, the
 * CPUs near it, and reports of its failure. The list of devices is public: <gpu_dispatch/devices.h>.
 */
#ifndef GD_GPU_DEVICE_H
#define GD_GPU_DEVICE_H

#include <gpu_dispatch/devices.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

enum { GD__DEVICE_VARIABLES = 4, GD__DEVICE_VARIABLE_MAX = 160 };

/* What is needed to start a worker on a device. */
struct gd__worker_device {
    int gpu_id;
    size_t n_variables;
    char variables[GD__DEVICE_VARIABLES][GD__DEVICE_VARIABLE_MAX]; /* "CUDA_VISIBLE_DEVICES=GPU-..." */
    bool has_cpus; /* the worker is bound to cpus, which is not empty and within our own mask */
    cpu_set_t cpus;
    bool is_watched;   /* its failures are reported: see below */
    char uuid[96];     /* for gd__health_subscribe(); empty: none */
    char gpu_uuid[96]; /* of a MIG instance: its GPU, whose failure is also its own; otherwise the same as uuid */
};

/* Fills in *out for the i-th device of a list. */
int gd__worker_device(struct gd__worker_device *out, const struct gd_devices *list, size_t i);

/* Fills in *out for a device number. If the list has no device with that number, only the number and CUDA's variables
 * are set. list may be NULL. */
int gd__worker_device_number(struct gd__worker_device *out, const struct gd_devices *list, int gpu_id);

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
