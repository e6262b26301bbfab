/* Writes JSON. Characters that would control a terminal or an editor are written as escapes. The meaning stays the
 * same, and the line is safe to show.
 */
#include "base/text/json_write.h"

#include <stdint.h>
#include <string.h>

#include "base/text/utf8.h"

/* The code of the character at p if it would control a terminal or an editor, otherwise 0. Characters beyond U+FFFF
 * have no short escape and are written unchanged. */
static unsigned control_beyond_ascii(const unsigned char *p, size_t length)
{
    uint32_t code;
    if (*p != 0xc2 && *p != 0xe2 && *p != 0xef) /* the first bytes of all such characters */
        return 0;
    gd__utf8_decode(p, length, &code);
    return gd__utf8_is_control(code) ? code : 0;
}

/* How many bytes from p on are written unchanged. */
static size_t plain_run(const unsigned char *p, size_t left)
{
    size_t n = 0;
    while (n < left) {
        size_t length = 1;
        if (p[n] < 0x20 || p[n] == '"' || p[n] == '\\' || p[n] == 0x7f)
            break;
        if (p[n] >= 0x80 && (length = gd__utf8_length(p + n, left - n)) == 0)
            break;
        if (length > 1 && control_beyond_ascii(p + n, length))
            break;
        n += length;
    }
    return n;
}

/* The letter after the backslash; 0: there is no short form. */
static char short_escape(unsigned char c)
{
    static const char table[256] = {
        ['"'] = '"', ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'
    };
    return table[c];
}

/* How many bytes at p, where plain_run() ended, become one escape. */
static size_t escaped_length(const unsigned char *p, size_t left)
{
    const size_t length = *p >= 0x80 ? gd__utf8_length(p, left) : 1;
    return length > 0 ? length : 1;
}

static char *put_escape(char *to, const unsigned char *p, size_t length)
{
    static const char digits[] = "0123456789abcdef";
    const char known = short_escape(*p);
    *to++ = '\\';
    if (known) {
        *to++ = known;
        return to;
    }
    const unsigned c = length > 1 ? control_beyond_ascii(p, length) : *p >= 0x80 ? 0xdc00u + *p : *p;
    *to++ = 'u';
    for (int shift = 12; shift >= 0; shift -= 4)
        *to++ = digits[c >> shift & 15];
    return to;
}

size_t gd__json_put_uint(char *to, uint64_t n)
{
    char digits[GD__JSON_UINT_ROOM];
    size_t from = sizeof digits;
    do
        digits[--from] = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    memcpy(to, digits + from, sizeof digits - from);
    return sizeof digits - from;
}

size_t gd__json_escape(char *to, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    char *const first = to;
    *to++ = '"';
    for (size_t i = 0; i < n;) {
        const size_t run = plain_run(p + i, n - i);
        if (run > 0)
            memcpy(to, p + i, run);
        to += run;
        i += run;
        if (i == n)
            break;
        const size_t length = escaped_length(p + i, n - i);
        to = put_escape(to, p + i, length);
        i += length;
    }
    *to++ = '"';
    return (size_t)(to - first);
}

size_t gd__json_escaped_size(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    size_t size = 2;
    for (size_t i = 0; i < n;) {
        const size_t run = plain_run(p + i, n - i);
        size += run;
        i += run;
        if (i == n)
            break;
        size += short_escape(p[i]) ? 2 : 6;
        i += escaped_length(p + i, n - i);
    }
    return size;
}

/* ---- into buffers ---- */

void gd__json_put_string(struct gd__buffer *b, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    gd__buffer_add(b, "\"", 1);
    for (size_t i = 0; i < n;) {
        const size_t run = plain_run(p + i, n - i); /* most of a text needs no escapes */
        gd__buffer_add(b, p + i, run);
        i += run;
        if (i == n)
            break;
        char escape[6];
        const size_t length = escaped_length(p + i, n - i);
        gd__buffer_add(b, escape, (size_t)(put_escape(escape, p + i, length) - escape));
        i += length;
    }
    gd__buffer_add(b, "\"", 1);
}

void gd__json_put_text(struct gd__buffer *b, const char *name, const char *text)
{
    gd__buffer_format(b, ",\"%s\":", name);
    if (*text)
        gd__json_put_string(b, text, strlen(text));
    else
        gd__buffer_text(b, "null");
}

void gd__json_put_arguments(struct gd__buffer *b, const char *text, size_t size)
{
    const char *nul = size ? memchr(text, 0, size) : NULL;
    if (!nul) {
        gd__json_put_string(b, text, size);
        return;
    }
    gd__buffer_text(b, "[");
    for (; nul; nul = size ? memchr(text, 0, size) : NULL) {
        gd__json_put_string(b, text, (size_t)(nul - text));
        gd__buffer_text(b, ",");
        size -= (size_t)(nul - text) + 1;
        text = nul + 1;
    }
    gd__json_put_string(b, text, size);
    gd__buffer_text(b, "]");
}
