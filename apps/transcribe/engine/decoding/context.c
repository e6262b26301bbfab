/* SPDX-License-Identifier: MIT
 *
 * Makes tokens of the prompt and the hotwords, and collects those of the text.
 *
 * The decoder has room for half of its context, and one token of that marks the beginning. Hotwords that are too long
 * lose their end, as in faster-whisper. A prompt that is too long loses its beginning, as in OpenAI's Whisper. */
#include "apps/transcribe/engine/decoding/context.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"

/* The tokens of a text, in new memory. NULL: an error, with gd__fail_text(). */
static whisper_token *tokens_of(struct whisper_context *model, const char *text, const char *what, size_t *n)
{
    const size_t most = strlen(text); /* a token has at least one byte */
    whisper_token *tokens = calloc(most + 1, sizeof *tokens);
    if (!tokens) {
        gd__fail("no memory for the %s", what);
        return NULL;
    }
    const int found = most > 0 ? whisper_tokenize(model, text, tokens, (int)most) : 0;
    if (found < 0) {
        free(tokens);
        gd__fail("whisper.cpp cannot turn the %s into tokens", what);
        return NULL;
    }
    *n = (size_t)found;
    return tokens;
}

/* Words inside a text begin with a blank. */
static whisper_token *hotwords_of(struct whisper_context *model, const char *words, size_t *n)
{
    char *text = NULL;
    while (isspace((unsigned char)*words))
        words++;
    if (asprintf(&text, "%s%s", *words ? " " : "", words) < 0) {
        gd__fail("no memory for the hotwords");
        return NULL;
    }
    whisper_token *tokens = tokens_of(model, text, "hotwords", n);
    free(text);
    return tokens;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Puts the hotwords and, if it is carried, the end of the prompt before every window. */
static int fix(struct tr_context *c, struct whisper_context *model, const struct tr_settings *s)
{
    size_t n_words = 0;
    whisper_token *words = hotwords_of(model, s->hotwords ? s->hotwords : "", &n_words);
    if (!words)
        return -1;
    const size_t room = c->room - 1;
    c->n_fixed = least(n_words, room);
    memcpy(c->fixed, words, c->n_fixed * sizeof *words);
    free(words);
    if (s->carry_initial_prompt) {
        const size_t n = least(c->n_prompt, room - c->n_fixed);
        memcpy(c->fixed + c->n_fixed, c->prompt + c->n_prompt - n, n * sizeof *c->prompt);
        c->n_fixed += n;
        c->n_prompt = 0;
    }
    return 0;
}

int tr_context_open(struct tr_context *c, struct whisper_context *model, const struct tr_settings *s)
{
    *c = (struct tr_context){ .remembers = s->condition_on_previous_text,
                              .room = (size_t)(whisper_n_text_ctx(model) / 2),
                              .eot = whisper_token_eot(model),
                              .begin = whisper_token_beg(model) };
    c->past = calloc(c->room + 1, sizeof *c->past);
    c->fixed = calloc(c->room + 1, sizeof *c->fixed);
    if (!c->past || !c->fixed || c->room == 0)
        return gd__fail("no memory for the prompt");
    c->prompt = tokens_of(model, s->prompt ? s->prompt : "", "prompt", &c->n_prompt);
    return c->prompt ? fix(c, model, s) : -1;
}

void tr_context_close(struct tr_context *c)
{
    free(c->past);
    free(c->fixed);
    free(c->prompt);
    *c = (struct tr_context){ 0 };
}

static void remember(struct tr_context *c, whisper_token token)
{
    if (c->n_past == c->room)
        memmove(c->past, c->past + 1, --c->n_past * sizeof *c->past);
    c->past[c->n_past++] = token;
}

void tr_context_begin(struct tr_context *c)
{
    c->n_past = 0;
    for (size_t i = 0; i < c->n_prompt; i++)
        remember(c, c->prompt[i]);
}

/* whisper.cpp leaves out the time token at the beginning of a segment, unless the segment is the first of a window. */
void tr_context_add(struct tr_context *c, struct whisper_state *state, int segment)
{
    const int n = c->remembers ? whisper_full_n_tokens_from_state(state, segment) : 0;
    for (int i = 0; i < n; i++) {
        const whisper_token id = whisper_full_get_token_id_from_state(state, segment, i);
        if (i == 0 && id < c->begin && c->n_past > 0 && c->past[c->n_past - 1] >= c->begin)
            remember(c, c->past[c->n_past - 1]);
        if (id < c->eot || id >= c->begin)
            remember(c, id);
    }
}
