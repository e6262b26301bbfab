/* SPDX-License-Identifier: MIT
 *
 * Voice activity detection: extracts the speech from a piece of audio, and records where in the piece it was.
 *
 * whisper_full() has an option for this, but that option works only with a context's own state.
 */
#ifndef GD_TRANSCRIBE_ENGINE_SPEECH_H
#define GD_TRANSCRIBE_ENGINE_SPEECH_H

#include <stddef.h>

#include "apps/transcribe/engine/settings.h"

struct tr_speech;

/* Where the speech was: converts times. A zeroed struct changes no time. */
struct tr_speech_map {
    struct tr_speech_point {
        double found, original; /* seconds */
    } * points;
    size_t n;
};

/* Loads the VAD model of the settings. Returns 0, or -1 with gd__fail_text() if the file is not a VAD model. Release with
 * tr_speech_close(). */
int tr_speech_open(struct tr_speech **out, const struct tr_settings *settings);
void tr_speech_close(struct tr_speech **s); /* NULL is fine */

/* Finds the parts of the samples with speech. Sets *out to these parts, with a little silence between them. *out is
 * valid until the next call. Returns the number of samples in *out, or -1 with gd__fail_text(). */
long tr_speech_find(struct tr_speech *s, const float *samples, size_t n, const float **out);

/* The map of the speech that was found last; valid until the next call. */
const struct tr_speech_map *tr_speech_map(const struct tr_speech *s);

/* The same map as a copy. Returns 0, or -1 if out of memory. Release with free(out->points). */
int tr_speech_copy_map(const struct tr_speech *s, struct tr_speech_map *out);

/* Converts a time in the speech that was found to a time in the piece, in seconds. */
double tr_speech_time(const struct tr_speech_map *m, double time);

#endif
