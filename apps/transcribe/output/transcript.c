/* SPDX-License-Identifier: MIT
 *
 * A transcript: text in one buffer, and segments and words that point into it.
 *
 * The times that a model gives can't be trusted. Without timestamps a segment's start can be anything, its end can be
 * past the end of the audio, and a later segment can begin before an earlier one. The times are put in order here, so
 * that no format has to check them. The text can't be trusted either: a token may end in the middle of a character.
 */
#include "apps/transcribe/output/transcript.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/buffer.h"
#include "base/text/utf8.h"

/* --- text --------------------------------------------------------------------- */

/* True if a UTF-8 character of `whole` bytes can begin with these n bytes. Fills the missing bytes with the lowest
 * value and then with the highest, and checks if one of the two is valid. */
static bool may_begin(const unsigned char *p, size_t n, size_t whole)
{
    unsigned char low[4], high[4];
    memset(low, 0x80, sizeof low);
    memset(high, 0xbf, sizeof high);
    memcpy(low, p, n);
    memcpy(high, p, n);
    return gd__utf8_length(low, whole) == whole || gd__utf8_length(high, whole) == whole;
}

/* Called if there is no valid character at p. Returns how many bytes at p belong to a character that was cut off, at
 * least 1. */
static size_t bad_length(const unsigned char *p, size_t left)
{
    const size_t whole = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    size_t n = 1;
    while (n + 1 < whole && n < left && may_begin(p, n + 1, whole))
        n++;
    return n;
}

/* Adds the text as UTF-8. Bytes that are not valid are replaced with U+FFFD. A NUL is replaced too: it is valid, but
 * text files have none. */
static void add_utf8(struct gd__buffer *b, const char *text, size_t size)
{
    const unsigned char *p = (const unsigned char *)text;
    for (size_t i = 0; i < size;) {
        size_t run = 0, n;
        while (i + run < size && p[i + run] && (n = gd__utf8_length(p + i + run, size - i - run)) > 0)
            run += n;
        gd__buffer_add(b, p + i, run);
        i += run;
        if (i < size) {
            gd__buffer_text(b, "\xef\xbf\xbd");
            i += p[i] ? bad_length(p + i, size - i) : 1;
        }
    }
}

/* --- times -------------------------------------------------------------------- */

static const double longest = 1e9; /* seconds: thirty years */

static double between(double value, double low, double high)
{
    /* Written so that a NaN becomes low. */
    return !(value > low) ? low : value > high ? high : value;
}

/* A NaN stays one: the probability is not known. */
static float probability(float p)
{
    return isnan(p) ? p : (float)between((double)p, 0, 1);
}

/* Puts a start and an end in order, between low and high. If the start is after the end, the end is trusted, and the
 * segment begins as early as it may. */
static void put_in_order(double *start, double *end, double low, double high)
{
    *end = between(*end, low, high);
    *start = *start > *end ? low : between(*start, low, high);
}

/* --- adding ------------------------------------------------------------------- */

/* Makes room for one more item of size bytes. */
static bool make_room(void **items, size_t *room, size_t count, size_t size)
{
    if (count < *room)
        return true;
    const size_t more = *room ? *room * 2 : 16;
    void *grown = more <= SIZE_MAX / size ? realloc(*items, more * size) : NULL;
    if (!grown)
        return false;
    *items = grown;
    *room = more;
    return true;
}

/* Limits the words' times to those of their segment. No word begins before the previous one ends. */
static void fit_words(struct tr_transcript *t, const struct tr_segment *s)
{
    double low = s->start;
    for (size_t i = 0; i < s->n_words; i++) {
        struct tr_word *w = &t->words[s->first_word + i];
        put_in_order(&w->start, &w->end, low, s->end);
        low = w->end;
    }
}

struct tr_segment_facts tr_segment_facts(double start, double end)
{
    return (struct tr_segment_facts){
        .start = start,
        .end = end,
        .probability = NAN,
        .avg_logprob = NAN,
        .no_speech = NAN,
        .temperature = NAN,
        .compression_ratio = NAN,
        .seek = -1,
    };
}

