/* SPDX-License-Identifier: MIT
 *
 * Transcribes with whisper.cpp.
 *
 * A whisper.cpp state keeps its random numbers from one file to the next. If they were reused, the text of a file would
 * depend on the files before it. Making a new state takes a while, above all on a GPU. So a new one is made only if
 * random numbers were drawn: always with a beam search, and whenever a window was tried at a temperature above 0. The
 * second case is detected by counting how often the first token of a window is computed. whisper.cpp overwrites
 * everything else in a state, because no_context is set.
 *
 * The context of a piece is passed explicitly: the prompt, and the tokens of the segments that were kept.
 */
#include "apps/transcribe/engine/engine.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <whisper.h>

#include "apps/transcribe/audio/audio.h"
#include "apps/transcribe/engine/load.h"
#include "apps/transcribe/engine/log.h"
#include "apps/transcribe/engine/speech.h"
#include "apps/transcribe/engine/words.h"
#include "base/failure.h"

struct tr_engine {
    const struct tr_settings *settings;
    struct whisper_context *model;
    struct whisper_state *state;
    bool drawn; /* random numbers were drawn from this state */
    struct tr_speech *speech;
    struct whisper_full_params params;

    /* of the current file */
    const char *language; /* NULL: to be detected */
    float language_probability;
    whisper_token *past; /* prompt and context: the last past_room tokens */
    size_t n_past, past_room, n_prompt;
    whisper_token *prompt;
    bool (*stop)(void *user);
    void *user;

    /* of the current piece */
    double length;
    unsigned tries; /* for this window: the first is at the temperature that was set */
    struct tr_span *spans;
    size_t n_spans, spans_room;
    float *temperatures; /* of the segments */
    size_t n_temperatures, temperatures_room;
};

/* --- callbacks -------------------------------------------------------------- */

static bool on_abort(void *user)
{
    const struct tr_engine *e = user;
    const bool stop = e->stop(e->user);
    if (stop)
        tr_log_quiet(true); /* whisper.cpp will log the stop as a failure */
    return stop;
}

static bool on_window(struct whisper_context *model, struct whisper_state *state, void *user)
{
    struct tr_engine *e = user;
    (void)model, (void)state;
    e->tries = 0;
    return true;
}

/* Called for every token, on several threads. Calls with n_tokens == 0 come only from the thread that called
 * whisper_full_with_state(). */
static void on_logits(struct whisper_context *model, struct whisper_state *state, const whisper_token_data *tokens,
                      int n_tokens, float *logits, void *user)
{
    struct tr_engine *e = user;
    (void)model, (void)state, (void)tokens, (void)logits;
    if (n_tokens == 0 && ++e->tries > 1)
        e->drawn = true;
}

static void *grown(void *old, size_t *room, size_t wanted, size_t size)
{
    if (wanted <= *room)
        return old;
    const size_t more = wanted * 2;
    void *p = realloc(old, more * size);
    if (p)
        *room = more;
    return p;
}

static void on_segments(struct whisper_context *model, struct whisper_state *state, int n, void *user)
{
    struct tr_engine *e = user;
    (void)model, (void)state;
    const float t = e->params.temperature + e->params.temperature_inc * (float)(e->tries > 0 ? e->tries - 1 : 0);
    for (int i = 0; i < n; i++) {
        float *p = grown(e->temperatures, &e->temperatures_room, e->n_temperatures + 1, sizeof *p);
        if (!p)
            return; /* the temperature is then not known */
        e->temperatures = p;
        p[e->n_temperatures++] = t;
    }
}

/* --- opening ---------------------------------------------------------------- */

