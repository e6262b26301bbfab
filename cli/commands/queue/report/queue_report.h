/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch report --queue URL`: a queue as one web page, with the GPUs of each machine.
 */
#ifndef GD_CLI_COMMANDS_QUEUE_REPORT_QUEUE_REPORT_H
#define GD_CLI_COMMANDS_QUEUE_REPORT_QUEUE_REPORT_H

#include "cli/queue/queue_options.h"

/* Writes the page to path. Returns 0, or -1 with gd__fail_text(). */
int queue_report(const struct cli_queue *q, const char *path);

#endif
