/* SPDX-License-Identifier: MIT
 *
 * Chooses a decoder, and refuses settings that are not possible with any decoder. In whisper.cpp, the decision to decode a window again is
 * made inside whisper_full(), which has no function for other measures. It also adds the text of each window to the prompt,
 * or uses no prompt at all. */
#include "apps/transcribe/engine/decoding/limits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/failure.h"

/* What only whisper.cpp's decoder can do; NULL: nothing of it is wanted. */
static const char *beyond_lanes(const struct tr_settings *s)
{
    return s->beam_size > 1 ? "a beam search" : NULL;
}

/* What only lanes can do, with what to use instead. */
struct only_lanes {
    const char *what, *instead;
};

static struct only_lanes beyond_whisper(const struct tr_settings *s)
{
    const bool has_prompt = s->prompt && *s->prompt;
    if (!isinf(s->compression_ratio_threshold))
        return (struct only_lanes){ "--compression-ratio-threshold", "use --entropy-threshold (default 2.4), or "
                                                                     "--compression-ratio-threshold None" };
    if (has_prompt && !s->condition_on_previous_text && !s->carry_initial_prompt)
        return (struct only_lanes){ "--condition-on-previous-text no with a prompt for the first window only",
                                    "give --carry-initial-prompt too, so that every window gets the prompt" };
    if (s->batch_size || s->split)
        return (struct only_lanes){ s->batch_size ? "--batch-size" : "--split", "leave it out" };
    return (struct only_lanes){ 0 };
}

static int refuse_contradictions(const struct tr_settings *s)
{
    const bool has_prompt = s->prompt && *s->prompt;
    if (s->carry_initial_prompt && !has_prompt)
        return gd__fail("--carry-initial-prompt needs a prompt: give --initial-prompt TEXT too");
    if (s->word_timestamps && s->without_timestamps)
        return gd__fail("--word-timestamps and --without-timestamps cannot be combined: the times of words are found "
                        "between those of segments");
    if (s->split && strcmp(s->split, "never") != 0 && strcmp(s->split, "auto") != 0)
        return gd__fail("split is auto or never, not \"%.100s\"", s->split);
    return 0;
}

static int choose_whisper(const struct tr_settings *s, const char *why)
{
    const struct only_lanes lanes = beyond_whisper(s);
    if (!lanes.what)
        return 0;
    return gd__fail("%s is not possible with whisper.cpp's decoder%s%s: %s", lanes.what,
                    why ? ", which is needed for " : "", why ? why : "", lanes.instead);
}

int tr_decoding_choose(const struct tr_settings *s, enum tr_decoder *out, const char **why)
{
    const char *name = s->decoder ? s->decoder : "auto", *beyond = beyond_lanes(s);
    const bool any = strcmp(name, "auto") == 0, whisper = strcmp(name, "whisper.cpp") == 0;
    *why = any ? beyond : NULL;
    *out = whisper || *why ? TR_DECODER_WHISPER : TR_DECODER_LANES;
    if (!any && !whisper && strcmp(name, "lanes") != 0)
        return gd__fail("decoder is auto, lanes or whisper.cpp, not \"%.100s\"", name);
    if (refuse_contradictions(s) < 0)
        return -1;
    if (*out == TR_DECODER_WHISPER)
        return choose_whisper(s, *why);
    if (beyond)
        return gd__fail("the decoder \"lanes\" cannot do this: %s. Use --decoder auto or whisper.cpp", beyond);
    return 0;
}
