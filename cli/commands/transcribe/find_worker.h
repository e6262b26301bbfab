/* SPDX-License-Identifier: MIT
 *
 * Finds the transcription worker. It is a plugin, since it needs libraries that gpu-dispatch itself does not need.
 */
#ifndef GD_CLI_COMMANDS_TRANSCRIBE_FIND_WORKER_H
#define GD_CLI_COMMANDS_TRANSCRIBE_FIND_WORKER_H

/* Returns the path of the worker, which the caller frees. If the worker is not found, prints a message with advice on
 * how to get it, and returns NULL. */
char *cli_transcriber_find(void);

/* Checks that the plugin and its libraries can be loaded, by loading it. It stays loaded. Returns 0, or -1 with
 * gd__fail_text(). */
int cli_transcriber_load(const char *path);

#endif
