/* Text from anywhere, made fit for a terminal. */
#ifndef GD_BASE_TEXT_PRINTABLE_H
#define GD_BASE_TEXT_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>

/* Writes at most room - 1 bytes and a NUL; returns how many. The text ends at size or at a NUL. White space of any kind
 * and length becomes one blank, with none at either end; what is not UTF-8, controls of either set, and the characters
 * that turn the direction of writing become '?'. Nothing is cut within a character. */
size_t gd__text_fit(char *to, size_t room, const char *from, size_t size);

enum { GD__TEXT_LOOKED_AT = 4097 }; /* bytes: what is as long as this is no path */

/* What is kept of a text of which at most room bytes (> 4) can be; returns how many, no NUL after them. The text ends
 * at size or at a NUL. Of a path that is too long it is the end, after "…", and so much of it that gd__text_fit() into
 * as much room has all of it; of anything else the beginning. */
size_t gd__text_keep(char *to, size_t room, const char *from, size_t size);

/* In place: each byte that belongs to no UTF-8 character becomes '?', and so does each byte of a control character
 * (gd__utf8_is_control()). With `lines`, line ends and tabs stay. */
void gd__text_plain(char *text, size_t size, bool lines);

/* The first line of the bytes that is not blank, without blanks at its ends. UTF-8 stays; control characters and bytes
 * that are not UTF-8 become \xNN. At most room - 1 bytes, cut between characters and then ended with "...". Returns the
 * length. */
size_t gd__text_line(char *out, size_t room, const char *bytes, size_t size);

/* The same for a name. If it is too long its end is kept, after "...", since the end of a path says more. */
size_t gd__text_name(char *out, size_t room, const char *bytes, size_t size);

#endif
