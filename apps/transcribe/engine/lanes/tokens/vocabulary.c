/* SPDX-License-Identifier: MIT
 *
 * Tokens and their texts. To find a token by its text, the tokens are sorted once. If two tokens have the same text, the
 * later one counts.
 */
#include "apps/transcribe/engine/lanes/tokens/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "base/failure.h"

/* The numbers in a model that supports only English. In other models, `eot` and `sot` are one higher. The tokens after
 * the languages are higher by the number of further languages. */
enum {
    ENGLISH_SIZE = 51864,
    EOT = 50256,
    SOT = 50257,
    TRANSLATE = 50357,
    TRANSCRIBE = 50358,
    SOLM = 50359,
    PREV = 50360,
    NO_SPEECH = 50361,
    NO_TIMES = 50362,
    TIMES = 50363,
    OTHER_TOKENS = 51765, /* all but the languages */
    FIRST_LANGUAGES = 98,
};

void tr_vocabulary_begin(struct tr_vocabulary *v, int size)
{
    const bool multilingual = size > ENGLISH_SIZE;
    const int languages = size - OTHER_TOKENS - (multilingual ? 1 : 0);
    const int more = multilingual ? languages - FIRST_LANGUAGES : 0;
    *v = (struct tr_vocabulary){
        .size = size,
        .multilingual = multilingual,
        .languages = languages,
        .eot = EOT + (multilingual ? 1 : 0),
        .sot = SOT + (multilingual ? 1 : 0),
        .translate = TRANSLATE + more,
        .transcribe = TRANSCRIBE + more,
        .solm = SOLM + more,
        .prev = PREV + more,
        .no_speech = NO_SPEECH + more,
        .no_times = NO_TIMES + more,
        .times = TIMES + more,
        .blank = -1,
    };
}

int tr_vocabulary_set(struct tr_vocabulary *v, int n, const uint32_t *lengths, const char *text)
{
    size_t total = 0;
    for (int i = 0; i < n; i++)
        total += lengths[i];
    v->text = malloc(total + 1);
    v->starts = malloc(((size_t)n + 1) * sizeof *v->starts);
    if (!v->text || !v->starts || total > UINT32_MAX)
        return gd__fail("no memory for the tokens of the model");
    memcpy(v->text, text, total);
    v->stored = n;
    v->starts[0] = 0;
    for (int i = 0; i < n; i++) {
        v->starts[i + 1] = v->starts[i] + lengths[i];
        if (lengths[i] == 1 && v->text[v->starts[i]] == ' ')
            v->blank = i;
    }
    return 0;
}

void tr_vocabulary_free(struct tr_vocabulary *v)
{
    free(v->text);
    free(v->starts);
    free(v->by_text);
    *v = (struct tr_vocabulary){ 0 };
}

const char *tr_vocabulary_text(const struct tr_vocabulary *v, int token, size_t *size)
{
    *size = 0;
    if (token < 0 || token >= v->stored || token >= v->eot)
        return "";
    *size = v->starts[token + 1] - v->starts[token];
    return v->text + v->starts[token];
}

/* --- from text to tokens ------------------------------------------------------ */

static int compare_text(const char *a, size_t a_size, const char *b, size_t b_size)
{
    const int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order ? order : (a_size > b_size) - (a_size < b_size);
}

static int compare_tokens(const void *left, const void *right, void *vocabulary)
{
    const struct tr_vocabulary *v = vocabulary;
    const int a = *(const int *)left, b = *(const int *)right;
    const int order = compare_text(v->text + v->starts[a], v->starts[a + 1] - v->starts[a], v->text + v->starts[b],
                                   v->starts[b + 1] - v->starts[b]);
    return order ? order : (a > b) - (a < b);
}

static int sort_tokens(struct tr_vocabulary *v)
{
    if (v->by_text)
        return 0;
    v->by_text = malloc(((size_t)v->stored + 1) * sizeof *v->by_text);
    if (!v->by_text)
        return gd__fail("no memory for the tokens of the model");
    for (int i = 0; i < v->stored; i++)
        v->by_text[i] = i;
    qsort_r(v->by_text, (size_t)v->stored, sizeof *v->by_text, compare_tokens, v);
    return 0;
}

