/* SPDX-License-Identifier: MIT
 *
 * Makes words from tokens. A token is a word or a part of one. The first token of a word begins with a space, except in
 * languages without spaces. A character may be spread over several tokens, but a word never begins in the middle of a
 * character.
 */
#ifndef GD_TRANSCRIBE_ENGINE_WORDS_WORDS_H
#define GD_TRANSCRIBE_ENGINE_WORDS_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "apps/transcribe/output/transcript.h"

struct tr_token {
    const char *text;
    double start, end; /* seconds */
    float probability;
};

/* True for "zh", "ja" and other languages written without spaces between words. False for NULL. */
bool tr_words_unspaced(const char *language);

/* Adds the words of a segment's tokens to the transcript, which corrects their times. Returns 0, or -1 if out of
 * memory. */
int tr_words_add(struct tr_transcript *t, const struct tr_token *tokens, size_t n, bool unspaced);

#endif
