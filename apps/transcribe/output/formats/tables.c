/* SPDX-License-Identifier: MIT
 *
 * Formats with one line for each segment:
 *
 *     txt   text
 *     tsv   start, end, text; milliseconds, with tabs between them
 *     lrc   [MM:SS.hh]text, as players of music show it. Minutes are not limited to 99
 *     csv   start,end,"text"; milliseconds. A quote in the text is written twice (RFC 4180)
 *
 * If speakers are known, their name is before the text. tsv and csv have a column for it, as in whisper.cpp.
 */
#include "apps/transcribe/output/formats/write.h"

static void add_tsv(struct gd__buffer *b, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        gd__buffer_add(b, text[i] == '\t' ? " " : text + i, 1);
}

static void add_csv(struct gd__buffer *b, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        gd__buffer_add(b, text[i] == '"' ? "\"\"" : text + i, text[i] == '"' ? 2 : 1);
}

void tr_write_txt(struct gd__buffer *b, const struct tr_transcript *t)
{
    size_t i = 0;
    for (const struct tr_segment *s; (s = tr_next_spoken(t, &i));) {
        tr_add_speaker(b, s->speaker);
        tr_add_lines(b, tr_text_at(t, s->text), s->size, " ", tr_add_plain);
        gd__buffer_text(b, "\n");
    }
}

/* The heading and the first columns of a table. */
static void add_heading(struct gd__buffer *b, const struct tr_transcript *t, char comma)
{
    gd__buffer_format(b, "start%cend%c", comma, comma);
    if (t->speaker > 0)
        gd__buffer_format(b, "speaker%c", comma);
    gd__buffer_text(b, "text\n");
}

static void add_columns(struct gd__buffer *b, const struct tr_transcript *t, const struct tr_segment *s, char comma)
{
    char room[TR_SPEAKER_NAME];
    gd__buffer_format(b, "%llu%c%llu%c", tr_milliseconds(s->start), comma, tr_milliseconds(s->end), comma);
    if (t->speaker > 0)
        gd__buffer_format(b, "%s%c", tr_speaker_name(room, s->speaker), comma);
}

void tr_write_tsv(struct gd__buffer *b, const struct tr_transcript *t)
{
    size_t i = 0;
    add_heading(b, t, '\t');
    for (const struct tr_segment *s; (s = tr_next_spoken(t, &i));) {
        add_columns(b, t, s, '\t');
        tr_add_lines(b, tr_text_at(t, s->text), s->size, " ", add_tsv);
        gd__buffer_text(b, "\n");
    }
}

void tr_write_lrc(struct gd__buffer *b, const struct tr_transcript *t)
{
    size_t i = 0;
    for (const struct tr_segment *s; (s = tr_next_spoken(t, &i));) {
        const unsigned long long hundredths = (tr_milliseconds(s->start) + 5) / 10;
        gd__buffer_format(b, "[%02llu:%02llu.%02llu]", hundredths / 6000, hundredths / 100 % 60, hundredths % 100);
        tr_add_speaker(b, s->speaker);
        tr_add_lines(b, tr_text_at(t, s->text), s->size, " ", tr_add_plain);
        gd__buffer_text(b, "\n");
    }
}

void tr_write_csv(struct gd__buffer *b, const struct tr_transcript *t)
{
    size_t i = 0;
    add_heading(b, t, ',');
    for (const struct tr_segment *s; (s = tr_next_spoken(t, &i));) {
        add_columns(b, t, s, ',');
        gd__buffer_text(b, "\"");
        tr_add_lines(b, tr_text_at(t, s->text), s->size, " ", add_csv);
        gd__buffer_text(b, "\"\n");
    }
}
