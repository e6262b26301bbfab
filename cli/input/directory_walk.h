/* SPDX-License-Identifier: MIT
 *
 * The files of a directory, one at a time as they are found. gd_discover_files() calls a function for each file. Here,
 * the caller calls a function to get the next file. This takes constant memory.
 */
#ifndef GD_CLI_INPUT_DIRECTORY_WALK_H
#define GD_CLI_INPUT_DIRECTORY_WALK_H

#include <stdint.h>

#include <gpu_dispatch/launch.h>

struct cli_directory_walk;

/* `what` is copied, but its patterns are borrowed until the close. Starts the search and waits for the first file.
 * Returns 0, or -1 with gd__fail_text(): no such directory, nothing found. */
int cli_directory_walk_open(struct cli_directory_walk **out, const char *dir, const struct gd_discover *what);

/* Returns 1 with the next file, borrowed until the next call; 0 at the end, or if stopped; -1 with gd__fail_text(). */
int cli_directory_walk_next(struct cli_directory_walk *w, const char **path, uint64_t *size);

/* Makes a waiting cli_directory_walk_next() return 0. Any thread. */
void cli_directory_walk_stop(struct cli_directory_walk *w);
void cli_directory_walk_close(struct cli_directory_walk **w);

/* Sets the error message for "nothing found". Other code that searches a directory uses it too. Returns -1. */
int cli_directory_walk_nothing(const char *dir, const struct gd_discover *what);

#endif
