/* SPDX-License-Identifier: MIT
 *
 * Messages of the command on standard error.
 */
#ifndef GD_CLI_SAY_H
#define GD_CLI_SAY_H

#include <stddef.h>

/* The name at the beginning of every message: "gpu-dispatch", unless it was called by another. Static. */
void cli_set_name(const char *name);
const char *cli_name(void);

/* Prints "gpu-dispatch: MESSAGE\n" on standard error, in one write. A message of gd__fail() fits whole. Messages quote
 * inputs, paths, workers and journals, so characters that a terminal would act on become '?'. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* From now on the lines of cli_say() go to fn, which is called on the thread that prints. NULL: to standard error
 * again. Not to be called while another thread may print. */
void cli_set_speaker(void (*fn)(void *user, const char *line, size_t size), void *user);

#endif
