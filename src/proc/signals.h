/* SIGINT and SIGTERM for the runs that subscribe to them.
 *
 * Handlers are process-wide, but there may be many runs. The first run to subscribe installs our handlers and keeps the
 * previous ones. The last run to unsubscribe puts those back. Our handler only writes to the subscribers' eventfds.
 */
#ifndef GD_PROC_SIGNALS_H
#define GD_PROC_SIGNALS_H

enum { GD__SIGNAL_SUBSCRIBERS = 64 };

/* fd: an eventfd (non-blocking) to which 1 is added for each SIGINT or SIGTERM. Returns a token >= 0 or a negative code
 * (GD_E_BUSY: too many subscribers). Thread-safe. */
int gd__signals_subscribe(int fd);
void gd__signals_unsubscribe(int token); /* negative: no-op. After it returns no handler writes to the fd. */

#endif
