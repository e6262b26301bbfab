/* SPDX-License-Identifier: MIT
 *
 * The exit status of a run. The first of these decides: Ctrl-C, an error other than a failed task (its error message
 * was printed on standard error), a --halt that was reached, the number of tasks that failed or were cancelled. The last
 * of these is only reached if tasks were cancelled on request, one by one or because the run was drained.
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
    struct cli_halt all = *h;
    all.failed += h->cancelled;
    return cli_halt_count_status(&all);
}
