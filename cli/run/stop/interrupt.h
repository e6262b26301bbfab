/* SPDX-License-Identifier: MIT
 *
 * Ctrl-C and SIGTERM during a run: the first lets running tasks finish, the second ends everything at once.
 */
#ifndef GD_CLI_RUN_STOP_INTERRUPT_H
#define GD_CLI_RUN_STOP_INTERRUPT_H

#include "launch/run.h"

struct cli_interrupt;

/* Starts a thread that handles the signals from now on. Before this call and after the close they have their usual
 * effect. say: prints one line, on that thread; must not block. hurry: called for each signal with the number of
 * signals so far. Returns 0, or -1 with gd__fail_text(). */
int cli_interrupt_open(struct cli_interrupt **out, struct gd__run *run, void (*say)(void *user, const char *message),
                       void (*hurry)(void *user, unsigned count), void *user);

/* The run is over. A signal that comes from now on does not touch the dispatcher and prints nothing, but hurries the
 * pending output. After the close it has its usual effect. NULL does nothing. */
void cli_interrupt_over(struct cli_interrupt *i);

/* The number of signals that came before the run was over. */
unsigned cli_interrupt_count(const struct cli_interrupt *i);

void cli_interrupt_close(struct cli_interrupt **i); /* NULL does nothing */

#endif
