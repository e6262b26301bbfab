/* SPDX-License-Identifier: MIT
 *
 * Writes transcripts in several formats. They are the formats of Whisper's own program, without its faults:
 *
 *     txt   a line per segment
 *     srt   number, HH:MM:SS,mmm --> HH:MM:SS,mmm, text, an empty line
 *     vtt   WEBVTT, then as srt, but without numbers, with a point instead of the comma, and with escaped text
 *     json  the whole transcript, segments as objects
 *     tsv   start, end, text; milliseconds
 *
 * Segments without text are only in the json. Numbers are written from integers, because the locale may have a comma as
 * the decimal point.
 */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "apps/transcribe/output/transcript.h"
#include "base/failure.h"
#include "base/text/buffer.h"
#include "base/text/json_write.h"
#include "base/text/parse.h"

static const char *const names[TR_FORMATS] = {
    [TR_TXT] = "txt", [TR_SRT] = "srt", [TR_VTT] = "vtt", [TR_JSON] = "json", [TR_TSV] = "tsv",
};

const char *tr_format_name(enum tr_format f)
{
    return names[f];
}

/* --- names ------------------------------------------------------------------------ */

static int find_format(const char *word, size_t size)
{
    for (int f = 0; f < TR_FORMATS; f++) {
        if (strlen(names[f]) == size && strncasecmp(names[f], word, size) == 0)
            return f;
    }
    return -1;
}

