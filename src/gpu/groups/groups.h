/* Groups of devices. A worker sees the devices of one group. */
#ifndef GD_GPU_GROUPS_GROUPS_H
#define GD_GPU_GROUPS_GROUPS_H

#include <gpu_dispatch/devices.h>
#include <stddef.h>

enum { GD__GROUP_MOST = 32 }; /* the most devices in a group */

/* A device that was chosen for a run. */
struct gd__chosen {
    int id; /* its number */
    int at; /* its index in the list of devices; -1: there is no such device, only a number */
};

struct gd__group {
    size_t n;
    size_t members[GD__GROUP_MOST]; /* indices of chosen devices, ascending */
};

/* Divides n chosen devices into groups.
 *
 *   k = 0   the groups that were written in the device list ("0+1,2+3"); every other device is a group by itself
 *   k > 0   groups of k devices. If the list has groups, each must have k devices. Otherwise groups are formed, the
 *           best-connected first.
 *
 * groups has room for n. Groups are in the order of their first devices. group_of, with room for n, gets the number of
 * each device's group, or -1 for a device that is left over. Returns the number of groups, which may be 0, or a
 * negative code. list may be NULL if no device is in it. */
int gd__groups_form(struct gd__group *groups, int *group_of, const struct gd_devices *list,
                    const struct gd__chosen *chosen, size_t n, unsigned k);

/* The number of the group that the device was listed in ("0+1"), from 1. 0: it was listed by itself. */
unsigned gd__groups_written(const struct gd_devices *list, const struct gd__chosen *chosen);

#endif
