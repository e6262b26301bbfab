/* SPDX-License-Identifier: MIT
 *
 * What a journal knows a transcription by, and how people see that.
 */
#ifndef GD_CLI_COMMANDS_TRANSCRIBE_IDENTITY_H
#define GD_CLI_COMMANDS_TRANSCRIBE_IDENTITY_H

#include "apps/transcribe/engine/settings.h"
#include "base/text/buffer.h"

/* Adds it: all that gives other text, or puts it elsewhere; not where and how fast it is computed. */
void cli_transcribe_identify(struct gd__buffer *b, const struct tr_settings *s);

/* Whether a journal's command is one. */
bool cli_transcribe_is(const char *command);

/* Adds it as the line that one would type: transcribe --input-dir talks --model-size base --language en. What can't be
 * read is added as it is. */
void cli_transcribe_show(struct gd__buffer *b, const char *command);

#endif
