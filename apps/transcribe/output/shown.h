/* SPDX-License-Identifier: MIT
 *
 * Paths as they stand in the words of an error: one line, nothing in it that a terminal or a log would act on, and
 * short enough to leave room for what is wrong.
 */
#ifndef GD_TRANSCRIBE_OUTPUT_SHOWN_H
#define GD_TRANSCRIBE_OUTPUT_SHOWN_H

#include <stddef.h>

enum { TR_SHOWN = 256 };

/* Each byte of size that is of no UTF-8 character, or of one that controls something, becomes '?'. */
void tr_show(char *text, size_t size);

/* A path so; the middle of what is long becomes "...". Returns room. */
const char *tr_shown(char room[TR_SHOWN], const char *path);

/* A path's last part so; what is long is shortened at its beginning. Never more than size bytes with the NUL; 8 at
 * least. */
void tr_shown_name(char *out, size_t size, const char *path);

#endif
