/* SPDX-License-Identifier: MIT
 *
 * --accept-truncated: a truncated file fails, or what there is of it is transcribed with a warning. The stand-in for the
 * worker calls a file truncated if its name begins with "short".
 */
#include "command/transcribe.h"

TEST(a_truncated_file_fails)
{
    WAVS("in/a.wav", "in/short.wav");
    struct ran r = sh(STANDIN ON "--input-dir in --progress none");
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "short.wav is truncated");
    CHECK(!strstr(r.err, "warning"));
    CHECK_STR(sh("ls data/outputs").out, "a.txt\n");
}

TEST(a_truncated_file_that_is_accepted)
{
    WAVS("in/a.wav", "in/short1.wav", "in/short2.wav");
    struct ran r = sh(STANDIN ON "--input-dir in --progress none --accept-truncated --output out --format txt,json");
    CHECK_EQ(r.status, 0);
    CHECK_CONTAINS(r.err, "gpu-dispatch: warning: short1.wav is truncated\n");
    CHECK_CONTAINS(r.err, "gpu-dispatch: warning: short2.wav is truncated\n");
    CHECK_CONTAINS(r.err, "gpu-dispatch: 2 files were truncated: only the part that could be read was transcribed (see "
                          "above)\n");
    CHECK_STR(sh("ls data/outputs/*.txt | wc -l; grep -c '\"warning\"' out").out, "3\n2\n");
    r = sh(STANDIN ON "in/short1.wav --progress none --accept-truncated");
    CHECK_CONTAINS(r.err, "gpu-dispatch: 1 file was truncated: only the part");
    CHECK_PRINTS(sh(ALONE "in/short1.wav --accept-truncated"), ""); /* --quiet shows only failures */
}

/* A journal says which way truncated files were handled. Without the option, it has the same text as before there was
 * such an option. */
TEST(journals_know_the_option)
{
    need_journal();
    const char *run = ALONE "--input-dir in --journal j.db ";
    WAVS("in/a.wav", "in/short.wav");
    CHECK_EQ(sh("%s", run).status, 1);
    CHECK_EQ(sh("gpu-dispatch status j.db | grep -c truncated=").status, 1);
    struct ran r = sh("%s --retry-failed --accept-truncated", run);
    CHECK_EQ(r.status, 1);
    CHECK_CONTAINS(r.err, "--force-resume");
    (void)ran();
    CHECK_EQ(sh("%s --retry-failed --accept-truncated --force-resume", run).status, 0);
    CHECK_STR(ran(), "in/short.wav ");
    CHECK_EQ(sh("rm j.db; %s --accept-truncated", run).status, 0);
    CHECK_STR(sh("gpu-dispatch status j.db | grep -cx 'gpu-dispatch transcribe --input-dir in --model-size demo "
                 "--accept-truncated'")
                  .out,
              "1\n");
}

TEST_MAIN()
