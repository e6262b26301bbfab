/* Who holds a lock on a device or computes on it, for messages and for waiting. */
#ifndef GD_GPU_CLAIM_HOLDER_H
#define GD_GPU_CLAIM_HOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/claim/lock_files.h"

enum { GD__HOLDER_TEXT = 192 };

struct gd__holder {
    int pid;        /* 0: not known, for example a process of another container */
    bool exclusive; /* the lock that it holds */
    bool ancestor;  /* this process was started by it: it does not end before us */
};

/* Looks up who holds a lock on the file, in /proc/locks. False: nobody, as far as can be seen. Of several holders the
 * one that is our ancestor is reported, or the first one. */
bool gd__holder_find(struct gd__holder *out, const struct gd__lock_file_id *file);

/* The same for all files of a device. Nobody holds a lock if the directory cannot be read. */
bool gd__holder_of_device(struct gd__holder *out, const struct gd__lock_directory *d, const char *name,
                          struct gd__lock_file_id *file);

/* Describes a process for a message: "process 71 (anna: python3 train.py)". Parts that are not known are left out; with
 * pid 0 it is "another process". Returns out. */
char *gd__holder_describe(char out[GD__HOLDER_TEXT], int pid);

/* A descriptor that is readable when the process has ended. -1: it has ended, or cannot be watched. */
int gd__holder_watch(int pid);

#endif
