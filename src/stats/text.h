/* Text from anywhere, made fit for a terminal. */
#ifndef GD_STATS_TEXT_H
#define GD_STATS_TEXT_H

#include <stddef.h>

/* Writes at most room - 1 bytes and a NUL; returns how many. The text ends at size or at a NUL. White space of any kind
 * and length becomes one blank, with none at either end; what is not UTF-8, controls of either set, and the characters
 * that turn the direction of writing become '?'. Nothing is cut within a character. */
size_t gd__text_fit(char *to, size_t room, const char *from, size_t size);

#endif
