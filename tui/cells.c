/* SPDX-License-Identifier: MIT
 *
 * Text in terminal columns. The name of a task may be a file name in any script, or any bytes. This code makes sure
 * that it takes exactly as many columns as the layout counts, and has no other effect on the terminal.
 *
 * The widths come from a coarse table in this file, so that a layout depends on its arguments and not on the locale. If
 * a terminal gives a character another width, one line is a column off. It does not wrap, because lines are written
 * with automatic wrapping turned off.
 */
#include "tui/cells.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text/buffer.h"
#include "base/text/utf8.h"

/* --- characters --------------------------------------------------------------- */

enum { ELLIPSIS = 0x2026 };

struct range {
    uint32_t first, last;
};

/* Characters that are left out: those without a shape, and those that change how other characters are shown. */
static const struct range shapeless[] = {
    { 0x00ad, 0x00ad },   { 0x034f, 0x034f },   { 0x061c, 0x061c },   { 0x115f, 0x1160 },   { 0x180b, 0x180f },
    { 0x200b, 0x200f },   { 0x2028, 0x202e },   { 0x2060, 0x206f },   { 0x3164, 0x3164 },   { 0xfe00, 0xfe0f },
    { 0xfeff, 0xfeff },   { 0xffa0, 0xffa0 },   { 0xfff0, 0xfffb },   { 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a },
    { 0x1f1e6, 0x1f1ff }, { 0x1f3fb, 0x1f3ff }, { 0xe0000, 0xe0fff },
};

/* Marks on the character before them. They take no column. */
static const struct range marks[] = {
    { 0x0300, 0x036f }, { 0x0483, 0x0489 }, { 0x0591, 0x05bd }, { 0x05bf, 0x05bf }, { 0x05c1, 0x05c2 },
    { 0x05c4, 0x05c5 }, { 0x05c7, 0x05c7 }, { 0x0610, 0x061a }, { 0x064b, 0x065f }, { 0x0670, 0x0670 },
    { 0x06d6, 0x06dc }, { 0x06df, 0x06e4 }, { 0x06e7, 0x06e8 }, { 0x06ea, 0x06ed }, { 0x0711, 0x0711 },
    { 0x0730, 0x074a }, { 0x07a6, 0x07b0 }, { 0x0900, 0x0902 }, { 0x093a, 0x093a }, { 0x093c, 0x093c },
    { 0x0941, 0x0948 }, { 0x094d, 0x094d }, { 0x0951, 0x0957 }, { 0x0981, 0x0981 }, { 0x09bc, 0x09bc },
    { 0x09c1, 0x09c4 }, { 0x09cd, 0x09cd }, { 0x0a01, 0x0a02 }, { 0x0a3c, 0x0a3c }, { 0x0a41, 0x0a51 },
    { 0x0b01, 0x0b01 }, { 0x0b3c, 0x0b3c }, { 0x0b4d, 0x0b4d }, { 0x0bcd, 0x0bcd }, { 0x0c4d, 0x0c4d },
    { 0x0ccd, 0x0ccd }, { 0x0d4d, 0x0d4d }, { 0x0e31, 0x0e31 }, { 0x0e34, 0x0e3a }, { 0x0e47, 0x0e4e },
    { 0x0eb1, 0x0eb1 }, { 0x0eb4, 0x0ebc }, { 0x0ec8, 0x0ece }, { 0x0f71, 0x0f7e }, { 0x1ab0, 0x1aff },
    { 0x1dc0, 0x1dff }, { 0x20d0, 0x20f0 }, { 0x302a, 0x302d }, { 0x3099, 0x309a }, { 0xa66f, 0xa672 },
    { 0xfe20, 0xfe2f },
};

