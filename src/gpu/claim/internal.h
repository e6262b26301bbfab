/* Shared by the files of this directory. */
#ifndef GD_GPU_CLAIM_INTERNAL_H
#define GD_GPU_CLAIM_INTERNAL_H

#include "gpu/claim/claim.h"
#include "gpu/claim/lock_files.h"
#include "gpu/list.h"

struct gd__claim {
    struct gd__lock_directory directory;
    struct gd__device_lock *locks; /* one per device of the list */
    size_t n;
};

/* Waits for free devices and locks them. On success the list contains only the locked devices. */
int gd__claim_wait(struct gd__claim *claim, struct gd_devices *list, const struct gd__claim_ask *ask);

void gd__claim_release(struct gd__claim *claim); /* all locks */

/* Reduces the list to the devices whose entry is true. */
void gd__claim_reduce(struct gd_devices *list, const bool *keep);

#endif
