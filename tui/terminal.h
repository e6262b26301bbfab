/* SPDX-License-Identifier: MIT
 *
 * What is to be known of a terminal before anything is drawn on it.
 */
#ifndef GD_TUI_TERMINAL_H
#define GD_TUI_TERMINAL_H

#include <stdbool.h>

struct tui_terminal {
    bool colour;  /* NO_COLOR is not set */
    bool utf8;    /* the locale's characters are */
    bool rewraps; /* lines that became too long when it was narrowed take several rows then */
};

/* Whether a descriptor is a terminal that can be drawn on: TERM is set and not "dumb". */
bool tui_can_draw(int fd);

void tui_terminal_of(struct tui_terminal *t);

/* Its size; 80 x 24 if it does not say. */
void tui_size(int fd, unsigned *width, unsigned *height);

/* Whether we are in the foreground of it: who is not must not draw. */
bool tui_in_foreground(int fd);

#endif
