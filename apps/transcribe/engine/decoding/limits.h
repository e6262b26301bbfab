/* SPDX-License-Identifier: MIT
 *
 * Which of the two decoders can do what the settings ask for.
 */
#ifndef GD_TRANSCRIBE_ENGINE_DECODING_LIMITS_H
#define GD_TRANSCRIBE_ENGINE_DECODING_LIMITS_H

#include "apps/transcribe/engine/settings.h"

enum tr_decoder {
    TR_DECODER_LANES,   /* many files at once */
    TR_DECODER_WHISPER, /* whisper.cpp's own */
};

/* The decoder that the settings name; if they name none, the one that can do what they ask for. *why is set to what only
 * whisper.cpp's decoder can do ("a beam search"), if that is why it was chosen, and to NULL otherwise. Returns 0, or -1
 * with gd__fail_text(), which names the options and says what to use instead. */
int tr_decoding_choose(const struct tr_settings *s, enum tr_decoder *out, const char **why);

#endif
