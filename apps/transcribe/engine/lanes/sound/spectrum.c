/* SPDX-License-Identifier: MIT
 *
 * The spectrum, to the last bit as whisper.cpp computes it. Small differences would not matter for the text, if the nets
 * did not round to 16 bits in many places, and quantised models to 8: then the likelier of two similar tokens changes
 * now and then. So this file does the same operations in the same order and precision. The compiler must not contract
 * them (which needs no option, because the standard of C is set).
 *
 * 400 samples are transformed as 16 sums of 25 values, whose results are joined four times in pairs. Eight frames are
 * transformed side by side, so that the compiler can use vector instructions. Most weights of a filter are 0, so only the
 * others are stored, in groups of four, because whisper.cpp adds four products before it adds them to the sum.
 */
#include "apps/transcribe/engine/lanes/sound/spectrum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"

enum {
    SIDE = 8,
    LEAF = 25, /* numbers in each of the smallest transforms, which are plain sums */
    LEAVES = TR_FRAME_SIZE / LEAF,
    SILENCE = 30 * 16000, /* samples after the end */
    EDGE = TR_FRAME_SIZE / 2,
    GROUP = 4,                                       /* products that are added first */
    GROUPED = (TR_BINS + GROUP - 1) / GROUP * GROUP, /* bins, with zeros up to a whole group */
};

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define VECTORS __attribute__((target_clones("avx2", "default")))
#else
#define VECTORS
#endif

struct filter {
    int first, n, at; /* its weights: n, from bin `first` on, stored from weights[at] on. Both are multiples of GROUP */
};

struct tr_filters {
    int mels;
    float window[TR_FRAME_SIZE];
    float cosine[TR_FRAME_SIZE], sine[TR_FRAME_SIZE]; /* of 2 pi i / 400 */
    struct filter *filters;
    float weights[];
};

/* One number of each of eight frames. */
typedef float eight __attribute__((vector_size(SIDE * sizeof(float))));

/* Eight transforms side by side. */
struct side {
    eight re[TR_FRAME_SIZE], im[TR_FRAME_SIZE];
};

/* --- filters --------------------------------------------------------------------- */

/* The angles are rounded before the functions are called. */
static void fill_tables(struct tr_filters *f)
{
    for (int i = 0; i < TR_FRAME_SIZE; i++) {
        const float angle = (float)(2 * M_PI * i / TR_FRAME_SIZE);
        f->cosine[i] = cosf(angle);
        f->sine[i] = sinf(angle);
        f->window[i] = (float)(0.5 * (1.0 - (double)cosf(angle)));
    }
}

int tr_filters_open(struct tr_filters **out, const float *table, int mels)
{
    const size_t n = (size_t)mels * GROUPED;
    struct tr_filters *f = calloc(1, sizeof *f + n * sizeof *f->weights);
    if (f)
        f->filters = calloc((size_t)mels, sizeof *f->filters);
    if (!f || !f->filters) {
        free(f);
        return gd__fail("no memory for the filters of the spectrum");
    }
    f->mels = mels;
    fill_tables(f);
    int used = 0;
    for (int m = 0; m < mels; m++) {
        const float *row = table + (size_t)m * TR_BINS;
        int first = 0, end = TR_BINS;
        while (first < end && row[first] == 0)
            first++;
        while (end > first && row[end - 1] == 0)
            end--;
        first -= first % GROUP;
        f->filters[m] = (struct filter){ first, (end - first + GROUP - 1) / GROUP * GROUP, used };
        memcpy(f->weights + used, row + first, (size_t)(end - first) * sizeof *row);
        used += f->filters[m].n;
    }
    *out = f;
    return 0;
}

void tr_filters_close(struct tr_filters **filters)
{
    struct tr_filters *f = *filters;
    if (!f)
        return;
    free(f->filters);
    free(f);
    *filters = NULL;
}

/* --- the transform --------------------------------------------------------------- */

/* The transform of the 25 samples i, i + 16, i + 32, ... */
VECTORS static void add_up(const struct tr_filters *f, const eight *samples, int i, struct side *to)
{
    for (int k = 0; k < LEAF; k++) {
        eight re = { 0 }, im = { 0 };
        for (int n = 0, at = 0; n < LEAF; n++) {
            re += samples[i + n * LEAVES] * f->cosine[at];
            im -= samples[i + n * LEAVES] * f->sine[at];
            at += k * LEAVES; /* k * n * LEAVES, modulo 400 */
            at -= at >= TR_FRAME_SIZE ? TR_FRAME_SIZE : 0;
        }
        to->re[i * LEAF + k] = re;
        to->im[i * LEAF + k] = im;
    }
}

/* Joins two transforms of n / 2 numbers: number i and i + count become number i, which has n numbers. */
VECTORS static void join(const struct tr_filters *f, const struct side *from, struct side *to, int i, int count, int n)
{
    const int half = n / 2;
    for (int k = 0; k < half; k++) {
        const float c = f->cosine[k * count], s = -f->sine[k * count];
        const int even = i * half + k, odd = (i + count) * half + k, out = i * n + k;
        const eight a = from->re[odd] * c, b = from->im[odd] * s, d = from->im[odd] * c, e = from->re[odd] * s;
        to->re[out] = from->re[even] + a - b;
        to->im[out] = from->im[even] + d + e;
        to->re[out + half] = from->re[even] - a + b;
        to->im[out + half] = from->im[even] - d - e;
    }
}

