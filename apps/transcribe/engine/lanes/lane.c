/* SPDX-License-Identifier: MIT
 *
 * Decodes a recording. The sequence that is fed for a window:
 *
 *   [prev, context ...] sot [language task] [no times]      then the tokens that were chosen
 *
 * While a language is to be detected, it is only sot. A try at a temperature of 0.5 or more has no context.
 */
#include "apps/transcribe/engine/lanes/lane.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXT_LIMIT 0.5f /* the temperature from which on there is no context */

enum {
    SHORT_REST = 500, /* frames: the last five seconds of a recording are decoded without context */
};

struct tr_lane *tr_lane_new(const struct tr_decoding *how, struct tr_spectrum *spectrum, int language,
                            const int *prompt, size_t n_prompt)
{
    struct tr_lane *l = calloc(1, sizeof *l);
    const size_t most = (size_t)how->text_positions / 2;
    const size_t skipped = n_prompt > most ? n_prompt - most : 0;
    if (l && n_prompt > 0)
        l->prompt = malloc((n_prompt - skipped) * sizeof *l->prompt);
    if (!l || (n_prompt > 0 && !l->prompt)) {
        free(l);
        return NULL;
    }
    if (n_prompt > 0)
        memcpy(l->prompt, prompt + skipped, (n_prompt - skipped) * sizeof *l->prompt);
    l->n_prompt = (int)(n_prompt - skipped);
    l->how = how;
    l->spectrum = *spectrum;
    *spectrum = (struct tr_spectrum){ 0 };
    l->language = language;
    l->language_probability = -1;
    l->now = &l->tries_room[0];
    return l;
}

void tr_lane_free(struct tr_lane *l)
{
    if (!l)
        return;
    tr_spectrum_free(&l->spectrum);
    free(l->prompt);
    free(l->phrases);
    free(l->picks);
    free(l);
}

/* --- what is fed --------------------------------------------------------------- */

static const struct tr_vocabulary *vocabulary(const struct tr_lane *l)
{
    return l->how->rules.vocabulary;
}

static bool detects(const struct tr_lane *l)
{
    return vocabulary(l)->multilingual && l->language == TR_NO_LANGUAGE;
}

static void feed(struct tr_lane *l, const int *tokens, int n)
{
    for (int i = 0; i < n; i++)
        l->fed[l->n_fed++] = tokens[i];
}

static void feed_start(struct tr_lane *l)
{
    const struct tr_vocabulary *v = vocabulary(l);
    const int before = l->n_fed;
    feed(l, &v->sot, 1);
    if (v->multilingual && !detects(l)) {
        feed(l, &(int){ v->sot + 1 + l->language }, 1);
        feed(l, l->how->translate ? &v->translate : &v->transcribe, 1);
    }
    if (l->how->rules.no_times && !detects(l))
        feed(l, &v->no_times, 1);
    l->n_start = l->n_fed - before;
}

/* The context: what is fixed, then the last tokens of the text before, as many as fit. */
static void feed_context(struct tr_lane *l)
{
    const int most = l->how->text_positions / 2, fixed = l->at_rest ? 0 : l->how->n_fixed;
    const int room = most - 1 - fixed, rest = l->n_context < room ? l->n_context : room;
    if (fixed + rest == 0)
        return;
    feed(l, &vocabulary(l)->prev, 1);
    feed(l, l->how->fixed, fixed);
    feed(l, l->context + (l->n_context - rest), rest);
}

/* Begins a try with what is fed before the text. What the decoder knows already is not fed again, except for the last
 * token: its logits are needed. */
static void begin_try(struct tr_lane *l, bool fresh)
{
    int before[sizeof l->fed / sizeof *l->fed];
    const int n = l->n_fed;
    memcpy(before, l->fed, (size_t)n * sizeof *before);
    l->n_fed = 0;
    if (!detects(l) && l->heat < CONTEXT_LIMIT)
        feed_context(l);
    feed_start(l);
    int same = 0;
    while (!fresh && same < n && same < l->n_fed && before[same] == l->fed[same])
        same++;
    l->position = same == l->n_fed ? l->n_fed - 1 : same;
    tr_window_begin(l->now);
}

static void begin_window(struct tr_lane *l)
{
    l->at_rest = l->at > 0 && l->at + SHORT_REST >= l->spectrum.frames;
    if (l->at_rest)
        l->n_context = 0;
    l->tries = l->drawn = 0;
    l->heat = l->how->temperature;
    l->best = NULL;
    l->no_speech = 0;
    begin_try(l, true);
}

static bool is_over(const struct tr_lane *l)
{
    return l->at + TR_LEAST_FRAMES >= l->spectrum.frames;
}

bool tr_lane_begin(struct tr_lane *l)
{
    l->at = 0;
    l->n_context = 0;
    for (int i = 0; i < l->n_prompt; i++)
        l->context[l->n_context++] = l->prompt[i];
    if (l->spectrum.frames < TR_LEAST_FRAMES || is_over(l))
        return false;
    begin_window(l);
    return true;
}

