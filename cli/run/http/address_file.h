/* SPDX-License-Identifier: MIT
 *
 * A file that only this user can read and that holds the page's address, with the token that was made for it, while
 * the run lasts. It is in the private directory of the user's runs (base/file/run_directory.h).
 */
#ifndef GD_CLI_RUN_HTTP_ADDRESS_FILE_H
#define GD_CLI_RUN_HTTP_ADDRESS_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Zeroed: there is none. */
struct cli_address_file {
    int directory, fd; /* 0: there is none */
    char name[64];
    char path[PATH_MAX + 64];
};

/* 0, or -1 with gd__fail_text(). */
int cli_address_file_open(struct cli_address_file *f, const char *address);

/* Removes it. */
void cli_address_file_close(struct cli_address_file *f);

/* The address of the page of a running process, of this user and in our PID namespace. False: it has none. */
bool cli_address_file_find(long pid, char *out, size_t size);

#endif