/* Characters of two columns. */
static const struct range wide[] = {
    { 0x1100, 0x115e },   { 0x231a, 0x231b },   { 0x2329, 0x232a },   { 0x23e9, 0x23ec },   { 0x23f0, 0x23f0 },
    { 0x23f3, 0x23f3 },   { 0x25fd, 0x25fe },   { 0x2614, 0x2615 },   { 0x2648, 0x2653 },   { 0x267f, 0x267f },
    { 0x2693, 0x2693 },   { 0x26a1, 0x26a1 },   { 0x26aa, 0x26ab },   { 0x26bd, 0x26be },   { 0x26c4, 0x26c5 },
    { 0x26ce, 0x26ce },   { 0x26d4, 0x26d4 },   { 0x26ea, 0x26ea },   { 0x26f2, 0x26f3 },   { 0x26f5, 0x26f5 },
    { 0x26fa, 0x26fa },   { 0x26fd, 0x26fd },   { 0x2705, 0x2705 },   { 0x270a, 0x270b },   { 0x2728, 0x2728 },
    { 0x274c, 0x274c },   { 0x274e, 0x274e },   { 0x2753, 0x2755 },   { 0x2757, 0x2757 },   { 0x2795, 0x2797 },
    { 0x27b0, 0x27b0 },   { 0x27bf, 0x27bf },   { 0x2b1b, 0x2b1c },   { 0x2b50, 0x2b50 },   { 0x2b55, 0x2b55 },
    { 0x2e80, 0x303e },   { 0x3041, 0x33ff },   { 0x3400, 0x4dbf },   { 0x4e00, 0xa4cf },   { 0xa960, 0xa97c },
    { 0xac00, 0xd7a3 },   { 0xf900, 0xfaff },   { 0xfe10, 0xfe19 },   { 0xfe30, 0xfe6b },   { 0xff01, 0xff60 },
    { 0xffe0, 0xffe6 },   { 0x16fe0, 0x18cff }, { 0x1aff0, 0x1b2ff }, { 0x1f004, 0x1f004 }, { 0x1f0cf, 0x1f0cf },
    { 0x1f18e, 0x1f18e }, { 0x1f191, 0x1f19a }, { 0x1f200, 0x1f320 }, { 0x1f32d, 0x1f335 }, { 0x1f337, 0x1f37c },
    { 0x1f37e, 0x1f393 }, { 0x1f3a0, 0x1f3ca }, { 0x1f3cf, 0x1f3d3 }, { 0x1f3e0, 0x1f3f0 }, { 0x1f3f4, 0x1f3f4 },
    { 0x1f3f8, 0x1f43e }, { 0x1f440, 0x1f440 }, { 0x1f442, 0x1f4fc }, { 0x1f4ff, 0x1f53d }, { 0x1f54b, 0x1f54e },
    { 0x1f550, 0x1f567 }, { 0x1f57a, 0x1f57a }, { 0x1f595, 0x1f596 }, { 0x1f5a4, 0x1f5a4 }, { 0x1f5fb, 0x1f64f },
    { 0x1f680, 0x1f6c5 }, { 0x1f6cc, 0x1f6cc }, { 0x1f6d0, 0x1f6d2 }, { 0x1f6d5, 0x1f6df }, { 0x1f6eb, 0x1f6ec },
    { 0x1f6f4, 0x1f6fc }, { 0x1f7e0, 0x1f7f0 }, { 0x1f90c, 0x1f93a }, { 0x1f93c, 0x1f945 }, { 0x1f947, 0x1f9ff },
    { 0x1fa70, 0x1faff }, { 0x20000, 0x3fffd },
};

static bool is_in(uint32_t c, const struct range *r, size_t n)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c > r[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && c >= r[low].first;
}

#define IS_IN(c, table) is_in(c, table, sizeof(table) / sizeof(table)[0])

/* Returns the first character of a text, or 0 if that is not UTF-8. Sets *used to its number of bytes. */
static uint32_t decode(const unsigned char *p, size_t size, size_t *used)
{
    uint32_t c;
    const size_t length = gd__utf8_decode(p, size, &c);
    *used = length ? length : 1;
    return length ? c : 0;
}

