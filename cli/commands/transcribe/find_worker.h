/* SPDX-License-Identifier: MIT
 *
 * Where the transcription worker is: a plugin, since it needs libraries that gpu-dispatch does without.
 */
#ifndef GD_CLI_COMMANDS_TRANSCRIBE_FIND_WORKER_H
#define GD_CLI_COMMANDS_TRANSCRIBE_FIND_WORKER_H

/* Its path, to be freed; NULL if there is none, which was said, with how to get it. */
char *cli_transcriber_find(void);

/* Whether it and the libraries that it needs can be loaded: loads it, for good. 0, or -1 with gd__fail_text(). */
int cli_transcriber_load(const char *path);

#endif
