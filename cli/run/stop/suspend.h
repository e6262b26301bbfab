/* SPDX-License-Identifier: MIT
 *
 * Ctrl-Z. A terminal stops only the command itself, because each worker is in a separate process group.
 */
#ifndef GD_CLI_RUN_STOP_SUSPEND_H
#define GD_CLI_RUN_STOP_SUSPEND_H

#include <gpu_dispatch/dispatcher.h>

/* Sets the dispatcher whose workers stop with this process; NULL: no workers. */
void cli_suspend_with(struct gd_dispatcher *d);

/* Call it in the handlers of SIGTSTP and SIGCONT. Async-signal-safe. */
void cli_suspend_note(int number);

/* Stops the workers, then this process as SIGTSTP would have done. Returns after a SIGCONT, with the workers continued.
 * Returns at once if a SIGCONT has come since the last SIGTSTP, or if the kernel does not allow a stop because no
 * process could continue this one. Call it on a separate thread. The signal is sent to that thread, so that it stops
 * inside this function. */
void cli_suspend(void);

#endif
