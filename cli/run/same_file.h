/* SPDX-License-Identifier: MIT
 *
 * Files that a run is told to write, and those that it reads, must not be the same.
 */
#ifndef CLI_APART_H
#define CLI_APART_H

#include "cli/run/run_options.h"

/* 0; or -1 with cli_error_text() if a file has two parts to play. To be asked before any of them is opened. */
int cli_files_apart(const struct cli_run *r);

#endif
