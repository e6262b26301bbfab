/* SPDX-License-Identifier: MIT
 *
 * Files that are either complete or absent: they are written as NAME.part and renamed when they are complete.
 */
#ifndef GD_BASE_FILE_REPLACE_H
#define GD_BASE_FILE_REPLACE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct gd__replacement {
    FILE *to;        /* write here */
    char *path;      /* its final name */
    char *temporary; /* its name until it is complete; NULL: it is not renamed */
};

/* Begins a file that replaces the one at path. If named is true, the user chose this name: a link is followed and its
 * target is replaced in the target's directory, and a device or a pipe is written to directly. If named is false, the
 * file, link or device with that name is itself replaced. Returns 0, or -1 with gd__fail_text(). */
int gd__replace_begin(struct gd__replacement *r, const char *path, bool named);

/* If rc is 0 and wanted is true, puts the file in place. Otherwise the old file stays. Frees the members of r, even if
 * gd__replace_begin() failed. Returns rc if that is not 0, otherwise 0 or -1 with gd__fail_text(). */
int gd__replace_end(struct gd__replacement *r, int rc, bool wanted);

/* Creates a file with a temporary name in a directory and opens it for writing. With AT_FDCWD name is a path. A file
 * with that name is removed first, because a killed run may have left it. A link is never followed. Returns the
 * descriptor, or -1 with errno. */
int gd__open_temporary(int directory, const char *name, mode_t mode);

/* Returns the path of the file that a path leads to, even if that file does not exist yet. The caller frees it. On
 * failure returns NULL with errno. */
char *gd__link_target(const char *path);

#endif
