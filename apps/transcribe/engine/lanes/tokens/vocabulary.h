/* SPDX-License-Identifier: MIT
 *
 * The tokens of a model: their texts, the numbers of the special tokens, and the way from a text to tokens.
 *
 * Text tokens come first. Then follow `eot` (end of text), tokens for languages and tasks, and from `times` on one token
 * for every 20 ms of a window.
 */
#ifndef GD_TRANSCRIBE_ENGINE_LANES_TOKENS_VOCABULARY_H
#define GD_TRANSCRIBE_ENGINE_LANES_TOKENS_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_vocabulary {
    int size; /* number of tokens */
    bool multilingual;
    int languages; /* their tokens are sot + 1, sot + 2, ... */
    int eot, sot, translate, transcribe, solm, prev, no_speech, no_times, times;
    int blank; /* " "; -1: the model has no such token */
    char *text;
    uint32_t *starts; /* text of token i: from starts[i] to starts[i + 1] */
    int stored;       /* tokens from here on have no text */
    int *by_text;     /* tokens in the order of their texts; made when needed */
};

/* Sets the numbers of the special tokens for a model with `size` tokens. The texts are added next, in order. */
void tr_vocabulary_begin(struct tr_vocabulary *v, int size);

/* Copies the texts of the first `n` tokens. lengths has n numbers; text has their sum of bytes. Returns 0, or -1 with
 * gd__fail_text(). */
int tr_vocabulary_set(struct tr_vocabulary *v, int n, const uint32_t *lengths, const char *text);
void tr_vocabulary_free(struct tr_vocabulary *v);

/* The text of a token, not NUL-terminated. Special tokens have none. */
const char *tr_vocabulary_text(const struct tr_vocabulary *v, int token, size_t *size);

/* Turns a text into tokens, as whisper.cpp does: words first, then the longest token that fits. Bytes without a
 * token are left out. Returns the number of tokens, of which at most `most` are stored, or -1 with gd__fail_text(). */
long tr_vocabulary_tokens(struct tr_vocabulary *v, const char *text, int *tokens, size_t most);

/* Sets the bytes of all text tokens that are symbols which nobody speaks: brackets, notes of music, a dash before a word. A
 * quote or dash inside of a word is speech. These are OpenAI's non-speech tokens, as whisper.cpp has them. */
void tr_vocabulary_mark_symbols(const struct tr_vocabulary *v, uint8_t *marks);

#endif
