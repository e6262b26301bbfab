/* SPDX-License-Identifier: MIT
 *
 * The table of GPUs: chooses the columns that fit and the width of each.
 */
#ifndef GD_TUI_TABLE_H
#define GD_TUI_TABLE_H

#include "tui/cells.h"
#include "view/rows.h"

/* Adds a heading and the rows as lines that fit the width of l. l must be at the beginning of a line, and is so
 * afterwards. */
void tui_table(struct tui_line *l, const struct view_rows *rows);

#endif
