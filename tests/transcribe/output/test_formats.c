/* SPDX-License-Identifier: MIT
 *
 * The formats of transcripts, checked to the last byte, and their names.
 */
#include <locale.h>
#include <math.h>

#include "base/failure.h"
#include "base/text/json.h"
#include "support/test.h"
#include "transcribe/output/made_transcript.h"

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

TEST(lrc)
{
    two_segments();
    CHECK_STR(as(TR_LRC), "[00:00.00]Hello there.\n[61:01.05]Good bye.\n");
}

TEST(lrc_has_whole_hundredths_and_minutes_above_99)
{
    add(59.996, 61, "a");
    add(6000.004, 6001, "b\nc");
    CHECK_STR(as(TR_LRC), "[01:00.00]a\n[100:00.00]b c\n");
}

TEST(csv)
{
    two_segments();
    CHECK_STR(as(TR_CSV), "start,end,text\n0,1500,\"Hello there.\"\n3661046,3662000,\"Good bye.\"\n");
}

TEST(csv_quotes)
{
    add(0, 1, " a, \"b\"\nc \"");
    CHECK_STR(as(TR_CSV), "start,end,text\n0,1000,\"a, \"\"b\"\" c \"\"\"\n");
}

#define UNKNOWN                                                                                     \
    "\"tokens\": null, \"temperature\": null, \"avg_logprob\": null, \"compression_ratio\": null, " \
    "\"no_speech_prob\": null, "

TEST(json)
{
    two_segments();
    t.language = "en";
    t.language_probability = 0.875f;
    t.model = "base";
    CHECK_STR(
        as(TR_JSON),
        "{\"text\": \"Hello there. Good bye.\", \"segments\": [\n"
        "  {\"id\": 0, \"seek\": null, \"start\": 0.000, \"end\": 1.500, \"text\": \" Hello there.\", " UNKNOWN
        "\"probability\": 0.500000},\n"
        "  {\"id\": 1, \"seek\": null, \"start\": 3661.046, \"end\": 3662.000, \"text\": \" Good bye. \", " UNKNOWN
        "\"probability\": 0.500000}\n"
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
    CHECK_STR(as(TR_JSON),
              "{\"text\": \"a \\\"b\\\"\", \"segments\": [\n"
              "  {\"id\": 0, \"seek\": null, \"start\": 0.000, \"end\": 1.000, \"text\": \" a \\\"b\\\"\", " UNKNOWN
              "\"probability\": 0.500000, \"words\": ["
              "{\"word\": \" a\", \"start\": 0.000, \"end\": 0.500, \"probability\": 0.250000}, "
              "{\"word\": \" \\\"b\\\"\", \"start\": 0.500, \"end\": 1.000, \"probability\": 0.250000}]},\n"
              "  {\"id\": 1, \"seek\": null, \"start\": 1.000, \"end\": 2.000, \"text\": \" \", " UNKNOWN
              "\"probability\": 0.500000, \"words\": []}\n"
              "], \"language\": null, \"language_probability\": null, \"duration\": 0.000, \"model\": null, "
              "\"task\": \"translate\"}\n");
}

TEST(json_with_all_facts)
{
    const int32_t first[] = { 50364, 7, 50414 }, second[] = { 8 };
    struct tr_segment_facts f = tr_segment_facts(0, 1);
    f.probability = 0.75f;
    f.avg_logprob = -0.25f;
    f.no_speech = 0.125f;
    f.temperature = 0.5f;
    f.compression_ratio = 1.5f;
    f.seek = 3000;
    f.tokens = first;
    f.n_tokens = 3;
    CHECK_EQ(tr_transcript_add(&t, &f, "a", 1), 0);
    add(1, 2, "b");
    f = tr_segment_facts(2, 3);
    f.avg_logprob = -12.0000004f;
    f.seek = 0;
    f.tokens = second;
    f.n_tokens = 1;
    CHECK_EQ(tr_transcript_add(&t, &f, "c", 1), 0);
    const char *json = as(TR_JSON);
    CHECK_CONTAINS(json, "{\"id\": 0, \"seek\": 3000, \"start\": 0.000, \"end\": 1.000, \"text\": \"a\", "
                         "\"tokens\": [50364, 7, 50414], \"temperature\": 0.500000, \"avg_logprob\": -0.250000, "
                         "\"compression_ratio\": 1.500000, \"no_speech_prob\": 0.125000, \"probability\": 0.750000}");
    CHECK_CONTAINS(json, "\"text\": \"b\", \"tokens\": null,");
    CHECK_CONTAINS(json, "{\"id\": 2, \"seek\": 0,");
    CHECK_CONTAINS(json, "\"text\": \"c\", \"tokens\": [8], \"temperature\": null, \"avg_logprob\": -12.000000,");
    CHECK(gd__json_valid(json, strlen(json)));
}

TEST(words_are_in_json_only)
{
    two_segments();
    char before[5][300];
    static const enum tr_format plain[] = { TR_SRT, TR_VTT, TR_TSV, TR_LRC, TR_CSV };
    for (int i = 0; i < 5; i++)
        snprintf(before[i], sizeof before[i], "%s", as(plain[i]));
    tr_transcript_clear(&t);
    add_word(0, 1, " Hello");
    two_segments();
    for (int i = 0; i < 5; i++)
        CHECK_STR(as(plain[i]), before[i]);
}

TEST(a_transcript_without_text)
{
    CHECK_STR(as(TR_TXT), "");
    CHECK_STR(as(TR_SRT), "");
    CHECK_STR(as(TR_VTT), "WEBVTT\n");
    CHECK_STR(as(TR_TSV), "start\tend\ttext\n");
    CHECK_STR(as(TR_LRC), "");
    CHECK_STR(as(TR_CSV), "start,end,text\n");
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
    CHECK_STR(as(TR_LRC), "[00:00.00]a\n[00:03.00]b\n");
    CHECK_STR(as(TR_CSV), "start,end,text\n0,1000,\"a\"\n3000,4000,\"b\"\n");
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
            struct tr_segment_facts s = tr_segment_facts(k, k + 1);
            s.avg_logprob = -INFINITY;
            s.compression_ratio = INFINITY;
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
    CHECK_STR(tr_format_name(TR_LRC), "lrc");
    CHECK_STR(tr_format_name(TR_CSV), "csv");
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
    CHECK_EQ(parsed("lrc,csv"), 1u << TR_LRC | 1u << TR_CSV);
    CHECK_EQ(parsed("all"), 127);
    CHECK_EQ(parsed("srt,all"), 127);
}

TEST(invalid_lists_of_formats)
{
    static const char *const bad[] = { "", ",", "txt,", ",txt", "txt srt", "doc", "tx", "txtt", "alle" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (parsed(bad[i]) != 4242)
            FAIL("\"%s\" was accepted", bad[i]);
        CHECK_CONTAINS(gd__fail_text(), "the formats are txt, srt, vtt, json, tsv, lrc, csv, or all");
    }
    CHECK_EQ(parsed("jsn"), 4242);
    CHECK_CONTAINS(gd__fail_text(), "did you mean json?");
    CHECK_EQ(parsed("a word that is longer than any room there is for it in the words of an error"), 4242);
}

TEST_MAIN()
