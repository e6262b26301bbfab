/* SPDX-License-Identifier: MIT
 *
 * Either journals or a queue: see queue_command.h.
 */
#include "cli/commands/queue/queue_command.h"

#include "base/failure.h"

int queue_command_check(const char *command, const struct cli_queue *q, const struct cli_journals *j)
{
    if (cli_queue_check(q) < 0)
        return -1;
    if (q->url && j->n_paths > 0)
        return gd__fail("%s shows either journals or a queue: leave out \"%s\" or --queue", command, j->paths[0]);
    if (!q->url && j->n_paths == 0)
        return gd__fail("%s needs a journal or a queue: gpu-dispatch %s FILE, or --queue nats://HOST/NAME", command,
                        command);
    return 0;
}
