/* SPDX-License-Identifier: MIT
 *
 * Which token comes next: Whisper's rules about times, and the choice itself. Pure functions: the same input always
 * gives the same token.
 *
 * The rules: the first token is a time, and not a late one; times come in pairs, except at the end; times never go back;
 * if all times together are more likely than the most likely text token, a time is chosen.
 */
#ifndef GD_TRANSCRIBE_ENGINE_LANES_TOKENS_RULES_H
#define GD_TRANSCRIBE_ENGINE_LANES_TOKENS_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "apps/transcribe/engine/lanes/tokens/vocabulary.h"

/* What holds for all tokens of a run. */
struct tr_rules {
    const struct tr_vocabulary *vocabulary;
    bool suppress_blank;      /* a window does not begin with a blank or its end */
    bool no_times;            /* only text tokens */
    int latest_first_time;    /* the first time token of a window, counted from 0; -1: any */
    const uint8_t *forbidden; /* one byte for each text token; NULL: all are allowed */
};

/* What the tokens before say about the next one. */
struct tr_turn {
    bool first;           /* the first token of a window */
    bool after_time;      /* the token before is a time */
    bool after_two_times; /* and so is the one before that, or there is none */
    int earliest;         /* the first time token that does not go back, counted from 0 */
};

/* What the model says about the next token, without the text tokens that cannot be chosen anyway. */
struct tr_logits {
    int text;            /* the text token with the largest logit */
    float text_logit;    /* its logit */
    float text_log_sum;  /* log of the sum of e^logit over all text tokens */
    const float *others; /* logits of all tokens from eot on */
};

/* A token that was chosen. Probabilities are those after the rules. */
struct tr_pick {
    int token;
    float probability, log_probability;
    int time;               /* the most likely time token */
    float time_probability; /* its share of all times, or of all tokens if it was chosen */
    float all_times_probability;
};

/* The most likely token. */
struct tr_pick tr_rules_best(const struct tr_rules *r, const struct tr_turn *turn, const struct tr_logits *l);

/* Makes the short form of all logits of a model. */
struct tr_logits tr_rules_shorten(const struct tr_rules *r, const struct tr_turn *turn, const float *all);

/* Draws a token at a temperature above 0. The logits are overwritten. `random` is from 0 to less than 1. */
struct tr_pick tr_rules_draw(const struct tr_rules *r, const struct tr_turn *turn, float *all, float temperature,
                             double random);

/* The probability of one token among all, without rules. */
float tr_rules_probability(const struct tr_rules *r, const float *all, int token);

#endif
