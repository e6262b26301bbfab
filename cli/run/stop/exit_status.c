/* SPDX-License-Identifier: MIT
 *
 * The exit status of a run. Ctrl-C comes before everything. Then comes anything that went wrong besides tasks (its
 * error message was on standard error), then a --halt that was reached, and then the number of tasks that failed.
 */
#include "cli/run/stop/exit_status.h"

int cli_exit_status(const struct cli_halt *h, int run, bool other_error)
{
    if (run == GD_E_INTERRUPTED)
        return CLI_EXIT_INTERRUPTED;
    if (run < 0 && run != GD_E_SHUTDOWN)
        return CLI_EXIT_ERROR;
    if (other_error)
        return CLI_EXIT_ERROR;
    if (h->halted)
        return h->status;
    return cli_halt_count_status(h);
}
