/* SPDX-License-Identifier: MIT
 *
 * Two values of 0 have another meaning for whisper.cpp than for OpenAI's Whisper, whose meaning settings.h has. The
 * smallest values that work are used for them. */
#include "apps/transcribe/engine/decoding/params.h"

#include <math.h>

#include "apps/transcribe/engine/load.h"

/* whisper.cpp takes 0 as "no limit". A time has a step of 0.02 s, so this is rounded to 0. */
#define FIRST_STEP 0.001

/* whisper.cpp takes 0 as "divide by the length". With this exponent, it divides by 1. */
#define NO_PENALTY 1e-6

static void choose_search(struct whisper_full_params *p, const struct tr_settings *s)
{
    if (p->strategy == WHISPER_SAMPLING_BEAM_SEARCH)
        p->beam_search.beam_size = (int)s->beam_size;
    if (s->best_of > 0)
        p->greedy.best_of = (int)s->best_of;
    p->temperature = (float)s->temperature;
    p->temperature_inc = (float)s->temperature_increment_on_fallback;
    p->length_penalty = (float)(s->length_penalty < 0 ? -1 : fmax(s->length_penalty, NO_PENALTY));
}

static void choose_thresholds(struct whisper_full_params *p, const struct tr_settings *s)
{
    p->entropy_thold = (float)s->entropy_threshold;
    p->logprob_thold = (float)s->logprob_threshold;
    p->no_speech_thold = (float)s->no_speech_threshold;
}

static void choose_tokens(struct whisper_full_params *p, const struct tr_settings *s)
{
    p->translate = s->translate;
    p->token_timestamps = s->word_timestamps;
    p->no_timestamps = s->without_timestamps;
    p->suppress_blank = s->suppress_blank;
    p->max_initial_ts = isinf(s->max_initial_timestamp) ? 0 : (float)fmax(s->max_initial_timestamp, FIRST_STEP);
}

struct whisper_full_params tr_params_choose(const struct tr_settings *s)
{
    struct whisper_full_params p =
        whisper_full_default_params(s->beam_size > 1 ? WHISPER_SAMPLING_BEAM_SEARCH : WHISPER_SAMPLING_GREEDY);
    p.n_threads = tr_load_threads(s);
    p.no_context = true; /* no context from the previous call */
    p.print_progress = p.print_realtime = p.print_timestamps = false;
    choose_search(&p, s);
    choose_thresholds(&p, s);
    choose_tokens(&p, s);
    return p;
}

struct whisper_vad_params tr_params_vad(const struct tr_settings *s)
{
    struct whisper_vad_params p = whisper_vad_default_params();
    p.threshold = (float)s->vad_threshold;
    p.min_speech_duration_ms = (int)s->vad_min_speech_duration_ms;
    p.min_silence_duration_ms = (int)s->vad_min_silence_duration_ms;
    p.speech_pad_ms = (int)s->vad_speech_pad_ms;
    if (!isinf(s->vad_max_speech_duration_s))
        p.max_speech_duration_s = (float)s->vad_max_speech_duration_s;
    return p;
}
