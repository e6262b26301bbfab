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
 * The context of a piece is passed explicitly: the prompt, and the tokens of the segments that were kept. whisper.cpp
 * takes only one list of tokens, either for the first window or for every window. If both are needed, two calls are
 * made. The first only stores the context in the state. It ends before the first window.
 */
#include "apps/transcribe/engine/engine.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <whisper.h>

#include "apps/transcribe/audio/audio.h"
#include "apps/transcribe/engine/decoding/context.h"
#include "apps/transcribe/engine/decoding/lists.h"
#include "apps/transcribe/engine/decoding/params.h"
#include "apps/transcribe/engine/load.h"
#include "apps/transcribe/engine/log.h"
#include "apps/transcribe/engine/speech.h"
#include "apps/transcribe/engine/words/words.h"
#include "apps/transcribe/text/compression.h"
#include "base/failure.h"

struct tr_engine {
    const struct tr_settings *settings;
    struct whisper_context *model;
    struct whisper_state *state;
    bool drawn; /* random numbers were drawn from this state */
    struct tr_speech *speech;
    struct whisper_full_params params;
    struct tr_token_list suppressed;
    struct tr_context context; /* of the current file */
    bool only_storing;         /* the context: no window is decoded */

    /* of the current file */
    const char *language; /* NULL: to be detected */
    float language_probability;
    bool (*stop)(void *user);
    void *user;

    void (*reached)(void *user, double seconds);
    void *watcher;

    /* of the current piece */
    double length;
    double heard;   /* how much of it whisper.cpp gets, in seconds; less than length if only speech is transcribed */
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
    return !e->only_storing;
}

/* Called for every token, on several threads. Calls with n_tokens == 0 come only from the thread that called
 * whisper_full_with_state(). */
static void on_logits(struct whisper_context *model, struct whisper_state *state, const whisper_token_data *tokens,
                      int n_tokens, float *logits, void *user)
{
    struct tr_engine *e = user;
    (void)model, (void)state, (void)tokens;
    if (n_tokens == 0 && ++e->tries > 1)
        e->drawn = true;
    for (size_t i = 0; i < e->suppressed.n; i++)
        logits[e->suppressed.ids[i]] = -INFINITY;
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

static double in_piece(const struct tr_engine *e, double seconds)
{
    return e->speech ? tr_speech_time(tr_speech_map(e->speech), seconds) : seconds;
}

/* Called before each window. */
static void on_progress(struct whisper_context *model, struct whisper_state *state, int percent, void *user)
{
    const struct tr_engine *e = user;
    (void)model, (void)state;
    if (e->reached)
        e->reached(e->watcher, in_piece(e, e->heard * percent / 100));
}

/* --- opening ---------------------------------------------------------------- */

static void choose_params(struct tr_engine *e)
{
    struct whisper_full_params *p = &e->params;
    *p = tr_params_choose(e->settings);
    p->suppress_nst = e->suppressed.non_speech;
    p->abort_callback = on_abort;
    p->encoder_begin_callback = on_window;
    p->logits_filter_callback = on_logits;
    p->new_segment_callback = on_segments;
    p->progress_callback = on_progress;
    p->progress_callback_user_data = e;
    p->abort_callback_user_data = p->encoder_begin_callback_user_data = e;
    p->logits_filter_callback_user_data = p->new_segment_callback_user_data = e;
}

static int read_suppressed(struct tr_engine *e)
{
    const int tokens = whisper_model_n_vocab(e->model);
    if (tr_token_list_parse(&e->suppressed, "suppress_tokens", e->settings->suppress_tokens) < 0)
        return -1;
    for (size_t i = 0; i < e->suppressed.n; i++) {
        if (e->suppressed.ids[i] >= tokens)
            return gd__fail("suppress_tokens: %s has no token %d: its tokens are 0 to %d", e->settings->model,
                            (int)e->suppressed.ids[i], tokens - 1);
    }
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
    if (read_suppressed(e) < 0)
        return -1;
    choose_params(e);
    if (make_state(e) != TR_HEARD)
        return -1;
    if (s->vad_model && tr_speech_open(&e->speech, s) < 0)
        return -1;
    return tr_context_open(&e->context, e->model, s);
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
    tr_context_close(&e->context);
    tr_token_list_free(&e->suppressed);
    free(e->spans);
    free(e->temperatures);
    free(e);
    *engine = NULL;
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
    tr_context_begin(&e->context);
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

/* Stores the previous text in the state. whisper.cpp reports the end of this call as an error. */
static enum tr_outcome store_context(struct tr_engine *e, const float *samples, size_t n, bool *ready)
{
    struct whisper_full_params p = e->params;
    int rc = *ready ? 0 : whisper_pcm_to_mel_with_state(e->model, e->state, samples, (int)n, p.n_threads);
    if (rc != 0)
        return failed(e, "making the spectrum", rc);
    *ready = !p.token_timestamps;
    p.language = e->language;
    p.token_timestamps = false;
    p.prompt_tokens = e->context.past;
    p.prompt_n_tokens = (int)e->context.n_past;
    e->only_storing = true;
    tr_log_quiet(true);
    rc = whisper_full_with_state(e->model, e->state, p, NULL, 0);
    tr_log_begin();
    tr_log_quiet(false);
    e->only_storing = false;
    return rc == 0 ? TR_HEARD : failed(e, "storing the context", rc);
}

/* Sets what the decoder gets before a window. */
static enum tr_outcome give_context(struct tr_engine *e, struct whisper_full_params *p, const float *samples, size_t n,
                                    bool *ready)
{
    const struct tr_context *c = &e->context;
    if (c->n_fixed == 0) {
        p->prompt_tokens = c->n_past > 0 ? c->past : NULL;
        p->prompt_n_tokens = (int)c->n_past;
        if (!c->remembers)
            p->n_max_text_ctx = 0;
        return TR_HEARD;
    }
    if (c->n_past > 0) {
        const enum tr_outcome outcome = store_context(e, samples, n, ready);
        if (outcome != TR_HEARD)
            return outcome;
        p->no_context = false;
    }
    p->carry_initial_prompt = true;
    p->prompt_tokens = c->fixed;
    p->prompt_n_tokens = (int)c->n_fixed;
    if (!c->remembers)
        p->n_max_text_ctx = (int)c->n_fixed + 1; /* leaves no room for the previous text */
    return TR_HEARD;
}

static enum tr_outcome listen(struct tr_engine *e, const float *samples, size_t n)
{
    struct whisper_full_params p = e->params;
    bool ready = false; /* the spectrum is already made */
    enum tr_outcome outcome = TR_HEARD;
    if (!e->language) {
        outcome = detect_language(e, samples, n);
        /* Finding the times of tokens needs the samples, and passing the samples makes whisper.cpp compute the spectrum
         * again. */
        ready = !p.token_timestamps;
    }
    if (outcome == TR_HEARD)
        outcome = give_context(e, &p, samples, n, &ready);
    if (outcome != TR_HEARD)
        return outcome;
    p.language = e->language;
    const int rc = whisper_full_with_state(e->model, e->state, p, ready ? NULL : samples, ready ? 0 : (int)n);
    if (rc == -7) { /* out of memory for more decoders: whisper.cpp has freed the state */
        e->state = NULL;
        gd__fail("no memory for decoding");
        return TR_NO_MEMORY;
    }
    return rc == 0 ? TR_HEARD : failed(e, "transcribing", rc);
}

static double within(double t, double low, double high)
{
    return t < low ? low : t > high ? high : t;
}

/* If the model gave no times, a segment's times can have any value. If the start is after the end, the segment starts
 * where the segment before it ends. */
static struct tr_span span_of(const struct tr_engine *e, int segment, double low)
{
    const double start = in_piece(e, (double)whisper_full_get_segment_t0_from_state(e->state, segment) / 100);
    const double end =
        within(in_piece(e, (double)whisper_full_get_segment_t1_from_state(e->state, segment) / 100), low, e->length);
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
    e->heard = (double)n / TR_RATE;
    /* whisper.cpp finds nothing in less than a tenth of a second of audio. If the audio is much shorter, whisper.cpp
     * reads past the end of the samples. */
    if (n < TR_RATE / 10)
        return TR_HEARD;
    const enum tr_outcome outcome = e->stop(e->user) ? TR_CANCELLED : listen(e, samples, n);
    return outcome == TR_HEARD ? measure(e) : outcome;
}

void tr_engine_watch(struct tr_engine *e, void (*reached)(void *user, double seconds), void *user)
{
    e->reached = reached;
    e->watcher = user;
}

bool tr_engine_stopped(const struct tr_engine *e)
{
    return e->stop(e->user);
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
            .start = offset + in_piece(e, (double)d.t0 / 100),
            .end = offset + in_piece(e, (double)d.t1 / 100),
            .probability = d.p,
        };
        sum += (double)d.p;
    }
    *mean = *count > 0 ? (float)(sum / (double)*count) : 0;
    return tokens;
}

