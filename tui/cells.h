/* SPDX-License-Identifier: MIT
 *
 * Text in terminal columns: how wide characters are, and lines that are made of pieces and never get wider than they
 * may.
 */
#ifndef GD_TUI_CELLS_H
#define GD_TUI_CELLS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buffer.h"

/* --- characters --------------------------------------------------------------- */

/* What is shown of the character at the beginning of a text. */
struct tui_glyph {
    char bytes[4]; /* UTF-8, or ASCII; none for a character that is left out */
    unsigned char size;
    unsigned char width; /* columns: 0 (a mark on the one before), 1 or 2 */
};

/* Reads one character of size > 0 bytes; returns how many bytes it took. Whatever a terminal would act on, whatever is
 * not UTF-8 and, unless utf8, whatever is not ASCII becomes "?", but "…" becomes "~"; characters without a shape of
 * their own that change the direction or the width of others are left out. */
size_t tui_glyph(struct tui_glyph *g, const char *text, size_t size, bool utf8);

/* Columns that a text takes as it would be shown. */
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

/* A line in the making. What does not fit in width is dropped. */
struct tui_line {
    struct gd__buffer *out;
    size_t width, column;
    bool colour, utf8;
};

/* Adds a text in at most columns columns; one that is longer ends in "…" (or "~"). */
void tui_add_within(struct tui_line *l, enum tui_colour colour, const char *text, size_t columns);
void tui_add(struct tui_line *l, enum tui_colour colour, const char *text);
void tui_format(struct tui_line *l, enum tui_colour colour, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void tui_fill(struct tui_line *l, enum tui_colour colour, const char *glyph, size_t n); /* of one column each */
void tui_to(struct tui_line *l, size_t column);                                         /* spaces up to there */
void tui_end(struct tui_line *l);                                                       /* the newline */

#endif
