/* SPDX-License-Identifier: MIT
 *
 * Ctrl-Z. A terminal stops the command alone: its workers are in process groups of their own.
 */
#ifndef GD_CLI_RUN_STOP_SUSPEND_H
#define GD_CLI_RUN_STOP_SUSPEND_H

#include <gpu_dispatch/dispatcher.h>

/* Whose workers are to stop with this process; NULL: there are none. */
void cli_suspend_with(struct gd_dispatcher *d);

/* Stops the workers, then this process as SIGTSTP would have done. Returns when there was a SIGCONT, with the workers
 * continued; at once where the kernel allows no stop (nobody is there who could continue us). For a thread of its own:
 * the signal is sent to it, so that it goes no step further. */
void cli_suspend(void);

#endif
