/* SPDX-License-Identifier: MIT
 *
 * Ctrl-C and SIGTERM during a run: the first lets running tasks finish, the second ends everything at once.
 */
#ifndef GD_CLI_RUN_STOP_INTERRUPT_H
#define GD_CLI_RUN_STOP_INTERRUPT_H

#include "launch/run.h"

struct cli_interrupt;

/* From now on the signals are taken by a thread of its own. Before, and after the close, they do what they always do.
 * say: one line for a person, from that thread; must not block. hurry: how many have come by now, at each one. 0, or -1
 * with gd__fail_text(). */
int cli_interrupt_open(struct cli_interrupt **out, struct gd__run *run, void (*say)(void *user, const char *words),
                       void (*hurry)(void *user, unsigned count), void *user);

/* The run is over. One that comes from now on touches the dispatcher no more and says nothing, but hurries what is
 * being written; and with the close it does what it always does. NULL is fine. */
void cli_interrupt_over(struct cli_interrupt *i);

/* How many came before the run was over. */
unsigned cli_interrupt_count(const struct cli_interrupt *i);

void cli_interrupt_close(struct cli_interrupt **i); /* NULL is fine */

#endif
