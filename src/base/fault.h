/* Lets tests make calls fail and processes die.
 *
 * Every allocation, and every system call that can fail because of a lack of resources, calls gd__fault() first. In a
 * library built without GD_TEST_HOOKS these checks are constants and cost nothing. With GD_TEST_HOOKS:
 *   GD_FAULT=N          the Nth such call of this process fails (from 1)
 *   GD_FAULT_WORKER=N   likewise, in worker processes only
 *   GD_KILL=NAME[:N]    a worker kills itself with SIGKILL at the Nth passage (from 1) of the point NAME,
 *                       but only in the first process of that worker (restarts == 0), unless GD_KILL_ALWAYS=1
 *   GD_KILL_DISPATCHER=NAME[:N]   likewise, in a process that is not a worker
 */
#ifndef GD_BASE_FAULT_H
#define GD_BASE_FAULT_H

#include <stdbool.h>

#ifdef GD_TEST_HOOKS
bool gd__fault(const char *what);         /* true: fail now, with ENOMEM in errno */
void gd__fault_begin(unsigned long nth);  /* counts from now on; 0: never fail */
unsigned long gd__fault_count(void);      /* number of calls since gd__fault_begin() */
void gd__fault_worker(unsigned restarts); /* this process is a worker: read GD_FAULT_WORKER, GD_KILL */
void gd__fault_read_kill(void);           /* reads GD_KILL_DISPATCHER again */
void gd__kill_point(const char *name);
#define GD__FAULT(what)      gd__fault(what)
#define GD__KILL_POINT(name) gd__kill_point(name)
#else
#define GD__FAULT(what)      false
#define GD__KILL_POINT(name) ((void)0)
#endif

#endif
