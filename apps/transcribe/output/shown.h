/* SPDX-License-Identifier: MIT
 *
 * Paths in error messages: on one line, without anything that a terminal or a log would act on, and short enough to
 * leave room for the message.
 */
#ifndef GD_TRANSCRIBE_OUTPUT_SHOWN_H
#define GD_TRANSCRIBE_OUTPUT_SHOWN_H

#include <stddef.h>

enum { TR_SHOWN = 256 };

/* Replaces bytes by '?' if they are not part of a UTF-8 character, or are part of a control character. */
void tr_show(char *text, size_t size);

/* Makes a path safe to print. The middle of a long path becomes "...". Returns room. */
const char *tr_shown(char room[TR_SHOWN], const char *path);

/* The same for a path's last component, which is shortened at its beginning. Writes at most size bytes with the NUL;
 * size is at least 8. */
void tr_shown_name(char *out, size_t size, const char *path);

#endif
