/* SPDX-License-Identifier: MIT
 *
 * What the writers of the formats share. Numbers are written from integers, because the locale may have a comma as the
 * decimal point.
 */
#include "apps/transcribe/output/formats/write.h"

#include <math.h>
#include <stdbool.h>

#include "apps/transcribe/text/trim.h"

/* --- text ------------------------------------------------------------------------- */

static bool is_break(char c)
{
    return tr_is_space(c) && c != ' ' && c != '\t';
}

void tr_add_plain(struct gd__buffer *b, const char *text, size_t size)
{
    gd__buffer_add(b, text, size);
}

void tr_add_lines(struct gd__buffer *b, const char *text, size_t size, const char *between, tr_add_line *add)
{
    const char *end = text + size, *before = "";
    while (text < end) {
        size_t n = 0;
        while (text + n < end && !is_break(text[n]))
            n++;
        size_t trimmed = n;
        const char *line = tr_trim(text, &trimmed);
        if (trimmed > 0) {
            gd__buffer_text(b, before);
            add(b, line, trimmed);
            before = between;
        }
        text += n + (text + n < end);
    }
}

/* --- segments --------------------------------------------------------------------- */

const char *tr_text_at(const struct tr_transcript *t, size_t at)
{
    return t->text.data ? t->text.data + at : "";
}

const struct tr_segment *tr_next_spoken(const struct tr_transcript *t, size_t *i)
{
    while (*i < t->n_segments) {
        const struct tr_segment *s = &t->segments[(*i)++];
        size_t size = s->size;
        (void)tr_trim(tr_text_at(t, s->text), &size);
        if (size > 0)
            return s;
    }
    return NULL;
}

void tr_add_speaker(struct gd__buffer *b, unsigned speaker)
{
    char room[TR_SPEAKER_NAME];
    if (speaker > 0)
        gd__buffer_format(b, "%s: ", tr_speaker_name(room, speaker));
}

/* --- times ------------------------------------------------------------------------ */

unsigned long long tr_milliseconds(double seconds)
{
    if (!(seconds > 0))
        return 0;
    if (seconds > 1e9) /* thirty years: a larger value is a mistake, but must still fit */
        seconds = 1e9;
    return (unsigned long long)llround(seconds * 1000);
}