static int add_tokens(struct tr_transcript *t, const struct tr_segment_facts *f)
{
    const size_t n = f->tokens ? f->n_tokens : 0;
    for (size_t i = 0; i < n; i++) {
        void *items = t->tokens;
        if (!make_room(&items, &t->tokens_room, t->n_tokens, sizeof *t->tokens))
            return -1;
        t->tokens = items;
        t->tokens[t->n_tokens++] = f->tokens[i];
    }
    return 0;
}

/* The segment with its times in order, without its text. */
static struct tr_segment make_segment(const struct tr_transcript *t, const struct tr_segment_facts *f)
{
    const struct tr_segment *last = t->n_segments ? &t->segments[t->n_segments - 1] : NULL;
    struct tr_segment s = {
        .start = f->start,
        .end = f->end,
        .probability = probability(f->probability),
        .avg_logprob = f->avg_logprob,
        .no_speech = probability(f->no_speech),
        .temperature = f->temperature,
        .compression_ratio = f->compression_ratio,
        .seek = f->seek,
        .speaker = t->speaker,
        .first_word = last ? last->first_word + last->n_words : 0,
        .first_token = last ? last->first_token + last->n_tokens : 0,
    };
    const double low = last && t->n_segments > t->first_of_speaker ? last->end : 0;
    put_in_order(&s.start, &s.end, low, t->duration > 0 ? fmax(low, fmin(t->duration, longest)) : longest);
    s.n_words = t->n_words - s.first_word;
    s.n_tokens = t->n_tokens - s.first_token;
    return s;
}

int tr_transcript_add(struct tr_transcript *t, const struct tr_segment_facts *f, const char *text, size_t size)
{
    void *items = t->segments;
    if (!make_room(&items, &t->segments_room, t->n_segments, sizeof *t->segments))
        return -1;
    t->segments = items;
    if (add_tokens(t, f) < 0)
        return -1;
    struct tr_segment new = make_segment(t, f);
    new.text = t->text.size;
    add_utf8(&t->text, text, size);
    if (t->text.failed)
        return -1;
    new.size = t->text.size - new.text;
    fit_words(t, &new);
    t->segments[t->n_segments++] = new;
    return 0;
}

int tr_transcript_add_word(struct tr_transcript *t, const struct tr_word *w, const char *text, size_t size)
{
    void *items = t->words;
    if (!make_room(&items, &t->words_room, t->n_words, sizeof *t->words))
        return -1;
    t->words = items;
    struct tr_word new = *w; /* its times are corrected later, when its segment is added */
    new.probability = probability(w->probability);
    new.text = t->text.size;
    add_utf8(&t->text, text, size);
    if (t->text.failed)
        return -1;
    new.size = t->text.size - new.text;
    t->words[t->n_words++] = new;
    return 0;
}

/* --- speakers ----------------------------------------------------------------- */

void tr_transcript_speak(struct tr_transcript *t, unsigned speaker)
{
    t->speaker = speaker;
    t->first_of_speaker = t->n_segments;
}

/* Segments with equal starts stay in the order in which they were added, which is that of their texts. */
static int by_start(const void *a, const void *b)
{
    const struct tr_segment *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->text < y->text ? -1 : x->text > y->text;
}

void tr_transcript_merge(struct tr_transcript *t)
{
    if (t->n_segments > 0)
        qsort(t->segments, t->n_segments, sizeof *t->segments, by_start);
}

const char *tr_speaker_name(char room[TR_SPEAKER_NAME], unsigned speaker)
{
    snprintf(room, TR_SPEAKER_NAME, "Speaker %u", speaker);
    return room;
}

void tr_transcript_clear(struct tr_transcript *t)
{
    t->n_segments = t->n_words = t->n_tokens = 0;
    t->text.size = 0;
    t->text.failed = false;
    tr_transcript_speak(t, 0);
    t->duration = 0;
    t->language = t->warning = NULL;
    t->language_probability = -1;
}

void tr_transcript_free(struct tr_transcript *t)
{
    free(t->segments);
    free(t->words);
    free(t->tokens);
    gd__buffer_free(&t->text);
    *t = (struct tr_transcript){ 0 };
}
