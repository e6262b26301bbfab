/* All devices of this machine, and those that this process may use. */
#ifndef GD_GPU_MACHINE_H
#define GD_GPU_MACHINE_H

#include <stdbool.h>

#include "gpu/backends/backend.h"

struct gd__machine {
    struct gd__found_list all; /* sorted, numbered (d.index) */
    /* The devices that the environment variables make visible, in the order of these variables, with d.id set. Id -1:
     * nothing can run on the device. */
    struct gd__found_list visible;
    bool has_nvidia;
    char why[1024]; /* the reasons why vendors have no device: "NVIDIA: ...; AMD: ..." */
};

int gd__machine_open(struct gd__machine *out);
void gd__machine_close(struct gd__machine *m);

#endif
