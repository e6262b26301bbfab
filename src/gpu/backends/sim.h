/* Simulated devices: for trying everything out where there is no GPU. */
#ifndef GD_GPU_BACKENDS_SIM_H
#define GD_GPU_BACKENDS_SIM_H

#include <stdbool.h>

#include "gpu/backends/backend.h"

/* True if this machine is taken to have simulated devices instead of real ones. */
bool gd__sim_wanted(void);

/* count of them ("sim:4"), with the details of GPU_DISPATCH_SIM if that is set. */
int gd__sim_make(struct gd__found_list *out, unsigned count);

#endif
