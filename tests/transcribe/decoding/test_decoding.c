/* SPDX-License-Identifier: MIT
 *
 * The settings of the decoding, with the real worker: each of them changes what is decoded, and only that. */
#include "support/directory.h"
#include "support/test.h"
#include "transcribe/flat_model.h"
#include "transcribe/job.h"
#include "transcribe/sound.h"

enum { JSON = 20000 };

/* Keeps the outputs of a run, because the next run replaces them. */
static void keep(char to[JSON], const char *settings, const char *model, const char *file)
{
    snprintf(to, JSON, "%s", json_with(settings, model, file));
}

static void check_same(const char *a, const char *b, const char *model, const char *file)
{
    char first[JSON];
    keep(first, a, model, file);
    const char *second = json_with(b, model, file);
    if (strcmp(first, second) != 0)
        FAIL("\"%s\" gives %s\n\"%s\" gives %s", a, first, b, second);
}

static void check_differ(const char *a, const char *b, const char *model, const char *file)
{
    char first[JSON];
    keep(first, a, model, file);
    if (strcmp(first, json_with(b, model, file)) == 0)
        FAIL("\"%s\" and \"%s\" give the same: %s", a, b, first);
}

/* Clips one after the other: forty are more than 60 s, so they are three windows. */
static void make_talk(const char *path, int clips)
{
    FILE *f = begin_wav(path);
    for (int i = 20; i < 20 + clips; i++) {
        char name[100];
        snprintf(name, sizeof name, "tests/data/speech/clip_%03d.flac", i);
        put_clip(f, source_path(name));
    }
    end_wav(f);
}

/* Gives a token of a flat model a higher value than all others have. */
static void prefer(const char *model, int token)
{
    enum { FLAT_23 = 0x4dc0 };
    FILE *f = fopen(model, "r+be");
    CHECK(f);
    flat_like(f, token, FLAT_23);
    CHECK_EQ(fclose(f), 0);
}

/* --- search and fallback ------------------------------------------------------------- */

/* With this threshold, every result is bad. */
TEST_WITHIN(600, bad_results_are_decoded_again_at_higher_temperatures)
{
    directory_enter();
    CHECK_CONTAINS(json_with("", NULL, NULL), "\"temperature\": 0.0");
    CHECK_CONTAINS(json_with("logprob_threshold=0", NULL, NULL), "\"temperature\": 1.0");
    CHECK_CONTAINS(json_with("logprob_threshold=0\ntemperature_increment_on_fallback=0.4", NULL, NULL),
                   "\"temperature\": 0.8");
    CHECK_CONTAINS(json_with("logprob_threshold=0\ntemperature_increment_on_fallback=none", NULL, NULL),
                   "\"temperature\": 0.0");
}

TEST_WITHIN(600, silence_is_found_by_two_thresholds)
{
    directory_enter();
    const char *one = "logprob_threshold=0\ntemperature_increment_on_fallback=none";
    CHECK_CONTAINS(json_with(one, NULL, NULL), "\"text\": \"paste previous kitchen volume\"");
    CHECK_CONTAINS(json_with("no_speech_threshold=0", NULL, NULL), "\"text\": \"paste previous kitchen volume\"");
    char both[200];
    snprintf(both, sizeof both, "%s\nno_speech_threshold=0", one);
    CHECK_CONTAINS(json_with(both, NULL, NULL), "\"text\": \"\"");
    snprintf(both, sizeof both, "%s\nno_speech_threshold=none", one);
    CHECK_CONTAINS(json_with(both, NULL, NULL), "\"text\": \"paste previous kitchen volume\"");
}

/* Only results of more than 32 tokens are measured. */
TEST_WITHIN(900, results_below_the_entropy_threshold_are_bad)
{
    directory_enter();
    make_talk("talk.wav", 24);
    const char *rest = "clip_timestamps=0,28";
    char text[200];
    CHECK(!strstr(json_with(rest, NULL, "talk.wav"), "\"temperature\": 1.0"));
    snprintf(text, sizeof text, "%s\nentropy_threshold=1000", rest);
    CHECK_CONTAINS(json_with(text, NULL, "talk.wav"), "\"temperature\": 1.0");
    snprintf(text, sizeof text, "%s\nentropy_threshold=none", rest);
    check_same(text, rest, NULL, "talk.wav");
}

TEST_WITHIN(600, candidates_and_their_lengths)
{
    directory_enter();
    make_flat_model("flat.bin", false);
    make_silence("a.wav", 2);
    check_same("language=de\ntemperature=1", "language=de\ntemperature=1\nbest_of=5", "flat.bin", "a.wav");
    check_differ("language=de\ntemperature=1", "language=de\ntemperature=1\nbest_of=1", "flat.bin", "a.wav");
    /* With 0, the shortest candidate has the highest score, with 10 the longest. */
    make_silence("b.wav", 25);
    check_differ("language=de\ntemperature=1\nbest_of=8\nlength_penalty=0",
                 "language=de\ntemperature=1\nbest_of=8\nlength_penalty=10", "flat.bin", "b.wav");
}

/* --- tokens ----------------------------------------------------------------------------- */

