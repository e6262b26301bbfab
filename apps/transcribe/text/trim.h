/* SPDX-License-Identifier: MIT
 *
 * White space at the ends of a text.
 */
#ifndef GD_TRANSCRIBE_TEXT_TRIM_H
#define GD_TRANSCRIBE_TEXT_TRIM_H

#include <stdbool.h>
#include <stddef.h>

/* White space of ASCII. */
bool tr_is_space(char c);

/* Removes white space at both ends. */
const char *tr_trim(const char *text, size_t *size);

#endif
