/* SPDX-License-Identifier: MIT
 *
 * `status` of several journals: totals, a line for each machine and each shard, and what is missing.
 */
#ifndef GD_CLI_COMMANDS_JOURNALS_STATUS_MANY_H
#define GD_CLI_COMMANDS_JOURNALS_STATUS_MANY_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/commands/journals/set.h"

struct status_many_asked {
    bool json;
    bool overlaps; /* look for tasks that several journals have, even if the shards say that there are none */
};

/* Reads the journals, again if they were read before, and prints them. Returns 0, even if some cannot be read, or -1 with gd__fail_text(). */
int status_many(const struct status_many_asked *asked, struct cli_journals *j, FILE *out);

#endif
