/* SPDX-License-Identifier: MIT
 *
 * Opens a model for lanes. */
#include "apps/transcribe/engine/lanes/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <whisper.h>

#include "apps/transcribe/engine/decoding/lists.h"
#include "apps/transcribe/engine/load.h"
#include "apps/transcribe/engine/log.h"
#include "apps/transcribe/engine/transcriber.h"
#include "apps/transcribe/text/compression.h"
#include "base/failure.h"

enum {
    GPU_SLOTS = 64,
    CPU_SLOTS = 8,
    GPU_WINDOWS = 4,
    CPU_WINDOWS = 1, /* a CPU gains nothing from several at once */
    GPU_SHORT_FEED = 64,
    CPU_SHORT_FEED = 63, /* ggml computes sequences of 64 tokens and more in another way; so does whisper.cpp */
    BEST_OF = 5,
    DISTILLED_LAYERS = 2,
    LARGE_V3_TOKENS = 51866,
};

static int open_backend(struct tr_lanes_model *m, const struct tr_settings *s)
{
    ggml_backend_load_all();
    m->backend =
        ggml_backend_init_by_type(s->no_gpu ? GGML_BACKEND_DEVICE_TYPE_CPU : GGML_BACKEND_DEVICE_TYPE_GPU, NULL);
    if (!m->backend)
        return gd__fail("%s", s->no_gpu ? "ggml finds no CPU" : "ggml finds no GPU");
    if (!s->no_gpu)
        return 0;
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(m->backend));
    ggml_backend_set_n_threads_t set_threads =
        (ggml_backend_set_n_threads_t)ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads");
    if (set_threads)
        set_threads(m->backend, tr_load_threads(s));
    return 0;
}

/* How many slots fit into three quarters of the memory that is free after the weights were loaded. */
static unsigned fitting_slots(const struct tr_lanes_model *m)
{
    size_t unused = 0, all = 0;
    ggml_backend_dev_memory(ggml_backend_get_device(m->backend), &unused, &all);
    const size_t each = tr_net_slot_bytes(&m->weights), fit = unused / 4 * 3 / each;
    return all == 0 || fit > GPU_SLOTS ? GPU_SLOTS : fit > 0 ? (unsigned)fit : 1;
}

/* Where memory is missing for a buffer, half of the slots are tried. Where it is missing for a kernel, ggml ends the process:
 * then the next process begins with half of the slots. */
static int open_net(struct tr_lanes_model *m, const struct tr_settings *s)
{
    const unsigned wanted = s->batch_size ? s->batch_size : s->no_gpu ? CPU_SLOTS : fitting_slots(m);
    int rc;
    m->slots = wanted;
    for (unsigned i = 0; i < s->halvings && m->slots > 1; i++)
        m->slots /= 2;
    do {
        m->shape = (struct tr_net_shape){
            .slots = m->slots < 2 ? 2 : (int)m->slots,
            .windows = s->no_gpu ? CPU_WINDOWS : GPU_WINDOWS,
            .short_feed = s->no_gpu ? CPU_SHORT_FEED : GPU_SHORT_FEED,
        };
        rc = tr_net_open(&m->net, &m->weights, m->backend, &m->shape, m->decoding.rules.forbidden);
    } while (rc == TR_NET_NO_MEMORY && (m->slots /= 2) > 0);
    if (rc == 0 && m->slots < wanted)
        (void)fprintf(stderr, "transcribe: decoding %u recordings at once: there is not enough memory for %u\n",
                      m->slots, wanted);
    return rc == TR_NET_UNFIT ? TR_LANES_UNFIT : rc;
}

static int choose_language(struct tr_lanes_model *m, const struct tr_settings *s)
{
    const struct tr_vocabulary *v = &m->weights.vocabulary;
    m->language = TR_NO_LANGUAGE;
    if (!v->multilingual || !s->language)
        return 0;
    m->language = tr_load_language_number(s);
    if (m->language >= 0 && m->language < v->languages)
        return 0;
    return gd__fail("%s does not know \"%s\": use a newer model, like large-v3", s->model, s->language);
}

/* The first time of a window, counted in time tokens; -1: any. */
static int latest_first_time(const struct tr_weights *w, double seconds)
{
    return isfinite(seconds) ? (int)lround(seconds * w->audio_positions / 30) : -1;
}

static int choose_decoding(struct tr_lanes_model *m, const struct tr_settings *s)
{
    if (isfinite(s->compression_ratio_threshold) && !tr_compression_possible())
        return gd__fail("compression_ratio_threshold needs zlib (libz.so.1), which is not installed here");
    const struct tr_weights *w = &m->weights;
    const bool distilled = w->text_layers == DISTILLED_LAYERS && w->vocabulary.size != LARGE_V3_TOKENS;
    m->decoding = (struct tr_decoding){
        .rules = { .vocabulary = &w->vocabulary,
                   .suppress_blank = s->suppress_blank,
                   .no_times = distilled || s->without_timestamps, /* the first distilled models know no times */
                   .latest_first_time = latest_first_time(w, s->max_initial_timestamp),
                   .forbidden = m->forbidden },
        .text_positions = w->text_positions,
        .translate = s->translate,
        .use_context = s->condition_on_previous_text,
        .fixed = m->fixed,
        .n_fixed = m->n_fixed,
        .temperature = (float)s->temperature,
        .increment = (float)s->temperature_increment_on_fallback,
        .best_of = s->best_of > 0 ? (int)s->best_of : BEST_OF,
        .least_entropy = (float)s->entropy_threshold,
        .least_score = (float)s->logprob_threshold,
        .most_ratio = (float)s->compression_ratio_threshold,
        .length_penalty = (float)s->length_penalty,
        .silence = (float)s->no_speech_threshold,
    };
    return 0;
}

