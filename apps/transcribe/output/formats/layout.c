/* SPDX-License-Identifier: MIT
 *
 * Makes cues from words. Words are added to the text of a cue, with a space or a line break before them, until a word
 * begins the next cue. The cues of highlighted words share one text.
 */
#include "apps/transcribe/output/formats/layout.h"

#include <stdint.h>
#include <stdlib.h>

#include "apps/transcribe/output/formats/write.h"
#include "apps/transcribe/text/trim.h"

/* If words flow from one segment to the next, a word that begins this many seconds after the beginning of the word before
 * it begins a cue. */
static const double LONG_PAUSE = 3;

/* A word in the text of a cue. */
struct placed {
    unsigned long long start_ms, end_ms;
    size_t text, size;
};

struct maker {
    const struct tr_transcript *transcript;
    const struct tr_layout *layout;
    struct tr_cues *out;
    bool failed;
    bool named_speakers;
    bool flows; /* cues do not end where segments end */

    /* the cue that is being made */
    struct placed *words;
    size_t n, room;
    unsigned speaker;
    size_t text;  /* where its text begins */
    size_t lines; /* so far */
    size_t width; /* of its last line, in characters */
    double last;  /* start of the previous word, in seconds */
    bool space;   /* there is a space after the previous word */
};

bool tr_layout_is_set(const struct tr_layout *l)
{
    return l->max_line_width || l->max_line_count || l->max_words_per_line || l->highlight_words;
}

/* Makes room for one more item of size bytes. */
static void *grown(struct maker *m, void *items, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return items;
    const size_t more = *room ? *room * 2 : 16;
    void *p = more <= SIZE_MAX / size ? realloc(items, more * size) : NULL;
    if (p)
        *room = more;
    else
        m->failed = true;
    return p ? p : items;
}

/* --- cues ----------------------------------------------------------------------- */

static void add_cue(struct maker *m, unsigned long long start_ms, unsigned long long end_ms, const struct placed *mark)
{
    struct tr_cues *out = m->out;
    out->items = grown(m, out->items, out->n, &out->room, sizeof *out->items);
    if (m->failed)
        return;
    out->items[out->n++] = (struct tr_cue){
        .start_ms = start_ms,
        .end_ms = end_ms,
        .text = m->text,
        .size = out->text.size - m->text,
        .speaker = m->speaker,
        .mark = mark ? mark->text : 0,
        .mark_size = mark ? mark->size : 0,
    };
}

/* A cue for each word, and one without a mark for each pause between words. */
static void add_highlighted(struct maker *m)
{
    const unsigned long long end = m->words[m->n - 1].end_ms;
    unsigned long long at = m->words[0].start_ms;
    const size_t before = m->out->n;
    for (size_t i = 0; i < m->n; i++) {
        const struct placed *w = &m->words[i];
        if (w->end_ms <= w->start_ms)
            continue;
        if (w->start_ms > at)
            add_cue(m, at, w->start_ms, NULL);
        add_cue(m, w->start_ms, w->end_ms, w);
        at = w->end_ms;
    }
    if (at < end || m->out->n == before)
        add_cue(m, at, end, NULL);
}

static void end_cue(struct maker *m)
{
    if (m->n > 0 && m->layout->highlight_words)
        add_highlighted(m);
    else if (m->n > 0)
        add_cue(m, m->words[0].start_ms, m->words[m->n - 1].end_ms, NULL);
    m->n = 0;
}

/* --- words ---------------------------------------------------------------------- */

/* A word or a whole segment, without spaces around it. */
struct piece {
    const char *text;
    size_t size, width; /* bytes; characters */
    double start, end;
    unsigned speaker;
    bool space;   /* there is a space before it */
    bool divides; /* it is the first word of a segment, or of max_words_per_line words */
};

