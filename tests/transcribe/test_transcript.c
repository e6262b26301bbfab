/* SPDX-License-Identifier: MIT
 *
 * Transcripts: text is made valid UTF-8, and times are put in order.
 */
#include <math.h>

#include "base/text/utf8.h"
#include "support/test.h"
#include "transcribe/output/made_transcript.h"

/* The text of the last segment. */
static const char *text_of_last(void)
{
    static char text[1000];
    const struct tr_segment *s = &t.segments[t.n_segments - 1];
    snprintf(text, sizeof text, "%.*s", (int)s->size, t.text.data + s->text);
    return text;
}

static const char *times(void)
{
    static char text[1000];
    char *end = text;
    *end = '\0';
    for (size_t i = 0; i < t.n_segments; i++)
        end += snprintf(end, sizeof text - (size_t)(end - text), "%s%g-%g", i ? " " : "", t.segments[i].start,
                        t.segments[i].end);
    return text;
}

/* --- text --------------------------------------------------------------------- */

static void becomes(const char *text, size_t size, const char *wanted)
{
    const struct tr_segment_facts s = tr_segment_facts(0, 1);
    CHECK_EQ(tr_transcript_add(&t, &s, text, size), 0);
    CHECK_STR(text_of_last(), wanted);
}

#define BECOMES(text, wanted) becomes((text), sizeof(text) - 1, wanted)
#define BAD                   "\xef\xbf\xbd"

TEST(utf8_stays)
{
    BECOMES("", "");
    BECOMES(" Hello", " Hello");
    BECOMES("Gr\xc3\xbc\xc3\x9f"
            "e \xe4\xbd\xa0 \xf0\x9f\x98\x80",
            "Gr\xc3\xbc\xc3\x9f"
            "e \xe4\xbd\xa0 \xf0\x9f\x98\x80");
    BECOMES("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\xe0\xa0\x80\xf0\x90\x80\x80",
            "\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\xe0\xa0\x80\xf0\x90\x80\x80");
}

/* Each incomplete character becomes one replacement character, as the Unicode standard recommends and Python does. */
TEST(invalid_utf8_is_replaced)
{
    BECOMES("a\xe4\xbd", "a" BAD);
    BECOMES("\xe4\xbd"
            "b",
            BAD "b");
    BECOMES("\xf0\x9f\x98", BAD);
    BECOMES("\xf0\x9f\x98 x", BAD " x");
    BECOMES("\xa0\xa0", BAD BAD);
    BECOMES("\xff\xfe", BAD BAD);
    BECOMES("\xc0\x80", BAD BAD);
    BECOMES("\xe0\x80\x80", BAD BAD BAD);
    BECOMES("\xed\xa0\x80", BAD BAD BAD);
    BECOMES("\xf4\x90\x80\x80", BAD BAD BAD BAD);
    BECOMES("\xf5\x80", BAD BAD);
    BECOMES("\xe4\xe4\xbd\xa0", BAD "\xe4\xbd\xa0");
    BECOMES("\xc3", BAD);
    BECOMES("\xf0\x9f\xc3\xbc", BAD "\xc3\xbc");
}

TEST(a_nul_is_replaced)
{
    BECOMES("a\0b", "a" BAD "b");
}

TEST(any_bytes_become_utf8)
{
    unsigned seed = 1;
    for (int i = 0; i < 20000; i++) {
        static const unsigned char likely[] = { 0xe0, 0xed, 0xf0, 0xf4, 0xc2, 0x80, 0x9f, 0xa0, 0xbf, 0x90, 'a', 0 };
        char text[12];
        const size_t n = (size_t)rand_r(&seed) % sizeof text;
        for (size_t k = 0; k < n; k++)
            text[k] = (char)(rand_r(&seed) % 2 ? likely[(size_t)rand_r(&seed) % sizeof likely] : rand_r(&seed));
        const struct tr_segment_facts s = tr_segment_facts(0, 1);
        tr_transcript_clear(&t);
        CHECK_EQ(tr_transcript_add(&t, &s, text, n), 0);
        const unsigned char *p = (const unsigned char *)t.text.data;
        for (size_t k = 0, size = t.segments[0].size, c; k < size; k += c) {
            c = gd__utf8_length(p + k, size - k);
            CHECK(c > 0 && p[k] != 0);
        }
    }
    tr_transcript_free(&t);
}

/* --- times -------------------------------------------------------------------- */

TEST(good_times_stay)
{
    t.duration = 10;
    add(0, 1.5, "a");
    add(1.5, 3, "b");
    add(4, 10, "c");
    CHECK_STR(times(), "0-1.5 1.5-3 4-10");
}

TEST(times_stay_within_the_audio)
{
    t.duration = 10;
    add(-5, 3, "a");
    add(8, 30, "b");
    add(31, 40, "c");
    CHECK_STR(times(), "0-3 8-10 10-10");
}

TEST(times_do_not_go_back)
{
    t.duration = 10;
    add(2, 5, "a");
    add(4, 6, "b");
    add(1, 2, "c");
    CHECK_STR(times(), "2-5 5-6 6-6");
}

TEST(an_impossible_start)
{
    t.duration = 10;
    add(0, 2, "a");
    add(-92233720368547758.0, 4, "b");
    add(92233720368547758.0, 6, "c");
    add(NAN, 8, "d");
    add(9, NAN, "e");
    CHECK_STR(times(), "0-2 2-4 4-6 6-8 8-8");
}

TEST(without_a_duration_there_is_no_limit)
{
    add(100, 200, "a");
    add(300, INFINITY, "b");
    CHECK_STR(times(), "100-200 300-1e+09");
}

