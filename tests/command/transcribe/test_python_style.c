/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch transcribe` with command lines of OpenAI's Whisper and of programs that use faster-whisper: underscores,
 * True and False, and options that mean nothing here.
 */
#include "command/transcribe.h"

static char *settings(const char *words)
{
    struct ran r = sh(ALONE "--output - %s", words);
    CHECK_STR(r.err, "");
    return r.out;
}

TEST(a_command_line_of_openai_whisper)
{
    wav("talk.wav", 1);
    struct ran r =
        sh(STANDIN "gpu-dispatch transcribe talk.wav --gpus sim:1 --model demo --model_dir "
                   "$GD_SOURCE_ROOT/models --output_dir o --output_format srt --task transcribe --language "
                   "English --beam_size 5 --best_of 5 --temperature 0 --temperature_increment_on_fallback 0.2 "
                   "--word_timestamps False --condition_on_previous_text True --fp16 False --verbose False "
                   "--suppress_tokens -1 --initial_prompt 'Anna, Otto' --device cpu --threads 2 "
                   "--compression_ratio_threshold None --patience None");
    CHECK_EQ(r.status, 0);
    CHECK_CONTAINS(r.err, "gpu-dispatch: --fp16 has no effect: the model file decides the precision\n");
    CHECK_STR(sh("ls o").out, "talk.srt\n");
}

TEST(underscores)
{
    WAVS("in/a.wav");
    CHECK_CONTAINS(settings("--input_dir in --beam_size=4"), "beam_size=4\\n");
    CHECK_CONTAINS(settings("in --initial_prompt a_b"), "prompt=a_b\\n"); /* values are unchanged */
    CHECK_STR(sh("launcher_multigpu --input_dir in --dry_run --output_dir o 2>/dev/null").out,
              "    1.0s  in/a.wav -> o/a.txt\n");
}

TEST(switches_with_values)
{
    wav("in/a.wav", 1);
    CHECK_CONTAINS(settings("in --full_names True"), "full_names=yes\\n");
    CHECK_CONTAINS(settings("in --full_names False"), "full_names=no\\n");
    CHECK_CONTAINS(settings("--full_names None in"), "full_names=no\\n");
    CHECK_CONTAINS(settings("in --full-names --full-names=no"), "full_names=no\\n");
    CHECK_CONTAINS(settings("in --full-names=yes"), "full_names=yes\\n");
    CHECK_CONTAINS(settings("in --output_format vtt --highlight_words True"), "highlight_words=yes\\n");
    CHECK(!strstr(settings("in --highlight_words False --accept_truncated False"), "highlight_words"));
    CHECK_CONTAINS(settings("in --without_timestamps True"), "without_timestamps=yes\\n");
    CHECK(!strstr(settings("in --without_timestamps True --without_timestamps False"), "without_timestamps"));
    CHECK_NOT_STARTED(sh(ALONE "in --translate=maybe"),
                      "gpu-dispatch: option --translate takes no value except True and False, not \"maybe\"");
}

/* Other spellings may be names of files. */
TEST(only_pythons_spelling_is_taken_from_the_next_argument)
{
    WAVS("true", "False");
    CHECK_EQ(sh(ALONE "--full-names true ./False --output-dir o").status, 0);
    CHECK_STR(ran(), "./False true ");
}

TEST(other_names)
{
    wav("in/a.wav", 1);
    CHECK_EQ(sh(ALONE "in -f vtt -o o").status, 0);
    CHECK_EQ(sh(ALONE "in --output_format tsv -oo").status, 0);
    CHECK_STR(sh("ls o").out, "a.tsv\na.vtt\n");
    CHECK_CONTAINS(sh(ALONE "in --task translate").err, "model demo supports only English and cannot translate");
    CHECK_CONTAINS(settings("in --translate --task transcribe"), "translate=no\\n");
    CHECK_CONTAINS(settings("in --prompt x"), "prompt=x\\n");
    CHECK_CONTAINS(settings("in --language None"), "language=\\n");
    CHECK_NOT_STARTED(sh(ALONE "in --task sing"), "gpu-dispatch: --task takes transcribe or translate, not \"sing\"");
}

TEST(models_by_name)
{
    wav("in/a.wav", 1);
    const char *run = STANDIN "gpu-dispatch transcribe --quiet --gpus sim:1 in --output - --model_dir "
                              "$GD_SOURCE_ROOT/models ";
    CHECK_CONTAINS(sh("%s --model demo", run).out, "model_name=demo\\n");
    CHECK_CONTAINS(sh("%s --model dema", run).err,
                   "\"dema\" is neither a file nor the size of a model: did you mean demo?");
    CHECK_CONTAINS(sh("%s --model ./none.bin", run).err, "--model-dir and --model cannot be combined");
    CHECK_CONTAINS(sh(STANDIN "gpu-dispatch transcribe --gpus sim:1 in --model none.bin").err, "none.bin");
    /* A file with that name comes first. */
    CHECK_CONTAINS(sh("cp $GD_SOURCE_ROOT/models/ggml-demo.bin base; " STANDIN
                      "gpu-dispatch transcribe --quiet --gpus sim:1 in --output - --model base")
                       .out,
                   "model=base\\n");
}

TEST(devices)
{
    wav("in/a.wav", 1);
    CHECK_EQ(sh(STANDIN "gpu-dispatch transcribe --quiet --device cpu " MODEL "in").status, 0);
    const char *fake = "GPU_DISPATCH_NVML=$GD_TEST_PLUGINS/fake_nvml.so ";
    CHECK_CONTAINS(sh(STANDIN "%s gpu-dispatch transcribe --quiet --device cuda --output - " MODEL "in", fake).out,
                   "no_gpu=no\\n");
    CHECK_NOT_STARTED(sh(ALONE "in --device cuda:1"),
                      "gpu-dispatch: --device cuda:1: choose GPUs by their numbers, with --gpus 1");
    CHECK_NOT_STARTED(sh(ALONE "in --device tpu"), "gpu-dispatch: --device takes cuda or cpu, not \"tpu\"");
}

/* None and False ask for nothing, so they are accepted. */
TEST(options_that_are_refused_by_name)
{
    wav("in/a.wav", 1);
    static const char *const names[] = {
        "patience",
        "compute_type",
        "device_index",
        "prefix",
        "repetition_penalty",
        "no_repeat_ngram_size",
        "prompt_reset_on_temperature",
        "hallucination_silence_threshold",
        "prepend_punctuations",
        "append_punctuations",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct ran r = sh(ALONE "in --%s 1", names[i]);
        CHECK_EQ(r.status, 1);
        CHECK_CONTAINS(r.err, " is not possible: ");
        CHECK_EQ(sh(ALONE "in --%s None", names[i]).status, 0);
    }
    CHECK_NOT_STARTED(sh(ALONE "in --vad_filter True"),
                      "gpu-dispatch: --vad-filter is not possible: name the file of a VAD model instead: --vad FILE");
    CHECK_EQ(sh(ALONE "in --vad_filter False").status, 0);
}

TEST(near_misses)
{
    CHECK_NOT_STARTED(sh("gpu-dispatch transcribe --beam_sise 3"),
                      "gpu-dispatch: unknown option --beam_sise: did you mean --beam-size?");
    CHECK_NOT_STARTED(sh("gpu-dispatch transcribe --word_timestamp"),
                      "gpu-dispatch: unknown option --word_timestamp: did you mean --word-timestamps?");
    CHECK_NOT_STARTED(sh("launcher_multigpu --hot_words x"),
                      "launcher_multigpu: unknown option --hot_words: did you mean --hotwords?");
}

/* Other commands keep their own style. */
TEST(run_is_as_before)
{
    struct ran r = sh("gpu-dispatch run --gpus sim:1 --keep_order echo ::: a");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "unknown option --keep_order: did you mean --keep-order?");
    CHECK_CONTAINS(sh("gpu-dispatch run --gpus sim:1 --keep-order=True echo ::: a").err,
                   "option --keep-order takes no value");
    CHECK_STR(sh("gpu-dispatch run --gpus sim:1 --quiet --tag True ::: a").out, "");
}

TEST_MAIN()
