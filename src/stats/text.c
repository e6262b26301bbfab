/* What users wrote, and what their programs said, goes to terminals and pages: not as commands to them. A task's input
 * may be anything; an error's text may have come from a program that coloured it.
 */
#include "stats/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct character {
    uint32_t code;
    size_t size; /* 0: not UTF-8 */
};

/* The shapes of UTF-8: first byte, how many follow, least code that needs them. */
static const struct {
    unsigned char mask, bits;
    uint8_t size;
    uint32_t least;
} shapes[] = {
    { 0x80, 0x00, 1, 0 },
    { 0xe0, 0xc0, 2, 0x80 },
    { 0xf0, 0xe0, 3, 0x800 },
    { 0xf8, 0xf0, 4, 0x10000 },
};

static struct character decode(const unsigned char *at, size_t left)
{
    const struct character none = { 0xfffd, 0 };
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        if ((at[0] & shapes[k].mask) != shapes[k].bits)
            continue;
        if (left < shapes[k].size)
            return none;
        uint32_t code = at[0] & (unsigned char)~shapes[k].mask;
        for (size_t i = 1; i < shapes[k].size; i++) {
            if ((at[i] & 0xc0) != 0x80)
                return none;
            code = code << 6 | (at[i] & 0x3fu);
        }
        const bool surrogate = code >= 0xd800 && code <= 0xdfff;
        return code < shapes[k].least || surrogate || code > 0x10ffff ? none
                                                                      : (struct character){ code, shapes[k].size };
    }
    return none;
}

static bool is_blank(uint32_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || c == 0x85 || c == 0xa0 || c == 0x2028 || c == 0x2029;
}

static bool is_command(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        { 0x00, 0x1f },     { 0x7f, 0x9f },     { 0x200b, 0x200f }, { 0x202a, 0x202e },
        { 0x2060, 0x206f }, { 0xfeff, 0xfeff }, { 0xfff9, 0xfffb }, { 0xe0000, 0xe007f },
    };
    for (size_t k = 0; k < sizeof ranges / sizeof *ranges; k++)
        if (c >= ranges[k].first && c <= ranges[k].last)
            return true;
    return false;
}

size_t gd__text_fit(char *to, size_t room, const char *from, size_t size)
{
    size_t n = 0, at = 0;
    bool blank = false;
    if (room == 0)
        return 0;
    while (at < size && from[at] != '\0') {
        const struct character c = decode((const unsigned char *)from + at, size - at);
        const bool bad = c.size == 0 || (is_command(c.code) && !is_blank(c.code));
        const size_t takes = bad ? 1 : c.size;
        const size_t first = at;
        at += c.size > 0 ? c.size : 1;
        if (!bad && is_blank(c.code)) {
            blank = n > 0;
            continue;
        }
        if (n + blank + takes > room - 1)
            break;
        if (blank)
            to[n++] = ' ';
        blank = false;
        if (bad)
            to[n] = '?';
        else
            memcpy(to + n, from + first, takes);
        n += takes;
    }
    to[n] = '\0';
    return n;
}

/* --- of a path, the end --- */

#define MARK "\xe2\x80\xa6" /* an ellipsis */
enum { LONGEST_EXTENSION = 5 };

/* "talk.wav" */
static bool has_extension(const char *name, size_t size)
{
    const char *dot = memrchr(name, '.', size);
    const size_t length = dot ? size - (size_t)(dot - name) : 0; /* with the dot */
    return length > 1 && length <= LONGEST_EXTENSION + 1 && dot > name && !memchr(dot, ' ', length) &&
           !memchr(dot, '"', length);
}

/* "/data/a b/talk.wav", "my songs/talk.wav"; not a record, nor a sentence and/or something like it. The terminal's view
 * (tui/table.c) thinks the same of texts that are shorter. */
static bool is_path(const char *text, size_t size)
{
    const char *slash = memchr(text, '/', size), *last = memrchr(text, '/', size);
    if (!slash || memchr(text, '\n', size) || memchr(text, '\r', size) || strchr("{[\"", text[0]))
        return false;
    const size_t before = (size_t)(slash - text);
    if (!memchr(text, ' ', before) && !memchr(text, '"', before) && !memchr(text, '{', before))
        return true;
    return has_extension(last + 1, size - (size_t)(last + 1 - text));
}

size_t gd__text_keep(char *to, size_t room, const char *from, size_t size)
{
    const size_t mark = sizeof MARK - 1;
    if (size == 0)
        return 0;
    const size_t length = strnlen(from, size < GD__TEXT_LOOKED_AT ? size : GD__TEXT_LOOKED_AT);
    if (length < room || length == GD__TEXT_LOOKED_AT || !is_path(from, length)) {
        const size_t n = size < room ? size : room;
        memcpy(to, from, n);
        return n;
    }
    size_t at = length - (room - 1 - mark);
    for (int k = 0; k < 3 && ((unsigned char)from[at] & 0xc0) == 0x80; k++) /* not in the middle of a character */
        at++;
    memcpy(to, MARK, mark);
    memcpy(to + mark, from + at, length - at);
    return mark + length - at;
}
