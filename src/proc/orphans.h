/* Adopts the orphaned processes of workers: see orphans.c. */
#ifndef GD_PROC_ORPHANS_H
#define GD_PROC_ORPHANS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* Makes this process a subreaper. Calls are counted, and the last gd__orphans_leave() restores the previous setting. */
int gd__orphans_adopt(void);
void gd__orphans_leave(void);

/* Reports to an event loop that children have ended. Open and use it on the thread of that loop. */
struct gd__ended_children {
    int fd;        /* a signalfd, readable when a child has ended; -1: closed */
    sigset_t mask; /* the thread's signal mask before it was opened */
};
int gd__ended_children_open(struct gd__ended_children *e);
void gd__ended_children_close(struct gd__ended_children *e); /* may be called twice */

/* Call it when fd is readable. Reaps every child that has ended, except those that are spared. */
typedef bool gd__spared_fn(void *user, pid_t pid);
void gd__ended_children_reap(struct gd__ended_children *e, gd__spared_fn *is_spared, void *user);

#endif
