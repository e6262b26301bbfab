/* SPDX-License-Identifier: MIT
 *
 * Finds the transcription worker. It is a plugin, since it needs libraries that gpu-dispatch itself does not need.
 */
#ifndef GD_CLI_COMMANDS_TRANSCRIBE_FIND_WORKER_H
#define GD_CLI_COMMANDS_TRANSCRIBE_FIND_WORKER_H

/* Returns the path of the worker, which the caller frees. If the worker is not found, prints a message with advice on
 * how to get it, and returns NULL. */
char *cli_transcriber_find(void);

#endif
