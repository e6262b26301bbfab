/* SPDX-License-Identifier: MIT
 *
 * Options of `gpu-dispatch transcribe` that set the decoding: they reach the worker, wrong values are refused by name, and
 * a journal knows them. tests/transcribe/decoding tests what they do.
 */
#include "command/transcribe.h"

/* The settings that the worker got, as a JSON text within a JSON text. */
static char *settings(const char *words)
{
    struct ran r = sh(ALONE "--input-dir in --output - %s", words);
    CHECK_STR(r.err, "");
    return r.out;
}

static const struct {
    const char *words, *setting;
} options[] = {
    { "--best-of 3", "best_of=3\\n" },
    { "--initial-prompt 'One, two'", "prompt=One, two\\n" },
    { "--initial-prompt One --carry-initial-prompt", "carry_initial_prompt=yes\\n" },
    { "--clip-timestamps 0,10,60", "clip_timestamps=0,10,60\\n" },
    { "--condition-on-previous-text no", "condition_on_previous_text=no\\n" },
    { "--condition-on-previous-text False", "condition_on_previous_text=no\\n" },
    { "--entropy-threshold 2.8", "entropy_threshold=2.800000\\n" },
    { "--hotwords 'Anna Otto'", "hotwords=Anna Otto\\n" },
    { "--length-penalty 1", "length_penalty=1.000000\\n" },
    { "--logprob-threshold=-0.5", "logprob_threshold=-0.500000\\n" },
    { "--logprob-threshold -0.5", "logprob_threshold=-0.500000\\n" },
    { "--logprob-threshold None", "logprob_threshold=none\\n" },
    { "--max-initial-timestamp 0", "max_initial_timestamp=0.000000\\n" },
    { "--no-speech-threshold 0.25", "no_speech_threshold=0.250000\\n" },
    { "--suppress-blank no", "suppress_blank=no\\n" },
    { "--suppress-tokens -1,50362", "suppress_tokens=-1,50362\\n" },
    { "--temperature .5", "\\ntemperature=0.500000\\n" },
    { "--temperature-increment-on-fallback 0", "temperature_increment_on_fallback=none\\n" },
    { "--temperature-increment-on-fallback 0.5", "temperature_increment_on_fallback=0.500000\\n" },
    { "--without-timestamps", "without_timestamps=yes\\n" },
    { "--vad in/a.wav --vad-threshold 0.35", "vad_threshold=0.350000\\n" },
    { "--vad in/a.wav --vad-min-speech-duration-ms 0", "vad_min_speech_duration_ms=0\\n" },
    { "--vad in/a.wav --vad-min-silence-duration-ms 2000", "vad_min_silence_duration_ms=2000\\n" },
    { "--vad in/a.wav --vad-max-speech-duration-s 30", "vad_max_speech_duration_s=30.000000\\n" },
    { "--vad in/a.wav --vad-speech-pad-ms 400", "vad_speech_pad_ms=400\\n" },
};

TEST(every_option_of_the_decoding_reaches_the_worker)
{
    wav("in/a.wav", 1);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const char *text = settings(options[i].words);
        if (!strstr(text, options[i].setting))
            FAIL("%s: no %s in %s", options[i].words, options[i].setting, text);
    }
}

/* The text of earlier versions, so that their journals can be resumed. */
TEST(defaults_are_not_written)
{
    wav("in/a.wav", 1);
    const char *plain = settings("");
    CHECK(!strstr(plain, "best_of") && !strstr(plain, "threshold") && !strstr(plain, "suppress") &&
          !strstr(plain, "fallback") && !strstr(plain, "vad_min"));
    char kept[4000];
    snprintf(kept, sizeof kept, "%s", strstr(plain, "beam_size"));
    CHECK_CONTAINS(settings("--logprob-threshold -1 --entropy-threshold 2.4 --compression-ratio-threshold None "
                            "--suppress-tokens '' --clip-timestamps 0 --condition-on-previous-text yes"),
                   strtok(kept, "\""));
}

TEST(values_that_are_refused)
{
    static const struct {
        const char *words, *message;
    } wrong[] = {
        { "--best-of 9", "--best-of takes a whole number from 1 to 8, not \"9\"" },
        { "--best-of ''", "option --best-of needs a value: --best-of N" },
        { "--temperature 1.5", "--temperature takes a number from 0 to 1, not \"1.5\"" },
        { "--logprob-threshold 1", "--logprob-threshold takes a number from -1000 to 0, or none, not \"1\"" },
        { "--suppress-tokens x", "--suppress-tokens takes the numbers of tokens" },
        { "--clip-timestamps 9,3", "--clip-timestamps: 3 does not come after 9" },
        { "--suppress-blank maybe", "--suppress-blank takes yes or no, not \"maybe\"" },
        { "--vad-threshold 0.4", "the options --vad-... are for a VAD model: give --vad FILE too" },
        { "--decoder whisper.cpp --compression-ratio-threshold 2.4",
          "--compression-ratio-threshold is not possible with whisper.cpp's decoder: use --entropy-threshold" },
        { "--beam-size 5 --compression-ratio-threshold 2.4", "which is needed for a beam search" },
        { "--decoder whisper.cpp --prompt x --condition-on-previous-text no", "give --carry-initial-prompt too" },
        { "--beam-size 2 --batch-size 4", "--batch-size is not possible with whisper.cpp's decoder" },
        { "--decoder lanes --beam-size 2", "the decoder \"lanes\" cannot do this: a beam search" },
        { "--decoder other", "--decoder takes auto, lanes or whisper.cpp, not \"other\"" },
        { "--split sometimes", "--split takes auto or never, not \"sometimes\"" },
        { "--carry-initial-prompt", "--carry-initial-prompt needs a prompt" },
        { "--word-timestamps --without-timestamps --format json",
          "--word-timestamps and --without-timestamps cannot be combined" },
    };
    wav("in/a.wav", 1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct ran r = sh(ALONE "--input-dir in %s", wrong[i].words);
        CHECK_EQ(r.status, 1);
        CHECK_CONTAINS(r.err, wrong[i].message);
        CHECK_STR(ran(), "");
    }
}

TEST(the_help_explains_the_search)
{
    struct ran r = sh("gpu-dispatch transcribe --help");
    CHECK_CONTAINS(r.out, "Decoding (default: greedy, with fallback to higher temperatures):\n");
    CHECK_CONTAINS(r.out, "search, with whisper.cpp's decoder; 1 is greedy\n");
}

TEST(a_journal_knows_the_decoding)
{
    need_journal();
    wav("in/a.wav", 1);
    CHECK_EQ(sh(ALONE "--input-dir in --journal j.db --best-of 3 --hotwords 'Anna Otto' --suppress-blank no").status,
             0);
    CHECK_STR(sh("gpu-dispatch status j.db | sed -n 2p").out,
              "gpu-dispatch transcribe --input-dir in --model-size demo --best-of 3 --hotwords 'Anna Otto' "
              "--suppress-blank no\n");
    struct ran r = sh(ALONE "--input-dir in --journal j.db --resume --best-of 3");
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "--force-resume");
    CHECK_EQ(sh(ALONE "--input-dir in --journal j.db --resume --best-of 3 --hotwords 'Anna Otto' --suppress-blank no "
                      "--entropy-threshold 2.4")
                 .status,
             0);
}

TEST_MAIN()
