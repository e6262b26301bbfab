/* SPDX-License-Identifier: MIT
 *
 * --check, and the same checks before a run: the worker and its libraries, the model, the devices.
 */
#include <gpu_dispatch/dispatcher.h>

#include "command/transcribe.h"

#define REAL "GPU_DISPATCH_TRANSCRIBER=$GD_TEST_TRANSCRIBER "

static void need_worker(void)
{
    if (!getenv("GD_TEST_TRANSCRIBER"))
        SKIP("built without the transcription worker");
}

/* --- what is printed -------------------------------------------------------------------- */

TEST(a_report)
{
    struct ran r =
        sh(STANDIN "export STANDIN_ABOUT=\"$(printf 'engine\\t1.2\\nother\\t3.4: a, b\\n')\"; " ON "--check");
    CHECK_STR(r.err, "");
    CHECK_EQ(r.status, 0);
    char wanted[4096];
    snprintf(wanted, sizeof wanted,
             "gpu_dispatch  %s\n"
             "worker        %s/plugin_transcribe.so\n"
             "engine        1.2\n"
             "other         3.4: a, b\n"
             "model         demo, only English, 2.7 MiB: %s/models/ggml-demo.bin\n"
             "devices       1 simulated GPU\n",
             gd_version(), getenv("GD_TEST_PLUGINS"), getenv("GD_SOURCE_ROOT"));
    CHECK_STR(r.out, wanted);
    CHECK_EQ(sh("test -e data").status, 1);
}

TEST(a_report_without_a_model)
{
    struct ran r = sh(STANDIN "gpu-dispatch transcribe --check --gpus cpu:2");
    CHECK_STR(r.err, "");
    CHECK_EQ(r.status, 0);
    CHECK_CONTAINS(r.out, "model         not checked: name one with --model-size or --model\n");
    CHECK_CONTAINS(r.out, "devices       the processor, 2 workers\n");
    CHECK_CONTAINS(r.out, "versions      not known: this worker does not tell\n");
}

TEST(nothing_is_printed_with_quiet)
{
    CHECK_PRINTS(sh(ALONE "--check"), "");
    CHECK_EQ(sh(STANDIN ON "--check >/dev/full").status, 1);
}

TEST(the_real_worker_tells_what_it_was_built_with)
{
    need_worker();
    struct ran r = sh(REAL ON "--check");
    CHECK_EQ(r.status, 0);
    CHECK_CONTAINS(r.out, "\nwhisper.cpp   1.");
    CHECK_CONTAINS(r.out, "\nlibsndfile    1.");
    CHECK_CONTAINS(r.out, ": wav, flac, ogg");
    CHECK_CONTAINS(r.out, "\nFFmpeg        ");
    CHECK(strstr(r.out, ": m4a, aac, mp4, mkv, webm, wma") ||
          strstr(r.out, "not built in, so m4a, aac, mp4, mkv, webm and wma cannot be read; to get it, run `make "
                        "transcribe` in the source tree\n"));
}

/* --- what is refused ----------------------------------------------------------------------- */

TEST(models_and_devices_that_do_not_exist)
{
    CHECK_EQ(sh(STANDIN "gpu-dispatch transcribe --check --gpus sim:1 --model-size none").status, 1);
    CHECK_EQ(sh(STANDIN "gpu-dispatch transcribe --check --gpus nonsense-7").status, 1);
    CHECK_EQ(sh("GPU_DISPATCH_TRANSCRIBER=/none " ON "--check").status, 1);
}

/* A run is refused with the same message as --check, before a worker is started or a directory is made. */
static void refused(const char *environment, const char *words)
{
    static const char *const commands[] = { "--check", "in", "--queue nats://127.0.0.1:1/q" };
    wav("in/a.wav", 1);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct ran r = sh("%s " ON "%s", environment, commands[i]);
        CHECK_EQ(r.status, 1);
        CHECK_CONTAINS(r.err, words);
        CHECK_STR(r.out, "");
        CHECK(strchr(r.err, '\n') == r.err + strlen(r.err) - 1); /* one line */
        CHECK_EQ(sh("test -e data || test -e ran").status, 1);
    }
}

TEST(a_worker_that_cannot_be_loaded)
{
    CHECK_EQ(sh("echo > bad.so").status, 0);
    refused("export GPU_DISPATCH_TRANSCRIBER=bad.so;",
            "gpu-dispatch: the transcription worker cannot be loaded: ./bad.so: ");
    refused(STANDIN "export STANDIN_ABOUT=crash;", " cannot be loaded: the process that tried it ended with signal 6;");
}

/* The worker without the libraries that belong in its directory. */
TEST(a_worker_without_its_libraries)
{
    need_worker();
    CHECK_EQ(sh("cp $GD_TEST_TRANSCRIBER alone.so").status, 0);
    if (sh("unset LD_LIBRARY_PATH; ldd alone.so | grep -q 'libwhisper.* not found'").status != 0)
        SKIP("whisper.cpp is installed on this system");
    refused("unset LD_LIBRARY_PATH; export GPU_DISPATCH_TRANSCRIBER=alone.so;",
            "gpu-dispatch: the transcription worker cannot be loaded: libwhisper");
}

TEST_MAIN()
