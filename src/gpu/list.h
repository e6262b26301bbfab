/* The members of struct gd_devices. */
#ifndef GD_GPU_LIST_H
#define GD_GPU_LIST_H

#include "gpu/backends/backend.h"

struct gd_devices {
    struct gd__found_list found;
    bool beside_nvidia; /* this machine has NVIDIA devices */
};

/* Returns the i-th device. If there is no such device, returns NULL and sets the error message. */
const struct gd__found *gd__devices_at(const struct gd_devices *list, size_t i);

#endif
