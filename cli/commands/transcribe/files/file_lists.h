/* SPDX-License-Identifier: MIT
 *
 * Lists of audio files: the files of --arg-file.
 */
#ifndef GD_CLI_COMMANDS_TRANSCRIBE_FILES_FILE_LISTS_H
#define GD_CLI_COMMANDS_TRANSCRIBE_FILES_FILE_LISTS_H

#include "cli/commands/transcribe/transcribe_options.h"

/* Reads all lists and adds their paths to the inputs. Empty lines are skipped. A list without a path is an error. Returns
 * 0, or -1 with gd__fail_text(). */
int cli_file_lists_read(struct cli_transcribe *t);

#endif
