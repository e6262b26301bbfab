/* SPDX-License-Identifier: MIT
 *
 * A transcript for tests, and its formats.
 */
#ifndef GD_TESTS_TRANSCRIBE_OUTPUT_MADE_TRANSCRIPT_H
#define GD_TESTS_TRANSCRIBE_OUTPUT_MADE_TRANSCRIPT_H

#include "apps/transcribe/output/transcript.h"
#include "base/text/buffer.h"
#include "support/test.h"

static struct tr_transcript t = { .language_probability = -1 };

static void add(double start, double end, const char *text)
{
    struct tr_segment_facts s = tr_segment_facts(start, end);
    s.probability = 0.5f;
    CHECK_EQ(tr_transcript_add(&t, &s, text, strlen(text)), 0);
}

static void add_word(double start, double end, const char *text)
{
    const struct tr_word w = { .start = start, .end = end, .probability = 0.25f };
    CHECK_EQ(tr_transcript_add_word(&t, &w, text, strlen(text)), 0);
}

/* The contents of a file. */
static const char *as(enum tr_format f)
{
    static struct gd__buffer b;
    gd__buffer_free(&b);
    tr_format_write(&b, f, &t, NULL);
    gd__buffer_add(&b, "", 1);
    CHECK(!b.failed);
    return b.data;
}

#endif
