/* SPDX-License-Identifier: MIT
 *
 * Checks the arguments of commands that take either journals or a queue.
 */
#ifndef GD_CLI_COMMANDS_QUEUE_QUEUE_COMMAND_H
#define GD_CLI_COMMANDS_QUEUE_QUEUE_COMMAND_H

#include "cli/commands/journals/set.h"
#include "cli/queue/queue_options.h"

/* There must be a queue or a journal, and not both. Returns 0, or -1 with gd__fail_text(). */
int queue_command_check(const char *command, const struct cli_queue *q, const struct cli_journals *j);

#endif
