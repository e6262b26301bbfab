/* SPDX-License-Identifier: MIT
 *
 * Parts: files that are written beside their place and renamed when they are whole. Private to outputs.c.
 *
 *     struct tr_part part = { .final = path, .fd = -1 };
 *     if (tr_part_create(&part, room) == 0) ...               // whether it can be written is known by now
 *     if (tr_part_fill(&part, &contents, false) == 0)
 *         tr_part_place(&part, false);
 *     tr_part_drop(&part);
 */
#ifndef GD_TRANSCRIBE_OUTPUT_PARTS_H
#define GD_TRANSCRIBE_OUTPUT_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/buffer.h"

/* One output on its way. */
struct tr_part {
    char *final; /* what it is to become; owned. NULL: nothing */
    char *path;  /* NULL: there is none (any more) */
    int fd;
};

/* "PATH: what: the system's reason; what to do". Returns -1. */
int tr_path_error(const char *path, const char *what, int error);

/* Makes a folder and those above it. One that is there already, or that somebody else makes meanwhile, is fine. 0, or
 * -1 with gd__fail_text(). */
int tr_make_folders(char *path);

/* A part in the folder that `beside` is in, with so many bytes of the disk set aside for it where the file system can.
 * 0, or -1 with errno; to be dropped in either case. */
int tr_part_open(struct tr_part *part, const char *beside, uint64_t room);

/* Beside what it is to become, with the folders that it takes. 0, or -1 with gd__fail_text(), as for what follows. */
int tr_part_create(struct tr_part *part, uint64_t room);

/* All that it holds. One that somebody has removed meanwhile is made again first. */
int tr_part_fill(struct tr_part *part, const struct gd__buffer *contents, bool sync);
int tr_part_place(struct tr_part *part, bool sync);

/* Removes it, unless it has its place. */
void tr_part_drop(struct tr_part *part);

/* Removes parts in a folder, and in those below it, whose writers are gone. */
void tr_parts_tidy(const char *folder);

#endif
