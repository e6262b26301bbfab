/* SPDX-License-Identifier: MIT
 *
 * The table of GPUs: which columns there is room for, and how wide each is.
 */
#ifndef GD_TUI_TABLE_H
#define GD_TUI_TABLE_H

#include "tui/cells.h"
#include "view/rows.h"

/* Adds a heading and the rows as lines within the width of l, which is at the beginning of a line before and after. */
void tui_table(struct tui_line *l, const struct view_rows *rows);

#endif
