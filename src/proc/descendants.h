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

#endif
