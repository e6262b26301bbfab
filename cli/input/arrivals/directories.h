/* SPDX-License-Identifier: MIT
 *
 * What happens in a directory, and in its subdirectories if asked: which files are complete, which directories are new.
 * Built on inotify, so it works only for changes that this machine makes.
 *
 * A file is complete when a program that has written to it closes it, when it is moved in, or when it appears at once: as
 * a symbolic link, or as another name of an existing file.
 */
#ifndef GD_CLI_INPUT_ARRIVALS_DIRECTORIES_H
#define GD_CLI_INPUT_ARRIVALS_DIRECTORIES_H

#include <stdbool.h>

enum cli_change {
    CLI_CHANGE_FILE = 0,      /* this file is complete */
    CLI_CHANGE_DIRECTORY = 1, /* this directory is new; it is watched now, and may have files already */
    CLI_CHANGE_LOST = 2,      /* changes were lost, because there were too many: everything must be looked at again */
    CLI_CHANGE_NAME = 3,      /* this file has got its name; it may be complete, or still be written to */
};

/* path: NULL for LOST; borrowed until the function returns. Returns 0 to continue, or -1 with gd__fail_text(). */
typedef int cli_change_fn(void *user, enum cli_change what, const char *path);

struct cli_directories;

/* Begins to watch. Hidden subdirectories are left out unless `hidden` is set, and symbolic links to directories are not
 * followed. Returns 0, or -1 with gd__fail_text(). */
int cli_directories_open(struct cli_directories **out, const char *root, bool recursive, bool hidden);
void cli_directories_close(struct cli_directories **d); /* NULL is fine */

/* Readable when something has happened. */
int cli_directories_fd(const struct cli_directories *d);

/* Calls fn for everything that has happened. Returns 0, or -1 with gd__fail_text(): fn failed, or the root was moved,
 * removed or unmounted. */
int cli_directories_read(struct cli_directories *d, cli_change_fn *fn, void *user);

#endif