static int no_such_format(const char *word, size_t size)
{
    char copy[32];
    const size_t n = size < sizeof copy ? size : sizeof copy - 1;
    memcpy(copy, word, n);
    copy[n] = '\0';
    const char *near = gd__nearest_word(copy, names, TR_FORMATS);
    return gd__fail("\"%s\" is not a format%s%s%s: the formats are txt, srt, vtt, json, tsv, or all", copy,
                    near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

int tr_formats_parse(const char *list, unsigned *set)
{
    unsigned found = 0;
    for (const char *at = list;; at++) {
        at += strspn(at, " ");
        size_t size = strcspn(at, ",");
        const char *next = at + size;
        while (size > 0 && at[size - 1] == ' ')
            size--;
        const int f = find_format(at, size);
        if (f >= 0)
            found |= 1u << f;
        else if (size == 3 && strncasecmp(at, "all", 3) == 0)
            found |= (1u << TR_FORMATS) - 1;
        else
            return no_such_format(at, size);
        at = next;
        if (!*at)
            break;
    }
    *set = found;
    return 0;
}

/* --- text ------------------------------------------------------------------------- */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

/* Removes white space at both ends. */
static const char *trim(const char *text, size_t *size)
{
    while (*size > 0 && is_space(*text)) {
        text++;
        --*size;
    }
    while (*size > 0 && is_space(text[*size - 1]))
        --*size;
    return text;
}

/* Adds a line of text as a format needs it. */
typedef void add_line(struct gd__buffer *b, const char *text, size_t size);

static void add_plain(struct gd__buffer *b, const char *text, size_t size)
{
    gd__buffer_add(b, text, size);
}

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

static void add_tsv(struct gd__buffer *b, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        gd__buffer_add(b, text[i] == '\t' ? " " : text + i, 1);
}

static bool is_break(char c)
{
    return is_space(c) && c != ' ' && c != '\t';
}

/* Adds the lines of a segment that are not blank, each trimmed. An empty line would end the text in every format. */
static void add_lines(struct gd__buffer *b, const char *text, size_t size, const char *between, add_line *add)
{
    const char *end = text + size, *before = "";
    while (text < end) {
        size_t n = 0;
        while (text + n < end && !is_break(text[n]))
            n++;
        size_t trimmed = n;
        const char *line = trim(text, &trimmed);
        if (trimmed > 0) {
            gd__buffer_text(b, before);
            add(b, line, trimmed);
            before = between;
        }
        text += n + (text + n < end);
    }
}

static const char *text_of(const struct tr_transcript *t, size_t at)
{
    return t->text.data ? t->text.data + at : "";
}

/* The next segment with text, from *i on. *i is moved past it. NULL at the end. */
static const struct tr_segment *next_spoken(const struct tr_transcript *t, size_t *i)
{
    while (*i < t->n_segments) {
        const struct tr_segment *s = &t->segments[(*i)++];
        size_t size = s->size;
        (void)trim(text_of(t, s->text), &size);
        if (size > 0)
            return s;
    }
    return NULL;
}

/* --- times ------------------------------------------------------------------------ */

static unsigned long long milliseconds(double seconds)
{
    if (!(seconds > 0))
        return 0;
    if (seconds > 1e9) /* thirty years: a larger value is a mistake, but must still fit */
        seconds = 1e9;
    return (unsigned long long)llround(seconds * 1000);
}

static void add_clock(struct gd__buffer *b, unsigned long long ms, char point)
{
    gd__buffer_format(b, "%02llu:%02llu:%02llu%c%03llu", ms / 3600000, ms / 60000 % 60, ms / 1000 % 60, point,
                      ms % 1000);
}

/* "start --> end". The end is always after the start: players do not show cues without duration, and WebVTT forbids
 * them. */
static void add_times(struct gd__buffer *b, const struct tr_segment *s, char point)
{
    const unsigned long long start = milliseconds(s->start), end = milliseconds(s->end);
    add_clock(b, start, point);
    gd__buffer_text(b, " --> ");
    add_clock(b, end > start ? end : start + 1, point);
    gd__buffer_text(b, "\n");
}

/* --- the formats ------------------------------------------------------------------ */

static void write_txt(struct gd__buffer *b, const struct tr_transcript *t)
{
    size_t i = 0;
    for (const struct tr_segment *s; (s = next_spoken(t, &i));) {
        add_lines(b, text_of(t, s->text), s->size, " ", add_plain);
        gd__buffer_text(b, "\n");
    }
}

static void write_srt(struct gd__buffer *b, const struct tr_transcript *t)
{
    size_t i = 0, number = 1;
    for (const struct tr_segment *s; (s = next_spoken(t, &i)); number++) {
        gd__buffer_format(b, "%zu\n", number);
        add_times(b, s, ',');
        add_lines(b, text_of(t, s->text), s->size, "\n", add_srt);
        gd__buffer_text(b, "\n\n");
    }
}

static void write_vtt(struct gd__buffer *b, const struct tr_transcript *t)
{
    size_t i = 0;
    gd__buffer_text(b, "WEBVTT\n");
    for (const struct tr_segment *s; (s = next_spoken(t, &i));) {
        gd__buffer_text(b, "\n");
        add_times(b, s, '.');
        add_lines(b, text_of(t, s->text), s->size, "\n", add_vtt);
        gd__buffer_text(b, "\n");
    }
}

static void write_tsv(struct gd__buffer *b, const struct tr_transcript *t)
{
    size_t i = 0;
    gd__buffer_text(b, "start\tend\ttext\n");
    for (const struct tr_segment *s; (s = next_spoken(t, &i));) {
        gd__buffer_format(b, "%llu\t%llu\t", milliseconds(s->start), milliseconds(s->end));
        add_lines(b, text_of(t, s->text), s->size, " ", add_tsv);
        gd__buffer_text(b, "\n");
    }
}

/* --- JSON ------------------------------------------------------------------------- */

static void add_seconds(struct gd__buffer *b, const char *name, double seconds)
{
    const unsigned long long ms = milliseconds(seconds);
    gd__buffer_format(b, ", \"%s\": %llu.%03llu", name, ms / 1000, ms % 1000);
}

/* Usually between 0 and 1. A value that is negative or not a number means not known. */
static void add_share(struct gd__buffer *b, const char *name, float value)
{
    if (!(value >= 0 && value < 1000)) {
        gd__buffer_format(b, ", \"%s\": null", name);
        return;
    }
    const unsigned long millionths = (unsigned long)lround((double)value * 1e6);
    gd__buffer_format(b, ", \"%s\": %lu.%06lu", name, millionths / 1000000, millionths % 1000000);
}

static void add_string(struct gd__buffer *b, const char *name, const char *text)
{
    gd__buffer_format(b, ", \"%s\": ", name);
    if (text)
        gd__json_put_string(b, text, strlen(text));
    else
        gd__buffer_text(b, "null");
}

static void add_words(struct gd__buffer *b, const struct tr_transcript *t, const struct tr_segment *s)
{
    gd__buffer_text(b, ", \"words\": [");
    for (size_t i = 0; i < s->n_words; i++) {
        const struct tr_word *w = &t->words[s->first_word + i];
        gd__buffer_text(b, i ? ", {\"word\": " : "{\"word\": ");
        gd__json_put_string(b, text_of(t, w->text), w->size);
        add_seconds(b, "start", w->start);
        add_seconds(b, "end", w->end);
        add_share(b, "probability", w->probability);
        gd__buffer_text(b, "}");
    }
    gd__buffer_text(b, "]");
}

static void add_segment(struct gd__buffer *b, const struct tr_transcript *t, size_t id)
{
    const struct tr_segment *s = &t->segments[id];
    gd__buffer_format(b, "%s\n  {\"id\": %zu", id ? "," : "", id);
    add_seconds(b, "start", s->start);
    add_seconds(b, "end", s->end);
    gd__buffer_text(b, ", \"text\": ");
    gd__json_put_string(b, text_of(t, s->text), s->size);
    add_share(b, "probability", s->probability);
    add_share(b, "no_speech_prob", s->no_speech);
    add_share(b, "temperature", s->temperature);
    if (t->n_words > 0) /* word timestamps were requested */
        add_words(b, t, s);
    gd__buffer_text(b, "}");
}

/* The segments contain the spaces between them. */
void tr_format_text(struct gd__buffer *b, const struct tr_transcript *t)
{
    struct gd__buffer whole = { 0 };
    for (size_t i = 0; i < t->n_segments; i++)
        gd__buffer_add(&whole, text_of(t, t->segments[i].text), t->segments[i].size);
    size_t size = whole.size;
    const char *text = trim(whole.data ? whole.data : "", &size);
    gd__json_put_string(b, text, size);
    b->failed |= whole.failed;
    gd__buffer_free(&whole);
}

static void write_json(struct gd__buffer *b, const struct tr_transcript *t)
{
    gd__buffer_text(b, "{\"text\": ");
    tr_format_text(b, t);
    gd__buffer_text(b, ", \"segments\": [");
    for (size_t i = 0; i < t->n_segments; i++)
        add_segment(b, t, i);
    gd__buffer_text(b, t->n_segments ? "\n]" : "]");
    add_string(b, "language", t->language);
    add_share(b, "language_probability", t->language_probability);
    add_seconds(b, "duration", t->duration);
    add_string(b, "model", t->model);
    add_string(b, "task", t->translated ? "translate" : "transcribe");
    gd__buffer_text(b, "}\n");
}

void tr_format_write(struct gd__buffer *out, enum tr_format f, const struct tr_transcript *t)
{
    static void (*const write[TR_FORMATS])(struct gd__buffer *, const struct tr_transcript *) = {
        [TR_TXT] = write_txt, [TR_SRT] = write_srt, [TR_VTT] = write_vtt, [TR_JSON] = write_json, [TR_TSV] = write_tsv,
    };
    write[f](out, t);
}
