/* SIGINT and SIGTERM for the runs that subscribe to them.
 *
 * Handlers are process-wide, but there may be many runs. The first run that subscribes installs our handlers and stores
 * the previous ones. The last run that unsubscribes restores those. Our handler only writes to the subscribers'
 * eventfds.
 */
#ifndef GD_PROC_SIGNALS_H
#define GD_PROC_SIGNALS_H

#include <stdint.h>

enum { GD__SIGNAL_SUBSCRIBERS = 64 };
/* What each signal adds to an eventfd. So one number has the counts of both. */
#define GD__SIGNAL_INT  UINT64_C(1)
#define GD__SIGNAL_TERM (UINT64_C(1) << 32)

/* fd: an eventfd (non-blocking) to which GD__SIGNAL_INT is added for each SIGINT, and GD__SIGNAL_TERM for each SIGTERM.
 * Returns a token >= 0 or a negative code (GD_E_BUSY: too many subscribers). Thread-safe. */
int gd__signals_subscribe(int fd);
void gd__signals_unsubscribe(int token); /* negative: no-op. No handler writes to the fd after it returns. */

#endif
