/* SPDX-License-Identifier: MIT
 *
 * Loads the transcription worker for a moment, to see whether that works.
 */
#ifndef GD_CLI_COMMANDS_TRANSCRIBE_TRY_WORKER_H
#define GD_CLI_COMMANDS_TRANSCRIBE_TRY_WORKER_H

#include "base/text/buffer.h"

/* Checks that the plugin and its libraries can be loaded. Appends what the plugin says about itself (engine/about.h);
 * nothing, if it says nothing. Returns 0, or -1 with gd__fail_text(). No thread may run in this process. */
int cli_transcriber_try(const char *path, struct gd__buffer *about);

#endif
