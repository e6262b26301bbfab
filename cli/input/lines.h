/* SPDX-License-Identifier: MIT
 *
 * Records of a file or of standard input, one after the other, of any length. A blocked read can be ended through a
 * descriptor.
 */
#ifndef GD_CLI_INPUT_LINES_H
#define GD_CLI_INPUT_LINES_H

#include <stddef.h>

struct cli_lines;

/* path "-" is standard input. After cancel_fd becomes readable, cli_lines_next() returns 0. Returns 0, or -1 with
 * gd__fail_text(): no such file, or a directory. */
int cli_lines_open(struct cli_lines **out, const char *path, char delimiter, int cancel_fd);

/* Returns 1 with the next record without its delimiter, borrowed until the next call; 0 at the end; -1 with
 * gd__fail_text(). The last record may lack its delimiter. */
int cli_lines_next(struct cli_lines *l, const char **data, size_t *size);

void cli_lines_close(struct cli_lines **l); /* NULL is fine */

#endif
