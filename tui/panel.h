/* SPDX-License-Identifier: MIT
 *
 * The live view at the bottom of a terminal, drawn in place while output scrolls above it.
 *
 * Threads: the panel has a thread that draws. It draws ten times a second while figures change, once a second
 * otherwise, and when the size of the terminal changes. Any other write to the same terminal must come between
 * tui_panel_pause() and tui_panel_resume(), on any thread, and must end with a newline.
 *
 * The cursor stays visible below the panel, and each colour ends with its line. So nothing has to be restored, even if
 * the program is killed. There can be only one panel at a time, because it handles SIGWINCH, SIGTSTP and SIGCONT until
 * it is closed.
 */
#ifndef GD_TUI_PANEL_H
#define GD_TUI_PANEL_H

#include <gpu_dispatch/observe.h>

struct tui_panel;

/* Sets *out to the snapshot to show, valid until the next call. Returns 0, or another value if there is nothing new.
 * Called on the drawing thread. */
typedef int tui_read_fn(void *user, const struct gd_snapshot **out);

/* Stops this process after a Ctrl-Z, and returns when the process continues. Called on the drawing thread. */
typedef void tui_suspend_fn(void);

/* Returns 0, or -1 with gd__fail_text(). */
int tui_panel_open(struct tui_panel **out, int fd, tui_read_fn *read, void *user, tui_suspend_fn *suspend);

/* Sets media of struct tui_view. Borrowed until the panel is closed. p may be NULL. */
void tui_panel_media(struct tui_panel *p, const char *media);

/* p may be NULL. */
void tui_panel_pause(struct tui_panel *p);
void tui_panel_resume(struct tui_panel *p);

/* Removes the panel from the terminal. read is not called after this. */
void tui_panel_close(struct tui_panel **p);

#endif