TEST(any_times_are_in_order)
{
    unsigned seed = 7;
    t.duration = 100;
    for (int i = 0; i < 2000; i++)
        add(rand_r(&seed) % 300 - 100, rand_r(&seed) % 300 - 100, "x");
    double last = 0;
    for (size_t i = 0; i < t.n_segments; i++) {
        CHECK(t.segments[i].start >= last && t.segments[i].end >= t.segments[i].start && t.segments[i].end <= 100);
        last = t.segments[i].end;
    }
    tr_transcript_free(&t);
}

TEST(probabilities_are_between_0_and_1)
{
    struct tr_segment_facts s = tr_segment_facts(0, 1);
    s.probability = -1;
    s.no_speech = 7;
    CHECK_EQ(tr_transcript_add(&t, &s, "x", 1), 0);
    CHECK(t.segments[0].probability == 0);
    CHECK(t.segments[0].no_speech == 1);
}

/* --- words -------------------------------------------------------------------- */

TEST(words_belong_to_the_segment_after_them)
{
    add_word(0, 1, " one");
    add_word(1, 2, " two");
    add(0, 2, " one two");
    add(2, 3, " -");
    add_word(3, 4, " three");
    add(3, 4, " three");
    CHECK_EQ(t.segments[0].first_word, 0);
    CHECK_EQ(t.segments[0].n_words, 2);
    CHECK_EQ(t.segments[1].n_words, 0);
    CHECK_EQ(t.segments[2].first_word, 2);
    CHECK_EQ(t.segments[2].n_words, 1);
    CHECK_EQ(t.words[2].size, 6);
    CHECK_MEM(t.text.data + t.words[2].text, " three", 6);
    CHECK_STR(text_of_last(), " three");
}

TEST(words_are_fitted_into_their_segment)
{
    t.duration = 10;
    add_word(-1, 1.5, "a");
    add_word(1, 1.2, "b");
    add_word(1.6, 99, "c");
    add_word(50, 60, "d");
    add(1, 2, "abcd");
    const double wanted[][2] = { { 1, 1.5 }, { 1.5, 1.5 }, { 1.6, 2 }, { 2, 2 } };
    for (int i = 0; i < 4; i++) {
        CHECK(t.words[i].start == wanted[i][0]);
        CHECK(t.words[i].end == wanted[i][1]);
    }
}

TEST(a_word_that_is_not_utf8)
{
    add_word(0, 1, "\xe4\xbd");
    CHECK_EQ(t.words[0].size, 3);
    CHECK_MEM(t.text.data + t.words[0].text, BAD, 3);
}

TEST(clearing_keeps_the_run_and_the_memory)
{
    t.model = "base";
    t.translated = true;
    t.language = "en";
    t.language_probability = 1;
    t.duration = 5;
    add_word(0, 1, "a");
    add(0, 1, "a");
    const void *segments = t.segments, *text = t.text.data;
    tr_transcript_clear(&t);
    CHECK_EQ(t.n_segments + t.n_words + t.n_tokens + t.text.size, 0);
    CHECK(!t.language && t.language_probability < 0 && t.duration == 0);
    CHECK_STR(t.model, "base");
    CHECK(t.translated);
    add(0, 1, "b");
    CHECK(t.segments == segments && t.text.data == text);
    CHECK_EQ(t.segments[0].n_words, 0);
    CHECK_STR(as(TR_TXT), "b\n");
    tr_transcript_free(&t);
    CHECK(!t.segments && !t.text.data);
}

/* --- speakers ----------------------------------------------------------------- */

TEST(the_times_of_speakers_are_independent)
{
    t.duration = 10;
    tr_transcript_speak(&t, 1);
    add(0, 4, "a");
    add(6, 8, "b");
    tr_transcript_speak(&t, 2);
    add(0, 5, "c");
    add(3, 7, "d");
    CHECK_STR(times(), "0-4 6-8 0-5 5-7");
    tr_transcript_merge(&t);
    CHECK_STR(times(), "0-4 0-5 5-7 6-8");
    static const unsigned speakers[] = { 1, 2, 2, 1 };
    for (int i = 0; i < 4; i++)
        CHECK_EQ(t.segments[i].speaker, speakers[i]);
    CHECK_STR(as(TR_TXT), "Speaker 1: a\nSpeaker 2: c\nSpeaker 2: d\nSpeaker 1: b\n");
}

TEST(segments_keep_their_words_after_a_merge)
{
    tr_transcript_speak(&t, 1);
    add_word(5, 6, " late");
    add(5, 6, " late");
    tr_transcript_speak(&t, 2);
    add_word(0, 1, " early");
    add(0, 1, " early");
    tr_transcript_merge(&t);
    CHECK_CONTAINS(as(TR_JSON), "\"text\": \"early late\"");
    CHECK_CONTAINS(as(TR_JSON), "\"id\": 0, \"seek\": null, \"start\": 0.000");
    CHECK_CONTAINS(as(TR_JSON), "\"speaker\": \"Speaker 2\", \"words\": [{\"word\": \" early\", \"start\": 0.000");
}

TEST(without_speakers_nothing_names_them)
{
    add(0, 1, "a");
    tr_transcript_merge(&t);
    for (int f = 0; f < TR_FORMATS; f++)
        CHECK(strcasestr(as((enum tr_format)f), "speaker") == NULL);
    tr_transcript_speak(&t, 3);
    tr_transcript_clear(&t);
    add(0, 1, "a");
    CHECK_STR(as(TR_TXT), "a\n");
}

TEST_MAIN()
