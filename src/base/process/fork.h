/* Descriptors that a fork of this process must not keep: see fork.c. */
#ifndef GD_BASE_PROCESS_FORK_H
#define GD_BASE_PROCESS_FORK_H

#include <sys/types.h>

/* One such descriptor. Lives in what the descriptor belongs to, and must stay at its address while it is guarded. */
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

/* Between these two calls no fork() takes place: for opening a descriptor and guarding it. Keep it short. */
void gd__fork_hold(void);
void gd__fork_let(void);

/* Between the two: a fork closes its copy of fd at once. fd < 0: nothing is guarded. */
void gd__fork_guard(struct gd__fork_guard *g, int fd);

/* Outside of them: closes fd and guards it no more. Fine for a guard of nothing, and twice. */
void gd__fork_close(struct gd__fork_guard *g);

#endif
