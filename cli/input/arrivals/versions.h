/* SPDX-License-Identifier: MIT
 *
 * Which version of a file was seen last, for any number of files. A version is a file's size and the time of its last
 * change. Takes 48 bytes for each file, however long its path is.
 */
#ifndef GD_CLI_INPUT_ARRIVALS_VERSIONS_H
#define GD_CLI_INPUT_ARRIVALS_VERSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct cli_version {
    int64_t size, seconds, nanoseconds;
};

struct cli_version cli_version_of(const struct stat *st);
bool cli_version_equal(const struct cli_version *a, const struct cli_version *b);

/* A zeroed struct is empty. */
struct cli_versions {
    struct cli_version_entry *entries; /* private to versions.c */
    size_t n, room;
};

/* Stores the version of a path. Returns 1 if the path is new or had another version, 0 if not, and -1 with
 * gd__fail_text(). */
int cli_versions_put(struct cli_versions *v, const char *path, const struct cli_version *version);

/* The version of a path, borrowed until the next change of the table. NULL: the path has none. */
const struct cli_version *cli_versions_find(const struct cli_versions *v, const char *path);
void cli_versions_free(struct cli_versions *v);

#endif
