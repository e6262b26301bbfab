/* Reads and writes UTF-8: see utf8.h. */
#include "base/text/utf8.h"

size_t gd__utf8_length(const unsigned char *p, size_t left)
{
    static const struct {
        unsigned char first, last; /* range of the first byte */
        unsigned char low, high;   /* range of the second byte */
        unsigned char length;
    } forms[] = {
        { 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 }, { 0xe1, 0xec, 0x80, 0xbf, 3 },
        { 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 }, { 0xf0, 0xf0, 0x90, 0xbf, 4 },
        { 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 },
    };
    if (p[0] < 0x80)
        return 1;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (p[0] < forms[i].first || p[0] > forms[i].last)
            continue;
        if (left < forms[i].length || p[1] < forms[i].low || p[1] > forms[i].high)
            return 0;
        for (size_t k = 2; k < forms[i].length; k++)
            if ((p[k] & 0xc0) != 0x80)
                return 0;
        return forms[i].length;
    }
    return 0;
}

size_t gd__utf8_decode(const unsigned char *p, size_t left, uint32_t *code)
{
    const size_t length = gd__utf8_length(p, left);
    uint32_t c = length == 0 ? 0xfffd : length == 1 ? p[0] : p[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++)
        c = c << 6 | (p[i] & 0x3fu);
    *code = c;
    return length;
}

size_t gd__utf8_encode(char *to, uint32_t code)
{
    const size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    to[0] = (char)(lead[length] | code >> 6 * (length - 1));
    for (size_t i = 1; i < length; i++)
        to[i] = (char)(0x80 | (code >> 6 * (length - 1 - i) & 0x3f));
    return length;
}

size_t gd__utf8_valid(const char *text, size_t size)
{
    const unsigned char *p = (const unsigned char *)text;
    for (size_t i = 0, n; i < size; i += n) {
        n = gd__utf8_length(p + i, size - i);
        if (n == 0)
            return i;
    }
    return size;
}

/* U+200C and U+200D, which join and separate letters, do not count, because Persian and many emoji need them. */
bool gd__utf8_is_control(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        { 0x00, 0x1f },     { 0x7f, 0x9f },     { 0x200b, 0x200b }, { 0x200e, 0x200f },   { 0x2028, 0x202e },
        { 0x2060, 0x206f }, { 0xfeff, 0xfeff }, { 0xfff9, 0xfffb }, { 0xe0000, 0xe007f },
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}
