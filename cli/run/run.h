/* SPDX-License-Identifier: MIT
 *
 * A run, for every subcommand that makes one: what `gpu-dispatch run` does once it knows what was asked for.
 *
 *     struct cli_run r;
 *     cli_run_defaults(&r);
 *     r.worker = "", r.words = ..., r.sources = ..., r.own = ...
 *     status = cli_run_asked(&r);
 */
#ifndef GD_CLI_RUN_RUN_H
#define GD_CLI_RUN_RUN_H

#include "cli/run/run_options.h"

/* SIGPIPE must be ignored. Runs it, with all that is shown and written meanwhile and in the end. Complaints are made on
 * standard error. Returns the exit status (help exit): 0, how many failed, 130, 255. */
int cli_run_asked(const struct cli_run *asked);

#endif
