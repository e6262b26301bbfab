/* SPDX-License-Identifier: MIT
 *
 * A column of arguments that is held in memory: one source of several, or one that has to be known whole.
 */
#ifndef GD_CLI_INPUT_COLUMN_H
#define GD_CLI_INPUT_COLUMN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gpu_dispatch/launch.h>

#include "base/text/buffer.h"

/* Zeroed is empty. Either texts one after the other, or a list of files. */
struct cli_column {
    bool link;              /* goes in step with the one before */
    struct gd__buffer text; /* the arguments */
    struct gd__buffer ends; /* a size_t for each: where it ends */
    struct gd_files *files; /* or these */
    bool borrowed;          /* the files are somebody else's */
};

size_t cli_column_count(const struct cli_column *c);

void cli_column_add(struct cli_column *c, const void *data, size_t size); /* a failure shows in cli_column_failed() */
bool cli_column_failed(const struct cli_column *c);

/* The i-th; one that is not there is empty. */
void cli_column_get(const struct cli_column *c, size_t i, const char **data, size_t *size);
uint64_t cli_column_weight(const struct cli_column *c, size_t i); /* 0: not known */

void cli_column_free(struct cli_column *c);

#endif
