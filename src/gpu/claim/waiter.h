/* Waiting until something changes about devices that are in use. One poll() waits for
 *
 *   the end of processes that hold a lock or compute on a device   pidfds
 *   the release of a lock by a process that goes on                inotify: the lock file is closed
 *   a request to stop                                              a descriptor of the caller, and signals
 *   everything else                                                a timer of GD__WAITER_TIMER_MS
 *
 * The timer runs only if a device has to wait for something that has no event: drivers do not report when memory is
 * freed, and a process of another container cannot be watched.
 *
 * To miss nothing, look again after a watch was added, and sleep only when no new one was needed.
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
    int inotify_fd; /* -1: not available: the timer is used */
    int last_watch;
    bool timer; /* wanted in this round */
    struct gd__waiter_process *processes;
    size_t n, capacity;
};

void gd__waiter_open(struct gd__waiter *w);
void gd__waiter_close(struct gd__waiter *w); /* may be called twice */

/* A round begins: what was watched for is forgotten unless it is asked for again. */
void gd__waiter_begin(struct gd__waiter *w);

/* Asks to be woken. True: this is new, so the state may have changed before. */
bool gd__waiter_for_file(struct gd__waiter *w, const struct gd__lock_directory *d, const struct gd__lock_file_id *file);
bool gd__waiter_for_process(struct gd__waiter *w, int pid);
void gd__waiter_for_time(struct gd__waiter *w);

/* Sleeps. stop_fds: descriptors that are readable when the wait has to stop; 0: none. mask: the signals blocked while it
 * sleeps. Returns 1 if something happened (also after a signal), 0 if the wait has to stop, or a negative code. */
int gd__waiter_sleep(struct gd__waiter *w, const int stop_fds[GD__WAITER_STOPS], const sigset_t *mask);

#endif
