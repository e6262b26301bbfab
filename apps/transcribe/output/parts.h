/* SPDX-License-Identifier: MIT
 *
 * Parts: files that are written beside their final place and renamed when they are complete. Private to outputs.c.
 *
 *     struct tr_part part = { .final = path, .fd = -1 };
 *     if (tr_part_create(&part, room) == 0) ...               // from here on the disk is known to be writable
 *     if (tr_part_fill(&part, &contents, false) == 0)
 *         tr_part_place(&part, false);
 *     tr_part_drop(&part);
 */
#ifndef GD_TRANSCRIBE_OUTPUT_PARTS_H
#define GD_TRANSCRIBE_OUTPUT_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/buffer.h"

/* One output while it is written. */
struct tr_part {
    char *final; /* its final path, freed with the part. NULL: not used */
    char *path;  /* the path of the part; NULL: no part, or it was renamed */
    int fd;
};

/* "PATH: what: the system's reason; what to do". Returns -1. */
int tr_path_error(const char *path, const char *what, int error);

/* Makes a directory and those above it. A directory that exists already, or that another process makes meanwhile, is
 * not an error. Returns 0, or -1 with gd__fail_text(). */
int tr_make_directories(char *path);

/* Opens a part in the directory of `beside`, with `room` bytes of disk space reserved if the file system can. Returns
 * 0, or -1 with errno. Call tr_part_drop() in either case. */
int tr_part_open(struct tr_part *part, const char *beside, uint64_t room);

/* Opens a part beside its final path, and makes missing directories. Returns 0, or -1 with gd__fail_text(), like the
 * next functions. */
int tr_part_create(struct tr_part *part, uint64_t room);

/* Writes the whole contents. A part that was removed meanwhile is made again first. */
int tr_part_fill(struct tr_part *part, const struct gd__buffer *contents, bool sync);
int tr_part_place(struct tr_part *part, bool sync);

/* Removes the part, unless it was renamed to its final path. */
void tr_part_drop(struct tr_part *part);

/* Removes parts whose writers are gone, in a directory and in the directories below it. */
void tr_parts_tidy(const char *directory);

#endif