/* The last token with this text; -1: there is none. */
static int find_token(const struct tr_vocabulary *v, const char *text, size_t size)
{
    int low = 0, high = v->stored;
    while (low < high) { /* the first token whose text is greater */
        const int middle = low + (high - low) / 2, t = v->by_text[middle];
        if (compare_text(v->text + v->starts[t], v->starts[t + 1] - v->starts[t], text, size) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return -1;
    const int t = v->by_text[low - 1];
    return compare_text(v->text + v->starts[t], v->starts[t + 1] - v->starts[t], text, size) == 0 ? t : -1;
}

enum kind { LETTER, DIGIT, SPACE, OTHER };

/* Only ASCII has letters and digits here, as in whisper.cpp. */
static enum kind kind_of(char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return LETTER;
    if (c >= '0' && c <= '9')
        return DIGIT;
    return c == ' ' || (c >= '\t' && c <= '\r') ? SPACE : OTHER;
}

/* "'s" and other endings that are words of their own; 0: there is none here. */
static size_t ending(const char *at)
{
    static const char *const endings[] = { "'s", "'t", "'re", "'ve", "'m", "'ll", "'d" };
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (strncmp(at, endings[i], strlen(endings[i])) == 0)
            return strlen(endings[i]);
    }
    return 0;
}

/* The length of the word at the beginning of a text: characters of one kind, with a space before them. In a longer row of
 * spaces, the last one belongs to the word that follows. */
static size_t word_length(const char *at)
{
    size_t n = ending(at);
    if (n > 0)
        return n;
    const size_t lead = at[0] == ' ' && at[1] && kind_of(at[1]) != SPACE;
    if (kind_of(at[lead]) != SPACE) {
        const enum kind kind = kind_of(at[lead]);
        for (n = lead + 1; at[n] && kind_of(at[n]) == kind; n++)
            ;
        return n;
    }
    for (n = 1; at[n] && kind_of(at[n]) == SPACE; n++)
        ;
    return at[n] && n > 1 ? n - 1 : n;
}

long tr_vocabulary_tokens(struct tr_vocabulary *v, const char *text, int *tokens, size_t most)
{
    size_t found = 0;
    if (sort_tokens(v) < 0)
        return -1;
    while (*text) {
        const size_t word = word_length(text);
        for (size_t i = 0; i < word;) {
            int token = -1;
            size_t n = word - i;
            for (; n > 0 && (token = find_token(v, text + i, n)) < 0; n--)
                ;
            if (token >= 0 && found++ < most)
                tokens[found - 1] = token;
            i += token >= 0 ? n : 1;
        }
        text += word;
    }
    return (long)found;
}

/* Whether one of the symbols, with or without a blank before it. */
static bool is_symbol(const char *text, size_t size)
{
    static const char *const symbols[] = {
        "\"", "#",   "(",   ")",  "*",   "+",  "/",  ":",  ";",   "<",  "=",  ">",   "@",   "[",
        "\\", "]",   "^",   "_",  "`",   "{",  "|",  "}",  "~",   "「", "」", "『",  "』",  "<<",
        ">>", "<<<", ">>>", "--", "---", "-(", "-[", "('", "(\"", "((", "))", "(((", ")))", "[[",
        "]]", "{{",  "}}",  "♪♪", "♪♪♪", "♩",  "♪",  "♫",  "♬",   "♭",  "♮",  "♯",
    };
    if (size == 2 && text[0] == ' ' && (text[1] == '-' || text[1] == '\''))
        return true;
    if (size > 0 && text[0] == ' ') {
        text++;
        size--;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        if (strlen(symbols[i]) == size && memcmp(symbols[i], text, size) == 0)
            return true;
    }
    return false;
}

void tr_vocabulary_mark_symbols(const struct tr_vocabulary *v, uint8_t *marks)
{
    for (int token = 0; token < v->eot; token++) {
        size_t size;
        const char *text = tr_vocabulary_text(v, token, &size);
        if (is_symbol(text, size))
            marks[token] = 1;
    }
}
