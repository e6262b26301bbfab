/* SPDX-License-Identifier: MIT
 *
 * `top` of several journals: what `status` prints, live, until no run uses one of them any more.
 */
#ifndef GD_CLI_COMMANDS_JOURNALS_TOP_MANY_H
#define GD_CLI_COMMANDS_JOURNALS_TOP_MANY_H

#include <stdbool.h>

#include "cli/commands/journals/set.h"

struct top_many_asked {
    bool once, json;
};

/* Returns 0, even if some journals cannot be read, or -1 with gd__fail_text(). */
int top_many(const struct top_many_asked *asked, struct cli_journals *j);

#endif
