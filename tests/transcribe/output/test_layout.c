/* SPDX-License-Identifier: MIT
 *
 * The layout of subtitles: which words are in which cue and line.
 */
#include "apps/transcribe/output/formats/layout.h"
#include "apps/transcribe/output/transcript.h"
#include "base/text/buffer.h"
#include "support/test.h"

static struct tr_transcript t;

static void word(double start, double end, const char *text)
{
    const struct tr_word w = { .start = start, .end = end };
    CHECK_EQ(tr_transcript_add_word(&t, &w, text, strlen(text)), 0);
}

/* A segment of the words that were added before it. */
static void segment(double start, double end, const char *text)
{
    const struct tr_segment_facts s = tr_segment_facts(start, end);
    CHECK_EQ(tr_transcript_add(&t, &s, text, strlen(text)), 0);
}

/* A segment whose words are one second long, one after the other. They are divided by spaces. */
static void say(double start, const char *text)
{
    double at = start;
    for (const char *p = text; *p; at++) {
        const size_t n = (*p == ' ') + strcspn(p + (*p == ' '), " ");
        const struct tr_word w = { .start = at, .end = at + 1 };
        CHECK_EQ(tr_transcript_add_word(&t, &w, p, n), 0);
        p += n;
    }
    segment(start, at, text);
}

/* The cues as "start-end text" in milliseconds, with / for a line break, [] around a mark, and | between cues. */
static const char *cues(struct tr_layout l)
{
    static char text[4000];
    struct tr_cues made = { 0 };
    struct gd__buffer b = { 0 };
    CHECK_EQ(tr_cues_make(&made, &t, &l, true), 0);
    for (size_t i = 0; i < made.n; i++) {
        const struct tr_cue *c = &made.items[i];
        gd__buffer_format(&b, "%s%llu-%llu ", i ? "|" : "", c->start_ms, c->end_ms);
        for (size_t k = c->text; k < c->text + c->size; k++) {
            const char *ch = made.text.data + k;
            gd__buffer_text(&b, c->mark_size && k == c->mark ? "[" : "");
            gd__buffer_add(&b, *ch == '\n' ? "/" : ch, 1);
            gd__buffer_text(&b, c->mark_size && k + 1 == c->mark + c->mark_size ? "]" : "");
        }
    }
    CHECK(!b.failed);
    snprintf(text, sizeof text, "%.*s", (int)b.size, b.data ? b.data : "");
    gd__buffer_free(&b);
    tr_cues_free(&made);
    return text;
}

#define CUES(...) cues((struct tr_layout){ __VA_ARGS__ })

/* --- without a layout ----------------------------------------------------------- */

TEST(without_limits_a_cue_is_a_segment)
{
    say(0, " one two");
    segment(5, 6, " three \n\n four ");
    segment(6, 7, " \n ");
    CHECK_STR(CUES(.highlight_words = false), "0-2000 one two|5000-6000 three/four");
}

TEST(nothing_gives_no_cues)
{
    CHECK_STR(CUES(.highlight_words = false), "");
    CHECK_STR(CUES(.highlight_words = true), "");
    CHECK_STR(CUES(.max_line_width = 10, .max_line_count = 1), "");
    segment(0, 1, "");
    CHECK_STR(CUES(.highlight_words = true), "");
}

/* --- width ---------------------------------------------------------------------- */

TEST(lines_break_at_the_width)
{
    say(0, " aaa bbb ccc ddd");
    CHECK_STR(CUES(.max_line_width = 15), "0-4000 aaa bbb ccc ddd");
    CHECK_STR(CUES(.max_line_width = 14), "0-4000 aaa bbb ccc/ddd");
    CHECK_STR(CUES(.max_line_width = 7), "0-4000 aaa bbb/ccc ddd");
    CHECK_STR(CUES(.max_line_width = 6), "0-4000 aaa/bbb/ccc/ddd");
}

TEST(a_width_alone_keeps_segments_apart)
{
    say(0, " aaa bbb");
    say(2, " ccc");
    CHECK_STR(CUES(.max_line_width = 40), "0-2000 aaa bbb|2000-3000 ccc");
}

