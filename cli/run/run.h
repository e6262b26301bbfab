/* SPDX-License-Identifier: MIT
 *
 * Runs tasks, for every subcommand that does so. `gpu-dispatch run` calls this after it has read its options.
 *
 *     struct cli_run r;
 *     cli_run_defaults(&r);
 *     r.worker = "", r.words = ..., r.sources = ..., r.own = ...
 *     status = cli_run_asked(&r);
 */
#ifndef GD_CLI_RUN_RUN_H
#define GD_CLI_RUN_RUN_H

#include "cli/run/run_options.h"

/* Executes the run, writes its output, and prints error messages on standard error. SIGPIPE must be ignored. Returns
 * the exit status (help exit): 0, the number of failed tasks, 130, 255. */
int cli_run_asked(const struct cli_run *asked);

#endif
