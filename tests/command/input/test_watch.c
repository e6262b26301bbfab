/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch run --watch`: see tests/cli/input/test_arrivals.c for which files are found.
 */
#include "command/common.h"

#include <gpu_dispatch/journal.h>

#define OLD   "touch -d '1 hour ago' "
#define WATCH RUN "--watch in "

/* Each task tells through a pipe that it runs, so nothing depends on time. */
TEST(files_that_arrive_are_run_until_an_interrupt)
{
    struct ran r = sh("mkdir in; mkfifo pipe; echo 1 > in/a; " OLD "in/a; " WATCH "'cat {} > pipe' & "
                      "read x < pipe; echo 2 > new; mv new in/b; read y < pipe; kill -INT $!; wait $!; echo $x $y $?");
    CHECK_STR(r.out, "1 2 130\n");
}

TEST(it_ends_after_a_time_without_files)
{
    CHECK_PRINTS(sh("mkdir in; echo 1 > in/a.txt; echo 22 > in/b.txt; echo 3 > in/c; " OLD "in/*; " RUNK
                    "--watch in --pattern '*.txt' --idle-exit 10ms cat"),
                 "22\n1\n");
}

TEST(a_journal_knows_what_is_done)
{
    if (!gd_journal_available())
        SKIP("built without journals");
#define AGAIN RUNK "--watch in --idle-exit 10ms --journal j --resume cat"
    CHECK_STR(sh("mkdir in; echo 1 > in/a; echo 22 > in/b; " OLD "in/*; " AGAIN).out, "22\n1\n");
    CHECK_STR(sh(AGAIN).out, "");
    CHECK_STR(sh("echo 333 > in/a; " OLD "in/a; " AGAIN).out, "333\n");
}

TEST(it_says_that_it_waits)
{
    const struct ran r = sh("mkdir in; gpu-dispatch run --gpus sim:1 --watch in --idle-exit 10ms cat");
    CHECK_EQ(r.status, 0);
    CHECK_CONTAINS(r.err, "gpu-dispatch: watching in\n");
}

TEST(what_is_refused)
{
    static const char *const lines[][2] = {
        { "--watch nowhere cat", "cannot watch nowhere: No such file or directory" },
        { "--watch in --input-dir in cat", "--input-dir and --watch cannot be combined" },
        { "--watch in cat ::: a", "--watch cannot be combined with -a, ::: or ::::" },
        { "--watch in --shuf cat", "--shuf needs all inputs first" },
        { "--watch in --shard 1/2 cat", "--watch cannot be combined with --shard" },
        { "--watch in --dry-run cat", "--dry-run is not possible with --watch" },
        { "--watch in --jsonl cat", "--jsonl is for inputs read from files" },
        { "--watch in --halt now,fail=10% cat", "--halt with a percentage is not possible with --watch" },
        { "--idle-exit 1s cat ::: a", "--idle-exit is for a queue or a directory" },
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const struct ran r = sh("mkdir -p in; " RUN "%s", lines[i][0]);
        CHECK_EQ(r.status, 255);
        CHECK_CONTAINS(r.err, lines[i][1]);
    }
}

TEST_MAIN()
