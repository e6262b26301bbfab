/* SPDX-License-Identifier: MIT
 *
 * Parts of files: reading and cutting them, and their text. */
#include "apps/transcribe/engine/lanes/part.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <whisper.h>

#include "apps/transcribe/engine/lanes/sound/cut.h"
#include "apps/transcribe/engine/pieces.h"
#include "apps/transcribe/engine/words/words.h"
#include "apps/transcribe/text/compression.h"
#include "base/failure.h"

enum { CHUNK = 30 * TR_RATE };

void tr_reading_free(struct tr_reading *r)
{
    free(r->samples);
    free(r->context);
    *r = (struct tr_reading){ 0 };
}

void tr_part_free(struct tr_part *p)
{
    if (!p)
        return;
    tr_lane_free(p->lane);
    tr_loudness_free(&p->loudness);
    free(p->map.points);
    free(p);
}

static double within(double t, double low, double high)
{
    return t < low ? low : t > high ? high : t;
}

/* The time of a frame of the lane, in seconds from the beginning of the part. */
static double in_part(const struct tr_part *p, int frame)
{
    return tr_speech_time(&p->map, (double)frame / 100);
}

/* --- reading ------------------------------------------------------------------------ */

static size_t sample_at(double seconds)
{
    const double at = round(seconds * TR_RATE);
    return at < (double)(SIZE_MAX / 2) ? (size_t)at : SIZE_MAX;
}

static struct tr_clip clip_of(const struct tr_part_kit *kit, size_t i)
{
    return i < kit->clips->n ? kit->clips->items[i] : (struct tr_clip){ 0, INFINITY };
}

/* Makes room for one more sample than a part has. */
static int make_room(struct tr_reading *r, char message[TR_MESSAGE_MAX])
{
    if (r->have < r->room)
        return 0;
    const size_t more = r->room + CHUNK < r->most + 1 ? r->room + CHUNK : r->most + 1;
    float *grown = realloc(r->samples, more * sizeof *grown);
    if (!grown) {
        snprintf(message, TR_MESSAGE_MAX, "no memory for %zu s of audio", more / TR_RATE);
        return TR_UNREAD;
    }
    r->samples = grown;
    r->room = more;
    return 0;
}

static int check_stopped(const struct tr_reading *r, char message[TR_MESSAGE_MAX])
{
    if (!atomic_load(r->stopped))
        return 0;
    snprintf(message, TR_MESSAGE_MAX, "the reading was stopped");
    return TR_UNREAD;
}

/* Reads at most so many samples. Returns their number, or an error. */
static long read_some(struct tr_reading *r, size_t most, char message[TR_MESSAGE_MAX])
{
    const size_t room = r->room - r->have;
    const int rc = check_stopped(r, message);
    if (rc < 0)
        return rc;
    const long got = tr_audio_read(r->audio, r->samples + r->have, most < room ? most : room, message);
    if (got > 0)
        r->position += (size_t)got;
    r->at_end = got == 0;
    return got;
}

/* Fills the samples up to one more than a part has, which shows whether the clip goes on. */
static int fill(struct tr_reading *r, size_t end, char message[TR_MESSAGE_MAX])
{
    while (r->have <= r->most && r->position < end && !r->at_end) {
        const int rc = make_room(r, message);
        const long got = rc < 0 ? rc : read_some(r, end - r->position, message);
        if (got < 0)
            return (int)got;
        r->have += (size_t)got;
    }
    return 0;
}

/* Reads up to this position, or to the end of the file, and drops the samples. There must be no samples. */
static int skip_to(struct tr_reading *r, size_t position, char message[TR_MESSAGE_MAX])
{
    while (r->position < position && !r->at_end) {
        const int rc = make_room(r, message);
        const long got = rc < 0 ? rc : read_some(r, position - r->position, message);
        if (got < 0)
            return (int)got;
    }
    r->before = r->position;
    return 0;
}

/* Fills the samples from the clip that is next. */
static int fill_clip(struct tr_reading *r, const struct tr_part_kit *kit, char message[TR_MESSAGE_MAX])
{
    const struct tr_clip clip = clip_of(kit, r->clip);
    const int rc = r->in_clip ? 0 : skip_to(r, sample_at(clip.start), message);
    r->in_clip = true;
    return rc < 0 ? rc : fill(r, sample_at(clip.end), message);
}

