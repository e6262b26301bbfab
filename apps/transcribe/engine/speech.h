/* SPDX-License-Identifier: MIT
 *
 * Voice activity: of a piece of audio the speech alone, and where in the piece it was.
 *
 * As whisper_full() does with its own option, which only works on a context's own state.
 */
#ifndef GD_TRANSCRIBE_ENGINE_SPEECH_H
#define GD_TRANSCRIBE_ENGINE_SPEECH_H

#include <stddef.h>

struct tr_speech;

/* 0, or -1 with gd__fail_text(): the file is no such model. Release with tr_speech_close(). */
int tr_speech_open(struct tr_speech **out, const char *model);
void tr_speech_close(struct tr_speech **s); /* NULL is fine */

/* The parts of the samples in which somebody speaks, with a little silence between them, in *out until the next call.
 * Returns how many samples that is, or -1 with gd__fail_text(). */
long tr_speech_find(struct tr_speech *s, const float *samples, size_t n, const float **out);

/* Where in the piece a time in what was found is; in seconds. */
double tr_speech_time(const struct tr_speech *s, double time);

#endif
