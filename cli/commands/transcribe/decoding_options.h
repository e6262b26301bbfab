/* SPDX-License-Identifier: MIT
 *
 * Options of `gpu-dispatch transcribe` that set how audio is decoded to text, and options that users of OpenAI's Whisper
 * and of faster-whisper know.
 */
#ifndef GD_CLI_COMMANDS_TRANSCRIBE_DECODING_OPTIONS_H
#define GD_CLI_COMMANDS_TRANSCRIBE_DECODING_OPTIONS_H

#include "cli/options.h"

/* Sets the member of a struct tr_settings that has the name of the option: --best-of sets best_of. */
cli_opt_set cli_set_setting;
cli_opt_set cli_set_setting_list; /* the same, and an empty value is allowed */
cli_opt_set cli_set_setting_on;   /* the same for a switch */

cli_opt_set cli_set_task;   /* bool, true for "translate" */
cli_opt_set cli_set_device; /* bool, true for "cpu" */

cli_opt_set cli_set_split;      /* string; NULL for "auto" */
cli_opt_set cli_set_decoder;    /* string; NULL for "whisper.cpp" */
cli_opt_set cli_set_batch_size; /* number; 0 for "auto" */

#endif
