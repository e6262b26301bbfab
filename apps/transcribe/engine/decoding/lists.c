/* SPDX-License-Identifier: MIT
 *
 * Parses lists with commas between the numbers. Blanks around a number are allowed. The decimal point is a point in every
 * locale, so strtod() is not used. */
#include "apps/transcribe/engine/decoding/lists.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads a number without a sign at *at, and moves *at past it. */
static bool read_decimal(const char **at, double *out)
{
    const char *p = *at;
    double value = 0, scale = 1;
    size_t digits = 0;
    for (; is_digit(*p); p++, digits++)
        value = value * 10 + (*p - '0');
    if (*p == '.') {
        for (p++; is_digit(*p); p++, digits++)
            value += (*p - '0') * (scale /= 10);
    }
    *at = p;
    *out = value;
    return digits > 0;
}

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " ");
}

/* Moves past the comma after a number. Returns false if something else follows. */
static bool next_item(const char **at)
{
    *at = skip_blanks(*at);
    if (!**at)
        return true;
    if (**at != ',')
        return false;
    *at = skip_blanks(*at + 1);
    return **at != '\0'; /* nothing follows a comma at the end */
}

/* The number of items of a list that is not empty. */
static size_t count_items(const char *text)
{
    size_t n = 1;
    for (; *text; text++)
        n += *text == ',';
    return n;
}

/* --- parts of a file ---------------------------------------------------------- */

static int bad_clips(const char *shown, const char *text)
{
    return gd__fail("%s takes seconds, as in 0,10,60,90 for the first ten seconds and those from 60 to 90, not "
                    "\"%.100s\"",
                    shown, text);
}

static int not_ascending(const char *shown, double before, double value)
{
    return gd__fail("%s: %g does not come after %g: write the parts in the order of the file, as in 0,10,60,90", shown,
                    value, before);
}

/* Stores the times one after the other: start, end, start, end. */
static int read_times(struct tr_clips *out, const char *shown, const char *text)
{
    const char *at = skip_blanks(text);
    double before = 0;
    for (size_t i = 0; *at; i++) {
        double value;
        if (!read_decimal(&at, &value) || !next_item(&at))
            return bad_clips(shown, text);
        /* A part is not empty. The next part may begin where the one before it ends. */
        if (i % 2 ? value <= before : value < before)
            return not_ascending(shown, before, value);
        if (i % 2)
            out->items[i / 2].end = value;
        else
            out->items[out->n++] = (struct tr_clip){ value, INFINITY };
        before = value;
    }
    return 0;
}

int tr_clips_parse(struct tr_clips *out, const char *shown, const char *text)
{
    *out = (struct tr_clips){ 0 };
    if (!text || !*skip_blanks(text))
        return 0;
    out->items = calloc(count_items(text), sizeof *out->items);
    if (!out->items)
        return gd__fail("no memory for a list of times");
    const int rc = read_times(out, shown, text);
    if (rc < 0 || (out->n == 1 && out->items[0].start <= 0 && isinf(out->items[0].end)))
        tr_clips_free(out); /* also if the list is the whole file */
    return rc;
}

void tr_clips_free(struct tr_clips *clips)
{
    free(clips->items);
    *clips = (struct tr_clips){ 0 };
}

/* --- tokens --------------------------------------------------------------------- */

static int bad_tokens(const char *shown, const char *text)
{
    return gd__fail("%s takes the numbers of tokens, as in -1,50362 (-1: symbols that are not speech), not \"%.100s\"",
                    shown, text);
}

/* Reads one number: -1, or a token. */
static bool read_token(const char **at, int32_t *out)
{
    enum { MOST_DIGITS = 8 };
    if (strncmp(*at, "-1", 2) == 0 && !is_digit((*at)[2])) {
        *at += 2;
        *out = -1;
        return true;
    }
    const size_t digits = strspn(*at, "0123456789");
    if (digits == 0 || digits > MOST_DIGITS)
        return false;
    *out = (int32_t)strtol(*at, NULL, 10);
    *at += digits;
    return true;
}

int tr_token_list_parse(struct tr_token_list *out, const char *shown, const char *text)
{
    *out = (struct tr_token_list){ 0 };
    if (!text || !*skip_blanks(text))
        return 0;
    out->ids = calloc(count_items(text), sizeof *out->ids);
    if (!out->ids)
        return gd__fail("no memory for a list of tokens");
    for (const char *at = skip_blanks(text); *at;) {
        int32_t id;
        if (!read_token(&at, &id) || !next_item(&at)) {
            tr_token_list_free(out);
            return bad_tokens(shown, text);
        }
        if (id < 0)
            out->non_speech = true;
        else
            out->ids[out->n++] = id;
    }
    return 0;
}

void tr_token_list_free(struct tr_token_list *list)
{
    free(list->ids);
    *list = (struct tr_token_list){ 0 };
}