int tr_lane_token(const struct tr_lane *l)
{
    return l->position < l->n_fed ? l->fed[l->position] : l->now->picks[l->position - l->n_fed].token;
}

static int start_of_text(const struct tr_lane *l)
{
    return l->n_fed - l->n_start;
}

bool tr_lane_wants_all(const struct tr_lane *l)
{
    const bool first = l->position == l->n_fed - 1, choosing = l->position >= l->n_fed - 1;
    return l->position == start_of_text(l) || first || (choosing && l->heat > 0);
}

bool tr_lane_wants_none(const struct tr_lane *l)
{
    return l->position < l->n_fed - 1 && l->position != start_of_text(l);
}

/* --- results --------------------------------------------------------------------- */

static void *grown(void *old, size_t *room, size_t wanted, size_t size)
{
    if (wanted <= *room)
        return old;
    void *p = realloc(old, 2 * wanted * size);
    if (p)
        *room = 2 * wanted;
    return p;
}

/* Adds a phrase with the picks of the window from first to last. */
static void add_phrase(struct tr_lane *l, const struct tr_window *w, int start, int end, int first, int last)
{
    const size_t n = (size_t)last - (size_t)first + 1;
    struct tr_phrase *phrases = grown(l->phrases, &l->phrases_room, l->n_phrases + 1, sizeof *phrases);
    if (phrases)
        l->phrases = phrases;
    struct tr_pick *picks = grown(l->picks, &l->picks_room, l->n_picks + n, sizeof *picks);
    if (picks)
        l->picks = picks;
    if (!phrases || !picks) {
        l->no_memory = true;
        return;
    }
    phrases[l->n_phrases++] = (struct tr_phrase){
        .start = start,
        .end = end,
        .first = l->n_picks,
        .n = n,
        .window = l->at,
        .no_speech = l->no_speech,
        .temperature = l->heat,
        .score = w->score,
    };
    memcpy(picks + l->n_picks, w->picks + first, n * sizeof *picks);
    l->n_picks += n;
}

static bool has_text(const struct tr_lane *l, const struct tr_window *w, int first, int last)
{
    size_t size;
    for (int i = first; i <= last; i++) {
        tr_vocabulary_text(vocabulary(l), w->picks[i].token, &size);
        if (size > 0)
            return true;
    }
    return false;
}

/* Divides the text at its times. */
static void add_phrases(struct tr_lane *l, const struct tr_window *w)
{
    const int times = vocabulary(l)->times;
    int first = 0, start = l->at + 2 * (w->picks[0].time - times);
    for (int i = 0; i < w->n; i++) {
        if (w->picks[i].token <= times)
            continue;
        const int end = l->at + 2 * (w->picks[i].time - times);
        if (has_text(l, w, first, i))
            add_phrase(l, w, start, end, first, i);
        start = end;
        for (; i + 1 < w->n && w->picks[i + 1].token > times; i++)
            start = l->at + 2 * (w->picks[i + 1].time - times);
        first = i + 1;
    }
    if (first < w->n && has_text(l, w, first, w->n - 1))
        add_phrase(l, w, start, l->at + w->frames, first, w->n - 1);
}

/* The context of the next window: that of this one, and its text. */
static void keep_context(struct tr_lane *l, const struct tr_window *w, bool dropped)
{
    const bool had_context = l->how->n_fixed == 0 && l->fed[0] == vocabulary(l)->prev;
    l->n_context = 0;
    if (!l->how->use_context)
        return;
    if (had_context) {
        l->n_context = l->n_fed - l->n_start - 1;
        memcpy(l->context, l->fed + 1, (size_t)l->n_context * sizeof *l->context);
    }
    for (int i = 0; !dropped && i < w->kept; i++)
        l->context[l->n_context++] = w->picks[i].token;
}

/* If the window ends with a single time, there is no more speech in it, and the next one begins at its end. */
static int advance(const struct tr_lane *l, const struct tr_window *w)
{
    const int times = vocabulary(l)->times;
    const bool single = w->n > 1 && w->picks[w->n - 2].token < times && w->picks[w->n - 1].token > times;
    const int left = l->spectrum.frames - l->at;
    return !single ? w->frames : left < TR_WINDOW_FRAMES ? left : TR_WINDOW_FRAMES;
}

static enum tr_next end_window(struct tr_lane *l)
{
    const struct tr_window *w = l->best ? l->best : l->now;
    const bool dropped = l->no_speech > l->how->silence && w->score < (double)l->how->least_score;
    keep_context(l, w, dropped);
    if (w->n > 0 && !dropped)
        add_phrases(l, w);
    l->at += advance(l, w);
    if (is_over(l))
        return TR_NEXT_NONE;
    begin_window(l);
    return TR_NEXT_WINDOW;
}

/* --- tries ----------------------------------------------------------------------- */