TEST_WITHIN(600, tokens_are_suppressed)
{
    directory_enter();
    make_flat_model("flat.bin", true); /* says A and B */
    make_silence("a.wav", 2);
    char text[JSON];
    keep(text, "language=de", "flat.bin", "a.wav");
    CHECK_CONTAINS(text, "\"text\": \"A");
    keep(text, "language=de\nsuppress_tokens=65", "flat.bin", "a.wav");
    CHECK_CONTAINS(text, "\"text\": \"B");
    prefer("flat.bin", '#');
    CHECK_CONTAINS(json_with("language=de", "flat.bin", "a.wav"), "\"text\": \"#");
    keep(text, "language=de\nsuppress_tokens=-1", "flat.bin", "a.wav");
    CHECK_CONTAINS(text, "\"text\": \"A");
    keep(text, "language=de\nsuppress_tokens=65,-1", "flat.bin", "a.wav");
    CHECK_CONTAINS(text, "\"text\": \"B");
}

/* This model would end each window at once. */
TEST_WITHIN(600, blanks_are_suppressed)
{
    enum { END = 50257 };
    directory_enter();
    make_flat_model("flat.bin", true);
    prefer("flat.bin", END);
    make_silence("a.wav", 2);
    CHECK_CONTAINS(json_with("language=de", "flat.bin", "a.wav"), "\"text\": \"A");
    CHECK_CONTAINS(json_with("language=de\nsuppress_blank=no", "flat.bin", "a.wav"), "\"text\": \"\"");
}

/* The likeliest token of this model is the time of 20 s. */
TEST_WITHIN(600, the_first_time_is_limited)
{
    directory_enter();
    make_flat_model("flat.bin", true);
    make_silence("a.wav", 25);
    check_differ("language=de", "language=de\nmax_initial_timestamp=none", "flat.bin", "a.wav");
    CHECK_CONTAINS(json_with("language=de\nmax_initial_timestamp=none", "flat.bin", "a.wav"), "\"start\": 20.");
}

TEST_WITHIN(600, times_are_left_out)
{
    directory_enter();
    make_flat_model("flat.bin", true);
    make_silence("a.wav", 25);
    CHECK_CONTAINS(json_with("language=de", "flat.bin", "a.wav"), "\"end\": 20.");
    CHECK_CONTAINS(json_with("language=de\nwithout_timestamps=yes", "flat.bin", "a.wav"), "\"end\": 25.");
}

/* --- context ------------------------------------------------------------------------------ */

/* In a file of one window, all these put the same tokens before it. */
TEST_WITHIN(600, hotwords_and_prompts)
{
    directory_enter();
    check_differ("", "hotwords=zero one", NULL, NULL);
    check_same("prompt= zero one", "hotwords=zero one", NULL, NULL);
    check_same("prompt= zero one", "hotwords=  zero one", NULL, NULL);
    check_same("prompt= zero one", "prompt= zero one\ncarry_initial_prompt=yes", NULL, NULL);
    check_same("prompt= zero one two", "prompt= one two\nhotwords=zero", NULL, NULL);
    check_same("prompt= zero one two", "prompt= one two\nhotwords=zero\ncarry_initial_prompt=yes", NULL, NULL);
    check_same("hotwords=zero", "hotwords=zero\ncondition_on_previous_text=no", NULL, NULL);
    check_same("", "condition_on_previous_text=no", NULL, NULL);
}

/* Later windows are decoded with the text before them, with hotwords or a prompt, or with both. The second window gets the
 * prompt in any case, as a part of the text before it. A prompt that is carried leaves the third window only the text of
 * the second. */
TEST_WITHIN(900, windows_after_the_first)
{
    char plain[JSON];
    directory_enter();
    make_talk("talk.wav", 40);
    keep(plain, "condition_on_previous_text=no", NULL, "talk.wav");
    CHECK(strcmp(plain, json_with("", NULL, "talk.wav")) != 0);
    check_differ("prompt= zero", "prompt= zero\ncarry_initial_prompt=yes", NULL, "talk.wav");
    check_differ("prompt= zero\ncarry_initial_prompt=yes",
                 "prompt= zero\ncarry_initial_prompt=yes\ncondition_on_previous_text=no", NULL, "talk.wav");
    check_same("prompt= zero\ncarry_initial_prompt=yes\ncondition_on_previous_text=no",
               "hotwords=zero\ncondition_on_previous_text=no", NULL, "talk.wav");
}

/* The text of a piece is the context of the next one, with hotwords too. Without it, the result is another one. */
TEST_WITHIN(900, pieces_after_the_first)
{
    directory_enter();
    make_talk("talk.wav", 40);
    FILE *f = begin_wav("long.wav");
    put_clip(f, "talk.wav");
    put_clip(f, "talk.wav");
    end_wav(f);
    static const char *const decoders[] = { "decoder=lanes\nsplit=never\npiece_seconds=90\nhotwords=zero",
                                            "decoder=whisper.cpp\npiece_seconds=90\nhotwords=zero" };
    for (size_t i = 0; i < sizeof decoders / sizeof *decoders; i++) {
        char without[200];
        snprintf(without, sizeof without, "%s\ncondition_on_previous_text=no", decoders[i]);
        check_differ(decoders[i], without, NULL, "long.wav");
    }
}

