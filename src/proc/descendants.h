/* Finds and ends the descendants of a process, even those that have left its process group: see descendants.c. */
#ifndef GD_PROC_DESCENDANTS_H
#define GD_PROC_DESCENDANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Signals every living descendant of root that is in another process group than root. Returns how many there were. With
 * spare_daemons, children of root that are in another session are not signalled, and neither are their descendants. For
 * this, root must be a subreaper. It has adopted these children from processes that it started. */
size_t gd__descendants_signal(pid_t root, int signal, bool spare_daemons);

/* Does the same with SIGKILL, and repeats it until none is left, because another may be started while one is killed. */
void gd__descendants_kill(pid_t root, bool spare_daemons);

/* Kills every descendant of root, in its process group or not. Those in the group are stopped first, so that they start
 * no more processes. Root must start no process during this call. If root is another process, the caller stops root
 * before this call, and kills root with the rest of the group after it. spare_daemons is as above. */
void gd__descendants_end(pid_t root, bool spare_daemons);

/* --- children that this process did not start but has adopted, as a subreaper or as the first process --- */

/* Calls fn for every child of this process, started or adopted. It includes children that have ended and were not
 * waited for. */
typedef void gd__child_fn(void *user, pid_t pid);
void gd__children_each(gd__child_fn *fn, void *user);

/* Selects some of the adopted children. */
struct gd__adopted {
    const char *name;                                /* name of an environment variable, with its '=' */
    bool (*is_meant)(void *user, const char *value); /* decides by the value of that variable */
    void *user;
    pid_t group; /* also selects processes of this group that are about to end, because the group was killed */
};

/* Kills the selected children of this process and all their descendants. Stores pidfds of the killed processes, at most
 * `most`, in pidfds and returns how many. The caller waits for them and closes them. Call it again when they have
 * ended, until it returns 0. It then finds processes that were started meanwhile, and children of processes that were
 * about to end. */
size_t gd__adopted_kill(const struct gd__adopted *which, int *pidfds, size_t most);

#endif