/* --- what is before a window ----------------------------------------------------------- */

/* The tokens of a text, in new memory. Returns their number, or -1 with gd__fail_text(). */
static long make_tokens(struct tr_lanes_model *m, const char *text, int **out)
{
    const size_t most = strlen(text); /* a token has at least one byte */
    *out = calloc(most + 1, sizeof **out);
    if (!*out)
        return gd__fail("no memory for the prompt");
    return most > 0 ? tr_vocabulary_tokens(&m->weights.vocabulary, text, *out, most) : 0;
}

/* Words inside a text begin with a blank. */
static long make_hotwords(struct tr_lanes_model *m, const char *words, int **out)
{
    char *text = NULL;
    *out = NULL;
    words += strspn(words, " \t\r\n\v\f");
    if (asprintf(&text, "%s%s", *words ? " " : "", words) < 0)
        return gd__fail("no memory for the hotwords");
    const long n = make_tokens(m, text, out);
    free(text);
    return n;
}

/* Hotwords that are too long lose their end, as in faster-whisper. A prompt that is too long loses its beginning, as in
 * OpenAI's Whisper. One place is needed for the token before all that. */
static int make_fixed(struct tr_lanes_model *m, const struct tr_settings *s)
{
    const long room = m->weights.text_positions / 2 - 1;
    int *words;
    long n = make_hotwords(m, s->hotwords ? s->hotwords : "", &words);
    m->fixed = n < 0 ? NULL : calloc((size_t)room + 1, sizeof *m->fixed);
    if (!words || !m->fixed) {
        free(words);
        return n < 0 ? -1 : gd__fail("no memory for the prompt");
    }
    n = n < room ? n : room;
    memcpy(m->fixed, words, (size_t)n * sizeof *words);
    free(words);
    if (s->carry_initial_prompt) {
        const long rest = (long)m->n_prompt < room - n ? (long)m->n_prompt : room - n;
        memcpy(m->fixed + n, m->prompt + ((long)m->n_prompt - rest), (size_t)rest * sizeof *m->fixed);
        n += rest;
        m->n_prompt = 0;
    }
    m->n_fixed = (int)n;
    return 0;
}

static int make_prompt(struct tr_lanes_model *m, const struct tr_settings *s)
{
    const long n = make_tokens(m, s->prompt ? s->prompt : "", &m->prompt);
    m->n_prompt = n > 0 ? (size_t)n : 0;
    return n < 0 ? -1 : make_fixed(m, s);
}

/* --- tokens that must not be chosen ------------------------------------------------------ */

/* Lanes never choose the tokens between eot and the times anyway. */
static int forbid(const struct tr_lanes_model *m, const struct tr_settings *s, uint8_t *forbidden, int32_t token)
{
    const struct tr_vocabulary *v = &m->weights.vocabulary;
    if (token >= v->size)
        return gd__fail("suppress_tokens: %s has no token %d: its tokens are 0 to %d", s->model, (int)token,
                        v->size - 1);
    if (token < v->eot) {
        forbidden[token] = 1;
    } else if (token == v->eot || token >= v->times) {
        gd__fail("suppress_tokens: token %d is not text", (int)token);
        return TR_LANES_UNFIT;
    }
    return 0;
}

static int make_forbidden(struct tr_lanes_model *m, const struct tr_settings *s)
{
    struct tr_token_list list;
    if (tr_token_list_parse(&list, "suppress_tokens", s->suppress_tokens) < 0)
        return -1;
    int rc = 0;
    uint8_t *forbidden = calloc((size_t)m->weights.vocabulary.eot + 1, 1);
    if (!forbidden)
        rc = gd__fail("no memory for the list of suppressed tokens");
    for (size_t i = 0; forbidden && rc == 0 && i < list.n; i++)
        rc = forbid(m, s, forbidden, list.ids[i]);
    if (forbidden && list.non_speech)
        tr_vocabulary_mark_symbols(&m->weights.vocabulary, forbidden);
    if (rc == 0 && (list.n > 0 || list.non_speech))
        m->forbidden = forbidden;
    else
        free(forbidden);
    tr_token_list_free(&list);
    return rc;
}

static int open_model(struct tr_lanes_model *m, const struct tr_settings *s)
{
    if (tr_load_check(s) < 0 || open_backend(m, s) < 0 || tr_weights_load(&m->weights, s->model, m->backend) < 0)
        return -1;
    if (m->weights.bins != TR_BINS || m->weights.text_positions > TR_MOST_PICKS) {
        gd__fail("the model %s has an unusual size", s->model);
        return TR_LANES_UNFIT;
    }
    if (choose_language(m, s) < 0 || tr_filters_open(&m->filters, m->weights.filters, m->weights.mels) < 0)
        return -1;
    const int rc = make_forbidden(m, s);
    if (rc < 0)
        return rc;
    return make_prompt(m, s) < 0 || choose_decoding(m, s) < 0 ? -1 : open_net(m, s);
}

int tr_lanes_model_open(struct tr_lanes_model *m, const struct tr_settings *s)
{
    *m = (struct tr_lanes_model){ 0 };
    tr_log_begin();
    tr_log_quiet(true); /* errors are returned to the caller */
    const int rc = open_model(m, s);
    tr_log_quiet(false);
    if (rc < 0)
        tr_lanes_model_close(m);
    return rc;
}

void tr_lanes_model_close(struct tr_lanes_model *m)
{
    tr_net_close(&m->net);
    tr_filters_close(&m->filters);
    tr_weights_free(&m->weights);
    ggml_backend_free(m->backend);
    free(m->prompt);
    free(m->fixed);
    free(m->forbidden);
    *m = (struct tr_lanes_model){ 0 };
}
