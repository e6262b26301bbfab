/* SPDX-License-Identifier: MIT
 *
 * The logarithmic mel spectrum of a recording, as Whisper defines it: a frame every 10 ms, each from 25 ms of samples.
 * After the end of the recording there is half a minute of silence.
 */
#ifndef GD_TRANSCRIBE_ENGINE_LANES_SOUND_SPECTRUM_H
#define GD_TRANSCRIBE_ENGINE_LANES_SOUND_SPECTRUM_H

#include <stddef.h>

enum { TR_FRAME_STEP = 160, TR_FRAME_SIZE = 400, TR_BINS = TR_FRAME_SIZE / 2 + 1 };

struct tr_filters; /* the filters of a model, and tables for the transform; read by any number of threads */

/* `table` has mels rows of TR_BINS weights. Returns 0, or -1 with gd__fail_text(). Release with tr_filters_close(). */
int tr_filters_open(struct tr_filters **out, const float *table, int mels);
void tr_filters_close(struct tr_filters **f); /* NULL is fine */

struct tr_spectrum {
    int mels;
    int frames;    /* frames of the recording; decoding ends there */
    int stored;    /* computed frames; all later ones have the value `silence` */
    int last;      /* end of the silence after the recording; there is nothing behind it */
    float *values; /* mels rows of `stored` values */
    float silence;
};

/* Computes the spectrum of n samples at 16 kHz. Returns 0, or -1 with gd__fail_text(). Release with
 * tr_spectrum_free(). */
int tr_spectrum_make(struct tr_spectrum *s, const struct tr_filters *f, const float *samples, size_t n);
void tr_spectrum_free(struct tr_spectrum *s);

/* Copies `width` frames from `first` on, as mels rows. What lies behind the end is 0. */
void tr_spectrum_window(const struct tr_spectrum *s, int first, int width, float *to);

#endif