TEST(a_word_longer_than_a_line_has_its_own_line)
{
    say(0, " a incomprehensible b");
    CHECK_STR(CUES(.max_line_width = 5), "0-3000 a/incomprehensible/b");
    CHECK_STR(CUES(.max_line_width = 5, .max_line_count = 1), "0-1000 a|1000-2000 incomprehensible|2000-3000 b");
}

TEST(a_long_word_at_the_beginning_makes_no_empty_line)
{
    say(0, " incomprehensible b");
    CHECK_STR(CUES(.max_line_width = 5), "0-2000 incomprehensible/b");
}

TEST(width_is_counted_in_characters)
{
    say(0, " \xc3\xbc\xc3\xbc\xc3\xbc \xf0\x9f\x98\x80\xe4\xbd\xa0x"); /* three characters each */
    CHECK_STR(CUES(.max_line_width = 7), "0-2000 \xc3\xbc\xc3\xbc\xc3\xbc \xf0\x9f\x98\x80\xe4\xbd\xa0x");
    CHECK_STR(CUES(.max_line_width = 6), "0-2000 \xc3\xbc\xc3\xbc\xc3\xbc/\xf0\x9f\x98\x80\xe4\xbd\xa0x");
}

TEST(languages_without_spaces)
{
    word(0, 1, "\xe4\xbd\xa0");
    word(1, 2, "\xe5\xa5\xbd");
    word(2, 3, "\xe5\x90\x97");
    segment(0, 3, "\xe4\xbd\xa0\xe5\xa5\xbd\xe5\x90\x97");
    CHECK_STR(CUES(.max_line_width = 3), "0-3000 \xe4\xbd\xa0\xe5\xa5\xbd\xe5\x90\x97");
    CHECK_STR(CUES(.max_line_width = 2), "0-3000 \xe4\xbd\xa0\xe5\xa5\xbd/\xe5\x90\x97");
    CHECK_STR(CUES(.max_line_width = 2, .max_line_count = 1), "0-2000 \xe4\xbd\xa0\xe5\xa5\xbd|2000-3000 \xe5\x90\x97");
}

TEST(spaces_and_breaks_in_words)
{
    word(0, 1, "  a\t");
    word(1, 2, "b\nc");
    word(2, 3, " ");
    word(3, 4, "d");
    segment(0, 4, "  a\tb\nc d");
    CHECK_STR(CUES(.max_line_width = 20), "0-4000 a b c d");
}

/* --- lines ---------------------------------------------------------------------- */

TEST(a_line_count_lets_words_flow_over_segments)
{
    say(0, " aaa bbb");
    say(2, " ccc ddd eee");
    CHECK_STR(CUES(.max_line_width = 11, .max_line_count = 1), "0-3000 aaa bbb ccc|3000-5000 ddd eee");
    CHECK_STR(CUES(.max_line_width = 7, .max_line_count = 2), "0-4000 aaa bbb/ccc ddd|4000-5000 eee");
}

TEST(a_line_count_without_a_width_does_nothing)
{
    say(0, " aaa bbb");
    say(2, " ccc");
    CHECK_STR(CUES(.max_line_count = 1), "0-2000 aaa bbb|2000-3000 ccc");
}

TEST(a_long_pause_ends_a_cue)
{
    say(0, " a");
    say(3, " b");
    say(6.01, " c");
    CHECK_STR(CUES(.max_line_width = 40, .max_line_count = 2), "0-4000 a b|6010-7010 c");
    CHECK_STR(CUES(.max_line_width = 40), "0-1000 a|3000-4000 b|6010-7010 c");
}

TEST(a_long_pause_within_a_segment)
{
    word(0, 1, " a");
    word(9, 10, " b");
    segment(0, 10, " a b");
    CHECK_STR(CUES(.max_line_width = 40, .max_line_count = 2), "0-1000 a|9000-10000 b");
    CHECK_STR(CUES(.max_line_width = 40), "0-10000 a b");
}

TEST(a_late_first_word_is_no_pause)
{
    say(100, " a b");
    CHECK_STR(CUES(.max_line_width = 40, .max_line_count = 2), "100000-102000 a b");
}

/* --- words ---------------------------------------------------------------------- */