/* Transforms samples into x. There is an even number of passes, so the result is where the sums were. */
static void transform(const struct tr_filters *f, const eight *samples, struct side *x, struct side *other)
{
    for (int i = 0; i < LEAVES; i++)
        add_up(f, samples, i, x);
    struct side *from = x, *to = other;
    for (int count = LEAVES / 2; count >= 1; count /= 2) {
        for (int i = 0; i < count; i++)
            join(f, from, to, i, count, TR_FRAME_SIZE / count);
        struct side *swap = from;
        from = to;
        to = swap;
    }
}

VECTORS static void power(const struct side *x, eight bins[GROUPED])
{
    for (int k = 0; k < TR_BINS; k++)
        bins[k] = x->re[k] * x->re[k] + x->im[k] * x->im[k];
}

VECTORS static void filter(const float *w, int n, const eight *bins, double sums[SIDE])
{
    for (int j = 0; j < SIDE; j++)
        sums[j] = 0;
    for (int i = 0; i < n; i += GROUP) {
        const eight sum = bins[i] * w[i] + bins[i + 1] * w[i + 1] + bins[i + 2] * w[i + 2] + bins[i + 3] * w[i + 3];
        for (int j = 0; j < SIDE; j++)
            sums[j] += (double)sum[j];
    }
}

/* --- frames ------------------------------------------------------------------------ */

/* The sample at a position; the recording begins at EDGE. Before it, the first samples are mirrored. */
static float sample_at(const float *samples, size_t n, size_t position)
{
    if (position < EDGE)
        return EDGE - position < n ? samples[EDGE - position] : 0;
    return position - EDGE < n ? samples[position - EDGE] : 0;
}

/* Loads one frame. A frame that lies within the samples is copied without looking at each position. */
static void load_frame(const struct tr_filters *f, eight *to, int j, const float *samples, size_t n, int frame)
{
    const size_t at = (size_t)frame * TR_FRAME_STEP;
    const float *direct = at >= EDGE && at - EDGE + TR_FRAME_SIZE <= n ? samples + (at - EDGE) : NULL;
    for (size_t i = 0; i < TR_FRAME_SIZE; i++)
        to[i][j] = f->window[i] * (direct ? direct[i] : sample_at(samples, n, at + i));
}

static void compute(struct tr_spectrum *s, const struct tr_filters *f, const float *samples, size_t n)
{
    struct side x, other;
    eight frames[TR_FRAME_SIZE] = { 0 }, bins[GROUPED] = { 0 };
    double sums[SIDE];
    for (int first = 0; first < s->stored; first += SIDE) {
        const int count = s->stored - first < SIDE ? s->stored - first : SIDE;
        for (int j = 0; j < count; j++)
            load_frame(f, frames, j, samples, n, first + j);
        transform(f, frames, &x, &other);
        power(&x, bins);
        for (int m = 0; m < f->mels; m++) {
            const struct filter *g = &f->filters[m];
            filter(f->weights + g->at, g->n, bins + g->first, sums);
            for (int j = 0; j < count; j++)
                s->values[(size_t)m * (size_t)s->stored + (size_t)(first + j)] = (float)log10(fmax(sums[j], 1e-10));
        }
    }
}

/* Limits the values to eight powers of ten below the largest. */
static void normalize(struct tr_spectrum *s)
{
    const size_t n = (size_t)s->mels * (size_t)s->stored;
    float most = -10; /* the value of silence */
    for (size_t i = 0; i < n; i++)
        most = s->values[i] > most ? s->values[i] : most;
    const double limit = (double)most - 8;
    const float least = (float)limit;
    for (size_t i = 0; i < n; i++)
        s->values[i] = (float)(((double)((double)s->values[i] < limit ? least : s->values[i]) + 4) / 4);
    s->silence = (float)(((double)(limit > -10 ? least : -10) + 4) / 4);
}

int tr_spectrum_make(struct tr_spectrum *s, const struct tr_filters *f, const float *samples, size_t n)
{
    const int sounding = (int)((n + EDGE) / TR_FRAME_STEP) + 1;
    *s = (struct tr_spectrum){ .mels = f->mels, .last = (int)((n + SILENCE) / TR_FRAME_STEP) };
    s->frames = n < EDGE ? 0 : 1 + (int)((n - EDGE) / TR_FRAME_STEP);
    s->stored = sounding < s->last ? sounding : s->last;
    s->values = calloc((size_t)s->mels * (size_t)s->stored, sizeof *s->values);
    if (!s->values)
        return gd__fail("no memory for the spectrum of a recording");
    compute(s, f, samples, n);
    normalize(s);
    return 0;
}

void tr_spectrum_free(struct tr_spectrum *s)
{
    free(s->values);
    *s = (struct tr_spectrum){ 0 };
}

void tr_spectrum_window(const struct tr_spectrum *s, int first, int width, float *to)
{
    const int end = first + width;
    const int sound = s->stored < end ? s->stored : end, silent = s->last < end ? s->last : end;
    for (int m = 0; m < s->mels; m++) {
        const float *row = s->values + (size_t)m * (size_t)s->stored;
        float *out = to + (size_t)m * (size_t)width;
        int i = first;
        if (i < sound) {
            memcpy(out, row + i, (size_t)(sound - i) * sizeof *out);
            i = sound;
        }
        for (; i < silent; i++)
            out[i - first] = s->silence;
        for (; i < end; i++)
            out[i - first] = 0;
    }
}
