/* A run claims its devices: it locks them until it ends, and other runs see these locks.
 *
 *   list              lock        if another run has an exclusive lock on a device
 *   free, free:N      exclusive   waits. Takes all N devices at once or none, so two runs cannot deadlock.
 *   auto              shared      leaves the device out, with a note. If no device is left: GD_E_BUSY.
 *   0,2  UUIDs  ids   shared      GD_E_BUSY, because the user named this device
 *   sim:N  cpu:N      none        (no other run can use these devices)
 *
 * A device is free if no process computes on it, at most 5 % of its memory (or 1 GiB, if that is more) is in use, and
 * no run has a lock on it. A figure that the driver does not report is not checked. A device for which the driver
 * reports neither processes nor memory is never free.
 *
 * If an ancestor of this process has a lock on a device, this process can still take a shared lock on it, because a
 * task may dispatch on the device that its worker was given. But such a device never becomes free while this process
 * runs, so waiting for it is an error.
 *
 * Simulated devices have the same UUIDs for all users. The names of their locks contain the user id, so that users do
 * not disturb each other.
 */
#ifndef GD_GPU_CLAIM_CLAIM_H
#define GD_GPU_CLAIM_CLAIM_H

#include <gpu_dispatch/devices.h>

#include "gpu/claim/waiter.h"

struct gd__claim;

struct gd__claim_ask {
    const int *ids; /* claim only devices with these numbers, if the list was opened without a text */
    size_t n_ids;
    unsigned least;                 /* "free": wait for at least this many devices; 0: one */
    bool ignore_locks;              /* take no locks, and ignore the locks of others */
    int stop_fds[GD__WAITER_STOPS]; /* when one of them is readable, a wait ends with GD_E_INTERRUPTED; 0: none */
    /* gd_options.on_device_note; may be NULL */
    int (*note)(void *user, const char *message);
    void *user;
};

/* Claims the devices of the list, and removes the others from it. *out is NULL if no lock is needed. */
int gd__claim_open(struct gd__claim **out, struct gd_devices *list, const struct gd__claim_ask *ask);
void gd__claim_close(struct gd__claim **claim); /* releases the locks; NULL is allowed */

/* Reduces the list to devices that are free now, at most as many as "free:N" names. Claims nothing. */
int gd__claim_keep_free(struct gd_devices *list);

#endif
