/* SPDX-License-Identifier: MIT
 *
 * Subtitles:
 *
 *     srt   number, HH:MM:SS,mmm --> HH:MM:SS,mmm, text, an empty line
 *     vtt   WEBVTT, then as srt, but without numbers, with a point instead of the comma, and with escaped text
 *
 * layout.c decides what is in a cue. A highlighted word is between <u> and </u>. If speakers are known, the text begins
 * with "Speaker 1: " in srt and with <v Speaker 1> in vtt.
 */
#include "apps/transcribe/output/formats/layout.h"
#include "apps/transcribe/output/formats/write.h"

/* SubRip has no way to write an arrow (-->) in a text: a reader may take the line for the times of a cue. So the arrow
 * is shortened to ->, as in Whisper. */
static void add_srt(struct gd__buffer *b, const char *text, size_t size)
{
    for (size_t i = 0; i < size;) {
        size_t dashes = 0;
        while (i + dashes < size && text[i + dashes] == '-')
            dashes++;
        const bool arrow = dashes > 1 && i + dashes < size && text[i + dashes] == '>';
        gd__buffer_add(b, text + i, arrow ? 1 : dashes > 0 ? dashes : 1);
        i += dashes > 0 ? dashes : 1;
    }
}

static void add_vtt(struct gd__buffer *b, const char *text, size_t size)
{
    static const char *const escapes[128] = { ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;" };
    for (size_t i = 0; i < size; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c < 128 && escapes[c])
            gd__buffer_text(b, escapes[c]);
        else
            gd__buffer_add(b, text + i, 1);
    }
}

static void add_clock(struct gd__buffer *b, unsigned long long ms, char point)
{
    gd__buffer_format(b, "%02llu:%02llu:%02llu%c%03llu", ms / 3600000, ms / 60000 % 60, ms / 1000 % 60, point,
                      ms % 1000);
}

/* "start --> end". The end is always after the start: players do not show cues without duration, and WebVTT forbids
 * them. */
static void add_times(struct gd__buffer *b, const struct tr_cue *c, char point)
{
    add_clock(b, c->start_ms, point);
    gd__buffer_text(b, " --> ");
    add_clock(b, c->end_ms > c->start_ms ? c->end_ms : c->start_ms + 1, point);
    gd__buffer_text(b, "\n");
}

static void add_text(struct gd__buffer *b, const struct tr_cues *cues, const struct tr_cue *c, tr_add_line *add)
{
    const char *text = cues->text.data;
    const size_t end = c->text + c->size;
    if (c->mark_size == 0) {
        add(b, text + c->text, c->size);
        return;
    }
    add(b, text + c->text, c->mark - c->text);
    gd__buffer_text(b, "<u>");
    add(b, text + c->mark, c->mark_size);
    gd__buffer_text(b, "</u>");
    add(b, text + c->mark + c->mark_size, end - c->mark - c->mark_size);
}

static void write_srt(struct gd__buffer *b, const struct tr_cues *cues)
{
    for (size_t i = 0; i < cues->n; i++) {
        gd__buffer_format(b, "%zu\n", i + 1);
        add_times(b, &cues->items[i], ',');
        add_text(b, cues, &cues->items[i], add_srt);
        gd__buffer_text(b, "\n\n");
    }
}

static void write_vtt(struct gd__buffer *b, const struct tr_cues *cues)
{
    gd__buffer_text(b, "WEBVTT\n");
    char room[TR_SPEAKER_NAME];
    for (size_t i = 0; i < cues->n; i++) {
        const unsigned speaker = cues->items[i].speaker;
        gd__buffer_text(b, "\n");
        add_times(b, &cues->items[i], '.');
        if (speaker > 0)
            gd__buffer_format(b, "<v %s>", tr_speaker_name(room, speaker));
        add_text(b, cues, &cues->items[i], add_vtt);
        gd__buffer_text(b, "\n");
    }
}

void tr_write_srt(struct gd__buffer *b, const struct tr_transcript *t, const struct tr_layout *l)
{
    struct tr_cues cues = { 0 };
    if (tr_cues_make(&cues, t, l, true) == 0)
        write_srt(b, &cues);
    else
        b->failed = true;
    tr_cues_free(&cues);
}

void tr_write_vtt(struct gd__buffer *b, const struct tr_transcript *t, const struct tr_layout *l)
{
    struct tr_cues cues = { 0 };
    if (tr_cues_make(&cues, t, l, false) == 0)
        write_vtt(b, &cues);
    else
        b->failed = true;
    tr_cues_free(&cues);
}
