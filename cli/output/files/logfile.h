/* SPDX-License-Identifier: MIT
 *
 * A file that grows by a line at a time, each line in one write: what --output and --joblog have in common.
 */
#ifndef GD_CLI_OUTPUT_FILES_LOGFILE_H
#define GD_CLI_OUTPUT_FILES_LOGFILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/text/buffer.h"

struct cli_logfile {
    int fd;
    bool broken; /* a write has failed and was told of: nothing more is written */
    bool unread; /* because its reader went away; nothing was told */
    char *path;
    off_t end;              /* of what is whole; -1: no file that has an end */
    struct gd__buffer line; /* to be filled */
};

/* "-" is standard output. 0, or -1 with gd__fail_text(). */
int cli_logfile_open(struct cli_logfile *f, const char *path, bool append);

/* Writes the line and empties it. */
int cli_logfile_put(struct cli_logfile *f);

int cli_logfile_close(struct cli_logfile *f);

#endif
