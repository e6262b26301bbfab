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
    const struct tr_settings all = {
        .model = "/models/ggml base.bin",
        .model_name = "base",
        .language = "de",
        .places = { "in", "out", 1u << TR_SRT | 1u << TR_JSON, true, false },
        .threads = 3,
        .workers = 8,
        .beam_size = 5,
        .temperature = 0.4,
        .prompt = "Hello, = world",
        .vad_model = "vad.bin",
        .translate = true,
        .word_timestamps = true,
        .no_gpu = true,
    };
    there_and_back(&all);
    CHECK_STR(settings.model, all.model);
    CHECK_STR(settings.model_name, "base");
    CHECK_STR(settings.language, "de");
    CHECK_STR(settings.places.input_dir, "in");
    CHECK_STR(settings.places.output_dir, "out");
    CHECK_EQ(settings.places.formats, all.places.formats);
    CHECK(settings.places.full_names);
    CHECK_EQ(settings.threads, 3);
    CHECK_EQ(settings.workers, 8);
    CHECK_EQ(settings.beam_size, 5);
    CHECK(fabs(settings.temperature - 0.4) < 1e-9);
    CHECK_STR(settings.prompt, all.prompt);
    CHECK_STR(settings.vad_model, "vad.bin");
    CHECK(settings.translate && settings.word_timestamps && settings.no_gpu);
    done();
}

TEST(switches_one_by_one)
{
    static const struct tr_settings each[] = { { .model = "m", .translate = true },
                                               { .model = "m", .word_timestamps = true },
                                               { .model = "m", .no_gpu = true },
                                               { .model = "m", .places.full_names = true } };
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        there_and_back(&each[i]);
        CHECK_EQ(settings.translate, each[i].translate);
        CHECK_EQ(settings.word_timestamps, each[i].word_timestamps);
        CHECK_EQ(settings.no_gpu, each[i].no_gpu);
        CHECK_EQ(settings.places.full_names, each[i].places.full_names);
    }
    done();
}

TEST(any_set_of_formats_is_read_back)
{
    for (unsigned set = 1; set < 1u << TR_FORMATS; set++) {
        const struct tr_settings s = { .model = "m", .places.formats = set };
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
        const struct tr_settings s = { .model = a, .prompt = b, .places.output_dir = c };
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
        const struct tr_settings s = { .model = "m", .temperature = i / 100. };
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
    CHECK(s.vad_model == NULL);
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
