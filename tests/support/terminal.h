/* SPDX-License-Identifier: MIT
 *
 * Checks that a text is safe to show on a terminal. It must be valid UTF-8. It must not contain control characters, or
 * invisible characters that change what a person reads. Line ends are allowed.
 *
 *     check_harmless(r.err, r.err_size, "status");
 */
#ifndef GD_TESTS_SUPPORT_TERMINAL_H
#define GD_TESTS_SUPPORT_TERMINAL_H

#include <stdint.h>

#include "support/test.h"

/* Decodes the character at p and puts its length into *n. Returns UINT32_MAX if there is no valid character. The code
 * under test is not used here on purpose. */
TEST_UNUSED static uint32_t terminal_character(const unsigned char *p, size_t left, size_t *n)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    *n = p[0] < 0x80 ? 1 : p[0] >> 5 == 6 ? 2 : p[0] >> 4 == 14 ? 3 : p[0] >> 3 == 30 ? 4 : 0;
    if (*n == 0 || *n > left)
        return UINT32_MAX;
    uint32_t c = *n == 1 ? p[0] : p[0] & (0x7fu >> *n);
    for (size_t i = 1; i < *n; i++) {
        if (p[i] >> 6 != 2)
            return UINT32_MAX;
        c = c << 6 | (p[i] & 0x3f);
    }
    return c < least[*n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) ? UINT32_MAX : c;
}

TEST_UNUSED static bool terminal_harmless(uint32_t c)
{
    if (c == '\n')
        return true;
    return c != UINT32_MAX && c >= 0x20 && !(c >= 0x7f && c <= 0x9f) && !(c >= 0x2028 && c <= 0x202e) &&
           !(c >= 0x2066 && c <= 0x2069);
}

TEST_UNUSED static void check_harmless(const char *text, size_t size, const char *what)
{
    for (size_t i = 0, n; i < size; i += n) {
        const uint32_t c = terminal_character((const unsigned char *)text + i, size - i, &n);
        if (!terminal_harmless(c))
            FAIL("%s: byte %zu (0x%02x) is not safe for a terminal: %.200s", what, i, (unsigned char)text[i],
                 text + (i > 40 ? i - 40 : 0));
    }
}

#endif
