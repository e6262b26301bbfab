/* SPDX-License-Identifier: MIT
 *
 * Checks that a run does not write to a file that it reads, and does not write two outputs to the same file. */
#ifndef GD_CLI_RUN_SAME_FILE_H
#define GD_CLI_RUN_SAME_FILE_H

#include "cli/run/run_options.h"

/* Returns 0, or -1 with gd__fail_text() if a file is named for two purposes. Call it before any of them is opened. */
int cli_refuse_same_file(const struct cli_run *r);

#endif
