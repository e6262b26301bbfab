/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch top --queue URL`: a queue and all its machines, live.
 */
#ifndef GD_CLI_COMMANDS_QUEUE_QUEUE_TOP_H
#define GD_CLI_COMMANDS_QUEUE_QUEUE_TOP_H

#include <stdbool.h>

#include "cli/queue/queue_options.h"

/* Shows the queue until it is done or the user leaves. once, or if standard output is not a terminal: shows it once.
 * Returns 0, or -1 with gd__fail_text(). */
int queue_top(const struct cli_queue *q, bool once, bool json);

#endif