static int out_of_memory(char message[TR_MESSAGE_MAX])
{
    snprintf(message, TR_MESSAGE_MAX, "no memory for a part of a file");
    return TR_UNREAD;
}

/* Replaces the samples by the speech in them. */
static int find_speech(struct tr_part *p, struct tr_speech *speech, const float **samples, size_t *n,
                       char message[TR_MESSAGE_MAX])
{
    const long found = *n > 0 ? tr_speech_find(speech, *samples, *n, samples) : 0;
    if (found < 0) {
        snprintf(message, TR_MESSAGE_MAX, "%s", gd__fail_text());
        return TR_UNREAD;
    }
    const bool any = *n > 0;
    *n = (size_t)found;
    return any && tr_speech_copy_map(speech, &p->map) < 0 ? out_of_memory(message) : 0;
}

/* Makes the lane of a part from the first n samples. */
static int make_lane(struct tr_part *p, const struct tr_reading *r, size_t n, const struct tr_part_kit *kit,
                     struct tr_speech *speech, int language, char message[TR_MESSAGE_MAX])
{
    const bool later = r->n_context > 0;
    const float *samples = r->samples;
    struct tr_spectrum spectrum = { 0 };
    const int rc = speech ? find_speech(p, speech, &samples, &n, message) : 0;
    if (rc < 0)
        return rc;
    if (n > 0 && p->words && tr_loudness_make(&p->loudness, samples, n) < 0)
        return out_of_memory(message);
    if (tr_spectrum_make(&spectrum, kit->filters, samples, n) < 0)
        return out_of_memory(message);
    p->lane = tr_lane_new(kit->how, &spectrum, language, later ? r->context : kit->prompt,
                          later ? r->n_context : kit->n_prompt);
    tr_spectrum_free(&spectrum); /* empty if the lane has it */
    return p->lane ? 0 : out_of_memory(message);
}

static void advance(struct tr_reading *r, size_t n)
{
    r->have -= n;
    r->before += n;
    if (r->have > 0)
        memmove(r->samples, r->samples + n, r->have * sizeof *r->samples);
}

/* Goes on to the next clip. The rest of a file is read too, because its length is part of the result. */
static int end_clip(struct tr_reading *r, const struct tr_part_kit *kit, struct tr_part *p,
                    char message[TR_MESSAGE_MAX])
{
    p->ends_clip = true;
    advance(r, r->have);
    r->in_clip = false;
    p->last = ++r->clip >= kit->clips->n || r->at_end;
    return p->last ? skip_to(r, SIZE_MAX, message) : 0;
}

int tr_part_read(struct tr_part **out, struct tr_reading *r, const struct tr_part_kit *kit, struct tr_speech *speech,
                 int language, char message[TR_MESSAGE_MAX])
{
    *out = NULL;
    int rc = fill_clip(r, kit, message);
    if (rc == 0)
        rc = check_stopped(r, message); /* the spectrum takes some time too */
    if (rc < 0)
        return rc;
    const bool whole = r->have <= r->most; /* the rest of the clip */
    const size_t n = whole      ? r->have
                     : r->split ? tr_cut_find(r->samples, (size_t)TR_LEAST_PART * TR_RATE, r->most)
                                : r->most;
    struct tr_part *p = calloc(1, sizeof *p);
    if (!p)
        return out_of_memory(message);
    p->words = kit->words;
    p->offset = (double)r->before / TR_RATE;
    p->length = (double)n / TR_RATE;
    p->kept = (size_t)-1;
    rc = make_lane(p, r, n, kit, speech, language, message);
    if (rc == 0 && whole)
        rc = end_clip(r, kit, p, message);
    else if (rc == 0 && r->split)
        advance(r, n);
    if (rc == 0)
        *out = p;
    else
        tr_part_free(p);
    return rc;
}

double tr_part_done(const struct tr_part *p)
{
    return p->lane->at < p->lane->spectrum.frames ? within(in_part(p, p->lane->at), 0, p->length) : p->length;
}

/* --- text ----------------------------------------------------------------------------- */

/* If the model gave no times, a phrase's times can have any value. If the start is after the end, the phrase starts
 * where the one before it ends. */