static void choose_params(struct tr_engine *e)
{
    const struct tr_settings *s = e->settings;
    const bool beams = s->beam_size > 1;
    struct whisper_full_params *p = &e->params;
    *p = whisper_full_default_params(beams ? WHISPER_SAMPLING_BEAM_SEARCH : WHISPER_SAMPLING_GREEDY);
    if (beams)
        p->beam_search.beam_size = (int)s->beam_size;
    p->n_threads = tr_load_threads(s);
    p->temperature = (float)s->temperature;
    p->translate = s->translate;
    p->token_timestamps = s->word_timestamps;
    p->no_context = true; /* no context from the previous call */
    p->print_progress = p->print_realtime = p->print_timestamps = false;
    p->abort_callback = on_abort;
    p->encoder_begin_callback = on_window;
    p->logits_filter_callback = on_logits;
    p->new_segment_callback = on_segments;
    p->abort_callback_user_data = p->encoder_begin_callback_user_data = e;
    p->logits_filter_callback_user_data = p->new_segment_callback_user_data = e;
}

static int make_prompt(struct tr_engine *e)
{
    const char *text = e->settings->prompt ? e->settings->prompt : "";
    const size_t most = strlen(text); /* a token has at least one byte */
    e->past_room = (size_t)(whisper_n_text_ctx(e->model) / 2);
    e->past = calloc(e->past_room + 1, sizeof *e->past);
    e->prompt = calloc(most + 1, sizeof *e->prompt);
    if (!e->past || !e->prompt)
        return gd__fail("no memory for the prompt");
    const int n = most > 0 ? whisper_tokenize(e->model, text, e->prompt, (int)most) : 0;
    if (n < 0)
        return gd__fail("whisper.cpp cannot turn the prompt into tokens");
    e->n_prompt = (size_t)n;
    return 0;
}

static enum tr_outcome make_state(struct tr_engine *e)
{
    e->state = whisper_init_state(e->model);
    if (e->state && !e->settings->no_gpu && tr_load_on_gpu() < 0) {
        whisper_free_state(e->state); /* the new state would compute on the CPU */
        e->state = NULL;
        return TR_LOST;
    }
    if (e->state)
        return TR_HEARD;
    const char *why = tr_log_error();
    gd__fail("no memory for transcribing with %s%s%s", e->settings->model, why ? ": " : "", why ? why : "");
    return TR_NO_MEMORY;
}

static int open_engine(struct tr_engine *e)
{
    const struct tr_settings *s = e->settings;
    e->model = tr_load_model(s);
    if (!e->model)
        return -1;
    choose_params(e);
    if (make_state(e) != TR_HEARD)
        return -1;
    if (s->vad_model && tr_speech_open(&e->speech, s->vad_model) < 0)
        return -1;
    return make_prompt(e);
}

int tr_engine_open(struct tr_engine **out, const struct tr_settings *s)
{
    struct tr_engine *e = calloc(1, sizeof *e);
    if (!e)
        return gd__fail("no memory for the model");
    e->settings = s;
    tr_log_begin();
    tr_log_quiet(true); /* whisper.cpp need not print errors, because they are returned to the caller */
    const int rc = open_engine(e);
    tr_log_quiet(false);
    if (rc < 0)
        tr_engine_close(&e);
    else
        *out = e;
    return rc;
}

void tr_engine_close(struct tr_engine **engine)
{
    struct tr_engine *e = *engine;
    if (!e)
        return;
    tr_speech_close(&e->speech);
    whisper_free_state(e->state);
    whisper_free(e->model);
    free(e->past);
    free(e->prompt);
    free(e->spans);
    free(e->temperatures);
    free(e);
    *engine = NULL;
}

/* --- context ---------------------------------------------------------------- */

static void remember(struct tr_engine *e, whisper_token token)
{
    if (e->n_past == e->past_room)
        memmove(e->past, e->past + 1, --e->n_past * sizeof *e->past);
    e->past[e->n_past++] = token;
}

/* whisper.cpp leaves out the time token at the beginning of a segment, unless the segment is the first of a window. */
static void remember_segment(struct tr_engine *e, int segment)
{
    const whisper_token eot = whisper_token_eot(e->model), begin = whisper_token_beg(e->model);
    const int n = whisper_full_n_tokens_from_state(e->state, segment);
    for (int i = 0; i < n; i++) {
        const whisper_token id = whisper_full_get_token_id_from_state(e->state, segment, i);
        if (i == 0 && id < begin && e->n_past > 0 && e->past[e->n_past - 1] >= begin)
            remember(e, e->past[e->n_past - 1]);
        if (id < eot || id >= begin)
            remember(e, id);
    }
}

