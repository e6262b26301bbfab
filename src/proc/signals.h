/* SIGINT and SIGTERM for the runs that subscribe to them.
 *
 * Handlers are process-wide, but there may be many runs. The first run that subscribes installs our handlers and stores
 * the previous ones. The last run that unsubscribes restores those. Our handler only writes to the subscribers'
 * eventfds.
 */
#ifndef GD_PROC_SIGNALS_H
#define GD_PROC_SIGNALS_H

enum { GD__SIGNAL_SUBSCRIBERS = 64 };

/* fd: an eventfd (non-blocking) to which 1 is added for each SIGINT or SIGTERM. Returns a token >= 0 or a negative code
 * (GD_E_BUSY: too many subscribers). Thread-safe. */
int gd__signals_subscribe(int fd);
void gd__signals_unsubscribe(int token); /* negative: no-op. No handler writes to the fd after it returns. */

#endif
