/* SPDX-License-Identifier: MIT
 *
 * The settings of the decoding as parameters of whisper.cpp.
 */
#ifndef GD_TRANSCRIBE_ENGINE_DECODING_PARAMS_H
#define GD_TRANSCRIBE_ENGINE_DECODING_PARAMS_H

#include <whisper.h>

#include "apps/transcribe/engine/settings.h"

/* All parameters except callbacks, language, prompt and tokens that are suppressed. */
struct whisper_full_params tr_params_choose(const struct tr_settings *s);

struct whisper_vad_params tr_params_vad(const struct tr_settings *s);

#endif
