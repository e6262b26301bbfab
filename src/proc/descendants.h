/* What a process has started, and what that has started, as far as it has left the process group: see descendants.c. */
#ifndef GD_PROC_DESCENDANTS_H
#define GD_PROC_DESCENDANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Signals every living descendant of root that is in another process group than root, and returns how many there were.
 * With spare_daemons, children of root that are in a session of their own, and what is below them, are left alone: root
 * has inherited those from what it started (it must be a subreaper). */
size_t gd__descendants_signal(pid_t root, int signal, bool spare_daemons);

/* The same with SIGKILL, again until none is left: while one is killed another may be started. */
void gd__descendants_kill(pid_t root, bool spare_daemons);

/* Kills every descendant of root, in its process group or not. Those in it are stopped first, so that they start no
 * more; root itself is the caller's to stop before, and to kill afterwards with the rest of its group. */
void gd__descendants_end(pid_t root);

/* --- children that this process did not start but has adopted, as a subreaper or as the first process --- */

/* Every child of this process, whoever started it, those that have ended and were not waited for too. */
typedef void gd__child_fn(void *user, pid_t pid);
void gd__children_each(gd__child_fn *fn, void *user);

/* Which of them are meant. */
struct gd__adopted {
    const char *name;                                /* of a variable, with its '=' */
    bool (*is_meant)(void *user, const char *value); /* by what its environment had under that name */
    void *user;
    pid_t group; /* and those of this process group, all of which was killed, that are about to end */
};

/* Kills those children of this process that are meant, and all that is below them. Pidfds of up to most of the killed
 * go to pidfds, the caller's to wait for and to close: how many. When they have ended it has to be called again, until
 * there are none: what was started meanwhile, or was the child of one that was about to end, is found then. */
size_t gd__adopted_kill(const struct gd__adopted *which, int *pidfds, size_t most);

#endif
