/* SPDX-License-Identifier: MIT
 *
 * The files of a directory that grows: first those that are there, then new ones as they are completed.
 *
 *     struct cli_arrivals_options o = { .what = &what, .cancel_fd = fd };
 *     if (cli_arrivals_open(&a, "in", &o) < 0)
 *         ... gd__fail_text()
 *     while (cli_arrivals_next(a, &path, &size) > 0) ...
 *
 * A file is given again if it is written again and its size or time differs. A file that was changed in the last two
 * seconds when it is found by a search is given only when it is closed, or was not changed for two seconds.
 *
 * On file systems that other machines use, the kernel does not report what they do. There the directory is searched every
 * five seconds, and a file is given when it has not changed for a minute, or between two searches.
 */
#ifndef GD_CLI_INPUT_ARRIVALS_ARRIVALS_H
#define GD_CLI_INPUT_ARRIVALS_ARRIVALS_H

#include <stdbool.h>
#include <stdint.h>

#include <gpu_dispatch/launch.h>

struct cli_arrivals_options {
    const struct gd_discover *what; /* patterns, recursive, hidden, on_problem; borrowed until the close */
    enum gd_file_order order;       /* of files that are found at the same time */
    uint64_t idle_ms;               /* end after this time without a new file; 0: never */
    int cancel_fd;                  /* readable: end */
    /* Called before a file is given. Returns false to leave it out. May change *size. NULL: all files are given. */
    bool (*accept)(void *user, const char *path, uint64_t *size);
    void *user;
};

struct cli_arrivals;

/* Returns 0, or -1 with gd__fail_text(). A directory without files is fine. */
int cli_arrivals_open(struct cli_arrivals **out, const char *dir, const struct cli_arrivals_options *o);

/* Waits for the next file. Returns 1 with the file, borrowed until the next call; 0 at the end; -1 with gd__fail_text(). */
int cli_arrivals_next(struct cli_arrivals *a, const char **path, uint64_t *size);
void cli_arrivals_close(struct cli_arrivals **a); /* NULL is fine */

#endif
