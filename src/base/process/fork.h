/* Closes descriptors in forks of this process: see fork.c. */
#ifndef GD_BASE_PROCESS_FORK_H
#define GD_BASE_PROCESS_FORK_H

#include <sys/types.h>

/* A descriptor that is closed in forks. The struct is embedded in the struct that the descriptor belongs to, and must
 * not move while the descriptor is guarded. */
struct gd__fork_guard {
    int fd; /* -1: none */
    dev_t device;
    ino_t inode;
    struct gd__fork_guard *next, *previous;
};
#define GD__FORK_GUARD_NONE \
    {                       \
        .fd = -1            \
    }

/* No fork() can happen between these two calls. Open and guard a descriptor between them, and do nothing else there. */
void gd__fork_hold(void);
void gd__fork_let(void);

/* After this call, a fork closes its copy of fd at once. If fd < 0, nothing is guarded. Call it between hold and
 * let. */
void gd__fork_guard(struct gd__fork_guard *g, int fd);

/* Closes fd and stops guarding it. May be called twice, and if nothing is guarded. Do not call it between hold and
 * let. */
void gd__fork_close(struct gd__fork_guard *g);

#endif
