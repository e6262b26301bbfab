/* SPDX-License-Identifier: MIT
 *
 * Text in terminal columns: the width of characters, and lines made of pieces that never exceed their width.
 */
#ifndef GD_TUI_CELLS_H
#define GD_TUI_CELLS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buffer.h"

/* --- characters --------------------------------------------------------------- */

/* The first character of a text, as it is shown. */
struct tui_glyph {
    char bytes[4]; /* UTF-8 or ASCII; empty for a character that is left out */
    unsigned char size;
    unsigned char width; /* columns: 0 (a mark on the character before), 1 or 2 */
};

/* Reads the first character of a text, whose size must be > 0. Returns the number of bytes that it takes. Control
 * characters and bytes that are not UTF-8 become "?". If utf8 is false, "…" becomes "~" and every other character that
 * is not ASCII becomes "?". Characters without a shape, and those that change how others are shown, are left out. */
size_t tui_glyph(struct tui_glyph *g, const char *text, size_t size, bool utf8);

/* The number of columns that a text takes. */
size_t tui_columns(const char *text, bool utf8);

/* --- lines ---------------------------------------------------------------------- */

enum tui_colour {
    TUI_PLAIN = 0,
    TUI_BOLD,
    TUI_DIM,
    TUI_CYAN,
    TUI_YELLOW,
    TUI_GREEN,
    TUI_BOLD_GREEN,
    TUI_MAGENTA,
    TUI_RED,
    TUI_BOLD_RED,
};

/* A line that is being built. Text that does not fit in width is dropped. */
struct tui_line {
    struct gd__buffer *out;
    size_t width, column;
    bool colour, utf8;
};

/* Adds a text in at most this many columns. A longer text is cut and ends in "…" (or "~"). */
void tui_add_within(struct tui_line *l, enum tui_colour colour, const char *text, size_t columns);
void tui_add(struct tui_line *l, enum tui_colour colour, const char *text);
void tui_format(struct tui_line *l, enum tui_colour colour, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void tui_fill(struct tui_line *l, enum tui_colour colour, const char *glyph,
              size_t n);                        /* each character takes one column */
void tui_to(struct tui_line *l, size_t column); /* adds spaces up to this column */
void tui_end(struct tui_line *l);               /* adds the newline */

#endif