static struct tr_span span_of(const struct tr_part *p, const struct tr_phrase *phrase, double low)
{
    const double start = in_part(p, phrase->start), end = within(in_part(p, phrase->end), low, p->length);
    return (struct tr_span){ start > end ? low : within(start, low, end), end };
}

/* The text and the tokens of a phrase, without the tokens that only mark its end. */
struct told {
    struct gd__buffer text;
    int32_t *tokens;
    size_t n_tokens, n_texts;
    double sum; /* of the probabilities of text tokens */
};

static int tell(struct told *to, const struct tr_part *p, const struct tr_phrase *phrase)
{
    const struct tr_vocabulary *v = p->lane->how->rules.vocabulary;
    to->tokens = calloc(phrase->n + 1, sizeof *to->tokens);
    for (size_t i = 0; to->tokens && i < phrase->n; i++) {
        const struct tr_pick *pick = &p->lane->picks[phrase->first + i];
        size_t size;
        const char *word = tr_vocabulary_text(v, pick->token, &size);
        if (pick->token < v->eot || pick->token >= v->times)
            to->tokens[to->n_tokens++] = pick->token;
        if (pick->token >= v->eot)
            continue;
        gd__buffer_add(&to->text, word, size);
        to->sum += (double)pick->probability;
        to->n_texts++;
    }
    return to->tokens && !to->text.failed ? 0 : -1;
}

/* --- words */

#define LIKELY 0.01f /* a time with a smaller probability is not used; the value of whisper.cpp */

static struct tr_spoken_token spoken_token(const struct tr_part *p, const struct tr_phrase *phrase,
                                           const struct tr_pick *pick)
{
    const struct tr_vocabulary *v = p->lane->how->rules.vocabulary;
    struct tr_spoken_token t = {
        .time = phrase->window + 2 * (pick->time - v->times),
        .is_likely = pick->time_probability > LIKELY && pick->all_times_probability > LIKELY,
    };
    t.text = tr_vocabulary_text(v, pick->token, &t.size);
    return t;
}

/* The text tokens of a phrase, in new memory. NULL if out of memory. */
static struct tr_spoken_token *spoken_tokens(const struct tr_part *p, const struct tr_phrase *phrase, size_t *n)
{
    const int eot = p->lane->how->rules.vocabulary->eot;
    struct tr_spoken_token *tokens = calloc(phrase->n + 1, sizeof *tokens);
    *n = 0;
    for (size_t i = 0; tokens && i < phrase->n; i++) {
        const struct tr_pick *pick = &p->lane->picks[phrase->first + i];
        if (pick->token < eot)
            tokens[(*n)++] = spoken_token(p, phrase, pick);
    }
    if (tokens)
        tr_token_times(tokens, *n, phrase->start, phrase->end, &p->loudness);
    return tokens;
}

static const char *language_of(const struct tr_part *p)
{
    return p->lane->language == TR_NO_LANGUAGE ? "en" : whisper_lang_str(p->lane->language);
}

/* Adds the words of these tokens. texts has room for all of them, each with a NUL. */
static int add_tokens(const struct tr_part *p, const struct tr_phrase *phrase, const struct tr_spoken_token *spoken,
                      size_t n, char *texts, struct tr_token *tokens, struct tr_transcript *t)
{
    const int eot = p->lane->how->rules.vocabulary->eot;
    const struct tr_pick *pick = &p->lane->picks[phrase->first];
    for (size_t i = 0; i < n; i++, pick++) {
        while (pick->token >= eot)
            pick++;
        tokens[i] = (struct tr_token){ .text = texts,
                                       .start = p->offset + in_part(p, spoken[i].start),
                                       .end = p->offset + in_part(p, spoken[i].end),
                                       .probability = pick->probability };
        memcpy(texts, spoken[i].text, spoken[i].size);
        texts += spoken[i].size;
        *texts++ = '\0';
    }
    return tr_words_add(t, tokens, n, tr_words_unspaced(language_of(p)));
}

