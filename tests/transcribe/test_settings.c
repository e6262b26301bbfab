/* SPDX-License-Identifier: MIT
 *
 * The worker's settings as text: they are read back as written, and invalid ones are refused with an error message.
 */
#include <math.h>

#include "apps/transcribe/engine/settings.h"
#include "base/failure.h"
#include "base/text/buffer.h"
#include "support/test.h"

static struct tr_settings settings;
static char *kept;

static int read_text(const char *text)
{
    free(kept);
    return tr_settings_read(&settings, &kept, text, strlen(text));
}

static void refused(const char *text, const char *words)
{
    if (read_text(text) == 0)
        FAIL("\"%s\" was accepted", text);
    CHECK_CONTAINS(gd__fail_text(), words);
    CHECK(kept == NULL);
}

/* The defaults, with a model. */
static struct tr_settings with_model(const char *model)
{
    struct tr_settings s = tr_settings_defaults;
    s.model = model;
    return s;
}

/* Writes s and reads it back. */
static void there_and_back(const struct tr_settings *s)
{
    struct gd__buffer text = { 0 };
    tr_settings_write(&text, s);
    CHECK(!text.failed);
    free(kept);
    if (tr_settings_read(&settings, &kept, text.data, text.size) < 0)
        FAIL("\"%.*s\": %s", (int)text.size, text.data, gd__fail_text());
    gd__buffer_free(&text);
}

static void done(void)
{
    free(kept);
    kept = NULL;
}

TEST(a_model_is_enough)
{
    CHECK_EQ(read_text("model=m.bin"), 0);
    CHECK_STR(settings.model, "m.bin");
    CHECK(!settings.model_name && !settings.language && !settings.prompt && !settings.vad_model);
    CHECK(!settings.places.input_dir && !settings.places.output_dir && !settings.places.full_names);
    CHECK_EQ(settings.places.formats, 1u << TR_TXT);
    CHECK_EQ(settings.threads + settings.workers + settings.beam_size, 0);
    CHECK(settings.temperature == 0);
    CHECK(!settings.translate && !settings.word_timestamps && !settings.no_gpu);
    done();
}

TEST(a_model_is_required)
{
    refused("", "no model");
    refused("model=", "no model");
    refused("language=en\n", "model=PATH");
    CHECK_EQ(tr_settings_read(&settings, &kept, NULL, 0), -1);
    CHECK_CONTAINS(gd__fail_text(), "no model");
}

TEST(every_member_is_read_back)
{
    struct tr_settings all = with_model("/models/ggml base.bin");
    all.model_name = "base";
    all.language = "de";
    all.places = (struct tr_places){ "in", "out", 1u << TR_SRT | 1u << TR_JSON, true, false, { 42, 2, 6, true } };
    all.threads = 3;
    all.workers = 8;
    all.beam_size = 5;
    all.temperature = 0.4;
    all.prompt = "Hello, = world";
    all.vad_model = "vad.bin";
    all.translate = all.word_timestamps = all.no_gpu = true;
    all.accept_truncated = all.diarize_channels = true;
    all.input_base = "https://host/audio";
    there_and_back(&all);
    CHECK_STR(settings.model, all.model);
    CHECK_STR(settings.model_name, "base");
    CHECK_STR(settings.language, "de");
    CHECK_STR(settings.places.input_dir, "in");
    CHECK_STR(settings.places.output_dir, "out");
    CHECK_EQ(settings.places.formats, all.places.formats);
    CHECK(settings.places.full_names);
    CHECK_EQ(settings.places.layout.max_line_width, 42);
    CHECK_EQ(settings.places.layout.max_line_count, 2);
    CHECK_EQ(settings.places.layout.max_words_per_line, 6);
    CHECK(settings.places.layout.highlight_words);
    CHECK_EQ(settings.threads, 3);
    CHECK_EQ(settings.workers, 8);
    CHECK_EQ(settings.beam_size, 5);
    CHECK(fabs(settings.temperature - 0.4) < 1e-9);
    CHECK_STR(settings.prompt, all.prompt);
    CHECK_STR(settings.vad_model, "vad.bin");
    CHECK(settings.translate && settings.word_timestamps && settings.no_gpu && settings.accept_truncated &&
          settings.diarize_channels);
    CHECK_STR(settings.input_base, "https://host/audio");
    done();
}

