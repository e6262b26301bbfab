/* SPDX-License-Identifier: MIT
 *
 * A shared object that is not a worker plugin. It does not export gd_plugin_worker().
 */
int something_else(void);

int something_else(void)
{
    return 0;
}