static size_t characters(const char *text, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < size; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

static void begin_cue(struct maker *m, unsigned speaker)
{
    struct gd__buffer *b = &m->out->text;
    m->speaker = speaker;
    m->text = b->size;
    if (m->named_speakers)
        tr_add_speaker(b, speaker);
    m->width = b->size - m->text;
    m->lines = 1;
}

static void append(struct maker *m, const struct piece *p)
{
    struct gd__buffer *b = &m->out->text;
    m->words = grown(m, m->words, m->n, &m->room, sizeof *m->words);
    if (m->failed)
        return;
    struct placed *w = &m->words[m->n++];
    *w = (struct placed){ tr_milliseconds(p->start), tr_milliseconds(p->end), b->size, 0 };
    tr_add_lines(b, p->text, p->size, " ", tr_add_plain);
    w->size = b->size - w->text;
    m->width += p->width;
}

/* Decides whether a word begins a cue or a line, and adds it. */
static void place(struct maker *m, const struct piece *p)
{
    const struct tr_layout *l = m->layout;
    const size_t width = m->width + p->space + p->width;
    const bool fits = l->max_line_width == 0 || width <= l->max_line_width;
    const bool full = !fits && l->max_line_count > 0 && m->lines >= l->max_line_count;
    const bool pause = m->flows && p->start - m->last > LONG_PAUSE;
    if (m->n > 0 && (full || pause || (p->divides && !m->flows) || p->speaker != m->speaker))
        end_cue(m);
    if (m->n == 0) {
        begin_cue(m, p->speaker);
    } else if (!fits) {
        gd__buffer_text(&m->out->text, "\n");
        m->lines++;
        m->width = 0;
    } else if (p->space) {
        gd__buffer_text(&m->out->text, " ");
        m->width++;
    }
    append(m, p);
    m->last = p->start;
}

/* Returns false if the text is blank. */
static bool place_text(struct maker *m, const char *text, size_t size, struct piece p)
{
    const bool space = m->space || (size > 0 && tr_is_space(text[0]));
    m->space = size > 0 ? tr_is_space(text[size - 1]) : m->space;
    p.text = tr_trim(text, &size);
    p.size = size;
    if (size == 0)
        return false;
    p.space = space;
    p.width = characters(p.text, size);
    place(m, &p);
    return true;
}

static void place_segment(struct maker *m, const struct tr_segment *s)
{
    const struct tr_transcript *t = m->transcript;
    const unsigned most = m->layout->max_words_per_line;
    struct piece p = { .start = s->start, .end = s->end, .speaker = s->speaker, .divides = true };
    size_t n = 0;
    for (size_t i = 0; i < s->n_words; i++) {
        const struct tr_word *w = &t->words[s->first_word + i];
        p.start = w->start;
        p.end = w->end;
        p.divides = n == 0 || (most > 0 && n % most == 0);
        n += place_text(m, tr_text_at(t, w->text), w->size, p);
    }
    if (s->n_words == 0)
        (void)place_text(m, tr_text_at(t, s->text), s->size, p);
}

/* Without a layout, the lines of a segment stay as they are. */
static void copy_segment(struct maker *m, const struct tr_segment *s)
{
    begin_cue(m, s->speaker);
    tr_add_lines(&m->out->text, tr_text_at(m->transcript, s->text), s->size, "\n", tr_add_plain);
    add_cue(m, tr_milliseconds(s->start), tr_milliseconds(s->end), NULL);
}

int tr_cues_make(struct tr_cues *out, const struct tr_transcript *t, const struct tr_layout *l, bool named_speakers)
{
    struct maker m = { .transcript = t, .layout = l, .out = out, .named_speakers = named_speakers };
    m.flows = l->max_line_width > 0 && l->max_line_count > 0;
    const bool laid_out = tr_layout_is_set(l);
    size_t i = 0;
    for (const struct tr_segment *s; !m.failed && (s = tr_next_spoken(t, &i));)
        (laid_out ? place_segment : copy_segment)(&m, s);
    if (laid_out)
        end_cue(&m);
    free(m.words);
    return m.failed || out->text.failed ? -1 : 0;
}

void tr_cues_free(struct tr_cues *cues)
{
    free(cues->items);
    gd__buffer_free(&cues->text);
    *cues = (struct tr_cues){ 0 };
}
