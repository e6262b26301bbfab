/* SPDX-License-Identifier: MIT
 *
 * Voice activity detection: extracts the speech from a piece of audio, and records where in the piece it was.
 *
 * whisper_full() has an option for this, but that option works only with a context's own state.
 */
#ifndef GD_TRANSCRIBE_ENGINE_SPEECH_H
#define GD_TRANSCRIBE_ENGINE_SPEECH_H

#include <stddef.h>

struct tr_speech;

/* Returns 0, or -1 with gd__fail_text() if the file is not a VAD model. Release with tr_speech_close(). */
int tr_speech_open(struct tr_speech **out, const char *model);
void tr_speech_close(struct tr_speech **s); /* NULL is fine */

/* Finds the parts of the samples with speech. Sets *out to these parts, with a little silence between them. *out is
 * valid until the next call. Returns the number of samples in *out, or -1 with gd__fail_text(). */
long tr_speech_find(struct tr_speech *s, const float *samples, size_t n, const float **out);

/* Converts a time in the speech that was found to a time in the piece, in seconds. */
double tr_speech_time(const struct tr_speech *s, double time);

#endif
