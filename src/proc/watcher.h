/* A process that ends its process group when two other processes are gone: see watcher.c. */
#ifndef GD_PROC_WATCHER_H
#define GD_PROC_WATCHER_H

/* Starts the watcher in the process group of the caller, which must be its leader. When the caller and then also the
 * process of the pidfd `other` have ended, the watcher kills the group. Call it before the caller becomes a subreaper,
 * so that the watcher is no child of the caller. Returns a descriptor for gd__watcher_stop(), or -1 if there is no watcher. */
int gd__watcher_start(int other);

/* Ends the watcher and waits for its end. *fd is closed and becomes -1. */
void gd__watcher_stop(int *fd);

#endif
