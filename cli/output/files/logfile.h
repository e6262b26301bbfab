/* SPDX-License-Identifier: MIT
 *
 * A file that grows line by line, each line in one write. Used by --output and --joblog.
 */
#ifndef GD_CLI_OUTPUT_FILES_LOGFILE_H
#define GD_CLI_OUTPUT_FILES_LOGFILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/text/buffer.h"

struct cli_logfile {
    int fd;
    bool broken; /* a write failed: nothing more is written */
    bool unread; /* the write failed because the reader went away; this is not reported */
    char *path;
    off_t end;              /* length up to the last complete line; -1: not known (a pipe, a terminal) */
    struct gd__buffer line; /* the next line; the caller fills it */
};

/* "-" is standard output. Returns 0, or -1 with gd__fail_text(). */
int cli_logfile_open(struct cli_logfile *f, const char *path, bool append);

/* Writes the line and empties it. */
int cli_logfile_put(struct cli_logfile *f);

int cli_logfile_close(struct cli_logfile *f);

#endif
