/* SPDX-License-Identifier: MIT
 *
 * What workers write by themselves (a model that says what it loads, a command with -u), passed on to our own standard
 * output and standard error beside a live view. On a terminal whole lines at a time, so that none is torn by the view
 * or by another worker's; elsewhere as it comes.
 */
#ifndef GD_CLI_PASSED_H
#define GD_CLI_PASSED_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/output/progress.h"

struct cli_passed;

/* fds: where their standard output and standard error go. progress is borrowed, NULL is fine. 0, or -1 with
 * cli_error_text(). */
int cli_passed_open(struct cli_passed **out, const int fds[2], struct cli_progress *progress);

/* stream is 1 or 2. */
void cli_passed_add(struct cli_passed *p, int worker_id, int stream, const char *text, size_t size);

/* Nobody reads standard output any more. */
bool cli_passed_broken(const struct cli_passed *p);

/* Writes lines that have no end yet. NULL is fine. */
void cli_passed_close(struct cli_passed **p);

#endif
