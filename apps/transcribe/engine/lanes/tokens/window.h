/* SPDX-License-Identifier: MIT
 *
 * The tokens of one try at a window of half a minute, and what they mean for the try: whether it goes on, is complete or
 * has failed, how far the window reaches, how good the tokens are. The rules are those of whisper.cpp.
 */
#ifndef GD_TRANSCRIBE_ENGINE_LANES_TOKENS_WINDOW_H
#define GD_TRANSCRIBE_ENGINE_LANES_TOKENS_WINDOW_H

#include <stdbool.h>

#include "apps/transcribe/engine/lanes/tokens/rules.h"

enum {
    TR_WINDOW_FRAMES = 3000, /* half a minute */
    TR_LEAST_FRAMES = 10,    /* a tenth of a second: less is not decoded */
    TR_MOST_PICKS = 1024,    /* no model has more text positions */
};

/* Where the window lies in its recording. */
struct tr_view {
    int at, end;     /* its first frame, and the end of the recording */
    int most_tokens; /* the longest try */
};

struct tr_window {
    struct tr_pick picks[TR_MOST_PICKS];
    int n;      /* tokens */
    int kept;   /* tokens up to the last time; they are the result */
    int frames; /* how far the window reaches: to the last time */
    bool timed; /* there was a time */
    bool complete, failed;
    double score;   /* mean log probability of the kept tokens; -INFINITY: not known */
    double entropy; /* of the last 32 kept tokens: small if they repeat */
};

void tr_window_begin(struct tr_window *w);

/* What the rules need to know about the next token. */
struct tr_turn tr_window_turn(const struct tr_window *w, const struct tr_rules *r);

/* Adds a token. Returns true if the try goes on. */
bool tr_window_add(struct tr_window *w, const struct tr_rules *r, const struct tr_view *view, const struct tr_pick *p);

/* Whether the text of all tokens compresses too well (text/compression.h), so that the window is to be tried again. To be
 * called before tr_window_measure(), because openai-whisper also looks at the text after the last time. */
bool tr_window_repeats(const struct tr_window *w, const struct tr_rules *r, double most_compression);

/* Drops the tokens after the last time and computes score and entropy. Only for a try that has not failed. */
void tr_window_measure(struct tr_window *w);

#endif
