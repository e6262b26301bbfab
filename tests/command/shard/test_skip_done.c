/* SPDX-License-Identifier: MIT
 *
 * --skip-done: the number of shards changes in the middle of a list. Nothing runs twice, and nothing is lost.
 */
#include <gpu_dispatch/journal.h>

#include "command/common.h"

static void need_journal(void)
{
    if (!gd_journal_available())
        SKIP("built without journals");
}

/* Each task adds its input to the file "ran". */
#define TASK  "'echo {} >> ran #' "
#define THREE "--skip-done run.1-of-3.db --skip-done run.2-of-3.db --skip-done run.3-of-3.db "

/* Runs these options once in each of n shards, one after the other. */
static struct ran all_shards(int n, const char *options)
{
    return sh("for k in $(seq %d); do " RUN "--shard $k/%d %s || exit; done", n, n, options);
}

/* The third shard has not begun, and the second one has half of its tasks. */
TEST(a_list_goes_on_with_another_number_of_shards)
{
    need_journal();
    struct ran r = sh("seq 60 > list; " RUN "--shard 1/3 --journal run.db " TASK ":::: list; head -30 list | " RUN
                      "--shard 2/3 --journal run.db " TASK "; wc -l < ran");
    const int before = atoi(r.out);
    CHECK(before > 10 && before < 60);
    r = all_shards(5,
                   "--journal run.db --resume --skip-done run.1-of-3.db --skip-done run.2-of-3.db " TASK ":::: list");
    CHECK_STR(r.err, "");
    CHECK_STR(sh("sort -n ran").out, sh("seq 60").out);
    /* Started again, the same command has nothing to do. */
    r = all_shards(5,
                   "--journal run.db --resume --skip-done run.1-of-3.db --skip-done run.2-of-3.db " TASK ":::: list");
    CHECK_EQ(r.status, 0);
    CHECK_STR(sh("wc -l < ran").out, "60\n");
}

TEST(a_directory_goes_on_with_another_number_of_shards)
{
    need_journal();
    CHECK_STR(sh("mkdir in; for i in $(seq 40); do head -c $((i * i)) /dev/zero > in/$i; done; for k in 1 2 3; do " RUN
                 "--input-dir in --shard $k/3 --journal run.db " TASK "; done; echo > in/41; wc -l < ran")
                  .out,
              "40\n");
    CHECK_STR(all_shards(5, "--input-dir in --journal run.db --resume " THREE TASK).err, "");
    CHECK_STR(sh("sort ran | uniq -d; wc -l < ran; grep -c /41 ran; ls *.deal | xargs").out,
              "41\n1\nrun.of-3.deal run.of-5.deal\n");
}

TEST(from_one_machine_to_several_and_back)
{
    need_journal();
    CHECK_EQ(sh("head -20 <(seq 60) | " RUN "--journal run.db " TASK).status, 0);
    CHECK_STR(sh("seq 60 | head -40 > list; for k in 1 2; do " RUN
                 "--shard $k/2 --journal run.db --skip-done run.db " TASK ":::: list; done")
                  .err,
              "");
    CHECK_STR(
        sh("seq 60 | " RUN "--journal run.db --resume --skip-done run.1-of-2.db --skip-done run.2-of-2.db " TASK).err,
        "");
    CHECK_STR(sh("sort -n ran").out, sh("seq 60").out);
}

TEST(tasks_that_failed_elsewhere_are_run_again)
{
    need_journal();
    (void)sh("for k in 1 2 3; do " RUN "--shard $k/3 --journal run.db 'test {} != 5' ::: $(seq 9); done");
    struct ran r =
        sh("for k in 1 2; do " RUN "--shard $k/2 --journal new.db " THREE "--force-resume 'echo {} #' ::: $(seq 9); "
           "done");
    CHECK_STR(r.out, "5\n");
}

TEST(tasks_in_other_journals_are_counted_in_the_last_line)
{
    need_journal();
    CHECK_EQ(sh(RUN "--journal old.db true ::: $(seq 6)").status, 0);
    const char *script =
        "gpu-dispatch run --gpus sim:1 --progress none --journal new.db --resume --skip-done old.db true "
        "::: $(seq 8)";
    CHECK_CONTAINS(sh("%s", script).err, "gpu-dispatch: journal new.db: 2 done, and 6 in other journals\n");
    CHECK_CONTAINS(sh("%s", script).err,
                   "gpu-dispatch: journal new.db: 2 done, 2 of them before this run, and 6 in other journals\n");
}

TEST(a_missing_file_is_refused)
{
    need_journal();
    struct ran r = sh(RUN "--shard 1/2 --journal run.db --skip-done typo.db true ::: 1 2 3");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "typo.db");
    CHECK_STR(sh("ls").out, "");
}

TEST_MAIN()