/* Journals identify the work by this text, so a setting that earlier versions did not have is not in it by default. */
TEST(a_newer_setting_that_is_not_set)
{
    struct gd__buffer text = { 0 };
    const struct tr_settings s = with_model("m");
    tr_settings_write(&text, &s);
    gd__buffer_add(&text, "", 1);
    CHECK_STR(text.data,
              "beam_size=0\nformats=txt\nfull_names=no\ninput_dir=\nlanguage=\nmodel=m\nmodel_name=\nno_gpu=no\n"
              "output_dir=\npiece_seconds=0\nprompt=\nsync=no\ntemperature=0.000000\nthreads=0\ntranslate=no\n"
              "vad_model=\nword_timestamps=no\nworkers=0\n");
    gd__buffer_free(&text);
}

TEST(a_layout_of_subtitles_needs_words)
{
    static const char *const layouts[] = { "max_line_width=9", "max_line_count=9", "max_words_per_line=9",
                                           "highlight_words=yes" };
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        char text[64];
        snprintf(text, sizeof text, "model=m\n%s", layouts[i]);
        CHECK_EQ(read_text(text), 0);
        CHECK(settings.word_timestamps);
    }
    done();
}

/* The settings that are newer, each with another value than its default. As text, as an option, and as read back. */
static const struct {
    const char *text, *option, *normal;
} newer[] = {
    { "accept_truncated=yes", " --accept-truncated", NULL },
    { "best_of=3", " --best-of 3", NULL },
    { "carry_initial_prompt=yes", " --carry-initial-prompt", NULL },
    { "clip_timestamps=0,10,60", " --clip-timestamps 0,10,60", NULL },
    { "compression_ratio_threshold=2.4", " --compression-ratio-threshold 2.4", "compression_ratio_threshold=2.400000" },
    { "condition_on_previous_text=no", " --condition-on-previous-text no", NULL },
    { "diarize_channels=yes", " --diarize channels", NULL },
    { "entropy_threshold=2.800000", " --entropy-threshold 2.8", NULL },
    { "entropy_threshold=None", " --entropy-threshold none", "entropy_threshold=none" },
    { "entropy_threshold=0", " --entropy-threshold none", "entropy_threshold=none" },
    { "highlight_words=yes", " --highlight-words", NULL },
    { "hotwords=Anna und Otto", " --hotwords 'Anna und Otto'", NULL },
    { "length_penalty=1", " --length-penalty 1", "length_penalty=1.000000" },
    { "length_penalty=0", " --length-penalty 0", "length_penalty=0.000000" },
    { "logprob_threshold=-0.5", " --logprob-threshold -0.5", "logprob_threshold=-0.500000" },
    { "logprob_threshold=none", " --logprob-threshold none", NULL },
    { "max_initial_timestamp=0", " --max-initial-timestamp 0", "max_initial_timestamp=0.000000" },
    { "max_initial_timestamp=none", " --max-initial-timestamp none", NULL },
    { "max_line_count=2", " --max-line-count 2", NULL },
    { "max_line_width=42", " --max-line-width 42", NULL },
    { "max_words_per_line=6", " --max-words-per-line 6", NULL },
    { "no_speech_threshold=0.25", " --no-speech-threshold 0.25", "no_speech_threshold=0.250000" },
    { "no_speech_threshold=none", " --no-speech-threshold none", NULL },
    { "suppress_blank=no", " --suppress-blank no", NULL },
    { "suppress_tokens=-1,50362", " --suppress-tokens -1,50362", NULL },
    { "temperature_increment_on_fallback=none", " --temperature-increment-on-fallback none", NULL },
    { "temperature_increment_on_fallback=0.5", " --temperature-increment-on-fallback 0.5",
      "temperature_increment_on_fallback=0.500000" },
    { "vad_max_speech_duration_s=30", " --vad-max-speech-duration-s 30", "vad_max_speech_duration_s=30.000000" },
    { "vad_min_silence_duration_ms=2000", " --vad-min-silence-duration-ms 2000", NULL },
    { "vad_min_speech_duration_ms=0", " --vad-min-speech-duration-ms 0", NULL },
    { "vad_speech_pad_ms=400", " --vad-speech-pad-ms 400", NULL },
    { "vad_threshold=0.35", " --vad-threshold 0.35", "vad_threshold=0.350000" },
    { "without_timestamps=yes", " --without-timestamps", NULL },
};

