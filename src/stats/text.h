/* Text from anywhere, made fit for a terminal. */
#ifndef GD_STATS_TEXT_H
#define GD_STATS_TEXT_H

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

#endif
