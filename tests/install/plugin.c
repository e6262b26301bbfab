/* SPDX-License-Identifier: MIT
 *
 * The doubling worker as a plugin, for the installed gpu-dispatch-host.
 */
#include "worker.h"

const struct gd_worker_ops *gd_plugin_worker(void)
{
    return double_worker();
}
