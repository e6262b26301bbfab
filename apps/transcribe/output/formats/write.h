/* SPDX-License-Identifier: MIT
 *
 * What the writers of the formats share: lines and times. Private to this directory.
 */
#ifndef GD_TRANSCRIBE_OUTPUT_FORMATS_WRITE_H
#define GD_TRANSCRIBE_OUTPUT_FORMATS_WRITE_H

#include <stddef.h>

#include "apps/transcribe/output/transcript.h"
#include "base/text/buffer.h"

/* The text that begins at an offset in the transcript. */
const char *tr_text_at(const struct tr_transcript *t, size_t at);

/* The next segment with text, from *i on. *i is moved past it. NULL at the end. */
const struct tr_segment *tr_next_spoken(const struct tr_transcript *t, size_t *i);

/* Adds a line of text as a format needs it. */
typedef void tr_add_line(struct gd__buffer *b, const char *text, size_t size);

tr_add_line tr_add_plain;

/* Adds the lines of a text that are not blank, each trimmed. An empty line would end the text in every format. */
void tr_add_lines(struct gd__buffer *b, const char *text, size_t size, const char *between, tr_add_line *add);

/* Adds "Speaker 1: ". Adds nothing if the speaker is 0. */
void tr_add_speaker(struct gd__buffer *b, unsigned speaker);

unsigned long long tr_milliseconds(double seconds);

/* Appends the file's whole contents. */
typedef void tr_writer(struct gd__buffer *b, const struct tr_transcript *t);
typedef void tr_subtitle_writer(struct gd__buffer *b, const struct tr_transcript *t, const struct tr_layout *l);

tr_writer tr_write_txt, tr_write_tsv, tr_write_lrc, tr_write_csv, tr_write_json;
tr_subtitle_writer tr_write_srt, tr_write_vtt;

#endif
