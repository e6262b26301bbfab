/* SPDX-License-Identifier: MIT
 *
 * When the tokens of a phrase are spoken. The model sometimes knows the time of a token. The time between two known ones
 * is divided by the lengths of the tokens. Then each token is moved to where the recording is loud. whisper.cpp's token
 * times are found in the same way. Pure.
 *
 * All times are frames: hundredths of a second.
 */
#ifndef GD_TRANSCRIBE_ENGINE_WORDS_TOKEN_TIMES_H
#define GD_TRANSCRIBE_ENGINE_WORDS_TOKEN_TIMES_H

#include <stdbool.h>
#include <stddef.h>

struct tr_spoken_token {
    const char *text;
    size_t size;
    int time;       /* the most likely time of its beginning */
    bool is_likely; /* the time is likely enough to be used */
    int start, end; /* the result */
};

/* How loud a recording is in each frame. */
struct tr_loudness {
    float *frames;
    size_t n;
};

/* Measures n samples at 16 kHz. Returns 0, or -1 if out of memory. Release with tr_loudness_free(). */
int tr_loudness_make(struct tr_loudness *out, const float *samples, size_t n);
void tr_loudness_free(struct tr_loudness *l);

/* Finds the start and the end of the n tokens of a phrase from `start` to `end`. Tokens do not overlap, and are in order.
 * Without loudness (n is 0), tokens are not moved. */
void tr_token_times(struct tr_spoken_token *tokens, size_t n, int start, int end, const struct tr_loudness *l);

#endif
