/* SPDX-License-Identifier: MIT
 *
 * A transcript, and the formats in which it is written.
 */
#ifndef GD_TRANSCRIBE_OUTPUT_TRANSCRIPT_H
#define GD_TRANSCRIBE_OUTPUT_TRANSCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buffer.h"

struct tr_word {
    double start, end; /* seconds */
    float probability;
    size_t text, size; /* in the transcript's text; with the space before it, as in Whisper */
};

/* What a decoder knows about a segment, apart from its text and words. A value that is NAN is not known. The names are
 * those of openai-whisper, where avg_logprob, no_speech, temperature and compression_ratio are those of the window that the
 * segment comes from. A decoder that does not know them for a window gives those of the segment. */
struct tr_segment_facts {
    double start, end;       /* seconds in the file */
    float probability;       /* mean over its text tokens */
    float avg_logprob;       /* mean over its tokens: the natural logarithm of the probability */
    float no_speech;         /* probability that there is no speech */
    float temperature;       /* at which it was decoded */
    float compression_ratio; /* tr_compression_ratio() of its text */
    long seek;               /* where the window begins, in hundredths of a second of the file; < 0: not known */
    const int32_t *tokens;   /* copied; without those that only mark the task and the end. NULL: not known */
    size_t n_tokens;
};

/* Facts of which only the times are known. */
struct tr_segment_facts tr_segment_facts(double start, double end);

struct tr_segment {
    double start,
        end; /* seconds in the file: 0 <= start <= end <= duration, start not before the speaker's previous end */
    unsigned speaker;                                                          /* from 1; 0: not known */
    float probability, avg_logprob, no_speech, temperature, compression_ratio; /* as above; NAN: not known */
    long seek;                                                                 /* < 0: not known */
    size_t text, size;                                                         /* in the transcript's text */
    size_t first_word, n_words;                                                /* with word timestamps */
    size_t first_token, n_tokens;                                              /* 0 tokens: not known */
};

/* A zeroed struct is empty; language_probability should then be -1. Text is UTF-8. Invalid text from the model (a
 * character cut in two) becomes U+FFFD. */
struct tr_transcript {
    struct tr_segment *segments;
    size_t n_segments, segments_room;
    struct tr_word *words;
    size_t n_words, words_room;
    int32_t *tokens;
    size_t n_tokens, tokens_room;
    struct gd__buffer text;
    unsigned speaker;           /* of the segments that are added now; 0: not known. tr_transcript_speak() sets it */
    size_t first_of_speaker;    /* the first segment of that speaker */
    double duration;            /* of the audio */
    const char *language;       /* "en"; static or borrowed */
    float language_probability; /* < 0: not known (the language was set by the user) */
    const char *model;          /* name, for the JSON output */
    const char *warning;        /* what is wrong with the file, for the JSON output; NULL: nothing. Borrowed */
    bool translated;
};

/* Adds a segment. The text is copied and made valid UTF-8, the times are clamped and put in order. The segment gets the
 * words that were added after the last segment. Their times are limited to those of the segment. A duration of 0 means
 * not known, and limits nothing. Returns 0, or -1 if there is no memory. */
int tr_transcript_add(struct tr_transcript *t, const struct tr_segment_facts *f, const char *text, size_t size);
int tr_transcript_add_word(struct tr_transcript *t, const struct tr_word *w, const char *text, size_t size);

/* For files with a known speaker on each channel. The segments that are added after this call are those of this speaker
 * (from 1), and begin again at the beginning of the file. After the last segment of the last speaker,
 * tr_transcript_merge() sorts all segments by their start. Segments of different speakers may overlap. */
void tr_transcript_speak(struct tr_transcript *t, unsigned speaker);
void tr_transcript_merge(struct tr_transcript *t);

/* The name of a speaker in every format: "Speaker 1". */
enum { TR_SPEAKER_NAME = 32 };
const char *tr_speaker_name(char room[TR_SPEAKER_NAME], unsigned speaker);

/* Clears the transcript for the next file. Keeps the memory, model and translated. */
void tr_transcript_clear(struct tr_transcript *t);
void tr_transcript_free(struct tr_transcript *t);

enum tr_format { TR_TXT, TR_SRT, TR_VTT, TR_JSON, TR_TSV, TR_LRC, TR_CSV, TR_FORMATS };

const char *tr_format_name(enum tr_format f); /* "txt"; also the file's extension */

/* Parses "txt,srt" or "all" into a set of bits 1 << format. Returns -1 with gd__fail_text(), which lists the formats.
 */
int tr_formats_parse(const char *list, unsigned *set);

/* Appends the file's whole contents. The layout (formats/layout.h) is for srt and vtt; NULL: a cue for each segment. Sets
 * out->failed if there was no memory. */
struct tr_layout;
void tr_format_write(struct gd__buffer *out, enum tr_format f, const struct tr_transcript *t,
                     const struct tr_layout *layout);

/* Appends the text of all segments, joined, as a JSON string. */
void tr_format_text(struct gd__buffer *out, const struct tr_transcript *t);

#endif
