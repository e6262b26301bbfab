/* SPDX-License-Identifier: MIT
 *
 * Signals during a push: SIGINT, SIGTERM and SIGHUP end it cleanly. What was sent is confirmed, and the lock is released.
 * A second signal ends it at once.
 */
#ifndef GD_CLI_COMMANDS_PUSH_PUSH_STOP_H
#define GD_CLI_COMMANDS_PUSH_PUSH_STOP_H

#include "cli/input/input.h"

struct cli_push_stop;

/* From now on the signals are handled by a thread. Returns 0, or -1 with gd__fail_text(). */
int cli_push_stop_open(struct cli_push_stop **out);

/* A descriptor that is readable after a signal. */
int cli_push_stop_fd(const struct cli_push_stop *s);

/* The push begins: from now on a signal cancels this input (NULL: none) and makes the descriptor readable. Before that,
 * it ends the process at once. */
void cli_push_stop_begin(struct cli_push_stop *s, struct cli_input *in);

/* The first signal; 0: none. */
int cli_push_stop_signal(struct cli_push_stop *s);

/* Signals have their usual effect again. Call it before the input is closed. NULL does nothing. */
void cli_push_stop_close(struct cli_push_stop **s);

#endif
