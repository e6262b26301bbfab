/* SPDX-License-Identifier: MIT
 *
 * Checks that the files a run writes are not among those that it reads, and that it writes each only once.
 */
#ifndef GD_CLI_RUN_SAME_FILE_H
#define GD_CLI_RUN_SAME_FILE_H

#include "cli/run/run_options.h"

/* Returns 0, or -1 with gd__fail_text() if a file is named for two purposes. Call it before any of them is opened. */
int cli_refuse_same_file(const struct cli_run *r);

#endif
