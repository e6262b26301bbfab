/* SPDX-License-Identifier: MIT
 *
 * The properties of a terminal that drawing depends on.
 */
#ifndef GD_TUI_TERMINAL_H
#define GD_TUI_TERMINAL_H

#include <stdbool.h>

struct tui_terminal {
    bool colour;  /* NO_COLOR is not set */
    bool utf8;    /* the locale's characters are UTF-8 */
    bool rewraps; /* when it is made narrower, long lines wrap onto several rows */
};

/* Whether a descriptor is a terminal that can be drawn on: TERM is set and not "dumb". */
bool tui_can_draw(int fd);

void tui_terminal_of(struct tui_terminal *t);

/* Gets the size of the terminal, or 80 x 24 if it is not known. */
void tui_size(int fd, unsigned *width, unsigned *height);

/* True if this process is in the foreground of the terminal. A process in the background must not draw. */
bool tui_in_foreground(int fd);

#endif