/* --- listening -------------------------------------------------------------- */

enum tr_outcome tr_engine_begin(struct tr_engine *e, bool (*stop)(void *user), void *user)
{
    tr_log_begin();
    tr_log_quiet(false);
    if (e->drawn) {
        whisper_free_state(e->state);
        e->state = NULL;
    }
    const enum tr_outcome outcome = e->state ? TR_HEARD : make_state(e);
    if (outcome != TR_HEARD)
        return outcome;
    /* A beam search draws random numbers at any temperature. */
    e->drawn = e->params.strategy == WHISPER_SAMPLING_BEAM_SEARCH || e->params.temperature > 0;
    e->language = tr_load_language(e->settings, e->model);
    e->language_probability = -1;
    e->n_past = 0;
    for (size_t i = 0; i < e->n_prompt; i++)
        remember(e, e->prompt[i]);
    e->stop = stop;
    e->user = user;
    return TR_HEARD;
}

static enum tr_outcome failed(struct tr_engine *e, const char *what, int rc)
{
    if (e->stop(e->user))
        return TR_CANCELLED;
    const char *why = tr_log_error();
    gd__fail("whisper.cpp failed (%s: %d)%s%s", what, rc, why ? ": " : "", why ? why : "");
    return TR_FAILED;
}

/* Makes the spectrum and finds the language in it, as whisper_full() would. whisper_full() does not return the
 * probability. */
static enum tr_outcome detect_language(struct tr_engine *e, const float *samples, size_t n)
{
    const int threads = e->params.n_threads;
    float *probabilities = calloc((size_t)whisper_lang_max_id() + 1, sizeof *probabilities);
    if (!probabilities) {
        gd__fail("no memory for detecting the language");
        return TR_NO_MEMORY;
    }
    int rc = whisper_pcm_to_mel_with_state(e->model, e->state, samples, (int)n, threads);
    if (rc == 0)
        rc = whisper_lang_auto_detect_with_state(e->model, e->state, 0, threads, probabilities);
    if (rc >= 0) {
        e->language = whisper_lang_str(rc);
        e->language_probability = probabilities[rc];
    }
    free(probabilities);
    return rc >= 0 ? TR_HEARD : failed(e, "detecting the language", rc);
}

static enum tr_outcome listen(struct tr_engine *e, const float *samples, size_t n)
{
    struct whisper_full_params p = e->params;
    bool ready = false; /* the spectrum is already made */
    if (!e->language) {
        const enum tr_outcome outcome = detect_language(e, samples, n);
        if (outcome != TR_HEARD)
            return outcome;
        /* Finding the times of tokens needs the samples, and passing the samples makes whisper.cpp compute the spectrum
         * again. */
        ready = !p.token_timestamps;
    }
    p.language = e->language;
    p.prompt_tokens = e->n_past > 0 ? e->past : NULL;
    p.prompt_n_tokens = (int)e->n_past;
    const int rc = whisper_full_with_state(e->model, e->state, p, ready ? NULL : samples, ready ? 0 : (int)n);
    if (rc == -7) { /* out of memory for more decoders: whisper.cpp has freed the state */
        e->state = NULL;
        gd__fail("no memory for decoding");
        return TR_NO_MEMORY;
    }
    return rc == 0 ? TR_HEARD : failed(e, "transcribing", rc);
}

static double in_piece(const struct tr_engine *e, int64_t centiseconds)
{
    const double t = (double)centiseconds / 100;
    return e->speech ? tr_speech_time(e->speech, t) : t;
}

static double within(double t, double low, double high)
{
    return t < low ? low : t > high ? high : t;
}

/* If the model gave no times, a segment's times can have any value. If the start is after the end, the segment starts
 * where the segment before it ends. */
