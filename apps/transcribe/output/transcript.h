/* SPDX-License-Identifier: MIT
 *
 * A transcript, and the formats in which it is written. They are the formats of Whisper.
 */
#ifndef GD_TRANSCRIBE_OUTPUT_TRANSCRIPT_H
#define GD_TRANSCRIBE_OUTPUT_TRANSCRIPT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buffer.h"

struct tr_word {
    double start, end; /* seconds */
    float probability;
    size_t text, size; /* in the transcript's text; with the space before it, as in Whisper */
};

struct tr_segment {
    double start, end; /* seconds in the file: 0 <= start <= end <= duration, start not before the previous end */
    float probability; /* mean over its tokens */
    float no_speech;   /* probability that there is no speech */
    float temperature; /* < 0: not known */
    size_t text, size; /* in the transcript's text */
    size_t first_word, n_words; /* with word timestamps */
};

/* A zeroed struct is empty; language_probability should then be -1. Text is UTF-8. Invalid text from the model (a
 * character cut in two) becomes U+FFFD. */
struct tr_transcript {
    struct tr_segment *segments;
    size_t n_segments, segments_room;
    struct tr_word *words;
    size_t n_words, words_room;
    struct gd__buffer text;
    double duration;            /* of the audio */
    const char *language;       /* "en"; static or borrowed */
    float language_probability; /* < 0: not known (the language was set by the user) */
    const char *model;          /* name, for the JSON output */
    bool translated;
};

/* Adds a segment. The text is copied and made valid UTF-8, the times are clamped and put in order. The segment gets the
 * words that were added after the last segment. Their times are limited to those of the segment. A duration of 0 means
 * not known, and limits nothing. Returns 0, or -1 if there is no memory. */
int tr_transcript_add(struct tr_transcript *t, const struct tr_segment *s, const char *text, size_t size);
int tr_transcript_add_word(struct tr_transcript *t, const struct tr_word *w, const char *text, size_t size);

/* Clears the transcript for the next file. Keeps the memory, model and translated. */
void tr_transcript_clear(struct tr_transcript *t);
void tr_transcript_free(struct tr_transcript *t);

enum tr_format { TR_TXT, TR_SRT, TR_VTT, TR_JSON, TR_TSV, TR_FORMATS };

const char *tr_format_name(enum tr_format f); /* "txt"; also the file's extension */

/* Parses "txt,srt" or "all" into a set of bits 1 << format. Returns -1 with gd__fail_text(), which lists the formats.
 */
int tr_formats_parse(const char *list, unsigned *set);

/* Appends the file's whole contents. Sets out->failed if there was no memory. */
void tr_format_write(struct gd__buffer *out, enum tr_format f, const struct tr_transcript *t);

/* Appends the text of all segments, joined, as a JSON string. */
void tr_format_text(struct gd__buffer *out, const struct tr_transcript *t);

#endif
