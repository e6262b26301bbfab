/* SPDX-License-Identifier: MIT
 *
 * What `export` shares between journals and queues: where records go, and in which form.
 */
#ifndef GD_CLI_COMMANDS_EXPORT_H
#define GD_CLI_COMMANDS_EXPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/text/buffer.h"

struct exporter {
    bool csv;    /* else JSON lines */
    bool failed; /* only failed tasks */
    const char *output;
    FILE *to;
    bool json_input; /* payloads are JSON texts */
    int error;       /* errno of a failed write */
    struct gd__buffer line, payload;
};

/* Writes all records of a source. Returns 0, or -1 with gd__fail_text() unless x->error is set. */
typedef int export_source(struct exporter *x, void *user);

/* Writes x->line. Returns 0 or a negative code. */
int export_write(struct exporter *x);

#endif
