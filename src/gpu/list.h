/* The members of struct gd_devices. */
#ifndef GD_GPU_LIST_H
#define GD_GPU_LIST_H

#include "gpu/backends/backend.h"
#include "gpu/spec.h"

struct gd_devices {
    struct gd__found_list found;
    struct gd__spec spec; /* the list as the user wrote it, parsed */
    bool beside_nvidia;   /* this machine has NVIDIA devices */
};

/* Like gd_devices_open(), but for "free" the list holds all devices that can be used, whether they are free or not. */
int gd__devices_open_candidates(struct gd_devices **out, const char *spec);

/* Returns the i-th device. If there is no such device, returns NULL and sets the error message. */
const struct gd__found *gd__devices_at(const struct gd_devices *list, size_t i);

#endif
