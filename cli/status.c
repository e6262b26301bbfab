/* SPDX-License-Identifier: MIT
 *
 * The exit status of a run. Ctrl-C comes before everything, a --halt that was reached before what failed, and
 * anything that went wrong besides tasks (its words were on standard error) before the number of those.
 */
#include "status.h"

int cli_status(const struct cli_halt *h, int run, bool other_error)
{
    if (run == GD_E_INTERRUPTED)
        return CLI_STATUS_INTERRUPTED;
    if (run < 0 && run != GD_E_SHUTDOWN)
        return CLI_STATUS_ERROR;
    if (h->halted)
        return h->status;
    if (other_error)
        return CLI_STATUS_ERROR;
    return cli_halt_count_status(h);
}
