/* Waits until the state of a device may have changed. One poll() waits for
 *
 *   the end of processes that have a lock or compute on a device   pidfds
 *   the release of a lock by a process that keeps running          inotify: the lock file is closed
 *   a request to stop                                              descriptors of the caller, and signals
 *   everything else                                                a timer of GD__WAITER_TIMER_MS
 *
 * The timer runs only if there is no event to wait for. Drivers do not report when memory is freed, and a process of
 * another container cannot be watched.
 *
 * A change just before a watch is added is not reported. So the caller checks the devices again after each new watch,
 * and sleeps only if no watch was new.
 */
#ifndef GD_GPU_CLAIM_WAITER_H
#define GD_GPU_CLAIM_WAITER_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "gpu/claim/lock_files.h"

enum { GD__WAITER_TIMER_MS = 3000, GD__WAITER_STOPS = 2 };

struct gd__waiter_process {
    int pid, fd;
    bool wanted; /* in this round */
};

struct gd__waiter {
    int inotify_fd; /* -1: not available, so the timer is used */
    int last_watch;
    bool timer; /* wanted in this round */
    struct gd__waiter_process *processes;
    size_t n, capacity;
};

void gd__waiter_open(struct gd__waiter *w);
void gd__waiter_close(struct gd__waiter *w); /* may be called twice */

/* Begins a round. The timer, and processes that are not added again in this round, are no longer waited for. */
void gd__waiter_begin(struct gd__waiter *w);

/* Adds an event that ends the next sleep. Returns true if the watch is new, so the state may have changed before it. */
bool gd__waiter_for_file(struct gd__waiter *w, const struct gd__lock_directory *d, const struct gd__lock_file_id *file);
bool gd__waiter_for_process(struct gd__waiter *w, int pid);
void gd__waiter_for_time(struct gd__waiter *w);

/* Sleeps until an event. stop_fds are descriptors that become readable when the wait must stop; 0: none. mask is the
 * set of signals that are blocked during the sleep. Returns 1 after an event, a signal or the timer, 0 if the wait must
 * stop, or a negative code. */
int gd__waiter_sleep(struct gd__waiter *w, const int stop_fds[GD__WAITER_STOPS], const sigset_t *mask);

#endif
