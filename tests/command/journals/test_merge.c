/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch merge`: what it makes, what it reports, what it refuses, and that a kill leaves nothing or everything.
 * tests/journal/test_merge.c tests which records are taken.
 */
#include "shards.h"

static void run_all(unsigned n)
{
    for (unsigned k = 1; k <= n; k++)
        run_shard(k, n);
}

TEST(shards_become_one_journal)
{
    need_journal();
    run_all(3);
    CHECK_PRINTS(sh("gpu-dispatch merge run.*.db -o all.db"), "all.db: 40 tasks from 3 journals, 36 done, 4 failed\n");
    CHECK_STR(sh("ls all.db*").out, "all.db\n");
    /* every input has one record, in the order of the list */
    CHECK_STR(sh("gpu-dispatch export all.db --csv | tail -n +2 | cut -d, -f1,3").out,
              sh("for i in $(seq 0 39); do echo $i,$((i + 1)); done").out);
    CHECK_STR(sh("gpu-dispatch status --json all.db | jq -c '[.state, .done, .failed, .total, .left]'").out,
              sh("command -v jq > /dev/null && echo '[\"merged\",36,4,40,0]'").out);
    CHECK_CONTAINS(sh("gpu-dispatch status all.db").out, "It has the records of 3 runs.\n");
}

TEST(a_merged_journal_is_resumed)
{
    need_journal();
    run_all(2);
    CHECK_EQ(sh("gpu-dispatch merge run.*.db -o all.db").status, 0);
    struct ran r = sh("gpu-dispatch run --gpus sim:2 --journal all.db --resume " CMD "::: $(seq 1 41)");
    CHECK_CONTAINS(r.err, "37 done");
    CHECK_STR(sh("gpu-dispatch export all.db --csv | tail -n +2 | wc -l").out, "41\n");
    /* and another run takes what is done there */
    CHECK_EQ(sh(RUN "--journal new.db --skip-done all.db " CMD "::: $(seq 1 41)").status, 4);
    CHECK_STR(sh("gpu-dispatch export new.db --csv | tail -n +2 | cut -d, -f3 | sort -n | tr '\\n' ' '").out,
              "10 20 30 40 ");
}

TEST(overlaps_are_reported)
{
    need_journal();
    run_all(2);
    CHECK_EQ(sh("mkdir old && cp run.2-of-2.db old").status, 0);
    struct ran r = sh("gpu-dispatch merge run.*.db old/*.db -o all.db");
    CHECK_EQ(r.status, 0);
    CHECK_CONTAINS(r.err, "gpu-dispatch: old/run.2-of-2.db and run.2-of-2.db are both of shard 2 of 2.\n");
    CHECK_CONTAINS(r.err, " records were left out: another record of the same task was taken\n");
    CHECK_CONTAINS(r.out, "all.db: 40 tasks from 3 journals, 36 done, 4 failed\n");
}

TEST(another_number_of_shards_is_reported)
{
    need_journal();
    run_all(2);
    CHECK_EQ(sh("mkdir old && mv run.*.db old").status, 0);
    run_all(3);
    struct ran r = sh("gpu-dispatch merge run.*.db old/*.db -o all.db");
    CHECK_CONTAINS(r.err, "The list was divided in several ways: 2 journals of 2 shards, 3 journals of 3 shards.\n");
    CHECK_CONTAINS(r.err, "40 records were left out");
    CHECK_CONTAINS(r.out, "all.db: 40 tasks");
}

TEST(a_journal_given_twice_is_read_once)
{
    need_journal();
    run_all(2);
    struct ran r = sh("gpu-dispatch merge run.*.db ./run.1-of-2.db -o all.db");
    CHECK_STR(r.err, "gpu-dispatch: ./run.1-of-2.db was given twice: it is read once\n");
    CHECK_STR(r.out, "all.db: 40 tasks from 2 journals, 36 done, 4 failed\n");
}

TEST(what_merge_refuses)
{
    need_journal();
    run_all(2);
    CHECK_REFUSED(sh("gpu-dispatch merge run.*.db"),
                  "gpu-dispatch: merge needs the name of the new journal: gpu-dispatch merge FILE... -o OUT");
    CHECK_REFUSED(sh("gpu-dispatch merge -o all.db"),
                  "gpu-dispatch: merge needs journals: gpu-dispatch merge FILE... -o OUT");
    CHECK_REFUSED(
        sh("gpu-dispatch merge run.*.db -o run.1-of-2.db"),
        "gpu-dispatch: run.1-of-2.db is one of the journals to merge: give another name for the merged journal");
    CHECK_REFUSED(sh("touch all.db; gpu-dispatch merge run.*.db -o all.db"),
                  "gpu-dispatch: all.db exists: remove it, or give another name for the merged journal");
    CHECK_REFUSED(sh("rm all.db; gpu-dispatch merge run.*.db -o no/all.db"),
                  "gpu-dispatch: cannot make no/all.db.part: No such file or directory");
    struct ran r = sh("gpu-dispatch merge run.*.db missing.db -o all.db");
    CHECK_STR(r.err, "gpu-dispatch: cannot open the journal missing.db: No such file or directory\n"
                     "gpu-dispatch: nothing was merged: leave out the journal that cannot be read, or repair it\n");
    CHECK_EQ(r.status, 255);
    CHECK_EQ(sh("test -e all.db").status, 1);
}

TEST(different_commands_are_refused)
{
    need_journal();
    CHECK_EQ(sh(RUN "--journal a.db true ::: 1 2").status, 0);
    CHECK_EQ(sh(RUN "--journal b.db echo ::: 1 3").status, 0);
    struct ran r = sh("gpu-dispatch merge a.db b.db -o all.db");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "a.db and b.db were made by different commands: \"-- true\" and \"-- echo\".");
    CHECK_CONTAINS(r.err, "(--force)\n");
    CHECK_CONTAINS(sh("gpu-dispatch merge a.db b.db -o all.db --force").out, "all.db: 3 tasks from 2 journals");
}

/* The run waits for the FIFO, so its journal is in use. */
TEST(a_journal_in_use)
{
    need_journal();
    CHECK_EQ(sh("mkfifo p").status, 0);
    struct ran r = sh("GPU_DISPATCH_JOURNAL_MS=1 " RUN "--journal a.db 'test {} != 2 || cat p' ::: 1 2 & "
                      "until gpu-dispatch status a.db 2> /dev/null | grep -q 'done  *1 '; do :; done; "
                      "gpu-dispatch merge a.db -o all.db; : > p; wait");
    CHECK_STR(r.err, "gpu-dispatch: a.db is in use by a run: its records were taken as they are now.\n");
    CHECK_STR(r.out, "all.db: 1 tasks from 1 journals, 1 done, 0 failed\n");
}

/* Kills the merge after different times. There is no all.db, or it is whole, whatever the merge was doing. */
TEST(kill_at_any_moment)
{
    need_journal();
    run_all(2);
    for (unsigned us = 0; us < 30000; us += us / 2 + 1000) {
        struct ran r =
            sh("rm -f all.db; gpu-dispatch merge run.*.db -o all.db > /dev/null & p=$!; "
               "python3 -c 'import time; time.sleep(%u / 1e6)'; kill -9 $p 2> /dev/null; wait $p 2> /dev/null; "
               "test ! -e all.db || gpu-dispatch export all.db --csv | tail -n +2 | wc -l",
               us);
        if (*r.out)
            CHECK_STR(r.out, "40\n");
    }
    CHECK_CONTAINS(sh("rm -f all.db; gpu-dispatch merge run.*.db -o all.db").out, "40 tasks");
    CHECK_STR(sh("ls all.db*").out, "all.db\n");
}

TEST_MAIN()
