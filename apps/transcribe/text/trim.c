/* SPDX-License-Identifier: MIT
 *
 * Removes white space at the ends of a text.
 */
#include "apps/transcribe/text/trim.h"

bool tr_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

const char *tr_trim(const char *text, size_t *size)
{
    while (*size > 0 && tr_is_space(*text)) {
        text++;
        --*size;
    }
    while (*size > 0 && tr_is_space(text[*size - 1]))
        --*size;
    return text;
}