static struct tr_span span_of(const struct tr_engine *e, int segment, double low)
{
    const double start = in_piece(e, whisper_full_get_segment_t0_from_state(e->state, segment));
    const double end = within(in_piece(e, whisper_full_get_segment_t1_from_state(e->state, segment)), low, e->length);
    return (struct tr_span){ start > end ? low : within(start, low, end), end };
}

static enum tr_outcome measure(struct tr_engine *e)
{
    const int n = whisper_full_n_segments_from_state(e->state);
    struct tr_span *spans = grown(e->spans, &e->spans_room, (size_t)n + 1, sizeof *spans);
    if (!spans) {
        gd__fail("no memory for a file's segments");
        return TR_NO_MEMORY;
    }
    e->spans = spans;
    for (int i = 0; i < n; i++)
        spans[i] = span_of(e, i, i > 0 ? spans[i - 1].end : 0);
    e->n_spans = (size_t)n;
    return TR_HEARD;
}

enum tr_outcome tr_engine_hear(struct tr_engine *e, const float *samples, size_t n)
{
    e->n_spans = e->n_temperatures = 0;
    e->length = (double)n / TR_RATE;
    if (e->speech && n > 0) {
        const long found = tr_speech_find(e->speech, samples, n, &samples);
        if (found < 0)
            return e->stop(e->user) ? TR_CANCELLED : TR_FAILED;
        n = (size_t)found;
    }
    /* whisper.cpp finds nothing in less than a tenth of a second of audio. If the audio is much shorter, whisper.cpp
     * reads past the end of the samples. */
    if (n < TR_RATE / 10)
        return TR_HEARD;
    const enum tr_outcome outcome = e->stop(e->user) ? TR_CANCELLED : listen(e, samples, n);
    return outcome == TR_HEARD ? measure(e) : outcome;
}

/* --- results ---------------------------------------------------------------- */

size_t tr_engine_spans(const struct tr_engine *e, const struct tr_span **out)
{
    *out = e->spans;
    return e->n_spans;
}

/* The text tokens of a segment. *mean is their mean probability. NULL if out of memory. */
static struct tr_token *text_tokens(const struct tr_engine *e, int segment, double offset, size_t *count, float *mean)
{
    const int n = whisper_full_n_tokens_from_state(e->state, segment);
    struct tr_token *tokens = calloc((size_t)n + 1, sizeof *tokens);
    double sum = 0;
    *count = 0;
    for (int i = 0; tokens && i < n; i++) {
        const whisper_token_data d = whisper_full_get_token_data_from_state(e->state, segment, i);
        if (d.id >= whisper_token_eot(e->model))
            continue;
        tokens[(*count)++] = (struct tr_token){
            .text = whisper_token_to_str(e->model, d.id),
            .start = offset + in_piece(e, d.t0),
            .end = offset + in_piece(e, d.t1),
            .probability = d.p,
        };
        sum += (double)d.p;
    }
    *mean = *count > 0 ? (float)(sum / (double)*count) : 0;
    return tokens;
}

int tr_engine_add(struct tr_engine *e, size_t i, double offset, struct tr_transcript *t)
{
    const int segment = (int)i;
    const char *text = whisper_full_get_segment_text_from_state(e->state, segment);
    struct tr_segment s = {
        .start = offset + e->spans[i].start,
        .end = offset + e->spans[i].end,
        .no_speech = whisper_full_get_segment_no_speech_prob_from_state(e->state, segment),
        .temperature = i < e->n_temperatures ? e->temperatures[i] : -1,
    };
    size_t n;
    struct tr_token *tokens = text_tokens(e, segment, offset, &n, &s.probability);
    if (!tokens)
        return -1;
    int rc = 0;
    if (e->settings->word_timestamps)
        rc = tr_words_add(t, tokens, n, tr_words_unspaced(e->language));
    free(tokens);
    if (rc == 0)
        rc = tr_transcript_add(t, &s, text, strlen(text));
    remember_segment(e, segment);
    return rc;
}

const char *tr_engine_language(const struct tr_engine *e, float *probability)
{
    *probability = e->language_probability;
    return e->language;
}
