/* How well two devices are connected. The larger the value, the better. */
#ifndef GD_GPU_GROUPS_CONNECTION_H
#define GD_GPU_GROUPS_CONNECTION_H

#include "gpu/backends/backend.h"

enum gd__connection {
    GD__CONNECTION_NEVER = -1, /* one process cannot use both */
    GD__CONNECTION_SYSTEM = 0, /* through the connection between processors; also: not known */
    GD__CONNECTION_NODE,       /* same NUMA node */
    GD__CONNECTION_BRIDGE,     /* same PCIe host bridge */
    GD__CONNECTION_SWITCHES,   /* several PCIe switches, no host bridge */
    GD__CONNECTION_SWITCH,     /* one PCIe switch */
    GD__CONNECTION_BOARD,      /* same board */
    GD__CONNECTION_NVLINK,     /* NVLink or XGMI; plus 1 for each link that connects the two directly */
};

/* The connection of two devices. */
int gd__connection(const struct gd__found *a, const struct gd__found *b);

/* 0, or GD_E_INVALID if a and b cannot be in one group, even if they are the same device. */
int gd__connection_check(const struct gd__found *a, const struct gd__found *b);

#endif
