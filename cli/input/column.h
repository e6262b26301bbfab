/* SPDX-License-Identifier: MIT
 *
 * A column of arguments that is held in memory. It is one of several sources, or a source that must be read completely
 * first.
 */
#ifndef GD_CLI_INPUT_COLUMN_H
#define GD_CLI_INPUT_COLUMN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/launch.h>

#include "base/text/buffer.h"

/* Holds either texts one after the other, or a list of files. A zeroed struct is empty. */
struct cli_column {
    bool link;              /* has one argument for each argument of the column before it */
    struct gd__buffer text; /* the arguments */
    struct gd__buffer ends; /* a size_t for each: where it ends */
    struct gd_files *files; /* or a list of files */
    bool borrowed;          /* the files belong to the caller */
};

size_t cli_column_count(const struct cli_column *c);

/* A failure is reported by cli_column_failed(). */
void cli_column_add(struct cli_column *c, const void *data, size_t size);
bool cli_column_failed(const struct cli_column *c);

/* The i-th argument. Past the end it is empty. */
void cli_column_get(const struct cli_column *c, size_t i, const char **data, size_t *size);
uint64_t cli_column_weight(const struct cli_column *c, size_t i); /* 0: not known */

void cli_column_free(struct cli_column *c);

#endif
