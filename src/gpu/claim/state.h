/* Whether a device is free, and if not, the reason. */
#ifndef GD_GPU_CLAIM_STATE_H
#define GD_GPU_CLAIM_STATE_H

#include "gpu/backends/backend.h"
#include "gpu/claim/lock_files.h"

enum gd__device_use {
    GD__DEVICE_FREE,
    GD__DEVICE_LOCKED,   /* another run holds a lock on it */
    GD__DEVICE_COMPUTES, /* a process computes on it */
    GD__DEVICE_FILLED,   /* too much of its memory is in use */
    GD__DEVICE_ABOVE,    /* a process that started this one holds a lock on it */
    GD__DEVICE_UNKNOWN,  /* the driver reports neither processes nor memory */
};

struct gd__device_state {
    enum gd__device_use use;
    int pid;                      /* the process that has the lock or computes; 0: not known */
    struct gd__lock_file_id file; /* LOCKED: the file that is locked */
};

enum { GD__STATE_TEXT = 320 };

/* Sets out to the name of the device's locks. */
void gd__device_lock_name(char out[GD__LOCK_NAME_MAX], const struct gd__found *f);

/* Checks the figures of the device, which must be fresh, and its locks. */
void gd__device_state(struct gd__device_state *out, const struct gd__found *f, const struct gd__lock_directory *d);

/* Checks only the figures. */
void gd__device_figures(struct gd__device_state *out, const struct gd__found *f);

/* "GPU 0 is held by process 71 (anna: gpu-dispatch run ...)". Returns out. */
char *gd__device_state_describe(char out[GD__STATE_TEXT], const struct gd__found *f, const struct gd__device_state *s);

#endif
