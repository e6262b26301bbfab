/* SPDX-License-Identifier: MIT
 *
 * The tokens that the decoder gets before a window: hotwords and a prompt before every window, and the previous text.
 */
#ifndef GD_TRANSCRIBE_ENGINE_DECODING_CONTEXT_H
#define GD_TRANSCRIBE_ENGINE_DECODING_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <whisper.h>

#include "apps/transcribe/engine/settings.h"

/* A zeroed struct is empty. */
struct tr_context {
    whisper_token *fixed; /* before every window */
    size_t n_fixed;
    whisper_token *prompt; /* before the first window; n_prompt is 0 if the prompt is part of fixed */
    size_t n_prompt;
    whisper_token *past; /* the prompt and the previous text: the last room tokens */
    size_t n_past, room;
    bool remembers; /* the previous text is used */
    whisper_token eot, begin;
};

/* Returns 0, or -1 with gd__fail_text(). */
int tr_context_open(struct tr_context *c, struct whisper_context *model, const struct tr_settings *s);
void tr_context_close(struct tr_context *c);

void tr_context_begin(struct tr_context *c); /* a new file */

/* Adds the tokens of a segment to the previous text. */
void tr_context_add(struct tr_context *c, struct whisper_state *state, int segment);

#endif
