/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch transcribe --arg-file`: lists of files.
 */
#include "command/transcribe.h"

TEST(lists_in_files_and_on_standard_input)
{
    WAVS("in/a.wav", "in/b.wav", "in/c d.wav", "in/e.wav");
    CHECK_EQ(sh("printf 'in/a.wav\\n\\nin/c d.wav\\n' > list; " ALONE "-a list").status, 0);
    CHECK_STR(ran(), "in/c d.wav in/a.wav ");
    CHECK_EQ(sh(STANDIN "printf 'in/a.wav\\nin/b.wav' | " ON "--quiet --arg-file -").status, 0);
    CHECK_STR(ran(), "in/b.wav in/a.wav ");
    CHECK_EQ(sh("echo in/b.wav > more; " ALONE "in/e.wav -a list --arg_file=more --output-dir o").status, 0);
    CHECK_STR(ran(), "in/e.wav in/c d.wav in/b.wav in/a.wav ");
    CHECK_STR(sh("ls o").out, "a.txt\nb.txt\nc d.txt\ne.txt\n");
}

TEST(names_that_end_with_a_nul)
{
    WAVS("in/new\nline.wav", "in/b.wav");
    CHECK_EQ(sh(STANDIN "find in -name '*.wav' -print0 | " ON "--quiet -0 -a - --output-dir o").status, 0);
    CHECK_STR(sh("ls o | wc -l").out, "3\n"); /* one name has two lines */
    CHECK_STR(sh("wc -l < ran").out, "3\n");
    struct ran r = sh(STANDIN "find in -name '*.wav' -print0 | " ON "--quiet -a -");
    CHECK_EQ(r.status, 1);
    CHECK_STR(r.err, "gpu-dispatch: a path in standard input contains a NUL: use -0 if the paths end with a NUL\n");
}

TEST(directories_in_lists)
{
    WAVS("in/a.wav", "else/b.wav");
    CHECK_EQ(sh(STANDIN "printf 'in\\nelse/b.wav\\n' | " ON "--quiet -a -").status, 0);
    CHECK_STR(ran(), "else/b.wav in/a.wav ");
}

TEST(lists_that_are_refused)
{
    CHECK_NOT_STARTED(sh(": > empty; " ALONE "-a empty"),
                      "gpu-dispatch: empty is empty: it should have the path of a file on each line");
    CHECK_NOT_STARTED(sh(ALONE "-a missing"),
                      "gpu-dispatch: cannot open input file missing: No such file or directory");
    CHECK_NOT_STARTED(sh(STANDIN "echo in/none.wav | " ON "--quiet -a -"),
                      "gpu-dispatch: cannot read in/none.wav: No such file or directory");
    CHECK_NOT_STARTED(sh(ALONE "-0 in"), "gpu-dispatch: -0 is for a list of files: give --arg-file FILE too");
}

TEST(a_dry_run_of_a_list)
{
    WAVS("in/a.wav", "in/b.wav");
    CHECK_STR(sh(STANDIN "echo in/b.wav | " ON "--quiet -a - --dry-run --output-dir o").out,
              "    2.0s  in/b.wav -> o/b.txt\n");
}

TEST_MAIN()