TEST(newer_settings_are_written_if_they_are_set)
{
    for (size_t i = 0; i < sizeof newer / sizeof *newer; i++) {
        char line[200];
        struct gd__buffer text = { 0 };
        snprintf(line, sizeof line, "model=m\n%s", newer[i].text);
        if (read_text(line) < 0)
            FAIL("%s: %s", newer[i].text, gd__fail_text());
        tr_settings_write(&text, &settings);
        gd__buffer_add(&text, "", 1);
        snprintf(line, sizeof line, "\n%s\n", newer[i].normal ? newer[i].normal : newer[i].text);
        if (!strstr(text.data, line) && strncmp(text.data, line + 1, strlen(line + 1)) != 0)
            FAIL("no %s in %s", line, text.data);
        text.size = 0;
        tr_settings_options(&text, &settings);
        gd__buffer_add(&text, "", 1);
        CHECK_STR(text.data, newer[i].option);
        gd__buffer_free(&text);
    }
    done();
}

TEST(newer_settings_that_are_wrong)
{
    refused("model=m\nbest_of=0", "best_of takes a whole number from 1 to 8");
    refused("model=m\nbest_of=9", "best_of takes a whole number from 1 to 8");
    refused("model=m\nlogprob_threshold=0.5", "logprob_threshold takes a number from -1000 to 0, or none");
    refused("model=m\nlogprob_threshold=-", "logprob_threshold takes a number");
    refused("model=m\nno_speech_threshold=1.5", "from 0 to 1, or none, not \"1.5\"");
    refused("model=m\ntemperature_increment_on_fallback=0.001", "from 0.01 to 1, or none");
    refused("model=m\nvad_threshold=none", "vad_threshold takes a number from 0 to 1, not \"none\"");
    refused("model=m\nsuppress_tokens=a", "suppress_tokens takes the numbers of tokens");
    refused("model=m\nclip_timestamps=5,4", "clip_timestamps: 4 does not come after 5");
}

/* As the command does it: errors name the option. */
TEST(one_setting_is_set_by_its_name)
{
    struct tr_settings s = tr_settings_defaults;
    CHECK_EQ(tr_settings_set(&s, "entropy_threshold", "--entropy-threshold", "3"), 0);
    CHECK(s.entropy_threshold == 3);
    CHECK_EQ(tr_settings_set(&s, "suppress_blank", "--suppress-blank", "False"), 0);
    CHECK(!s.suppress_blank);
    CHECK_EQ(tr_settings_set(&s, "clip_timestamps", "--clip-timestamps", "0"), 0); /* the whole file */
    CHECK(!s.clip_timestamps);
    CHECK_EQ(tr_settings_set(&s, "suppress_tokens", "--suppress-tokens", ""), 0);
    CHECK(!s.suppress_tokens);
    CHECK_EQ(tr_settings_set(&s, "best_of", "--best-of", "many"), -1);
    CHECK_CONTAINS(gd__fail_text(), "--best-of takes a whole number");
    CHECK_EQ(tr_settings_set(&s, "bestof", "--bestof", "1"), -1);
    CHECK_CONTAINS(gd__fail_text(), "did you mean best_of?");
}

