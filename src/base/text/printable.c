/* Makes text safe to show. Text from users, workers and journals is shown on terminals and web pages, and must not
 * control them. The input of a task may contain anything, and an error message may come from a program that colours its
 * output. */
#include "base/text/printable.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text/utf8.h"

/* --- in place --- */

void gd__text_plain(char *text, size_t size, bool lines)
{
    for (size_t i = 0; i < size;) {
        uint32_t code;
        const size_t length = gd__utf8_decode((const unsigned char *)text + i, size - i, &code);
        const size_t bytes = length ? length : 1;
        const bool stays = lines && (code == '\n' || code == '\t');
        if (!stays && (length == 0 || gd__utf8_is_control(code)))
            memset(text + i, '?', bytes);
        i += bytes;
    }
}

/* --- into a small buffer --- */

static bool is_space(uint32_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || c == 0x85 || c == 0xa0 || c == 0x2028 || c == 0x2029;
}

size_t gd__text_fit(char *to, size_t room, const char *from, size_t size)
{
    size_t n = 0, at = 0;
    bool blank = false;
    if (room == 0)
        return 0;
    while (at < size && from[at] != '\0') {
        uint32_t code;
        const size_t length = gd__utf8_decode((const unsigned char *)from + at, size - at, &code);
        const bool bad = length == 0 || (gd__utf8_is_control(code) && !is_space(code));
        const size_t takes = bad ? 1 : length;
        const size_t first = at;
        at += length > 0 ? length : 1;
        if (!bad && is_space(code)) {
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

/* --- the end of a path --- */

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

/* True for "/data/a b/talk.wav" and "my songs/talk.wav". False for a JSON record, and for a sentence that contains
 * "and/or". The live view (tui/table.c) uses the same rule for shorter texts. */
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
    for (int k = 0; k < 3 && ((unsigned char)from[at] & 0xc0) == 0x80; k++) /* not within a character */
        at++;
    memcpy(to, MARK, mark);
    memcpy(to + mark, from + at, length - at);
    return mark + length - at;
}

/* --- one line --- */

/* The length of the UTF-8 character at `at`, if it can be shown unchanged; otherwise 0. */
static size_t unchanged_length(const unsigned char *at, size_t left)
{
    uint32_t code;
    const size_t length = gd__utf8_decode(at, left, &code);
    return gd__utf8_is_control(code) ? 0 : length;
}

/* Writes one character of the text in the form in which it is shown. Returns the length of that form. *took is the
 * length of the character in the text. */
static size_t show_character(char out[5], const unsigned char *at, size_t left, size_t *took)
{
    *took = unchanged_length(at, left);
    if (*took > 0) {
        memcpy(out, at, *took);
        return *took;
    }
    *took = 1;
    if (at[0] == '\t') {
        out[0] = ' ';
        return 1;
    }
    return (size_t)snprintf(out, 5, "\\x%02x", at[0]);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Finds the first line that is not blank, and sets *size to its length. */
static const char *first_line(const char *bytes, size_t *size)
{
    size_t from = 0, to;
    while (from < *size && is_blank(bytes[from]))
        from++;
    for (to = from; to < *size && bytes[to] != '\n';)
        to++;
    while (to > from && is_blank(bytes[to - 1]))
        to--;
    *size = to - from;
    return bytes + from;
}

/* How long the whole text would be when shown. */
static size_t shown_length(const unsigned char *at, size_t size)
{
    char one[5];
    size_t length = 0, took;
    for (size_t i = 0; i < size; i += took)
        length += show_character(one, at + i, size - i, &took);
    return length;
}

/* Copies as many characters as fit, in the form in which they are shown. */
static size_t copy_shown(char *out, size_t room, const unsigned char *at, size_t size)
{
    char one[5];
    size_t length = 0, took;
    for (size_t i = 0; i < size; i += took) {
        const size_t n = show_character(one, at + i, size - i, &took);
        if (length + n >= room)
            break;
        memcpy(out + length, one, n);
        length += n;
    }
    out[length] = '\0';
    return length;
}

size_t gd__text_line(char *out, size_t room, const char *bytes, size_t size)
{
    const size_t most = room * 4; /* a longer text is cut in any case, so it is not measured */
    const unsigned char *at = (const unsigned char *)first_line(bytes, &size);
    if (size <= most && shown_length(at, size) < room)
        return copy_shown(out, room, at, size);
    const size_t length = copy_shown(out, room - 3, at, size);
    memcpy(out + length, "...", 4);
    return length + 3;
}

size_t gd__text_name(char *out, size_t room, const char *bytes, size_t size)
{
    const unsigned char *at = (const unsigned char *)first_line(bytes, &size);
    if (size <= room * 4 && shown_length(at, size) < room)
        return copy_shown(out, room, at, size);
    if (size > room * 4) { /* only the end is shown */
        at += size - room * 4;
        size = room * 4;
    }
    while (size > 0 && shown_length(at, size) >= room - 3) {
        size_t took = unchanged_length(at, size);
        took = took > 0 ? took : 1;
        at += took;
        size -= took;
    }
    memcpy(out, "...", 4);
    return 3 + copy_shown(out + 3, room - 3, at, size);
}

/* The last line that is not blank. */
static const char *last_line(const char *text, size_t *size)
{
    const char *end = text + strlen(text);
    while (end > text && (end[-1] == '\n' || end[-1] == ' '))
        end--;
    const char *at = end;
    while (at > text && at[-1] != '\n')
        at--;
    *size = (size_t)(end - at);
    return at;
}

size_t gd__text_cause(char *out, size_t room, const char *message)
{
    size_t first = strlen(message), last;
    const char *begin = first_line(message, &first), *end = last_line(message, &last);
    if (first == 0 || begin[first - 1] != ':' || end <= begin)
        return gd__text_line(out, room, message, strlen(message));
    if (strncmp(begin, "Traceback (", 11) == 0)
        return gd__text_line(out, room, end, last);
    const size_t length = gd__text_line(out, room, begin, first);
    if (length + 8 > room) /* there is no room for a useful part of the cause */
        return length;
    out[length] = ' ';
    return length + 1 + gd__text_line(out + length + 1, room - length - 1, end, last);
}
