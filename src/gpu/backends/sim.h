/* Simulated devices, for trying things out on a machine without a GPU. */
#ifndef GD_GPU_BACKENDS_SIM_H
#define GD_GPU_BACKENDS_SIM_H

#include <stdbool.h>

#include "gpu/backends/backend.h"

/* True if simulated devices are used instead of the real ones of this machine. */
bool gd__sim_wanted(void);

/* Makes count devices ("sim:4"), with the settings of GPU_DISPATCH_SIM if that is set. */
int gd__sim_make(struct gd__found_list *out, unsigned count);

#endif
