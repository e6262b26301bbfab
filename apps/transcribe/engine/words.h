/* SPDX-License-Identifier: MIT
 *
 * Words from tokens. A token is a word or a part of one; the first of a word begins with a space, but in languages that
 * have none. A character may be spread over several tokens, a word never begins in the middle of one.
 */
#ifndef GD_TRANSCRIBE_ENGINE_WORDS_H
#define GD_TRANSCRIBE_ENGINE_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "apps/transcribe/output/transcript.h"

struct tr_token {
    const char *text;
    double start, end; /* seconds */
    float probability;
};

/* "zh", "ja", ...: written without spaces between words. NULL is none of them. */
bool tr_words_unspaced(const char *language);

/* Adds the words of a segment's tokens to the transcript, which sees to their times. 0, or -1 if out of memory. */
int tr_words_add(struct tr_transcript *t, const struct tr_token *tokens, size_t n, bool unspaced);

#endif
