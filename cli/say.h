/* SPDX-License-Identifier: MIT
 *
 * Messages of the command on standard error.
 */
#ifndef GD_CLI_SAY_H
#define GD_CLI_SAY_H

#include <stddef.h>

/* Sets the name at the beginning of every message. The default is "gpu-dispatch". name is not copied. */
void cli_set_name(const char *name);
const char *cli_name(void);

/* Prints "gpu-dispatch: MESSAGE\n" on standard error, in one write. Never shortens a message of gd__fail(). Messages
 * quote inputs, paths, workers and journals, so characters that a terminal would act on become '?'. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* From now on the lines of cli_say() go to fn, which is called on the thread that prints. With NULL they go to standard
 * error again. Must not be called while another thread may print. */
void cli_set_speaker(void (*fn)(void *user, const char *line, size_t size), void *user);

#endif
