/* SPDX-License-Identifier: MIT
 *
 * The text by which a journal identifies a transcription, and how this text is shown to users.
 */
#ifndef GD_CLI_COMMANDS_TRANSCRIBE_IDENTITY_H
#define GD_CLI_COMMANDS_TRANSCRIBE_IDENTITY_H

#include "apps/transcribe/engine/settings.h"
#include "base/text/buffer.h"

/* Appends the identity: all settings that change the text or where it is written. Settings that only choose the device
 * or the speed are left out. */
void cli_transcribe_identify(struct gd__buffer *b, const struct tr_settings *s);

/* Whether a journal's command is a transcription. */
bool cli_transcribe_is(const char *command);

/* Appends the identity as a command line: transcribe --input-dir talks --model-size base --language en. Text that can't
 * be parsed is appended unchanged. */
void cli_transcribe_show(struct gd__buffer *b, const char *command);

#endif
