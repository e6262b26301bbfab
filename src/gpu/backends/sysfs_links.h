/* How well two devices of sysfs are connected: see groups/connection.h for the values. */
#ifndef GD_GPU_BACKENDS_SYSFS_LINKS_H
#define GD_GPU_BACKENDS_SYSFS_LINKS_H

#include "gpu/backends/backend.h"

/* By their places on the PCIe bus. */
int gd__pci_connection(const struct gd__found *a, const struct gd__found *b);

/* AMD: by XGMI links, or else by their places on the PCIe bus. `nodes` is the directory of the KFD topology. */
int gd__kfd_connection(const char *nodes, const struct gd__found *a, const struct gd__found *b);

#endif
