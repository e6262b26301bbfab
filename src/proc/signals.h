/* SIGINT and SIGTERM for the runs that asked for them.
 *
 * Handlers are process-wide, runs are many: the first run to subscribe installs ours and keeps the previous ones, the
 * last to leave puts those back. The handler only writes to the subscribers' eventfds.
 */
#ifndef GD_PROC_SIGNALS_H
#define GD_PROC_SIGNALS_H

enum { GD__SIGNAL_SUBSCRIBERS = 64 };

/* fd: an eventfd (non-blocking) to which 1 is added for each SIGINT or SIGTERM. A token >= 0 or a negative code
 * (GD_E_BUSY: too many at once). Thread-safe. */
int gd__signals_subscribe(int fd);
void gd__signals_unsubscribe(int token); /* negative: no-op. After it returns no handler writes to the fd. */

#endif
