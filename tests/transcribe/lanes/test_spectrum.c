/* The spectrum, compared with a plain sum over all samples, and where recordings are cut. */
#include "apps/transcribe/engine/lanes/sound/spectrum.h"

#include <math.h>
#include <stdlib.h>

#include "apps/transcribe/engine/lanes/sound/cut.h"
#include "base/failure.h"
#include "support/test.h"

enum { MELS = 5 };

/* Filters of different widths; one has no weight at all. */
static struct tr_filters *new_filters(float table[MELS][TR_BINS])
{
    static const int from[MELS] = { 0, 3, 50, 100, 120 }, to[MELS] = { 3, 9, 90, 100, TR_BINS };
    struct tr_filters *f;
    memset(table, 0, MELS * sizeof *table);
    for (int m = 0; m < MELS; m++) {
        for (int k = from[m]; k < to[m]; k++)
            table[m][k] = 0.01f * (float)(1 + (k * 7 + m) % 13);
    }
    CHECK_EQ(tr_filters_open(&f, &table[0][0], MELS), 0);
    return f;
}

static float *new_samples(size_t n)
{
    float *samples = malloc((n + 1) * sizeof *samples);
    unsigned seed = 7;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        samples[i] = 0.3f * sinf(0.05f * (float)i) + (float)(seed >> 8) / (1 << 24) - 0.5f;
    }
    return samples;
}

/* A sample as Whisper pads the recording: mirrored before the beginning, 0 after the end. */
static double padded(const float *samples, size_t n, long i)
{
    const long at = i < 0 ? -i : i;
    return at < (long)n && (i < 0 || i < (long)n) ? (double)samples[at] : 0;
}

/* log10 of a filter's sum in one frame. */
static double expected(const float *weights, const float *samples, size_t n, int frame)
{
    const double circle = 2 * acos(-1);
    double sum = 0;
    for (int k = 0; k < TR_BINS; k++) {
        double re = 0, im = 0;
        for (int j = 0; weights[k] != 0 && j < TR_FRAME_SIZE; j++) {
            const double window = 0.5 * (1 - cos(circle * j / TR_FRAME_SIZE));
            const double x = window * padded(samples, n, (long)frame * TR_FRAME_STEP - TR_FRAME_SIZE / 2 + j);
            re += x * cos(circle * j * k / TR_FRAME_SIZE);
            im -= x * sin(circle * j * k / TR_FRAME_SIZE);
        }
        sum += (re * re + im * im) * (double)weights[k];
    }
    return log10(sum > 1e-10 ? sum : 1e-10);
}

static void check_spectrum(size_t n)
{
    float table[MELS][TR_BINS];
    struct tr_filters *f = new_filters(table);
    float *samples = new_samples(n);
    struct tr_spectrum s;
    double most = -10;
    CHECK_EQ(tr_spectrum_make(&s, f, samples, n), 0);
    for (int m = 0; m < MELS; m++) {
        for (int i = 0; i < s.stored; i++)
            most = fmax(most, expected(table[m], samples, n, i));
    }
    for (int m = 0; m < MELS; m++) {
        for (int i = 0; i < s.stored; i++) {
            const double wanted = (fmax(expected(table[m], samples, n, i), most - 8) + 4) / 4;
            const double got = (double)s.values[m * s.stored + i];
            if (fabs(wanted - got) > 2e-5)
                FAIL("%zu samples, filter %d, frame %d: %.6f, not %.6f", n, m, i, got, wanted);
        }
    }
    CHECK(fabs((double)s.silence - (fmax(-10, most - 8) + 4) / 4) < 2e-5);
    tr_spectrum_free(&s);
    tr_filters_close(&f);
    free(samples);
}

TEST(values_are_those_of_the_definition)
{
    check_spectrum(16000);
    check_spectrum(4001);
    check_spectrum(1600);
}

TEST(recordings_shorter_than_a_frame)
{
    check_spectrum(0);
    check_spectrum(1);
    check_spectrum(150);
    check_spectrum(399);
}

TEST(lengths_are_those_of_whisper)
{
    float table[MELS][TR_BINS];
    struct tr_filters *f = new_filters(table);
    float *samples = new_samples(480001);
    static const struct {
        size_t n;
        int frames, last;
    } cases[] = { { 480000, 2999, 6000 }, { 16000, 99, 3100 }, { 1600, 9, 3010 }, { 480001, 2999, 6000 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tr_spectrum s;
        CHECK_EQ(tr_spectrum_make(&s, f, samples, cases[i].n), 0);
        CHECK_EQ(s.frames, cases[i].frames);
        CHECK_EQ(s.last, cases[i].last);
        tr_spectrum_free(&s);
    }
    tr_filters_close(&f);
    free(samples);
}

TEST(a_window_has_silence_and_then_nothing_behind_the_recording)
{
    float values[2][3] = { { 1, 2, 3 }, { 4, 5, 6 } }, out[2][6];
    const struct tr_spectrum s = {
        .mels = 2, .frames = 3, .stored = 3, .last = 5, .values = &values[0][0], .silence = -1
    };
    tr_spectrum_window(&s, 1, 6, &out[0][0]);
    const float wanted[2][6] = { { 2, 3, -1, -1, 0, 0 }, { 5, 6, -1, -1, 0, 0 } };
    CHECK_MEM(out, wanted, sizeof wanted);
}

/* --- cuts --------------------------------------------------------------------------- */

TEST(a_recording_is_cut_in_its_pause)
{
    const size_t n = 160000;
    float *samples = new_samples(n);
    for (size_t i = 72000; i < 82000; i++)
        samples[i] *= 0.001f;
    const size_t at = tr_cut_find(samples, 32000, 128000);
    CHECK_GE(at, 72000 + 3900);
    CHECK_LE(at, 82000 - 3900);
    for (size_t i = 140000; i < 150000; i++) /* quieter, but behind the range */
        samples[i] = 0;
    CHECK_EQ(tr_cut_find(samples, 32000, 128000), at);
    free(samples);
}

TEST(silence_is_cut_at_the_first_place)
{
    float *samples = calloc(64000, sizeof *samples);
    CHECK_EQ(tr_cut_find(samples, 16000, 64000), 16000 + 4000);
    free(samples);
}

TEST_MAIN()
