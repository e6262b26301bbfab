/* The devices of a run, claimed: locks that other runs see as long as the run lasts.
 *
 *   list              lock        a device that another run holds exclusively
 *   free, free:N      exclusive   is waited for; all N devices are taken at once or none, so two runs cannot deadlock
 *   auto              shared      is left out, with a note; if no device is left: GD_E_BUSY
 *   0,2  UUIDs  ids   shared      GD_E_BUSY: the user asked for that very device
 *   sim:N  cpu:N      none        these devices belong to one run
 *
 * A device is free if no process computes on it, if at most 5 % of its memory or 1 GiB, whichever is more, are in use,
 * and if no run holds a lock on it. A figure that the driver does not report is not checked; a device without any figure
 * is never free.
 *
 * A lock that a process holds which has started this one is no obstacle to a shared lock: a task may dispatch on the
 * device that it was given. But a device that only such a process holds never becomes free: that is an error.
 *
 * Simulated devices have the same UUIDs for everybody. Their locks have the user's number in their names, so that users
 * do not disturb each other.
 */
#ifndef GD_GPU_CLAIM_CLAIM_H
#define GD_GPU_CLAIM_CLAIM_H

#include <gpu_dispatch/devices.h>

#include "gpu/claim/waiter.h"

struct gd__claim;

struct gd__claim_ask {
    const int *ids; /* claim only devices with these numbers, if the list was opened without a text */
    size_t n_ids;
    unsigned least;                 /* "free": wait for at least this many; 0: 1 */
    bool ignore_locks;              /* take no locks, and look for none */
    int stop_fds[GD__WAITER_STOPS]; /* when one of them is readable, a wait ends with GD_E_INTERRUPTED; 0: none */
    /* Gets a line for people: what is waited for, each time that changes, or which device is left out. With NULL it only
     * asks whether to go on: before each sleep and after each signal. Another value than 0 ends a wait with
     * GD_E_INTERRUPTED. May be NULL. */
    int (*note)(void *user, const char *message);
    void *user;
};

/* Claims the devices of the list, and reduces the list to those. *out is NULL if no lock is needed. */
int gd__claim_open(struct gd__claim **out, struct gd_devices *list, const struct gd__claim_ask *ask);
void gd__claim_close(struct gd__claim **claim); /* releases the locks; NULL is allowed */

/* Reduces the list to devices that are free now, at most as many as "free:N" names. Claims nothing. */
int gd__claim_keep_free(struct gd_devices *list);

#endif
