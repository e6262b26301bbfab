/* SPDX-License-Identifier: MIT
 *
 * Signals during a run. The first Ctrl-C lets running tasks finish, and the second ends everything. SIGTERM does the
 * same, but running tasks get only a limited time. SIGHUP lets running tasks finish. */
#ifndef GD_CLI_RUN_STOP_INTERRUPT_H
#define GD_CLI_RUN_STOP_INTERRUPT_H

#include <stdbool.h>

#include "launch/run.h"

struct cli_interrupt;

/* Starts a thread that handles the signals from now on. Before this call and after the close they have their usual
 * effect. stop_grace_ms: how long the process may take to end after SIGTERM. say: prints one line, on that thread; must
 * not block. hurry: called for each signal with the number of signals so far. Returns 0, or -1 with gd__fail_text(). */
int cli_interrupt_open(struct cli_interrupt **out, struct gd__run *run, unsigned stop_grace_ms,
                       void (*say)(void *user, const char *message), void (*hurry)(void *user, unsigned count),
                       void *user);

/* The run is over. A signal that comes from now on does not touch the dispatcher and prints nothing, but hurries the
 * pending output. After the close it has its usual effect. NULL does nothing. */
void cli_interrupt_over(struct cli_interrupt *i);

/* The first SIGINT or SIGTERM that came before the run was over, or SIGHUP if only that came. 0: none. */
int cli_interrupt_signal(const struct cli_interrupt *i);

/* Whether SIGHUP came: the terminal may be gone. Any thread. */
bool cli_interrupt_hung_up(void);

void cli_interrupt_close(struct cli_interrupt **i); /* NULL does nothing */

#endif
