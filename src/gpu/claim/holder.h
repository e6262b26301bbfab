/* Processes that have a lock on a device or compute on it, for error messages and for waiting. */
#ifndef GD_GPU_CLAIM_HOLDER_H
#define GD_GPU_CLAIM_HOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/claim/lock_files.h"

enum { GD__HOLDER_TEXT = 192 };

struct gd__holder {
    int pid;        /* 0: not known, for example a process of another container */
    bool exclusive; /* its lock is exclusive */
    bool ancestor;  /* the holder started this process, directly or indirectly */
};

/* Finds the process that has a lock on the file, in /proc/locks. Returns false if none is listed there. If there are
 * several, returns our ancestor, or else the first one. */
bool gd__holder_find(struct gd__holder *out, const struct gd__lock_file_id *file);

/* The same for all files of a device. Returns false if the directory cannot be read. */
bool gd__holder_of_device(struct gd__holder *out, const struct gd__lock_directory *d, const char *name,
                          struct gd__lock_file_id *file);

/* Describes a process for a message: "process 71 (anna: python3 train.py)". Parts that are not known are left out. The
 * text for pid 0 is "another process". Returns out. */
char *gd__holder_describe(char out[GD__HOLDER_TEXT], int pid);

/* Returns a descriptor that becomes readable when the process ends. Returns -1 if the process has ended or cannot be
 * watched. */
int gd__holder_watch(int pid);

#endif
