/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch export --queue URL`: the records of a queue, in the order in which its tasks were pushed.
 */
#ifndef GD_CLI_COMMANDS_QUEUE_QUEUE_EXPORT_H
#define GD_CLI_COMMANDS_QUEUE_QUEUE_EXPORT_H

#include "cli/commands/export.h"

int queue_export(struct exporter *x, void *queue); /* an export_source: queue is a struct cli_queue */

#endif