static int add_words(const struct tr_part *p, const struct tr_phrase *phrase, struct tr_transcript *t)
{
    size_t n, size = 0;
    struct tr_spoken_token *spoken = spoken_tokens(p, phrase, &n);
    for (size_t i = 0; spoken && i < n; i++)
        size += spoken[i].size + 1;
    char *texts = malloc(size + 1);
    struct tr_token *tokens = calloc(phrase->n + 1, sizeof *tokens);
    const int rc = spoken && texts && tokens ? add_tokens(p, phrase, spoken, n, texts, tokens, t) : -1;
    free(spoken);
    free(texts);
    free(tokens);
    return rc;
}

/* --- phrases */

static int add_phrase(const struct tr_part *p, const struct tr_phrase *phrase, struct tr_span span,
                      struct tr_transcript *t)
{
    struct told told = { 0 };
    int rc = tell(&told, p, phrase);
    if (rc == 0) {
        const char *text = told.text.data ? told.text.data : "";
        struct tr_segment_facts f = tr_segment_facts(p->offset + span.start, p->offset + span.end);
        f.probability = told.n_texts > 0 ? (float)(told.sum / (double)told.n_texts) : 0;
        f.avg_logprob = isfinite(phrase->score) ? (float)phrase->score : NAN;
        f.no_speech = phrase->no_speech;
        f.temperature = phrase->temperature;
        f.compression_ratio = tr_compression_ratio(text, told.text.size);
        f.seek = lround((p->offset + in_part(p, phrase->window)) * 100);
        f.tokens = told.tokens;
        f.n_tokens = told.n_tokens;
        if (p->words)
            rc = add_words(p, phrase, t);
        if (rc == 0)
            rc = tr_transcript_add(t, &f, text, told.text.size);
    }
    gd__buffer_free(&told.text);
    free(told.tokens);
    return rc;
}

int tr_part_add(const struct tr_part *p, struct tr_transcript *t)
{
    double low = 0;
    if (p->lane->no_memory)
        return -1;
    for (size_t i = 0; i < p->lane->n_phrases && i < p->kept; i++) {
        const struct tr_span span = span_of(p, &p->lane->phrases[i], low);
        if (add_phrase(p, &p->lane->phrases[i], span, t) < 0)
            return -1;
        low = span.end;
    }
    return 0;
}

/* --- parts that overlap ------------------------------------------------------------------ */

static int remember(struct tr_reading *r, int token)
{
    if (r->n_context == r->context_room) {
        const size_t room = r->context_room ? 2 * r->context_room : 256;
        int *more = realloc(r->context, room * sizeof *more);
        if (!more)
            return -1;
        r->context = more;
        r->context_room = room;
    }
    r->context[r->n_context++] = token;
    return 0;
}

/* The text of the phrases that were kept becomes context. A phrase that does not begin with a time begins at the time
 * before it. */
static int remember_phrases(const struct tr_part *p, struct tr_reading *r)
{
    const struct tr_vocabulary *v = p->lane->how->rules.vocabulary;
    if (r->n_context == 0) {
        for (int i = 0; i < p->lane->n_prompt; i++) {
            if (remember(r, p->lane->prompt[i]) < 0)
                return -1;
        }
    }
    for (size_t i = 0; i < p->kept; i++) {
        const struct tr_phrase *phrase = &p->lane->phrases[i];
        for (size_t k = 0; k < phrase->n; k++) {
            const int token = p->lane->picks[phrase->first + k].token;
            const int before = r->n_context > 0 ? r->context[r->n_context - 1] : 0;
            if (k == 0 && token < v->times && before >= v->times && remember(r, before) < 0)
                return -1;
            if ((token < v->eot || token >= v->times) && remember(r, token) < 0)
                return -1;
        }
    }
    return 0;
}

int tr_part_follow(struct tr_part *p, struct tr_reading *r)
{
    if (p->last || r->split) /* then the part may still be decoded */
        return 0;
    const size_t n = p->lane->n_phrases;
    if (p->ends_clip) {
        p->kept = n;
        return remember_phrases(p, r);
    }
    struct tr_span *spans = calloc(n + 1, sizeof *spans);
    if (!spans)
        return -1;
    for (size_t i = 0; i < n; i++)
        spans[i] = span_of(p, &p->lane->phrases[i], i > 0 ? spans[i - 1].end : 0);
    const struct tr_cut cut = tr_pieces_cut(spans, n, p->length);
    free(spans);
    p->kept = cut.kept;
    advance(r, (size_t)(cut.at * TR_RATE));
    return remember_phrases(p, r);
}
