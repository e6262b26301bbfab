/* SPDX-License-Identifier: MIT
 *
 * The layout of subtitles: which words are shown together, and in which lines. The limits have the names and the meaning
 * of openai-whisper:
 *
 *     no limits                      a cue for each segment
 *     max_words_per_line             a cue for each N words of a segment
 *     max_line_width                 a cue for each segment, with line breaks
 *     max_line_width, max_line_count cues of N full lines. They may begin and end within a segment. A long pause ends one
 *
 * A width is a number of characters. A word that is longer than a line has a line of its own. In languages without
 * spaces, lines may break between any two words.
 */
#ifndef GD_TRANSCRIBE_OUTPUT_FORMATS_LAYOUT_H
#define GD_TRANSCRIBE_OUTPUT_FORMATS_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

#include "apps/transcribe/output/transcript.h"
#include "base/text/buffer.h"

/* 0: no limit. max_line_count does nothing without max_line_width. max_words_per_line does nothing if both of them are
 * set. */
struct tr_layout {
    unsigned max_line_width, max_line_count;
    unsigned max_words_per_line;
    bool highlight_words; /* each word is underlined while it is spoken */
};

/* Whether any member is set. If so, the transcript should have words. */
bool tr_layout_is_set(const struct tr_layout *l);

/* What is shown at one time. */
struct tr_cue {
    unsigned long long start_ms, end_ms;
    size_t text, size;      /* in the text of the cues; lines have '\n' between them and no spaces at their ends */
    unsigned speaker;       /* 0: not known */
    size_t mark, mark_size; /* the underlined word, in the text of the cues; mark_size 0: none */
};

/* A zeroed struct is empty. */
struct tr_cues {
    struct tr_cue *items;
    size_t n, room;
    struct gd__buffer text;
};

/* Makes the cues of a transcript. A segment with text but without words is laid out like one word. A word without
 * duration is not underlined. Blank segments and words have no cue. Two speakers never share a cue. With named_speakers,
 * the text of a cue begins with the name of its speaker, which counts as part of the line. Returns 0, or -1 if out of memory. Release with
 * tr_cues_free() in both cases. */
int tr_cues_make(struct tr_cues *out, const struct tr_transcript *t, const struct tr_layout *l, bool named_speakers);
void tr_cues_free(struct tr_cues *cues);

#endif
