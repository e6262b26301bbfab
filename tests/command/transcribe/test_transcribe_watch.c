/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch transcribe --watch`: files that arrive.
 */
#include "command/transcribe.h"

#define WATCH ALONE "--watch in --idle-exit 10ms --output-dir o "

TEST(files_that_arrive_are_transcribed)
{
    WAVS("in/a.wav", "in/b.wav");
    CHECK_EQ(sh("touch in/no.txt; " WATCH).status, 0);
    CHECK_STR(sh("ls o").out, "a.txt\nb.txt\n");
}

TEST(files_with_their_text_are_left_out)
{
    WAVS("in/a.wav", "in/b.wav");
    CHECK_EQ(sh("touch -d '1 hour ago' in/*; mkdir o; echo text > o/a.txt; " WATCH "--resume").status, 0);
    CHECK_STR(ran(), "in/b.wav ");
}

TEST(a_file_whose_output_belongs_to_another_is_left_out)
{
    WAVS("in/a.wav", "in/a.flac");
    const struct ran r =
        sh("touch -d '1 hour ago' in/*; " STANDIN ON "--watch in --idle-exit 10ms --output-dir o --pattern '*.*' ");
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "which belongs to another file; use --full-names");
    CHECK_CONTAINS(r.err, "1 file was left out (see above)");
    CHECK_EQ(sh(WATCH "--pattern '*.*' --full-names").status, 0);
}

TEST(a_journal_knows_what_is_done)
{
    need_journal();
    WAVS("in/a.wav", "in/b.wav");
    CHECK_EQ(sh("touch -d '1 hour ago' in/*; " WATCH "--journal j --resume").status, 0);
    CHECK_STR(sh("rm ran; " WATCH "--journal j --resume; cat ran").out, "");
}

TEST(what_is_refused)
{
    WAVS("in/a.wav");
    CHECK_NOT_STARTED(sh(ALONE "--watch in in/a.wav"),
                      "gpu-dispatch: --watch is the only input: leave out --input-dir, -a and other files");
    CHECK_NOT_STARTED(sh(ALONE "--watch in --dry-run"),
                      "gpu-dispatch: --dry-run is not possible with --watch: use --input-dir to see the files");
    CHECK_NOT_STARTED(sh(ALONE "--idle-exit 1s in"),
                      "gpu-dispatch: --idle-exit is for a queue or a directory: give --queue nats://HOST/NAME or "
                      "--watch DIR too");
    CHECK_NOT_STARTED(sh(ALONE "--watch none"), "gpu-dispatch: cannot watch none: No such file or directory");
}

TEST_MAIN()
