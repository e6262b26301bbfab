/* SPDX-License-Identifier: MIT
 *
 * Fills templates of arbitrary words with arbitrary arguments. An input is a byte of flags, then words that each end
 * with a NUL, up to an empty word. The rest is the payload. Checks:
 *
 *   - opening, filling and checking a template never crashes
 *   - the words that are made without a shell are the same as those that a shell makes of the line. The line of a plain
 *     template has only blanks and quotes for a shell to interpret.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_WORDS = 32 };

#define MUST(cond)                                                     \
    do {                                                               \
        if (!(cond)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
            abort();                                                   \
        }                                                              \
    } while (0)

/* Reads a word of a line as a shell does: blanks end it, quotes group. NULL at the end of the line. */
static const char *read_word(const char *at, struct gd__text *word)
{
    word->size = 0;
    at += strspn(at, " \t");
    if (!*at)
        return NULL;
    while (*at && *at != ' ' && *at != '\t') {
        if (*at == '\'' || *at == '"') {
            const char *end = strchr(at + 1, *at);
            MUST(end != NULL);
            gd__text_put(word, at + 1, (size_t)(end - at - 1));
            at = end + 1;
        } else {
            gd__text_put(word, at++, 1);
        }
    }
    gd__text_put(word, "", 1);
    return at;
}

static void compare(const struct gd_command *c, const struct gd_command_fill *with)
{
    struct gd__filling f = { 0 };
    struct gd__text word = { 0 };
    char *line = gd_command_line(c, with);
    MUST(line && gd__command_fill_argv(c, with, &f) == 0);
    const char *at = line;
    for (size_t i = 0; i < f.n_argv; i++) {
        at = read_word(at, &word);
        MUST(at && strcmp(word.bytes, f.argv[i]) == 0);
    }
    MUST(read_word(at, &word) == NULL);
    gd__text_free(&word);
    gd__filling_free(&f);
    gd_command_free(line);
}

static void fill(const struct gd_command *c, const char *payload, size_t size)
{
    const struct gd_command_fill with = { sizeof with, payload, size, UINT64_MAX - 1, 7, -1, NULL, 0 };
    char *line = gd_command_line(c, &with);
    MUST(line != NULL);
    gd_command_free(line);
    if (gd__command_is_plain(c))
        compare(c, &with);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *words[MOST_WORDS + 1] = { NULL };
    if (size < 1)
        return 0;
    char *text = malloc(size + 1); /* with a NUL at the end */
    MUST(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    size_t at = 1;
    for (int n = 0; at < size && n < MOST_WORDS; n++) {
        const char *word = text + at;
        at += strlen(word) + 1;
        if (!*word && !(data[0] & 2)) /* with this flag an empty word is a word, not the end */
            break;
        words[n] = word;
    }
    const struct gd_command_spec spec = {
        .size = sizeof spec, .words = words, .quote = data[0] & 1, .shell = "/bin/sh"
    };
    struct gd_command *c = NULL;
    if (gd_command_open(&c, &spec) == 0) {
        char name[64];
        gd__command_first(c, name, sizeof name);
        MUST(strlen(name) < sizeof name);
        fill(c, text + (at < size ? at : size), at < size ? size - at : 0);
        gd_command_close(&c);
    }
    free(text);
    return 0;
}