/* Only lanes can do these. */
TEST_WITHIN(600, what_lanes_add)
{
    directory_enter();
    CHECK_CONTAINS(json_with("prompt= zero one\ncondition_on_previous_text=no", NULL, NULL), "\"temperature\": 0.0");
    CHECK_CONTAINS(json_with("compression_ratio_threshold=2.4", NULL, NULL), "\"temperature\": 0.0");
    CHECK_CONTAINS(json_with("compression_ratio_threshold=0.1", NULL, NULL), "\"temperature\": 1.0");
}

/* --- audio ----------------------------------------------------------------------------------- */

TEST_WITHIN(600, clips_have_the_times_of_the_file)
{
    directory_enter();
    FILE *f = begin_wav("a.wav");
    put_silence(f, 3);
    put_clip(f, source_path("tests/data/speech/clip_050.flac"));
    put_silence(f, 3);
    put_clip(f, source_path("tests/data/speech/clip_020.flac"));
    put_silence(f, 4);
    end_wav(f);
    const char *json = json_with("clip_timestamps=3,6", NULL, "a.wav");
    CHECK_CONTAINS(json, "\"text\": \"paste previous kitchen volume\"");
    CHECK_CONTAINS(json, "\"start\": 3.");
    json = json_with("clip_timestamps=8", NULL, "a.wav");
    CHECK_CONTAINS(json, "\"text\": \"previous timer\"");
    CHECK_CONTAINS(json, "\"start\": 9.");
    CHECK_CONTAINS(json, "\"duration\": 14.");
}

TEST_WITHIN(600, parameters_of_the_detection_of_speech)
{
    char settings[PATH_MAX + 100];
    const char *vad = getenv("GD_TEST_VAD_MODEL");
    static const char *const none[] = { "vad_threshold=1", "vad_min_speech_duration_ms=60000" };
    if (!vad || access(vad, R_OK) < 0)
        SKIP("whisper.cpp is installed without a VAD model");
    directory_enter();
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        snprintf(settings, sizeof settings, "vad_model=%s\n%s", vad, none[i]);
        CHECK_CONTAINS(json_with(settings, NULL, NULL), "\"text\": \"\"");
    }
    FILE *f = begin_wav("two.wav");
    put_silence(f, 3);
    put_clip(f, source_path("tests/data/speech/clip_050.flac"));
    put_silence(f, 2);
    put_clip(f, source_path("tests/data/speech/clip_051.flac"));
    put_silence(f, 3);
    end_wav(f);
    static const char *const other[] = { "vad_speech_pad_ms=900", "vad_min_silence_duration_ms=4000",
                                         "vad_max_speech_duration_s=1" };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        char plain[PATH_MAX + 100];
        snprintf(plain, sizeof plain, "vad_model=%s", vad);
        snprintf(settings, sizeof settings, "vad_model=%s\n%s", vad, other[i]);
        check_differ(plain, settings, NULL, "two.wav");
    }
    snprintf(settings, sizeof settings,
             "vad_model=%s\nvad_speech_pad_ms=200\nvad_min_silence_duration_ms=500\n"
             "vad_max_speech_duration_s=20",
             vad);
    CHECK_CONTAINS(json_with(settings, NULL, NULL), "\"text\": \"paste previous kitchen volume\"");
}

/* --- what is refused ---------------------------------------------------------------------------- */

static void check_refused(const char *settings, const char *words)
{
    struct job *j = new_job();
    j->settings = settings;
    add_clip(j, 20);
    CHECK_EQ(run(j), GD_E_SETUP);
    CHECK_CONTAINS(j->setup_error, words);
}

TEST_WITHIN(600, what_the_worker_refuses)
{
    source_path("");
    check_refused("decoder=whisper.cpp\ncompression_ratio_threshold=2.4\n", "use --entropy-threshold");
    check_refused("beam_size=5\ncompression_ratio_threshold=2.4\n", "which is needed for a beam search");
    check_refused("decoder=whisper.cpp\nprompt=x\ncondition_on_previous_text=no\n", "give --carry-initial-prompt too");
    check_refused("decoder=whisper.cpp\nbatch_size=4\n", "--batch-size is not possible with whisper.cpp's decoder");
    check_refused("beam_size=5\nsplit=never\n", "--split is not possible with whisper.cpp's decoder");
    check_refused("decoder=lanes\nbeam_size=5\n", "cannot do this: a beam search");
    check_refused("decoder=other\n", "decoder is auto, lanes or whisper.cpp");
    check_refused("split=often\n", "split is auto or never");
    check_refused("carry_initial_prompt=yes\n", "--carry-initial-prompt needs a prompt");
    check_refused("word_timestamps=yes\nwithout_timestamps=yes\n", "cannot be combined");
    check_refused("suppress_tokens=51864\n", "has no token 51864: its tokens are 0 to 51863");
    check_refused("clip_timestamps=x\n", "clip_timestamps takes seconds");
}

TEST_MAIN()
