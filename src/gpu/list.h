/* What is in a struct gd_devices. */
#ifndef GD_GPU_LIST_H
#define GD_GPU_LIST_H

#include "gpu/backends/backend.h"

struct gd_devices {
    struct gd__found_list found;
    bool beside_nvidia; /* there are NVIDIA devices on this machine */
};

/* The i-th. NULL, with words: there is none. */
const struct gd__found *gd__devices_at(const struct gd_devices *list, size_t i);

#endif
