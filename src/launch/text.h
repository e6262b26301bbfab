/* Figures and foreign words as people read them on a terminal. Pure: each writes to a buffer that it is given. */
#ifndef GD_LAUNCH_TEXT_H
#define GD_LAUNCH_TEXT_H

#include <stddef.h>
#include <stdint.h>

enum { GD__TEXT_FIGURE = 32 }; /* room enough for any of the figures below */

/* "850us", "1.2ms", "4.5s", "3m05s", "2h03m", "4d07h" */
void gd__text_seconds(char out[GD__TEXT_FIGURE], double seconds);

/* "5.4 files/s", "32 files/min", "1.5 files/h" */
void gd__text_rate(char *out, size_t room, double per_second, const char *what);

/* The length of what ("files") in the singular, which it is for a count of one: its last s is left out. */
int gd__text_noun(uint64_t count, const char *what);

/* Bytes from elsewhere, for a terminal: their first line that is not blank, without blanks at its ends. UTF-8 stays;
 * control characters and what is no UTF-8 become \xNN. At most room - 1 bytes, cut between characters and then ended
 * with "...". Returns the length. */
size_t gd__text_line(char *out, size_t room, const char *bytes, size_t size);

/* The same for a name: of a long one the end is kept, which tells more of a path, after "...". */
size_t gd__text_name(char *out, size_t room, const char *bytes, size_t size);

#endif
