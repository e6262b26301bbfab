/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch status --queue URL`: the state of a queue, as text or as one JSON object.
 */
#ifndef GD_CLI_COMMANDS_QUEUE_QUEUE_STATUS_H
#define GD_CLI_COMMANDS_QUEUE_QUEUE_STATUS_H

#include <stdbool.h>

#include "cli/queue/queue_options.h"

/* Returns 0, or -1 with gd__fail_text(). */
int queue_status(const struct cli_queue *q, bool json);

#endif
