/* Makes text from any source safe to show on a terminal. */
#ifndef GD_BASE_TEXT_PRINTABLE_H
#define GD_BASE_TEXT_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>

/* Writes at most room - 1 bytes and a NUL. Returns the number of bytes. The text ends at size or at a NUL. Each run of
 * white space becomes one blank, and blanks at both ends are dropped. Bytes that are not UTF-8 and control characters
 * (gd__utf8_is_control()) become '?'. The text is not cut within a character. */
size_t gd__text_fit(char *to, size_t room, const char *from, size_t size);

enum { GD__TEXT_LOOKED_AT = 4097 }; /* bytes: a text of this size is not a path */

/* Copies the most useful part of a text, at most room bytes (> 4), without a NUL. Returns the number of bytes. The text
 * ends at size or at a NUL. If a path is too long, its end is kept, after an ellipsis. gd__text_fit() with the same
 * room does not cut that again. For other texts the beginning is kept. */
size_t gd__text_keep(char *to, size_t room, const char *from, size_t size);

/* Changes the text in place: each byte that is not part of a UTF-8 character, and each byte of a control character
 * (gd__utf8_is_control()), becomes '?'. With `lines`, line ends and tabs stay. */
void gd__text_plain(char *text, size_t size, bool lines);

/* Copies the first line that is not blank, without blanks at its ends. UTF-8 stays. Control characters and bytes that
 * are not UTF-8 become \xNN. Writes at most room - 1 bytes: a longer line is cut between characters and ends with
 * "...". Returns the length. */
size_t gd__text_line(char *out, size_t room, const char *bytes, size_t size);

/* The same for a name. If it is too long, its end is kept, after "...", because the end of a path is the more useful
 * part. */
size_t gd__text_name(char *out, size_t room, const char *bytes, size_t size);

/* Copies one line of an error message: its first line, as gd__text_line() writes it. If that line ends with a colon,
 * the last line of the message, which has the cause, is appended. If the first line begins a Python traceback, only the
 * last line is copied. Returns the length. */
size_t gd__text_cause(char *out, size_t room, const char *message);

#endif
