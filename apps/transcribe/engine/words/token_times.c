/* SPDX-License-Identifier: MIT
 *
 * Divides the time of a phrase among its tokens. */
#include "apps/transcribe/engine/words/token_times.h"

#include <math.h>
#include <stdlib.h>

enum {
    STEP = 160,  /* samples of a frame */
    AROUND = 12, /* frames before and after a token that decide what is loud there */
};

int tr_loudness_make(struct tr_loudness *out, const float *samples, size_t n)
{
    *out = (struct tr_loudness){ calloc(n / STEP + 1, sizeof *out->frames), n / STEP };
    for (size_t i = 0; out->frames && i < out->n; i++) {
        float sum = 0;
        for (size_t k = 0; k < STEP; k++)
            sum += fabsf(samples[i * STEP + k]);
        out->frames[i] = sum / STEP;
    }
    return out->frames ? 0 : -1;
}

void tr_loudness_free(struct tr_loudness *l)
{
    free(l->frames);
    *l = (struct tr_loudness){ 0 };
}

/* --- dividing ------------------------------------------------------------------------- */

/* How long it takes to say a token, in letters. A digit is a whole word, and punctuation is a pause. */
static double length_of(const struct tr_spoken_token *t)
{
    double sum = 0;
    for (size_t i = 0; i < t->size; i++) {
        const char c = t->text[i];
        const bool long_one = c == '.' || c == '!' || c == '?' || (c >= '0' && c <= '9');
        sum += c == ' ' ? 0.01 : c == ',' ? 2 : long_one ? 3 : 1;
    }
    return sum;
}

/* Divides the time from the start of the first token to `end`. */
static void divide(struct tr_spoken_token *tokens, size_t n, int end)
{
    double all = 0, before = 0;
    const int start = tokens[0].start;
    for (size_t i = 0; i < n; i++)
        all += length_of(&tokens[i]);
    for (size_t i = 0; i < n; i++) {
        tokens[i].start = start + (int)(all > 0 ? (end - start) * before / all : 0);
        before += length_of(&tokens[i]);
        tokens[i].end = start + (int)(all > 0 ? (end - start) * before / all : 0);
    }
    tokens[n - 1].end = end;
}

/* The tokens from one with a known time to the next form a group. */
static void divide_groups(struct tr_spoken_token *tokens, size_t n, int start, int end)
{
    size_t first = 0;
    int last = start;
    tokens[0].start = start;
    for (size_t i = 0; i < n; i++) {
        if (!tokens[i].is_likely || tokens[i].time <= last || tokens[i].time > end)
            continue;
        last = tokens[i].time;
        if (i > first)
            divide(tokens + first, i - first, last);
        tokens[i].start = last;
        first = i;
    }
    divide(tokens + first, n - first, end);
}

/* --- moving --------------------------------------------------------------------------- */

static int at_most(int a, int b)
{
    return a < b ? a : b;
}

static int at_least(int a, int b)
{
    return a > b ? a : b;
}

/* Half of the mean loudness at a token and around it. */
static float threshold_at(const struct tr_spoken_token *t, const struct tr_loudness *l)
{
    const int low = at_least(t->start - AROUND, 0), high = at_most(t->end + AROUND, (int)l->n);
    double sum = 0;
    for (int i = low; i < high; i++)
        sum += (double)l->frames[i];
    return high > low ? (float)(sum / (high - low) / 2) : 0;
}

/* A token that begins in the middle of a sound begins with that sound; otherwise it begins with the next one. `low` is
 * the end of the token before. */
static void move_start(struct tr_spoken_token *t, const struct tr_loudness *l, float threshold, int low, bool first)
{
    int at = at_most(t->start, (int)l->n - 1);
    if (l->frames[at] > threshold && !first) {
        while (at > low && l->frames[at] > threshold)
            at--;
        t->start = at_least(at, low);
    } else {
        while (at < at_most(t->end, (int)l->n - 1) && l->frames[at] < threshold)
            at++;
        t->start = at_most(at_least(at, t->start), t->end);
    }
}

/* The same for its end. `high` is the start of the token after it. */
static void move_end(struct tr_spoken_token *t, const struct tr_loudness *l, float threshold, int high)
{
    int at = at_most(t->end, (int)l->n - 1);
    if (l->frames[at] > threshold) {
        while (at < at_most(high, (int)l->n - 1) && l->frames[at] > threshold)
            at++;
        t->end = at_most(at_least(at, t->end), high);
    } else {
        while (at > t->start && l->frames[at] < threshold)
            at--;
        t->end = at_least(at, t->start);
    }
}

static void move_all(struct tr_spoken_token *tokens, size_t n, int start, int end, const struct tr_loudness *l)
{
    for (size_t i = 0; i < n; i++) {
        struct tr_spoken_token *t = &tokens[i];
        const float threshold = threshold_at(t, l);
        move_start(t, l, threshold, i > 0 ? tokens[i - 1].end : start, i == 0);
        move_end(t, l, threshold, i + 1 < n ? tokens[i + 1].start : end);
    }
}

void tr_token_times(struct tr_spoken_token *tokens, size_t n, int start, int end, const struct tr_loudness *l)
{
    if (n == 0)
        return;
    divide_groups(tokens, n, start, at_least(start, end));
    if (l->n > 0)
        move_all(tokens, n, start, at_least(start, end), l);
}
