/* SPDX-License-Identifier: MIT
 *
 * What is typed at a terminal that nobody reads just now: by how many rows its echo has moved the cursor.
 */
#ifndef GD_TUI_TYPED_LINES_H
#define GD_TUI_TYPED_LINES_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

struct tui_typed_lines {
    int fd;         /* the terminal */
    int own;        /* the same, opened by ourselves: what we ask of that is no other program's business; -1: none */
    int bytes;      /* of whole lines that nobody has read */
    unsigned lines; /* counted by now */
    struct sigaction before;
};

/* What was typed before is not counted. One at a time in a process. */
void tui_typed_lines_open(struct tui_typed_lines *t, int fd);
void tui_typed_lines_close(struct tui_typed_lines *t);

/* On the thread that draws, which takes the signals from then on: counts lines, or lets them pass, as while a shell
 * reads them. Where lines cannot be counted nothing happens. */
void tui_typed_lines_watch(struct tui_typed_lines *t, bool on);

/* Rows that the cursor has gone down since it was last asked. Any thread, one at a time. */
size_t tui_typed_lines_rows(struct tui_typed_lines *t);

#endif