TEST(switches_one_by_one)
{
    for (int i = 0; i < 4; i++) {
        struct tr_settings each = with_model("m");
        each.translate = i == 0;
        each.word_timestamps = i == 1;
        each.no_gpu = i == 2;
        each.places.full_names = i == 3;
        there_and_back(&each);
        CHECK_EQ(settings.translate, i == 0);
        CHECK_EQ(settings.word_timestamps, i == 1);
        CHECK_EQ(settings.no_gpu, i == 2);
        CHECK_EQ(settings.places.full_names, i == 3);
    }
    done();
}

TEST(any_set_of_formats_is_read_back)
{
    for (unsigned set = 1; set < 1u << TR_FORMATS; set++) {
        struct tr_settings s = with_model("m");
        s.places.formats = set;
        there_and_back(&s);
        CHECK_EQ(settings.places.formats, set);
    }
    done();
}

/* Makes a random string. Many of its bytes have a special meaning in settings. */
static void make_up(char *text, size_t most, unsigned *seed)
{
    static const char letters[] = "\\\\\n\r=nr ab,\t\"'\x80\xff\x01";
    const size_t n = 1 + (size_t)rand_r(seed) % most;
    for (size_t i = 0; i < n; i++)
        text[i] = letters[(size_t)rand_r(seed) % (sizeof letters - 1)];
    text[n] = '\0';
}

TEST(any_string_is_read_back)
{
    unsigned seed = 1;
    char a[40], b[400], c[40];
    for (int i = 0; i < (test_soak() ? 300000 : 5000); i++) {
        make_up(a, sizeof a - 1, &seed);
        make_up(b, sizeof b - 1, &seed);
        make_up(c, sizeof c - 1, &seed);
        struct tr_settings s = with_model(a);
        s.prompt = b;
        s.places.output_dir = c;
        there_and_back(&s);
        CHECK_STR(settings.model, a);
        CHECK_STR(settings.prompt, b);
        CHECK_STR(settings.places.output_dir, c);
        CHECK(!settings.language);
    }
    done();
}

TEST(temperatures_are_read_back)
{
    for (int i = 0; i <= 100; i++) {
        struct tr_settings s = with_model("m");
        s.temperature = i / 100.;
        there_and_back(&s);
        CHECK(fabs(settings.temperature - i / 100.) < 1e-7);
    }
    done();
}

TEST(numbers_as_people_write_them)
{
    CHECK_EQ(read_text("model=m\ntemperature=.5\nthreads=0\nbeam_size=8"), 0);
    CHECK(settings.temperature == 0.5);
    CHECK_EQ(settings.beam_size, 8);
    CHECK_EQ(read_text("model=m\ntemperature=1\nthreads=\n"), 0);
    CHECK(settings.temperature == 1);
    done();
}

TEST(bad_numbers)
{
    refused("model=m\nthreads=four", "threads takes a whole number");
    refused("model=m\nthreads=-1", "threads takes a whole number");
    refused("model=m\nthreads=1025", "from 0 to 1024");
    refused("model=m\nbeam_size=9", "from 0 to 8");
    refused("model=m\nworkers=1.5", "workers takes a whole number");
    refused("model=m\nworkers= 1", "workers takes a whole number");
    static const char *const bad[] = { "1.1", "-0.1", "2", "0.5x", "x", ".", "0,5", "nan", "1e-1", "1." };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[64];
        snprintf(text, sizeof text, "model=m\ntemperature=%s", bad[i]);
        refused(text, "temperature takes a number from 0 to 1");
    }
}

TEST(switches_in_many_spellings)
{
    static const char *const on[] = { "yes", "1", "true", "on", "YES" }, *const off[] = { "no", "0", "False", "off" };
    char text[64];
    for (size_t i = 0; i < sizeof on / sizeof *on; i++) {
        snprintf(text, sizeof text, "model=m\ntranslate=%s", on[i]);
        CHECK_EQ(read_text(text), 0);
        CHECK(settings.translate);
    }
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        snprintf(text, sizeof text, "model=m\ntranslate=%s", off[i]);
        CHECK_EQ(read_text(text), 0);
        CHECK(!settings.translate);
    }
    refused("model=m\ntranslate=maybe", "translate takes yes or no");
    done();
}