static struct tr_window *other_room(struct tr_lane *l)
{
    return l->now == &l->tries_room[0] ? &l->tries_room[1] : &l->tries_room[0];
}

/* What decides between texts that were drawn. */
static double rank_of(const struct tr_lane *l, const struct tr_window *w)
{
    if (l->how->length_penalty < 0 || w->kept == 0)
        return w->score;
    return w->score * w->kept / pow((5.0 + w->kept) / 6, (double)l->how->length_penalty);
}

/* Keeps this try if it is the best one of its temperature. */
static void judge(struct tr_lane *l)
{
    struct tr_window *w = l->now;
    if (w->failed)
        return;
    const bool repeats = tr_window_repeats(w, &l->how->rules, (double)l->how->most_ratio);
    tr_window_measure(w);
    if (repeats || (w->kept > 32 && w->entropy < (double)l->how->least_entropy)) {
        w->failed = true;
        return;
    }
    if (!l->best || rank_of(l, l->best) < rank_of(l, w)) {
        l->best = w;
        l->now = other_room(l);
    }
}

static enum tr_next end_try(struct tr_lane *l)
{
    const struct tr_decoding *h = l->how;
    judge(l);
    if (l->heat > 0 && ++l->drawn < h->best_of) {
        begin_try(l, false);
        return TR_NEXT_TOKEN;
    }
    const bool bad = !l->best || (l->best->score < (double)h->least_score && l->no_speech < h->silence);
    const float next = l->heat + h->increment;
    if (!bad || h->increment <= 0 || next >= 1 + 1e-6f)
        return end_window(l);
    l->tries++;
    l->heat = next;
    l->drawn = 0;
    l->best = NULL;
    begin_try(l, false);
    return TR_NEXT_TOKEN;
}

/* A number from 0 to less than 1 that depends only on the sound of the window, the try and the position. */
static double draw(const struct tr_lane *l)
{
    const struct tr_spectrum *s = &l->spectrum;
    uint64_t x = 0x9e3779b97f4a7c15u ^ (uint64_t)l->at;
    for (int m = 0; m < s->mels; m++) {
        const int i = l->at + m * 7 < s->stored ? l->at + m * 7 : s->stored - 1;
        uint32_t bits;
        memcpy(&bits, &s->values[(size_t)m * (size_t)s->stored + (size_t)i], sizeof bits);
        x = (x ^ bits) * 0xff51afd7ed558ccdu;
        x ^= x >> 29;
    }
    x ^= (uint64_t)l->tries << 40 ^ (uint64_t)l->drawn << 32 ^ (uint64_t)l->now->n;
    for (int i = 0; i < 2; i++) {
        x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
        x = (x ^ x >> 29) * 0xff51afd7ed558ccdu;
    }
    return (double)(x >> 11) / (double)(1ull << 53);
}

static void detect(struct tr_lane *l, const float *all)
{
    const struct tr_vocabulary *v = vocabulary(l);
    double sum = 0;
    int best = 0;
    for (int i = 1; i < v->languages; i++) {
        if (all[v->sot + 1 + i] > all[v->sot + 1 + best])
            best = i;
    }
    for (int i = 0; i < v->languages; i++)
        sum += exp((double)(all[v->sot + 1 + i] - all[v->sot + 1 + best]));
    l->language = best;
    l->language_probability = (float)(1 / sum);
    l->n_fed = 0; /* the window begins anew, with the language */
    begin_try(l, true);
}

enum tr_next tr_lane_hear(struct tr_lane *l, const struct tr_logits *logits, float *all)
{
    const struct tr_decoding *h = l->how;
    if (detects(l)) {
        detect(l, all);
        return TR_NEXT_TOKEN;
    }
    if (l->position == start_of_text(l) && all)
        l->no_speech = tr_rules_probability(&h->rules, all, vocabulary(l)->no_speech);
    if (l->position++ < l->n_fed - 1 || (!all && !logits))
        return TR_NEXT_TOKEN;
    const struct tr_turn turn = tr_window_turn(l->now, &h->rules);
    struct tr_pick pick;
    if (l->heat > 0) {
        pick = tr_rules_draw(&h->rules, &turn, all, l->heat, draw(l));
    } else {
        const struct tr_logits own = all ? tr_rules_shorten(&h->rules, &turn, all) : *logits;
        pick = tr_rules_best(&h->rules, &turn, &own);
    }
    const struct tr_view view = { l->at, l->spectrum.frames, h->text_positions / 2 - 4 };
    return tr_window_add(l->now, &h->rules, &view, &pick) ? TR_NEXT_TOKEN : end_try(l);
}

enum tr_next tr_lane_hear_feed(struct tr_lane *l, float *start_logits, float *last_logits)
{
    if (l->n_start > 1)
        l->no_speech = tr_rules_probability(&l->how->rules, start_logits, vocabulary(l)->no_speech);
    l->position = l->n_fed - 1;
    return tr_lane_hear(l, NULL, last_logits);
}