/* The tokens of a segment. *mean is the mean of the logarithms of their probabilities. NULL if out of memory. */
static int32_t *token_ids(const struct tr_engine *e, int segment, size_t *count, float *mean)
{
    const whisper_token eot = whisper_token_eot(e->model), begin = whisper_token_beg(e->model);
    const int n = whisper_full_n_tokens_from_state(e->state, segment);
    int32_t *ids = calloc((size_t)n + 1, sizeof *ids);
    double sum = 0;
    *count = 0;
    for (int i = 0; ids && i < n; i++) {
        const whisper_token_data d = whisper_full_get_token_data_from_state(e->state, segment, i);
        if (d.id >= eot && d.id < begin)
            continue;
        ids[(*count)++] = d.id;
        sum += (double)d.plog;
    }
    *mean = *count > 0 ? (float)(sum / (double)*count) : NAN;
    return ids;
}

int tr_engine_add(struct tr_engine *e, size_t i, double offset, struct tr_transcript *t)
{
    const int segment = (int)i;
    const char *text = whisper_full_get_segment_text_from_state(e->state, segment);
    struct tr_segment_facts f = tr_segment_facts(offset + e->spans[i].start, offset + e->spans[i].end);
    f.no_speech = whisper_full_get_segment_no_speech_prob_from_state(e->state, segment);
    f.temperature = i < e->n_temperatures ? e->temperatures[i] : NAN;
    f.compression_ratio = tr_compression_ratio(text, strlen(text));
    size_t n;
    struct tr_token *tokens = text_tokens(e, segment, offset, &n, &f.probability);
    int32_t *ids = token_ids(e, segment, &f.n_tokens, &f.avg_logprob);
    f.tokens = ids;
    int rc = tokens && ids ? 0 : -1;
    if (rc == 0 && e->settings->word_timestamps)
        rc = tr_words_add(t, tokens, n, tr_words_unspaced(e->language));
    if (rc == 0)
        rc = tr_transcript_add(t, &f, text, strlen(text));
    free(tokens);
    free(ids);
    tr_context_add(&e->context, e->state, segment);
    return rc;
}

const char *tr_engine_language(const struct tr_engine *e, float *probability)
{
    *probability = e->language_probability;
    return e->language;
}