size_t tui_glyph(struct tui_glyph *g, const char *text, size_t size, bool utf8)
{
    size_t used;
    const uint32_t c = decode((const unsigned char *)text, size, &used);
    *g = (struct tui_glyph){ .bytes = "?", .size = 1, .width = 1 };
    if (c < 0x20 || (c >= 0x7f && c < 0xa0))
        return used;
    if (c >= 0x7f && IS_IN(c, shapeless)) {
        g->size = g->width = 0;
        return used;
    }
    if (c >= 0x7f && !utf8) {
        g->bytes[0] = c == ELLIPSIS ? '~' : '?'; /* the mark of texts that were cut */
        return used;
    }
    memcpy(g->bytes, text, used);
    g->size = (unsigned char)used;
    g->width = c < 0x300 ? 1 : IS_IN(c, marks) ? 0 : IS_IN(c, wide) ? 2 : 1;
    return used;
}

size_t tui_columns(const char *text, bool utf8)
{
    struct tui_glyph g;
    size_t columns = 0;
    for (size_t left = strlen(text), used; left > 0; left -= used, text += used) {
        used = tui_glyph(&g, text, left, utf8);
        columns += g.width;
    }
    return columns;
}

/* --- lines ---------------------------------------------------------------------- */

static const char *const codes[] = {
    [TUI_BOLD] = "1",     [TUI_DIM] = "2",  [TUI_CYAN] = "36",       [TUI_YELLOW] = "33",       [TUI_GREEN] = "32",
    [TUI_MAGENTA] = "35", [TUI_RED] = "31", [TUI_BOLD_RED] = "1;31", [TUI_BOLD_GREEN] = "1;32",
};

static void colour_on(struct tui_line *l, enum tui_colour colour)
{
    if (l->colour && colour != TUI_PLAIN)
        gd__buffer_format(l->out, "\033[%sm", codes[colour]);
}

static void colour_off(struct tui_line *l, enum tui_colour colour)
{
    if (l->colour && colour != TUI_PLAIN)
        gd__buffer_text(l->out, "\033[0m");
}

static void add_cut(struct tui_line *l, const char *text, size_t columns)
{
    enum { MOST_MARKS = 4 }; /* on one character */
    struct tui_glyph g;
    const bool whole = tui_columns(text, l->utf8) <= columns;
    const size_t end = l->column + columns - (whole ? 0 : 1);
    unsigned stacked = 0;
    for (size_t left = strlen(text), used; left > 0; left -= used, text += used) {
        used = tui_glyph(&g, text, left, l->utf8);
        if (l->column + g.width > end)
            break;
        stacked = g.width ? 0 : stacked + 1;
        if (stacked <= MOST_MARKS)
            gd__buffer_add(l->out, g.bytes, g.size);
        l->column += g.width;
    }
    if (!whole) {
        gd__buffer_text(l->out, l->utf8 ? "…" : "~");
        l->column++;
    }
}

void tui_add_within(struct tui_line *l, enum tui_colour colour, const char *text, size_t columns)
{
    const size_t room = l->width > l->column ? l->width - l->column : 0;
    if (columns > room)
        columns = room;
    if (columns == 0 || !*text)
        return;
    colour_on(l, colour);
    add_cut(l, text, columns);
    colour_off(l, colour);
}

void tui_add(struct tui_line *l, enum tui_colour colour, const char *text)
{
    tui_add_within(l, colour, text, l->width);
}

void tui_format(struct tui_line *l, enum tui_colour colour, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tui_add(l, colour, text);
}

void tui_fill(struct tui_line *l, enum tui_colour colour, const char *glyph, size_t n)
{
    const size_t room = l->width > l->column ? l->width - l->column : 0;
    n = n < room ? n : room;
    if (n == 0)
        return;
    colour_on(l, colour);
    for (size_t i = 0; i < n; i++)
        gd__buffer_text(l->out, glyph);
    colour_off(l, colour);
    l->column += n;
}

void tui_to(struct tui_line *l, size_t column)
{
    if (column > l->column)
        tui_fill(l, TUI_PLAIN, " ", column - l->column);
}

void tui_end(struct tui_line *l)
{
    gd__buffer_text(l->out, "\n");
    l->column = 0;
}
