/* SPDX-License-Identifier: MIT
 *
 * A recording that is being decoded: window after window, as whisper.cpp does it. A window begins where the last time of
 * the window before was. The text before is context for the next window. A window whose text is bad is tried again at
 * higher temperatures. Pure: no device, no clock, no threads.
 *
 *     for (bool more = tr_lane_begin(l); more; more = next == TR_NEXT_WINDOW) {
 *         ... encode the window at l->at ...
 *         do {
 *             ... feed tr_lane_token(l), which is number l->position; get the logits ...
 *             next = tr_lane_hear(l, &logits, all) ...
 *         } while (next == TR_NEXT_TOKEN);
 *     }
 */
#ifndef GD_TRANSCRIBE_ENGINE_LANES_LANE_H
#define GD_TRANSCRIBE_ENGINE_LANES_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/transcribe/engine/lanes/sound/spectrum.h"
#include "apps/transcribe/engine/lanes/tokens/window.h"

/* How a model decodes; the same for all lanes. */
struct tr_decoding {
    struct tr_rules rules;
    int text_positions;
    bool translate;
    bool use_context;     /* the text before is context for the next window */
    const int *fixed;     /* context for all windows: hotwords, and the prompt if it is carried; borrowed */
    int n_fixed;          /* less than half of text_positions */
    float temperature;    /* of the first try */
    float increment;      /* for each further try, up to 1; 0: there is only one try */
    int best_of;          /* number of texts that are drawn at a temperature above 0 */
    float least_entropy;  /* a text with less repeats itself */
    float least_score;    /* a text with a smaller mean log probability is bad */
    float most_ratio;     /* a text with a larger compression ratio repeats itself; INFINITY: not looked at */
    float length_penalty; /* of the texts that are drawn, see settings.h; < 0: none */
    float silence;        /* a window with a larger probability of silence and a bad text is dropped */
};

/* A part of the text between two times. */
struct tr_phrase {
    int start, end;  /* frames in the recording; a model that gives no times can give any value */
    size_t first, n; /* its tokens, in picks */
    int window;      /* first frame of its window */
    float no_speech, temperature;
    double score; /* of its window; -INFINITY: not known */
};

enum { TR_NO_LANGUAGE = -1 };

struct tr_lane {
    const struct tr_decoding *how;
    struct tr_spectrum spectrum; /* released by tr_lane_free() */
    int language;                /* its number; TR_NO_LANGUAGE: to be detected */
    float language_probability;  /* < 0: not known */
    int *prompt, n_prompt;       /* context for the first window: prompt and text before; copied */
    bool at_rest;                /* what is left is too short for context */
    void *user;
    struct tr_lane *next; /* in a list of the batch */

    /* the window */
    int at;                       /* its first frame */
    int position;                 /* the next token to feed is number `position` of this sequence */
    struct tr_window *now, *best; /* this try, and the best of those at this temperature; best may be NULL */
    int tries;                    /* temperatures that were tried before */
    int drawn;                    /* texts that were drawn at this temperature */
    float heat;                   /* the temperature */
    float no_speech;
    int fed[2 * TR_MOST_PICKS]; /* what is fed before the text */
    int n_fed, n_start;         /* its length; its last n_start tokens name language and task */
    int context[2 * TR_MOST_PICKS], n_context;
    struct tr_window tries_room[2];

    /* the text */
    struct tr_phrase *phrases;
    size_t n_phrases, phrases_room;
    struct tr_pick *picks;
    size_t n_picks, picks_room;
    bool no_memory; /* the text is incomplete */
};

/* Makes a lane. The spectrum becomes the lane's. Returns NULL if out of memory; the spectrum is then still the caller's.
 */
struct tr_lane *tr_lane_new(const struct tr_decoding *how, struct tr_spectrum *spectrum, int language,
                            const int *prompt, size_t n_prompt);
void tr_lane_free(struct tr_lane *l); /* NULL is fine */

/* Begins the first window. Returns false if there is nothing to decode. */
bool tr_lane_begin(struct tr_lane *l);

/* The token to feed next, at l->position. */
int tr_lane_token(const struct tr_lane *l);

/* Whether tr_lane_hear() needs all logits for the token that was fed, and not only the short form. */
bool tr_lane_wants_all(const struct tr_lane *l);

/* Whether the lane does not need any logits for the token that was fed. */
bool tr_lane_wants_none(const struct tr_lane *l);

enum tr_next {
    TR_NEXT_TOKEN,  /* feed the next token */
    TR_NEXT_WINDOW, /* encode the window at l->at, then feed */
    TR_NEXT_NONE,   /* the recording is decoded */
};

/* Takes the logits for the token that was fed. The short form is ignored if `all` is set. `all` is overwritten. */
enum tr_next tr_lane_hear(struct tr_lane *l, const struct tr_logits *logits, float *all);

/* The same after everything before the text was fed at once: the logits of the token at which the text starts, and of the
 * last token. Both are overwritten. */
enum tr_next tr_lane_hear_feed(struct tr_lane *l, float *start_logits, float *last_logits);

#endif
