/* SPDX-License-Identifier: MIT
 *
 * Files that a run is told to write, and those that it reads, must not be the same.
 */
#ifndef GD_CLI_RUN_SAME_FILE_H
#define GD_CLI_RUN_SAME_FILE_H

#include "cli/run/run_options.h"

/* 0; or -1 with gd__fail_text() if a file has two parts to play. To be asked before any of them is opened. */
int cli_refuse_same_file(const struct cli_run *r);

#endif