TEST(a_number_of_words)
{
    say(0, " a b c d e");
    say(5, " f");
    CHECK_STR(CUES(.max_words_per_line = 2), "0-2000 a b|2000-4000 c d|4000-5000 e|5000-6000 f");
    CHECK_STR(CUES(.max_words_per_line = 5), "0-5000 a b c d e|5000-6000 f");
    CHECK_STR(CUES(.max_words_per_line = 1), "0-1000 a|1000-2000 b|2000-3000 c|3000-4000 d|4000-5000 e|5000-6000 f");
}

TEST(blank_words_do_not_count)
{
    word(0, 1, " a");
    word(1, 2, " ");
    word(2, 3, "");
    word(3, 4, " b");
    word(4, 5, " c");
    segment(0, 5, " a   b c");
    CHECK_STR(CUES(.max_words_per_line = 2), "0-4000 a b|4000-5000 c");
}

TEST(a_cue_has_the_times_of_its_words)
{
    word(1.5, 2, " a");
    word(2.5, 3, " b");
    segment(0, 9, " a b");
    CHECK_STR(CUES(.max_line_width = 40), "1500-3000 a b");
}

TEST(a_segment_without_words_is_laid_out_as_a_whole)
{
    say(0, " a");
    segment(1, 2, " no words");
    say(2, " b");
    CHECK_STR(CUES(.max_words_per_line = 1), "0-1000 a|1000-2000 no words|2000-3000 b");
    CHECK_STR(CUES(.max_line_width = 8, .max_line_count = 2), "0-2000 a/no words|2000-3000 b");
}

TEST(empty_segments_have_no_cue)
{
    say(0, " a");
    segment(1, 2, "");
    segment(2, 3, "  ");
    say(3, " b");
    CHECK_STR(CUES(.max_words_per_line = 5), "0-1000 a|3000-4000 b");
    CHECK_STR(CUES(.max_line_width = 5, .max_line_count = 1), "0-4000 a b");
}

/* --- highlighted words ------------------------------------------------------------ */

TEST(words_are_highlighted_one_after_the_other)
{
    say(0, " one two");
    CHECK_STR(CUES(.highlight_words = true), "0-1000 [one] two|1000-2000 one [two]");
}

TEST(nothing_is_highlighted_in_a_pause)
{
    word(1, 2, " a");
    word(2.5, 3, " b");
    word(3, 4, " c");
    segment(0, 9, " a b c");
    CHECK_STR(CUES(.highlight_words = true), "1000-2000 [a] b c|2000-2500 a b c|2500-3000 a [b] c|3000-4000 a b [c]");
}

TEST(words_without_duration_are_not_highlighted)
{
    word(0, 1, " a");
    word(1, 1, " b");
    word(1, 1.0002, " c"); /* the same millisecond */
    word(2, 3, " d");
    word(3, 3, " e");
    segment(0, 3, " a b c d e");
    CHECK_STR(CUES(.highlight_words = true), "0-1000 [a] b c d e|1000-2000 a b c d e|2000-3000 a b c [d] e");
}

TEST(a_cue_of_words_without_duration_is_still_shown)
{
    word(1, 1, " a");
    word(1, 1, " b");
    segment(1, 1, " a b");
    CHECK_STR(CUES(.highlight_words = true), "1000-1000 a b");
}

TEST(a_last_word_without_duration_is_shown_to_its_end)
{
    word(0, 1, " a");
    word(2, 2, " b");
    segment(0, 2, " a b");
    CHECK_STR(CUES(.highlight_words = true), "0-1000 [a] b|1000-2000 a b");
}

TEST(highlighting_and_limits)
{
    say(0, " aaa bbb ccc");
    CHECK_STR(CUES(.max_line_width = 3, .max_line_count = 2, .highlight_words = true),
              "0-1000 [aaa]/bbb|1000-2000 aaa/[bbb]|2000-3000 [ccc]");
    CHECK_STR(CUES(.max_words_per_line = 2, .highlight_words = true),
              "0-1000 [aaa] bbb|1000-2000 aaa [bbb]|2000-3000 [ccc]");
}

/* --- speakers --------------------------------------------------------------------- */

static void two_speakers(void)
{
    tr_transcript_speak(&t, 1);
    say(0, " one two");
    say(2, " three");
    tr_transcript_speak(&t, 2);
    say(1, " four");
    say(3, " five");
    tr_transcript_merge(&t);
}

