/* All devices of this machine, and those that this process may use. */
#ifndef GD_GPU_MACHINE_H
#define GD_GPU_MACHINE_H

#include <stdbool.h>

#include "gpu/backends/backend.h"

struct gd__machine {
    struct gd__found_list all; /* sorted, numbered (d.index) */
    /* Those that the environment shows, in its order, with ids; -1: nothing runs on it. */
    struct gd__found_list visible;
    bool has_nvidia;
    char why[1024]; /* "NVIDIA: ...; AMD: ..." of vendors without any device */
};

int gd__machine_open(struct gd__machine *out);
void gd__machine_close(struct gd__machine *m);

#endif
