/* SPDX-License-Identifier: MIT
 *
 * Counts the rows by which the echo of typed lines has moved the cursor, while no program reads the terminal.
 */
#ifndef GD_TUI_TYPED_LINES_H
#define GD_TUI_TYPED_LINES_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

struct tui_typed_lines {
    int fd;         /* the terminal */
    int own;        /* the same terminal, opened again, so that no other program shares its flags; -1: not open */
    int bytes;      /* bytes of whole lines that are waiting to be read */
    unsigned lines; /* lines counted so far */
    struct sigaction before;
};

/* Lines typed before this call are not counted. A process may have only one struct open at a time. */
void tui_typed_lines_open(struct tui_typed_lines *t, int fd);
void tui_typed_lines_close(struct tui_typed_lines *t);

/* Called on the drawing thread, which gets the signals after this. Lines are counted if on is true. They must not be
 * counted while a shell reads them. If lines cannot be counted, nothing happens. */
void tui_typed_lines_watch(struct tui_typed_lines *t, bool on);

/* Returns by how many rows the cursor has moved down since the last call. Any thread may call this, but only one at a
 * time. */
size_t tui_typed_lines_rows(struct tui_typed_lines *t);

#endif
