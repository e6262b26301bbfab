/* SPDX-License-Identifier: MIT
 *
 * Output that workers write directly (a model that reports what it loads, a command with -u). It is passed on to our
 * own standard output and standard error, while a live view is shown. On a terminal it is passed on in whole lines, so
 * that neither the view nor another worker can split a line. Elsewhere it is passed on at once. */
#ifndef GD_CLI_OUTPUT_WORKER_LINES_H
#define GD_CLI_OUTPUT_WORKER_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/output/progress.h"

struct cli_worker_lines;

/* fds are the descriptors for standard output and standard error. progress is borrowed and may be NULL. Returns 0, or
 * -1 with gd__fail_text(). */
int cli_worker_lines_open(struct cli_worker_lines **out, const int fds[2], struct cli_progress *progress);

/* stream is 1 or 2. */
void cli_worker_lines_add(struct cli_worker_lines *p, int worker_id, int stream, const char *text, size_t size);

/* Whether nothing reads standard output any more. */
bool cli_worker_lines_broken(const struct cli_worker_lines *p);

/* Writes the unfinished lines. NULL is fine. */
void cli_worker_lines_close(struct cli_worker_lines **p);

#endif