TEST(unknown_names)
{
    refused("model=m\nlanguge=en", "did you mean language?");
    refused("model=m\nzzzzzzzzzz=en", "is not a setting");
    refused("model=m\n=en", "is not a setting");
    refused("model=m\nModel=n", "is not a setting");
    refused("model=m\nen", "\"en\" is not one");
    refused("model=m\nformats=txt,doc", "\"doc\" is not a format");
}

TEST(names_that_come_twice)
{
    refused("model=m\nmodel=n", "model is given twice");
    refused("model=m\nthreads=1\nthreads=1", "threads is given twice");
}

TEST(escapes)
{
    CHECK_EQ(read_text("model=m\nprompt=a\\nb\\rc\\\\n"), 0);
    CHECK_STR(settings.prompt, "a\nb\rc\\n");
    refused("model=m\nprompt=a\\tb", "backslash");
    refused("model=m\nprompt=a\\", "backslash");
    refused("model=m\\", "write \\\\ for a backslash");
}

TEST(lines_that_end_with_crlf_and_empty_lines)
{
    CHECK_EQ(read_text("\r\n\nmodel=m\r\n\r\nlanguage=en\r\n\n"), 0);
    CHECK_STR(settings.model, "m");
    CHECK_STR(settings.language, "en");
    done();
}

TEST(auto_is_not_a_language)
{
    CHECK_EQ(read_text("model=m\nlanguage=auto"), 0);
    CHECK(!settings.language);
    CHECK_EQ(read_text("model=m\nlanguage="), 0);
    CHECK(!settings.language);
    done();
}

TEST(a_nul_is_refused)
{
    static const char text[] = "model=m\0n";
    CHECK_EQ(tr_settings_read(&settings, &kept, text, sizeof text - 1), -1);
    CHECK_CONTAINS(gd__fail_text(), "NUL");
}

TEST(nothing_is_read_past_the_size)
{
    static const char text[] = "model=model.bin\nlanguage=en";
    CHECK_EQ(tr_settings_read(&settings, &kept, text, 9), 0);
    CHECK_STR(settings.model, "mod");
    CHECK(!settings.language);
    done();
}

/* The form of settings in journals. */
TEST(settings_on_one_line)
{
    struct tr_settings s;
    CHECK_EQ(tr_settings_read_line(&s, &kept,
                                   "beam_size=3 formats=txt,srt full_names=yes input_dir=my talks language=en "
                                   "model=/m/ggml-a b.bin model_name=a b no_gpu=no output_dir=o piece_seconds=0 "
                                   "prompt=x = y\\nz beam_size=9 sync=no temperature=0.250000 threads=0 translate=no "
                                   "vad_model= word_timestamps=no workers=0"),
             0);
    CHECK_EQ(s.beam_size, 3);
    CHECK_EQ(s.places.formats, 1u << TR_TXT | 1u << TR_SRT);
    CHECK(s.places.full_names);
    CHECK_STR(s.places.input_dir, "my talks");
    CHECK_STR(s.language, "en");
    CHECK_STR(s.model, "/m/ggml-a b.bin");
    CHECK_STR(s.model_name, "a b");
    CHECK_STR(s.prompt, "x = y\nz beam_size=9");
    CHECK(s.temperature == 0.25);
    CHECK(s.vad_model == NULL && !s.accept_truncated);
    free(kept);
    CHECK_EQ(tr_settings_read_line(&s, &kept, "beam_size=3 accept_truncated=yes model=m"), 0);
    CHECK(s.accept_truncated && s.beam_size == 3);
    free(kept);
    /* An unknown setting, written by a newer program, is part of the value before it. A missing setting has its
     * default. */
    CHECK_EQ(tr_settings_read_line(&s, &kept, "beam_size=0 model=m.bin"), 0);
    CHECK_STR(s.model, "m.bin");
    CHECK_EQ(s.places.formats, 1u << TR_TXT);
    free(kept);
    CHECK_EQ(tr_settings_read_line(&s, &kept, "nonsense"), -1);
    CHECK(kept == NULL);
}

TEST_MAIN()
