/* UTF-8, character by character (RFC 3629): no overlong forms, no surrogates, nothing beyond U+10FFFF. */
#ifndef GD_BASE_TEXT_UTF8_H
#define GD_BASE_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the number of bytes of the character at p, or 0 if no character begins there. left must be at least 1. */
size_t gd__utf8_length(const unsigned char *p, size_t left);

/* Does the same, and sets *code to the character's number. If no character begins there, sets it to U+FFFD. */
size_t gd__utf8_decode(const unsigned char *p, size_t left, uint32_t *code);

/* Writes the character to `to` (room for 4 bytes). Returns the number of bytes. */
size_t gd__utf8_encode(char *to, uint32_t code);

/* Returns the position of the first byte that is not part of a character, or size if all bytes are. */
size_t gd__utf8_valid(const char *text, size_t size);

/* True for characters that control a terminal or an editor, or that are invisible: both sets of control characters,
 * line and paragraph separators, and marks that change the direction of writing. */
bool gd__utf8_is_control(uint32_t code);

#endif
