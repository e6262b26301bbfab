/* SPDX-License-Identifier: MIT
 *
 * Files that are whole or not there: written as NAME.part and renamed when they are complete.
 */
#ifndef GD_BASE_FILE_REPLACE_H
#define GD_BASE_FILE_REPLACE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct gd__replacement {
    FILE *to;        /* write here */
    char *path;      /* what it will be called */
    char *temporary; /* what it is called until then; NULL: there is nothing to rename */
};

/* Begins a file that takes the place of path. named: a person gave this name. Then a link is followed, and the file
 * that it leads to is replaced in its own directory; and a device or a pipe is written to as it is. Otherwise the name
 * itself is replaced, whatever it is. 0, or -1 with gd__fail_text(). */
int gd__replace_begin(struct gd__replacement *r, const char *path, bool named);

/* Puts it in its place, if rc is 0 and it is wanted; else what was there before stays. Frees all that r holds, also if
 * it could not be begun. Returns rc if that is not 0; 0, or -1 with gd__fail_text(). */
int gd__replace_end(struct gd__replacement *r, int rc, bool wanted);

/* Makes a file of a temporary name in a directory (AT_FDCWD: in that of the path), open for writing. What has this
 * name, a killed run may have left it, is removed; a link is never followed. -1 with errno. */
int gd__open_temporary(int directory, const char *name, mode_t mode);

/* The file that a path leads to, also one that is not there yet. To be freed. NULL with errno. */
char *gd__link_target(const char *path);

#endif
