/* SPDX-License-Identifier: MIT
 *
 * A file with the page's address and the token that was made for it. It exists while the run lasts. Only this user can
 * read it. It is in the private directory of the user's runs (base/file/run_directory.h).
 */
#ifndef GD_CLI_RUN_HTTP_ADDRESS_FILE_H
#define GD_CLI_RUN_HTTP_ADDRESS_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* A zeroed struct means no file. */
struct cli_address_file {
    int directory, fd; /* 0: no file */
    char name[64];
    char path[PATH_MAX + 64];
};

/* Writes the file. Returns 0, or -1 with gd__fail_text(). */
int cli_address_file_open(struct cli_address_file *f, const char *address);

/* Removes the file. */
void cli_address_file_close(struct cli_address_file *f);

/* Finds the address of the page of a running process. The process must belong to this user and be in our PID namespace.
 * False: it has no page. */
bool cli_address_file_find(long pid, char *out, size_t size);

#endif
