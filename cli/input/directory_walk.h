/* SPDX-License-Identifier: MIT
 *
 * The files of a folder as they are found, one at a time: gd_discover_files() turned from a call that gives into one
 * that is asked, in constant memory.
 */
#ifndef GD_CLI_INPUT_DIRECTORY_WALK_H
#define GD_CLI_INPUT_DIRECTORY_WALK_H

#include <stdint.h>

#include <gpu_dispatch/launch.h>

struct cli_directory_walk;

/* what is copied, its patterns are borrowed until the close. Starts searching and waits for the first file. 0, or -1
 * with gd__fail_text(): no such folder, nothing found. */
int cli_directory_walk_open(struct cli_directory_walk **out, const char *dir, const struct gd_discover *what);

/* 1: the next file, borrowed until the next call; 0: the end, or stopped; -1: gd__fail_text(). */
int cli_directory_walk_next(struct cli_directory_walk *w, const char **path, uint64_t *size);

void cli_directory_walk_stop(
    struct cli_directory_walk *w); /* a waiting cli_directory_walk_next() returns 0; any thread */
void cli_directory_walk_close(struct cli_directory_walk **w);

/* Complains of nothing found, in the words that both ways of searching have. Returns -1. */
int cli_directory_walk_nothing(const char *dir, const struct gd_discover *what);

#endif
