/* What the rest of the library needs of a device: the variables that show it to a worker, the CPUs near it, and word of
 * its failure. The list itself is public: <gpu_dispatch/devices.h>.
 */
#ifndef GD_GPU_DEVICE_H
#define GD_GPU_DEVICE_H

#include <gpu_dispatch/devices.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

enum { GD__DEVICE_VARIABLES = 4, GD__DEVICE_VARIABLE_MAX = 160 };

/* One device as a worker of it is started. */
struct gd__worker_device {
    int gpu_id;
    size_t n_variables;
    char variables[GD__DEVICE_VARIABLES][GD__DEVICE_VARIABLE_MAX]; /* "CUDA_VISIBLE_DEVICES=GPU-..." */
    bool has_cpus; /* bind it to these: never empty, within our own mask */
    cpu_set_t cpus;
    bool is_watched;   /* somebody reports its failures: see below */
    char uuid[96];     /* for gd__health_subscribe(); empty: none */
    char gpu_uuid[96]; /* of the GPU that a MIG instance is part of, whose failure is its own; else as uuid */
};

/* The i-th of a list. */
int gd__worker_device(struct gd__worker_device *out, const struct gd_devices *list, size_t i);

/* By number alone: the device of that number if list has it, else a number and nothing else, as for workers that need
 * no device. list may be NULL. */
int gd__worker_device_number(struct gd__worker_device *out, const struct gd_devices *list, int gpu_id);

enum gd__health {
    GD__HEALTH_RESTART, /* the device is fine, but programs that use it must be started again */
    GD__HEALTH_FAILED,  /* the device must not be used any more */
};

/* Word of devices that fail: the driver's own (Xid events), from a thread of this module's that lives as long as the
 * process and sleeps in the driver. fn is called on that thread. Which Xid means what is a table in health.c; many mean
 * nothing to us and are not reported. Returns a token, or a negative code: GD_E_UNSUPPORTED where there is nothing to
 * watch. */
typedef void gd__health_fn(void *user, const char *uuid, enum gd__health health, const char *why);
int gd__health_subscribe(gd__health_fn *fn, void *user);
void gd__health_unsubscribe(int token); /* fn is not called any more once this returns; a negative token is fine */

#endif
