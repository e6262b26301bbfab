/* SPDX-License-Identifier: MIT
 *
 * The whole transcript as JSON, with segments as objects.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "apps/transcribe/output/formats/write.h"
#include "apps/transcribe/text/trim.h"
#include "base/text/json_write.h"

static void add_seconds(struct gd__buffer *b, const char *name, double seconds)
{
    const unsigned long long ms = tr_milliseconds(seconds);
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

/* Any number. A value that is not finite means not known. */
static void add_number(struct gd__buffer *b, const char *name, float value)
{
    if (!(fabsf(value) < 1e6F)) {
        gd__buffer_format(b, ", \"%s\": null", name);
        return;
    }
    const long millionths = lround((double)value * 1e6), size = labs(millionths);
    gd__buffer_format(b, ", \"%s\": %s%ld.%06ld", name, millionths < 0 ? "-" : "", size / 1000000, size % 1000000);
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
        gd__json_put_string(b, tr_text_at(t, w->text), w->size);
        add_seconds(b, "start", w->start);
        add_seconds(b, "end", w->end);
        add_share(b, "probability", w->probability);
        gd__buffer_text(b, "}");
    }
    gd__buffer_text(b, "]");
}

static void add_tokens(struct gd__buffer *b, const struct tr_transcript *t, const struct tr_segment *s)
{
    gd__buffer_text(b, s->n_tokens > 0 ? ", \"tokens\": [" : ", \"tokens\": null");
    for (size_t i = 0; i < s->n_tokens; i++)
        gd__buffer_format(b, "%s%" PRId32, i ? ", " : "", t->tokens[s->first_token + i]);
    gd__buffer_text(b, s->n_tokens > 0 ? "]" : "");
}

/* The members up to no_speech_prob are those of openai-whisper. Those that are not known are null. */
static void add_segment(struct gd__buffer *b, const struct tr_transcript *t, size_t id)
{
    const struct tr_segment *s = &t->segments[id];
    char room[TR_SPEAKER_NAME];
    gd__buffer_format(b, "%s\n  {\"id\": %zu", id ? "," : "", id);
    if (s->seek >= 0)
        gd__buffer_format(b, ", \"seek\": %ld", s->seek);
    else
        gd__buffer_text(b, ", \"seek\": null");
    add_seconds(b, "start", s->start);
    add_seconds(b, "end", s->end);
    gd__buffer_text(b, ", \"text\": ");
    gd__json_put_string(b, tr_text_at(t, s->text), s->size);
    add_tokens(b, t, s);
    add_share(b, "temperature", s->temperature);
    add_number(b, "avg_logprob", s->avg_logprob);
    add_number(b, "compression_ratio", s->compression_ratio);
    add_share(b, "no_speech_prob", s->no_speech);
    add_share(b, "probability", s->probability);
    if (s->speaker > 0)
        add_string(b, "speaker", tr_speaker_name(room, s->speaker));
    if (t->n_words > 0) /* word timestamps were requested */
        add_words(b, t, s);
    gd__buffer_text(b, "}");
}

/* The segments contain the spaces between them. */
void tr_format_text(struct gd__buffer *b, const struct tr_transcript *t)
{
    struct gd__buffer whole = { 0 };
    for (size_t i = 0; i < t->n_segments; i++)
        gd__buffer_add(&whole, tr_text_at(t, t->segments[i].text), t->segments[i].size);
    size_t size = whole.size;
    const char *text = tr_trim(whole.data ? whole.data : "", &size);
    gd__json_put_string(b, text, size);
    b->failed |= whole.failed;
    gd__buffer_free(&whole);
}

void tr_write_json(struct gd__buffer *b, const struct tr_transcript *t)
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
    if (t->warning)
        add_string(b, "warning", t->warning);
    gd__buffer_text(b, "}\n");
}
