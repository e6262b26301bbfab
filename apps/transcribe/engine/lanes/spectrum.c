/* SPDX-License-Identifier: MIT
 *
 * The spectrum. 400 real samples of a frame are taken as 200 complex numbers, transformed in four passes (radix 5, 5, 4,
 * 2; Stockham's order, which needs no bit reversal), and turned into the 201 values of the real transform. Eight frames
 * are transformed side by side, so that the compiler can use vector instructions. Most weights of a filter are 0, so only
 * the others are stored.
 */
#include "apps/transcribe/engine/lanes/spectrum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"

enum { SIDE = 8, HALF = TR_FRAME_SIZE / 2, SILENCE = 30 * 16000 /* samples after the end */, EDGE = HALF };

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define VECTORS __attribute__((target_clones("avx2", "default")))
#else
#define VECTORS
#endif

struct filter {
    int first, n, at; /* its weights that are not 0: from bin `first` on, stored from weights[at] on */
};

struct tr_filters {
    int mels;
    float window[TR_FRAME_SIZE];
    float turn[2 * HALF];        /* e^(-2 pi i k / 200), for the passes */
    float split[2 * (HALF + 1)]; /* e^(-2 pi i k / 400), for the last step */
    struct filter *filters;
    float weights[];
};

/* Eight transforms side by side: number k of transform j is at [k * SIDE + j]. */
struct side {
    float re[HALF * SIDE], im[HALF * SIDE];
};

/* --- filters --------------------------------------------------------------------- */

static void fill_tables(struct tr_filters *f)
{
    const double circle = 2 * acos(-1);
    for (int i = 0; i < TR_FRAME_SIZE; i++)
        f->window[i] = (float)(0.5 * (1.0 - cos(circle * i / TR_FRAME_SIZE)));
    for (int k = 0; k < HALF; k++) {
        f->turn[2 * k] = (float)cos(circle * k / HALF);
        f->turn[2 * k + 1] = (float)-sin(circle * k / HALF);
    }
    for (int k = 0; k <= HALF; k++) {
        f->split[2 * k] = (float)cos(circle * k / TR_FRAME_SIZE);
        f->split[2 * k + 1] = (float)-sin(circle * k / TR_FRAME_SIZE);
    }
}

int tr_filters_open(struct tr_filters **out, const float *table, int mels)
{
    const size_t n = (size_t)mels * TR_BINS;
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
        f->filters[m] = (struct filter){ first, end - first, used };
        memcpy(f->weights + used, row + first, (size_t)(end - first) * sizeof *row);
        used += end - first;
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

/* One pass: n numbers, each `stride` wide, in groups of `radix`. */
VECTORS static void pass(const struct tr_filters *f, const struct side *from, struct side *to, int n, int stride,
                         int radix)
{
    const int m = n / radix;
    for (int p = 0; p < m; p++) {
        for (int u = 0; u < radix; u++) {
            float *re = to->re + stride * (radix * p + u), *im = to->im + stride * (radix * p + u);
            memset(re, 0, (size_t)stride * sizeof *re);
            memset(im, 0, (size_t)stride * sizeof *im);
            for (int t = 0; t < radix; t++) {
                /* e^(-2 pi i (t u / radix + p u / n)), from the table of 200 */
                const int k = (t * u * (HALF / radix) + p * u * (HALF / n)) % HALF;
                const float c = f->turn[2 * k], s = f->turn[2 * k + 1];
                const float *a = from->re + stride * (p + m * t), *b = from->im + stride * (p + m * t);
                for (int q = 0; q < stride; q++) {
                    re[q] += a[q] * c - b[q] * s;
                    im[q] += a[q] * s + b[q] * c;
                }
            }
        }
    }
}

/* Transforms x. The result is in x again, because there is an even number of passes. */
static void transform(const struct tr_filters *f, struct side *x, struct side *other)
{
    static const int radices[] = { 5, 5, 4, 2 };
    int n = HALF, stride = SIDE;
    struct side *from = x, *to = other;
    for (size_t i = 0; i < sizeof radices / sizeof *radices; i++) {
        pass(f, from, to, n, stride, radices[i]);
        n /= radices[i];
        stride *= radices[i];
        struct side *swap = from;
        from = to;
        to = swap;
    }
}

/* The power of bin k of the real transform, for eight frames. */
VECTORS static void power(const struct tr_filters *f, const struct side *x, float bins[TR_BINS][SIDE])
{
    for (int k = 0; k <= HALF; k++) {
        const float *a = x->re + k % HALF * SIDE, *b = x->im + k % HALF * SIDE;
        const float *c = x->re + (HALF - k) % HALF * SIDE, *d = x->im + (HALF - k) % HALF * SIDE;
        const float wr = f->split[2 * k], wi = f->split[2 * k + 1];
        for (int j = 0; j < SIDE; j++) {
            const float even_re = 0.5f * (a[j] + c[j]), even_im = 0.5f * (b[j] - d[j]);
            const float odd_re = 0.5f * (b[j] + d[j]), odd_im = 0.5f * (c[j] - a[j]);
            const float re = even_re + wr * odd_re - wi * odd_im, im = even_im + wr * odd_im + wi * odd_re;
            bins[k][j] = re * re + im * im;
        }
    }
}

VECTORS static void filter(const float *weights, int n, const float bins[][SIDE], float sums[SIDE])
{
    for (int j = 0; j < SIDE; j++)
        sums[j] = 0;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < SIDE; j++)
            sums[j] += weights[i] * bins[i][j];
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
static void load_frame(const struct tr_filters *f, struct side *x, int j, const float *samples, size_t n, int frame)
{
    const size_t at = (size_t)frame * TR_FRAME_STEP;
    const float *direct = at >= EDGE && at - EDGE + TR_FRAME_SIZE <= n ? samples + (at - EDGE) : NULL;
    for (int k = 0; k < HALF; k++) {
        const size_t i = 2 * (size_t)k;
        const float even = direct ? direct[i] : sample_at(samples, n, at + i);
        const float odd = direct ? direct[i + 1] : sample_at(samples, n, at + i + 1);
        x->re[k * SIDE + j] = f->window[i] * even;
        x->im[k * SIDE + j] = f->window[i + 1] * odd;
    }
}

static void compute(struct tr_spectrum *s, const struct tr_filters *f, const float *samples, size_t n)
{
    struct side x = { { 0 }, { 0 } }, other;
    float bins[TR_BINS][SIDE], sums[SIDE];
    for (int first = 0; first < s->stored; first += SIDE) {
        const int count = s->stored - first < SIDE ? s->stored - first : SIDE;
        for (int j = 0; j < count; j++)
            load_frame(f, &x, j, samples, n, first + j);
        transform(f, &x, &other);
        power(f, &x, bins);
        for (int m = 0; m < f->mels; m++) {
            const struct filter *g = &f->filters[m];
            filter(f->weights + g->at, g->n, (const float(*)[SIDE])bins + g->first, sums);
            for (int j = 0; j < count; j++)
                s->values[(size_t)m * (size_t)s->stored + (size_t)(first + j)] = log10f(fmaxf(sums[j], 1e-10f));
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
    const float least = most - 8;
    for (size_t i = 0; i < n; i++)
        s->values[i] = ((s->values[i] < least ? least : s->values[i]) + 4) / 4;
    s->silence = ((least > -10 ? least : -10) + 4) / 4;
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
