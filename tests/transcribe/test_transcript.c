/* SPDX-License-Identifier: MIT
 *
 * Transcripts: text is made valid UTF-8, times are put in order, and each format is checked to the last byte.
 */
#include <locale.h>
#include <math.h>

#include "apps/transcribe/output/transcript.h"
#include "base/failure.h"
#include "base/text/buffer.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "support/test.h"

static struct tr_transcript t = { .language_probability = -1 };

static void add(double start, double end, const char *text)
{
    const struct tr_segment s = { .start = start, .end = end, .probability = 0.5f, .temperature = -1 };
    CHECK_EQ(tr_transcript_add(&t, &s, text, strlen(text)), 0);
}

static void add_word(double start, double end, const char *text)
{
    const struct tr_word w = { .start = start, .end = end, .probability = 0.25f };
    CHECK_EQ(tr_transcript_add_word(&t, &w, text, strlen(text)), 0);
}

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

static const char *as(enum tr_format f)
{
    static struct gd__buffer b;
    gd__buffer_free(&b);
    tr_format_write(&b, f, &t);
    gd__buffer_add(&b, "", 1);
    CHECK(!b.failed);
    return b.data;
}

/* --- text --------------------------------------------------------------------- */

static void becomes(const char *text, size_t size, const char *wanted)
{
    const struct tr_segment s = { .end = 1 };
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
        const struct tr_segment s = { .end = 1 };
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
    const struct tr_segment s = { .end = 1, .probability = NAN, .no_speech = 7 };
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
    CHECK_EQ(t.n_segments + t.n_words + t.text.size, 0);
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

/* --- formats ------------------------------------------------------------------ */

static void two_segments(void)
{
    t.duration = 4000;
    add(0, 1.5, " Hello there.");
    add(3661.0459, 3662, " Good bye. ");
}

TEST(txt)
{
    two_segments();
    CHECK_STR(as(TR_TXT), "Hello there.\nGood bye.\n");
}

TEST(srt)
{
    two_segments();
    CHECK_STR(as(TR_SRT), "1\n00:00:00,000 --> 00:00:01,500\nHello there.\n\n"
                          "2\n01:01:01,046 --> 01:01:02,000\nGood bye.\n\n");
}

TEST(vtt)
{
    two_segments();
    CHECK_STR(as(TR_VTT), "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHello there.\n\n"
                          "01:01:01.046 --> 01:01:02.000\nGood bye.\n");
}

TEST(tsv)
{
    two_segments();
    CHECK_STR(as(TR_TSV), "start\tend\ttext\n0\t1500\tHello there.\n3661046\t3662000\tGood bye.\n");
}

TEST(json)
{
    two_segments();
    t.language = "en";
    t.language_probability = 0.875f;
    t.model = "base";
    CHECK_STR(as(TR_JSON), "{\"text\": \"Hello there. Good bye.\", \"segments\": [\n"
                           "  {\"id\": 0, \"start\": 0.000, \"end\": 1.500, \"text\": \" Hello there.\", "
                           "\"probability\": 0.500000, \"no_speech_prob\": 0.000000, \"temperature\": null},\n"
                           "  {\"id\": 1, \"start\": 3661.046, \"end\": 3662.000, \"text\": \" Good bye. \", "
                           "\"probability\": 0.500000, \"no_speech_prob\": 0.000000, \"temperature\": null}\n"
                           "], \"language\": \"en\", \"language_probability\": 0.875000, \"duration\": 4000.000, "
                           "\"model\": \"base\", \"task\": \"transcribe\"}\n");
}

TEST(json_with_words)
{
    t.translated = true;
    add_word(0, 0.5, " a");
    add_word(0.5, 1, " \"b\"");
    add(0, 1, " a \"b\"");
    add(1, 2, " ");
    t.segments[0].temperature = 0.2f;
    CHECK_STR(as(TR_JSON),
              "{\"text\": \"a \\\"b\\\"\", \"segments\": [\n"
              "  {\"id\": 0, \"start\": 0.000, \"end\": 1.000, \"text\": \" a \\\"b\\\"\", \"probability\": 0.500000, "
              "\"no_speech_prob\": 0.000000, \"temperature\": 0.200000, \"words\": ["
              "{\"word\": \" a\", \"start\": 0.000, \"end\": 0.500, \"probability\": 0.250000}, "
              "{\"word\": \" \\\"b\\\"\", \"start\": 0.500, \"end\": 1.000, \"probability\": 0.250000}]},\n"
              "  {\"id\": 1, \"start\": 1.000, \"end\": 2.000, \"text\": \" \", \"probability\": 0.500000, "
              "\"no_speech_prob\": 0.000000, \"temperature\": null, \"words\": []}\n"
              "], \"language\": null, \"language_probability\": null, \"duration\": 0.000, \"model\": null, "
              "\"task\": \"translate\"}\n");
}

TEST(words_are_in_json_only)
{
    two_segments();
    char before[3][300];
    static const enum tr_format plain[] = { TR_SRT, TR_VTT, TR_TSV };
    for (int i = 0; i < 3; i++)
        snprintf(before[i], sizeof before[i], "%s", as(plain[i]));
    tr_transcript_clear(&t);
    add_word(0, 1, " Hello");
    two_segments();
    for (int i = 0; i < 3; i++)
        CHECK_STR(as(plain[i]), before[i]);
}

TEST(a_transcript_without_text)
{
    CHECK_STR(as(TR_TXT), "");
    CHECK_STR(as(TR_SRT), "");
    CHECK_STR(as(TR_VTT), "WEBVTT\n");
    CHECK_STR(as(TR_TSV), "start\tend\ttext\n");
    CHECK_STR(as(TR_JSON), "{\"text\": \"\", \"segments\": [], \"language\": null, \"language_probability\": null, "
                           "\"duration\": 0.000, \"model\": null, \"task\": \"transcribe\"}\n");
}

TEST(blank_segments_are_left_out)
{
    add(0, 1, "a");
    add(1, 2, " \n\t ");
    add(2, 3, "");
    add(3, 4, "b");
    CHECK_STR(as(TR_SRT), "1\n00:00:00,000 --> 00:00:01,000\na\n\n2\n00:00:03,000 --> 00:00:04,000\nb\n\n");
    CHECK_STR(as(TR_VTT), "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\na\n\n00:00:03.000 --> 00:00:04.000\nb\n");
    CHECK_STR(as(TR_TXT), "a\nb\n");
    CHECK_STR(as(TR_TSV), "start\tend\ttext\n0\t1000\ta\n3000\t4000\tb\n");
}

TEST(texts_of_many_lines)
{
    add(0, 1, "\n one \n\n \t\n two\r\n\r\nthree\r\n");
    CHECK_STR(as(TR_SRT), "1\n00:00:00,000 --> 00:00:01,000\none\ntwo\nthree\n\n");
    CHECK_STR(as(TR_VTT), "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\none\ntwo\nthree\n");
    CHECK_STR(as(TR_TXT), "one two three\n");
    CHECK_STR(as(TR_TSV), "start\tend\ttext\n0\t1000\tone two three\n");
}

TEST(arrows)
{
    add(0, 1, "a --> b ---> c -> d -- e ---");
    CHECK_STR(as(TR_SRT), "1\n00:00:00,000 --> 00:00:01,000\na -> b -> c -> d -- e ---\n\n");
    CHECK_STR(as(TR_VTT), "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\na --&gt; b ---&gt; c -&gt; d -- e ---\n");
    CHECK_STR(as(TR_TXT), "a --> b ---> c -> d -- e ---\n");
}

TEST(text_that_vtt_takes_for_markup)
{
    add(0, 1, "<b>AT&T</b> &lt; \xc3\xbc");
    CHECK_STR(as(TR_VTT), "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n&lt;b&gt;AT&amp;T&lt;/b&gt; &amp;lt; \xc3\xbc\n");
    CHECK_STR(as(TR_SRT), "1\n00:00:00,000 --> 00:00:01,000\n<b>AT&T</b> &lt; \xc3\xbc\n\n");
}

TEST(tabs)
{
    add(0, 1, "a\tb");
    CHECK_STR(as(TR_TSV), "start\tend\ttext\n0\t1000\ta b\n");
    CHECK_STR(as(TR_TXT), "a\tb\n");
}

TEST(a_hundred_hours)
{
    add(360000, 1234567.891, "a");
    CHECK_STR(as(TR_SRT), "1\n100:00:00,000 --> 342:56:07,891\na\n\n");
}

TEST(a_cue_has_a_duration)
{
    add(1, 1, "a");
    CHECK_STR(as(TR_VTT), "WEBVTT\n\n00:00:01.000 --> 00:00:01.001\na\n");
    CHECK_STR(as(TR_TSV), "start\tend\ttext\n1000\t1000\ta\n");
}

TEST(milliseconds_are_rounded_up_to_the_next_hour)
{
    add(3599.9996, 7199.9994, "a");
    CHECK_STR(as(TR_SRT), "1\n01:00:00,000 --> 01:59:59,999\na\n\n");
}

TEST(an_impossible_duration)
{
    t.duration = INFINITY;
    CHECK_CONTAINS(as(TR_JSON), "\"duration\": 1000000000.000,");
    t.duration = NAN;
    CHECK_CONTAINS(as(TR_JSON), "\"duration\": 0.000,");
}

TEST(long_texts_are_whole)
{
    char text[5001];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    add(0, 1, text);
    CHECK_EQ(strlen(as(TR_TXT)), 5001);
    CHECK_EQ(strlen(as(TR_TSV)), strlen("start\tend\ttext\n0\t1000\t") + 5001);
    CHECK(gd__json_valid(as(TR_JSON), strlen(as(TR_JSON))));
}

TEST(json_is_valid_for_any_text)
{
    unsigned seed = 3;
    for (int i = 0; i < 300; i++) {
        tr_transcript_clear(&t);
        for (int k = 0; k < 5; k++) {
            char text[8];
            for (size_t c = 0; c < sizeof text; c++)
                text[c] = (char)rand_r(&seed);
            const struct tr_segment s = { .start = k, .end = k + 1, .probability = NAN, .temperature = NAN };
            CHECK_EQ(tr_transcript_add(&t, &s, text, sizeof text), 0);
        }
        const char *json = as(TR_JSON);
        CHECK(gd__json_valid(json, strlen(json)));
        CHECK(strstr(json, "udc") == NULL); /* the escape for bytes that are not UTF-8 */
    }
}

TEST(numbers_do_not_depend_on_the_locale)
{
    /* Locales with a decimal comma. */
    static const char *const locales[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "ru_RU.UTF-8", "de_DE" };
    bool found = false;
    for (size_t i = 0; i < sizeof locales / sizeof *locales && !found; i++)
        found = setlocale(LC_ALL, locales[i]) != NULL;
    if (!found)
        SKIP("no locale with a decimal comma is installed");
    add(0, 1.5, "a");
    CHECK_CONTAINS(as(TR_JSON), "\"end\": 1.500,");
}

/* --- names of formats ----------------------------------------------------------- */

TEST(names)
{
    CHECK_STR(tr_format_name(TR_TXT), "txt");
    CHECK_STR(tr_format_name(TR_SRT), "srt");
    CHECK_STR(tr_format_name(TR_VTT), "vtt");
    CHECK_STR(tr_format_name(TR_JSON), "json");
    CHECK_STR(tr_format_name(TR_TSV), "tsv");
}

static unsigned parsed(const char *list)
{
    unsigned set = 77;
    if (tr_formats_parse(list, &set) < 0) {
        CHECK_EQ(set, 77);
        return 4242;
    }
    return set;
}

TEST(lists_of_formats)
{
    CHECK_EQ(parsed("txt"), 1u << TR_TXT);
    CHECK_EQ(parsed("srt,vtt"), 1u << TR_SRT | 1u << TR_VTT);
    CHECK_EQ(parsed("JSON, tsv"), 1u << TR_JSON | 1u << TR_TSV);
    CHECK_EQ(parsed("txt,txt"), 1u << TR_TXT);
    CHECK_EQ(parsed("all"), 31);
    CHECK_EQ(parsed("srt,all"), 31);
}

TEST(invalid_lists_of_formats)
{
    static const char *const bad[] = { "", ",", "txt,", ",txt", "txt srt", "doc", "tx", "txtt", "alle" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (parsed(bad[i]) != 4242)
            FAIL("\"%s\" was accepted", bad[i]);
        CHECK_CONTAINS(gd__fail_text(), "the formats are txt, srt, vtt, json, tsv");
    }
    CHECK_EQ(parsed("jsn"), 4242);
    CHECK_CONTAINS(gd__fail_text(), "did you mean json?");
    CHECK_EQ(parsed("a word that is longer than any room there is for it in the words of an error"), 4242);
}

TEST_MAIN()
