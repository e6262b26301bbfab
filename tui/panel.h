/* SPDX-License-Identifier: MIT
 *
 * The live view at the bottom of a terminal, drawn in place while output scrolls above it.
 *
 * Threads: a thread of its own draws: ten times a second while figures change, once a second otherwise, and when the
 * terminal changes its size. Everyone who writes to the same terminal does so between tui_panel_pause() and
 * tui_panel_resume(), from any thread; what they write ends with a newline.
 *
 * The cursor stays visible, below the panel; colours never reach beyond a line. So there is nothing to restore, however
 * the program ends. One panel at a time: it takes SIGWINCH, SIGTSTP and SIGCONT for itself until it is closed.
 */
#ifndef GD_TUI_PANEL_H
#define GD_TUI_PANEL_H

#include <gpu_dispatch/observe.h>

struct tui_panel;

/* Gives what is to be shown, valid until the next call; anything but 0: there is nothing new. Called on the drawing
 * thread, and by tui_panel_close(). */
typedef int tui_read_fn(void *user, const struct gd_snapshot **out);

/* Stops this process, as Ctrl-Z asks for, and returns when it goes on. Called on the drawing thread. */
typedef void tui_suspend_fn(void);

/* 0, or -1 with gd__fail_text(). */
int tui_panel_open(struct tui_panel **out, int fd, tui_read_fn *read, void *user, tui_suspend_fn *suspend);

/* What the run's work is seconds of (struct tui_view): borrowed until the panel is closed. NULL is fine for p. */
void tui_panel_media(struct tui_panel *p, const char *media);

/* NULL is fine for these. */
void tui_panel_pause(struct tui_panel *p);
void tui_panel_resume(struct tui_panel *p);

/* Takes it off the terminal. read is not called any more. */
void tui_panel_close(struct tui_panel **p);

#endif
