/* SPDX-License-Identifier: MIT
 *
 * Makes words from tokens. Tokens are added to a word until a token begins the next word. A word has the start time of
 * its first token and the end time of its last token. Its probability is the mean of the probabilities of its tokens.
 */
#include "apps/transcribe/engine/words/words.h"

#include <string.h>

#include "base/text/buffer.h"

bool tr_words_unspaced(const char *language)
{
    static const char *const unspaced[] = { "zh", "ja", "th", "lo", "my", "yue" };
    for (size_t i = 0; language && i < sizeof unspaced / sizeof *unspaced; i++) {
        if (strcmp(language, unspaced[i]) == 0)
            return true;
    }
    return false;
}

/* How many bytes are missing from the character at the end of the text. */
static size_t bytes_lacking(const char *text, size_t size)
{
    size_t back = 0;
    while (back < size && back < 3 && ((unsigned char)text[size - 1 - back] & 0xc0) == 0x80)
        back++;
    if (back == size)
        return 0;
    const unsigned char first = (unsigned char)text[size - 1 - back];
    const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
    return length > back + 1 ? length - back - 1 : 0;
}

struct word {
    struct gd__buffer text;
    double start, end, sum;
    size_t tokens;
};

static int finish(struct tr_transcript *t, struct word *w)
{
    if (w->tokens == 0)
        return 0;
    const struct tr_word out = { .start = w->start, .end = w->end, .probability = (float)(w->sum / (double)w->tokens) };
    const int rc = w->text.failed ? -1 : tr_transcript_add_word(t, &out, w->text.data, w->text.size);
    w->text.size = 0;
    w->tokens = 0;
    w->sum = 0;
    return rc;
}

static bool begins_word(const struct word *w, const char *text, bool unspaced)
{
    return w->tokens > 0 && (unspaced || text[0] == ' ') && bytes_lacking(w->text.data, w->text.size) == 0;
}

static void append(struct word *w, const struct tr_token *token)
{
    gd__buffer_text(&w->text, token->text);
    if (w->tokens == 0)
        w->start = token->start;
    w->end = token->end;
    w->sum += (double)token->probability;
    w->tokens++;
}

int tr_words_add(struct tr_transcript *t, const struct tr_token *tokens, size_t n, bool unspaced)
{
    struct word w = { .tokens = 0 };
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (tokens[i].text[0] == '\0')
            continue;
        if (begins_word(&w, tokens[i].text, unspaced))
            rc = finish(t, &w);
        append(&w, &tokens[i]);
    }
    if (rc == 0)
        rc = finish(t, &w);
    gd__buffer_free(&w.text);
    return rc;
}
