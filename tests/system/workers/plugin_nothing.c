/* SPDX-License-Identifier: MIT
 *
 * A shared object that is not a worker plugin: it exports another name.
 */
int something_else(void);

int something_else(void)
{
    return 0;
}
