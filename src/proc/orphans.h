/* Being the process that orphans are given to: see orphans.c. */
#ifndef GD_PROC_ORPHANS_H
#define GD_PROC_ORPHANS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* This process becomes a subreaper. Counted: with the last leave it is again what it was before. */
int gd__orphans_adopt(void);
void gd__orphans_leave(void);

/* Word of children that have ended, for a loop. On the thread that is to hear of them. */
struct gd__ended_children {
    int fd;        /* a signalfd, readable then; -1: closed */
    sigset_t mask; /* of the thread, before */
};
int gd__ended_children_open(struct gd__ended_children *e);
void gd__ended_children_close(struct gd__ended_children *e); /* fine twice */

/* When it is readable: waits for every child that has ended and is not spared. */
typedef bool gd__spared_fn(void *user, pid_t pid);
void gd__ended_children_reap(struct gd__ended_children *e, gd__spared_fn *is_spared, void *user);

#endif
