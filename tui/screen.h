/* SPDX-License-Identifier: MIT
 *
 * Takes over the whole terminal for a while: uses the alternate screen, reads each key when it is pressed, and reports
 * signals as events. When it is closed, the terminal shows again what it showed before.
 */
#ifndef GD_TUI_SCREEN_H
#define GD_TUI_SCREEN_H

#include <stdbool.h>

#include "base/text/buffer.h"

struct tui_screen;

enum tui_event {
    TUI_TICK,    /* the time is up */
    TUI_OTHER,   /* the other descriptor is readable */
    TUI_RESIZED, /* draw again: the size has changed, or the process continues after a stop */
    TUI_LEAVE,   /* q, Escape, Ctrl-C, Ctrl-D, SIGTERM, SIGHUP, or the terminal is gone */
    TUI_UP,
    TUI_DOWN,
    TUI_ENTER,
    TUI_DIGIT, /* tui_screen_digit() */
};

/* Uses standard input and output. Only one screen may be open at a time. Returns 0, or -1 with gd__fail_text(). */
int tui_screen_open(struct tui_screen **out);

/* Puts lines (each with its newline) on the screen. Only changed lines are written. */
void tui_screen_draw(struct tui_screen *s, const struct gd__buffer *lines);

/* Waits for the first event. other: a descriptor to watch; -1: none. */
enum tui_event tui_screen_wait(struct tui_screen *s, int other, int timeout_ms);
int tui_screen_digit(const struct tui_screen *s);

/* s may be NULL. */
void tui_screen_close(struct tui_screen **s);

#endif
