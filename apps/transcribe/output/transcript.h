/* SPDX-License-Identifier: MIT
 *
 * What was heard, and how it is written: the formats that users of Whisper know.
 */
#ifndef GD_TRANSCRIBE_OUTPUT_TRANSCRIPT_H
#define GD_TRANSCRIBE_OUTPUT_TRANSCRIPT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buffer.h"

struct tr_word {
    double start, end; /* seconds */
    float probability;
    size_t text, size; /* in the transcript's text; with the space before it, as Whisper has it */
};

struct tr_segment {
    double start,
        end; /* seconds from the file's beginning; 0 <= start <= end <= duration, never before the last one's */
    float probability;          /* mean over its tokens */
    float no_speech;            /* how probable it is that nobody spoke */
    float temperature;          /* < 0: not known */
    size_t text, size;          /* in the transcript's text */
    size_t first_word, n_words; /* with word timestamps */
};

/* Zeroed is empty; language_probability is then better -1. Text is UTF-8: what the model gives that is none (a
 * character cut in two) becomes U+FFFD. */
struct tr_transcript {
    struct tr_segment *segments;
    size_t n_segments, segments_room;
    struct tr_word *words;
    size_t n_words, words_room;
    struct gd__buffer text;
    double duration;            /* of the audio */
    const char *language;       /* "en"; static or borrowed */
    float language_probability; /* < 0: not known (it was given) */
    const char *model;          /* name, for the json */
    bool translated;
};

/* Adds a segment: text is copied and made UTF-8, times are clamped and put in order. Its words are those added since
 * the segment before, and are fitted into its times. A duration of 0 is not known and limits nothing. 0, or -1 if there
 * is no memory. */
int tr_transcript_add(struct tr_transcript *t, const struct tr_segment *s, const char *text, size_t size);
int tr_transcript_add_word(struct tr_transcript *t, const struct tr_word *w, const char *text, size_t size);

/* For the next file: keeps the memory, model and translated. */
void tr_transcript_clear(struct tr_transcript *t);
void tr_transcript_free(struct tr_transcript *t);

enum tr_format { TR_TXT, TR_SRT, TR_VTT, TR_JSON, TR_TSV, TR_FORMATS };

const char *tr_format_name(enum tr_format f); /* "txt": the file's extension too */

/* "txt,srt" or "all" into a set of bits 1 << format. -1 with gd__fail_text() that names what there is. */
int tr_formats_parse(const char *list, unsigned *set);

/* Adds the whole file's contents. out->failed if there was no memory. */
void tr_format_write(struct gd__buffer *out, enum tr_format f, const struct tr_transcript *t);

/* Adds the text of all segments, one behind the other, as a JSON string. */
void tr_format_text(struct gd__buffer *out, const struct tr_transcript *t);

#endif
