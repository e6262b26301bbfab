/* SPDX-License-Identifier: MIT
 *
 * What workers write by themselves (a model that says what it loads, a command with -u), passed on to our own standard
 * output and standard error beside a live view. On a terminal whole lines at a time, so that none is torn by the view
 * or by another worker's; elsewhere as it comes.
 */
#ifndef GD_CLI_OUTPUT_WORKER_LINES_H
#define GD_CLI_OUTPUT_WORKER_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/output/progress.h"

struct cli_worker_lines;

/* fds: where their standard output and standard error go. progress is borrowed, NULL is fine. 0, or -1 with
 * gd__fail_text(). */
int cli_worker_lines_open(struct cli_worker_lines **out, const int fds[2], struct cli_progress *progress);

/* stream is 1 or 2. */
void cli_worker_lines_add(struct cli_worker_lines *p, int worker_id, int stream, const char *text, size_t size);

/* Nobody reads standard output any more. */
bool cli_worker_lines_broken(const struct cli_worker_lines *p);

/* Writes lines that have no end yet. NULL is fine. */
void cli_worker_lines_close(struct cli_worker_lines **p);

#endif