TEST(speakers_have_their_own_cues)
{
    two_speakers();
    CHECK_STR(CUES(.highlight_words = false), "0-2000 Speaker 1: one two|1000-2000 Speaker 2: four|"
                                              "2000-3000 Speaker 1: three|3000-4000 Speaker 2: five");
    CHECK_STR(CUES(.max_line_width = 90, .max_line_count = 2), "0-2000 Speaker 1: one two|1000-2000 Speaker 2: four|"
                                                               "2000-3000 Speaker 1: three|3000-4000 Speaker 2: five");
}

TEST(the_name_of_a_speaker_is_part_of_the_line)
{
    tr_transcript_speak(&t, 1);
    say(0, " one two three");
    CHECK_STR(CUES(.max_line_width = 18), "0-3000 Speaker 1: one two/three");
    CHECK_STR(CUES(.max_line_width = 17), "0-3000 Speaker 1: one/two three");
    CHECK_STR(CUES(.max_line_width = 17, .max_line_count = 1), "0-1000 Speaker 1: one|1000-2000 Speaker 1: two|"
                                                               "2000-3000 Speaker 1: three");
}

/* --- in files --------------------------------------------------------------------- */

static const char *as(enum tr_format f, struct tr_layout l)
{
    static struct gd__buffer b;
    gd__buffer_free(&b);
    tr_format_write(&b, f, &t, &l);
    gd__buffer_add(&b, "", 1);
    CHECK(!b.failed);
    return b.data;
}

TEST(highlighted_words_in_files)
{
    say(0, " <a> b-->");
    const struct tr_layout l = { .highlight_words = true };
    CHECK_STR(as(TR_SRT, l), "1\n00:00:00,000 --> 00:00:01,000\n<u><a></u> b->\n\n"
                             "2\n00:00:01,000 --> 00:00:02,000\n<a> <u>b-></u>\n\n");
    CHECK_STR(as(TR_VTT, l), "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n<u>&lt;a&gt;</u> b--&gt;\n\n"
                             "00:00:01.000 --> 00:00:02.000\n&lt;a&gt; <u>b--&gt;</u>\n");
    CHECK_STR(as(TR_TXT, l), "<a> b-->\n");
    CHECK_STR(as(TR_TSV, l), "start\tend\ttext\n0\t2000\t<a> b-->\n");
}

TEST(lines_in_files)
{
    say(0, " one two three");
    const struct tr_layout l = { .max_line_width = 8, .max_line_count = 2 };
    CHECK_STR(as(TR_SRT, l), "1\n00:00:00,000 --> 00:00:03,000\none two\nthree\n\n");
    CHECK_STR(as(TR_VTT, l), "WEBVTT\n\n00:00:00.000 --> 00:00:03.000\none two\nthree\n");
}

TEST(speakers_in_files)
{
    two_speakers();
    const struct tr_layout none = { 0 };
    CHECK_CONTAINS(as(TR_SRT, none), "2\n00:00:01,000 --> 00:00:02,000\nSpeaker 2: four\n\n");
    CHECK_CONTAINS(as(TR_VTT, none), "\n\n00:00:01.000 --> 00:00:02.000\n<v Speaker 2>four\n");
    CHECK_STR(as(TR_TXT, none), "Speaker 1: one two\nSpeaker 2: four\nSpeaker 1: three\nSpeaker 2: five\n");
    CHECK_CONTAINS(as(TR_TSV, none), "start\tend\tspeaker\ttext\n0\t2000\tSpeaker 1\tone two\n");
    CHECK_CONTAINS(as(TR_CSV, none), "start,end,speaker,text\n0,2000,Speaker 1,\"one two\"\n");
    CHECK_CONTAINS(as(TR_LRC, none), "[00:01.00]Speaker 2: four\n");
    CHECK_CONTAINS(as(TR_JSON, none), "\"speaker\": \"Speaker 2\", \"words\": [{\"word\": \" four\", \"start\": 1.000");
    CHECK_CONTAINS(as(TR_JSON, none), "{\"text\": \"one two four three five\"");
    CHECK_CONTAINS(as(TR_VTT, (struct tr_layout){ .highlight_words = true }), "<v Speaker 2><u>four</u>\n");
}

TEST_MAIN()
