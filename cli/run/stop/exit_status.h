/* SPDX-License-Identifier: MIT
 *
 * The exit status: 0 for success, 1-100 for that many tasks that failed or were cancelled on request, 101 for more, 130 for Ctrl-C (143 for SIGTERM
 * and 129 for SIGHUP: run.c), 255 for anything else. --halt has its own rules (halt.c).
 */
#ifndef GD_CLI_RUN_STOP_EXIT_STATUS_H
#define GD_CLI_RUN_STOP_EXIT_STATUS_H

#include <stdbool.h>

#include "cli/run/stop/halt.h"

enum { CLI_EXIT_MANY = 101, CLI_EXIT_SIGNAL = 128, CLI_EXIT_INTERRUPTED = 130, CLI_EXIT_ERROR = 255 };

/* run: what gd_dispatcher_run() returned. other_error: something besides tasks failed (a log could not be written). */
int cli_exit_status(const struct cli_halt *h, int run, bool other_error);

#endif
