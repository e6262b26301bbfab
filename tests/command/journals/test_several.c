/* SPDX-License-Identifier: MIT
 *
 * `status`, `export`, `report` and `top` with several journals.
 */
#include "shards.h"

/* Shards 1, 2 and 5 of 6, on two machines. */
static void make_shards(void)
{
    need_journal();
    run_shard(1, 6);
    run_shard(2, 6);
    run_shard(5, 6);
    change("run.1-of-6.db", "UPDATE run SET host = 'node1'");
    change("run.2-of-6.db", "UPDATE run SET host = 'node2'");
    change("run.5-of-6.db", "UPDATE run SET host = 'node1'");
}

/* The value of a jq expression over status --json. */
static char *json(const char *files, const char *expression)
{
    need("jq");
    return sh("gpu-dispatch status --json %s 2> /dev/null | jq -c '%s'", files, expression).out;
}

TEST(totals_are_sums)
{
    make_shards();
    const char *all = sh("for f in run.*.db; do gpu-dispatch export $f --csv | tail -n +2; done | wc -l").out;
    CHECK_STR(json("run.*.db", ".done + .failed"), all);
    CHECK_STR(json("run.*.db", "[.journals[] | .done + .failed] | add"), all);
    CHECK_STR(json("run.*.db", "[.machines[] | .done + .failed] | add"), all);
    CHECK_STR(json("run.*.db", "[.machines[] | [.host, .journals]]"), "[[\"node1\",2],[\"node2\",1]]\n");
    CHECK_STR(json("run.*.db", "[.journals[] | [.path, .shard, .host, .state]][0]"),
              "[\"run.1-of-6.db\",\"1/6\",\"node1\",\"finished\"]\n");
    CHECK_STR(json("run.*.db", "[.state, .shards, .overlaps, .eta_seconds]"), "[\"finished\",6,0,null]\n");
}

TEST(missing_shards_are_named)
{
    make_shards();
    CHECK_CONTAINS(sh("gpu-dispatch status run.*.db").out, "\nShards 3-4, 6 of 6 have no journal here.\n");
    CHECK_STR(json("run.*.db", "[.missing_shards, .total, .left]"), "[[3,4,6],null,null]\n");
    run_shard(3, 6);
    run_shard(4, 6);
    run_shard(6, 6);
    CHECK_STR(sh("gpu-dispatch status run.*.db | grep -c 'no journal here'").out, "0\n");
    CHECK_STR(json("run.*.db", "[.missing_shards, .total, .left, .done, .failed]"), "[[],40,0,36,4]\n");
    CHECK_CONTAINS(sh("gpu-dispatch status run.*.db").out, "  done               36   of 40, 90.0 %\n");
    CHECK_CONTAINS(sh("rm run.4-of-6.db; gpu-dispatch status run.*.db").out, "Shard 4 of 6 has no journal here.\n");
}

/* The order of the arguments does not matter: shards are in their own order, and 10 is after 9. */
TEST(shards_are_in_order)
{
    need_journal();
    for (unsigned k = 9; k <= 11; k++)
        run_shard(k, 11);
    CHECK_STR(json("run.10-of-11.db run.9-of-11.db run.11-of-11.db", "[.journals[].shard]"),
              "[\"9/11\",\"10/11\",\"11/11\"]\n");
}

TEST(a_task_counts_once)
{
    need_journal();
    for (unsigned k = 1; k <= 2; k++)
        run_shard(k, 2);
    CHECK_EQ(sh("mkdir old && cp run.*.db old").status, 0);
    CHECK_STR(json("run.*.db old/*.db", "[.done, .failed, .overlaps]"), "[36,4,40]\n");
    CHECK_CONTAINS(sh("gpu-dispatch status run.*.db old/*.db").out,
                   "40 records are of tasks that another journal has too. Each task is counted once.\n");
    CHECK_CONTAINS(sh("gpu-dispatch status --overlaps run.*.db").out, "\nNo task is in two journals.\n");
}

/* Tasks that failed, and succeeded after the number of shards was changed, have not failed. */
TEST(failures_that_were_repeated)
{
    need_journal();
    CHECK_EQ(sh("for k in 1 2; do " RUN "--shard $k/2 --journal run.db 'test {} -lt 3 -o -e ok' ::: 1 2 3 4; done; "
                "touch ok; for k in 1 2 3; do " RUN "--shard $k/3 --journal run.db --skip-done run.1-of-2.db "
                "--skip-done run.2-of-2.db 'test {} -lt 3 -o -e ok' ::: 1 2 3 4; done")
                 .status,
             0);
    CHECK_STR(json("run.*-of-2.db", "[.done, .failed, .failures]"), "[2,2,{\"error\":2}]\n");
    CHECK_STR(json("run.*.db", "[.done, .failed, .failures]"), "[4,0,{}]\n");
    CHECK_STR(sh("gpu-dispatch status run.*.db | grep -c Failures").out, "0\n");
}

TEST(one_that_cannot_be_read)
{
    make_shards();
    CHECK_EQ(sh("echo nothing > bad.db").status, 0);
    struct ran r = sh("gpu-dispatch status run.1-of-6.db missing.db bad.db run.2-of-6.db");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "gpu-dispatch: cannot open the journal missing.db: No such file or directory\n");
    CHECK_CONTAINS(r.err, "bad.db");
    CHECK_CONTAINS(r.out, "2 journals: 2 finished; 2 cannot be read\n");
    CHECK_STR(json("run.1-of-6.db missing.db", "[.unreadable[].path]"), "[\"missing.db\"]\n");
    r = sh("gpu-dispatch export --csv run.1-of-6.db missing.db run.2-of-6.db -o all.csv");
    CHECK_EQ(r.status, 255);
    CHECK_STR(r.err, "gpu-dispatch: cannot open the journal missing.db: No such file or directory\n");
    CHECK_STR(sh("tail -n +2 all.csv | wc -l").out,
              sh("for k in 1 2; do gpu-dispatch export run.$k-of-6.db --csv | tail -n +2; done | wc -l").out);
    r = sh("gpu-dispatch status a b");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.out, "0 journals:; 2 cannot be read\n");
}

TEST(export_has_one_line_for_each_task)
{
    need_journal();
    for (unsigned k = 1; k <= 3; k++)
        run_shard(k, 3);
    CHECK_EQ(sh("mkdir old && cp run.2-of-3.db old").status, 0);
    const char *expected = sh("seq 1 40").out;
    CHECK_STR(sh("gpu-dispatch export --csv run.*.db old/*.db | tail -n +2 | cut -d, -f3").out, expected);
    CHECK_STR(sh("gpu-dispatch export run.*.db --jsonl --failed | wc -l").out, "4\n");
    CHECK_REFUSED(sh("gpu-dispatch export run.*.db --csv -o run.1-of-3.db"),
                  "gpu-dispatch: -o run.1-of-3.db is one of the journals: give another file");
}

TEST(a_warning_for_different_commands)
{
    need_journal();
    CHECK_EQ(sh(RUN "--journal a.db true ::: 1 2").status, 0);
    CHECK_EQ(sh(RUN "--journal b.db echo ::: 3").status, 0);
    struct ran r = sh("gpu-dispatch export a.db b.db --csv | wc -l");
    CHECK_STR(r.out, "4\n");
    CHECK_STR(r.err, "gpu-dispatch: warning: a.db and b.db were made by different commands\n");
}

TEST(the_report_shows_machines)
{
    make_shards();
    CHECK_PRINTS(sh("gpu-dispatch report run.*.db -o r.html"), "r.html\n");
    CHECK_CONTAINS(sh("grep -o '\"places\":[^]]*]' r.html").out,
                   "\"places\":[{\"host\":\"node1\",\"shard\":\"1/6\"},{\"host\":\"node2\",\"shard\":\"2/6\"},"
                   "{\"host\":\"node1\",\"shard\":\"5/6\"}]");
    CHECK_CONTAINS(sh("grep -o '\"file\":\"[^\"]*\"' r.html").out, "run.1-of-6.db and 2 more journals");
    CHECK_CONTAINS(sh("grep -o '\"end\":\"[^\"]*\"' r.html").out, "\"end\":\"finished\"");
    /* a merged journal shows the same */
    CHECK_EQ(sh("gpu-dispatch merge run.*.db -o all.db && gpu-dispatch report all.db").status, 0);
    CHECK_STR(sh("grep -o '\"places\":.*\"throughput\"' all.db.html").out,
              sh("grep -o '\"places\":.*\"throughput\"' r.html").out);
}

/* The limit is far below three descriptors for each journal. */
TEST(more_journals_than_descriptors)
{
    need_journal();
    CHECK_EQ(sh(RUN "--journal a.db true ::: 1").status, 0);
    CHECK_EQ(sh("for i in $(seq 1 100); do cp a.db $i.db; done").status, 0);
    struct ran r = sh("ulimit -n 40; gpu-dispatch status *.db");
    CHECK_EQ(r.status, 0);
    CHECK_CONTAINS(r.out, "101 journals: 101 finished\n");
    CHECK_CONTAINS(r.out, "  done                1   of");
    CHECK_STR(sh("ulimit -n 40; gpu-dispatch export --csv *.db | wc -l").out, "2\n");
}

/* The run waits for the FIFO. */
TEST(top_finds_the_job_of_a_journal)
{
    need_journal();
    CHECK_EQ(sh("mkfifo p").status, 0);
    struct ran r = sh("export GPU_DISPATCH_JOBS=$PWD/jobs GPU_DISPATCH_JOURNAL_MS=1; " RUN
                      "--journal a.db 'test {} != 2 || cat p' ::: 1 2 & until gpu-dispatch status a.db 2> /dev/null | "
                      "grep -q 'done  *1 '; do :; done; gpu-dispatch top --once a.db; : > p; wait; "
                      "gpu-dispatch top --once a.db");
    CHECK_CONTAINS(r.out, "cat p");
    CHECK_STR(r.err,
              "gpu-dispatch: no job of this machine is using the journal a.db: gpu-dispatch status a.db shows it\n");
    CHECK_REFUSED(sh("touch b.db; gpu-dispatch top --list a.db b.db"),
                  "gpu-dispatch: --list does not take journals: leave them out");
    CHECK_REFUSED(sh("gpu-dispatch top a.db 77"),
                  "gpu-dispatch: top shows only one job, or several journals: leave out \"77\"");
}

/* Nobody uses the journals, so top ends after the first page. */
TEST(top_shows_several_journals)
{
    make_shards();
    struct ran r =
        sh("gpu-dispatch status run.*.db > expected; gpu-dispatch top run.*.db | cmp - expected && "
           "gpu-dispatch status --json run.*.db > expected; gpu-dispatch top --json run.*.db | cmp - expected");
    CHECK_STR(r.out, "");
    CHECK_STR(r.err, "");
    CHECK_EQ(r.status, 0);
    r = sh("echo no > bad.db; gpu-dispatch top --once bad.db run.*.db | grep -c 'run..-of-6.db'; "
           "gpu-dispatch top --once bad.db run.*.db > /dev/null");
    CHECK_STR(r.out, "3\n");
    CHECK_EQ(r.status, 255);
}

/* A run on another machine may have the number of a process of this machine. */
TEST(top_does_not_take_a_process_of_another_machine)
{
    need_journal();
    CHECK_EQ(sh("mkfifo p").status, 0);
    struct ran r = sh("export GPU_DISPATCH_JOBS=$PWD/jobs GPU_DISPATCH_JOURNAL_MS=1 "
                      "GPU_DISPATCH_LOCK_TEST=shared=1,host=elsewhere; " RUN
                      "--journal a.db 'test {} != 2 || cat p' ::: 1 2 & until gpu-dispatch status a.db 2> /dev/null | "
                      "grep -q 'done  *1 '; do :; done; gpu-dispatch top --once a.db; : > p; wait");
    CHECK_STR(r.err,
              "gpu-dispatch: no job of this machine is using the journal a.db: gpu-dispatch status a.db shows it\n");
}

/* Where other machines may use the file system, the last heartbeat of a run is shown. */
TEST(heartbeats_are_shown)
{
    need_journal();
    need("jq");
    struct ran r = sh("mkfifo p; exec 3<> p; export GPU_DISPATCH_JOURNAL_MS=1; for k in 1 2; do "
                      "GPU_DISPATCH_LOCK_TEST=shared=1,host=node$k " RUN
                      "--shard $k/2 --journal run.db 'test {} -lt 30 || read x < p' ::: $(seq 1 40) & done; "
                      "until gpu-dispatch status run.1-of-2.db 2> /dev/null | grep -q 'done  *[1-9]' && "
                      "gpu-dispatch status run.2-of-2.db 2> /dev/null | grep -q 'done  *[1-9]'; do :; done; "
                      "gpu-dispatch status run.2-of-2.db > local; export GPU_DISPATCH_LOCK_TEST=shared=1; "
                      "gpu-dispatch status run.2-of-2.db > one; gpu-dispatch status run.*.db > all; "
                      "gpu-dispatch status --json run.2-of-2.db | jq -c '[.host, .quiet_seconds > 0]'; "
                      "gpu-dispatch status --json run.*.db | jq -c '[.journals[] | .host, .quiet_seconds > 0]'; "
                      "seq 1 40 >&3; wait; gpu-dispatch status --json run.2-of-2.db | jq -c '[.host, .quiet_seconds]'");
    CHECK_STR(r.out, "[\"node2\",true]\n[\"node1\",true,\"node2\",true]\n[\"node2\",null]\n");
    CHECK_EQ(sh("grep -qE '\\(process [0-9]+ on node2, last heartbeat [0-9][^ ]* ago\\)$' one").status, 0);
    CHECK_EQ(sh("grep -q 'state         heartbeat  ' all").status, 0);
    CHECK_EQ(sh("grep -qE '^ +2/2  node2    running +[0-9][^ ]* ' all").status, 0);
    CHECK_EQ(sh("grep -qE '\\(process [0-9]+\\)$' local").status, 0);
}

/* The tasks from 30 on wait for lines of a FIFO. */
TEST(shards_that_are_running)
{
    need_journal();
    need("jq");
    struct ran r = sh("mkfifo p; exec 3<> p; export GPU_DISPATCH_JOURNAL_MS=1; for k in 1 2; do " RUN
                      "--shard $k/2 --journal run.db 'test {} -lt 30 || read x < p' ::: $(seq 1 40) & done; "
                      "until gpu-dispatch status run.1-of-2.db 2> /dev/null | grep -q 'done  *[1-9]' && "
                      "gpu-dispatch status run.2-of-2.db 2> /dev/null | grep -q 'done  *[1-9]'; do :; done; "
                      "gpu-dispatch status --json run.*.db | jq -c '[.state, .machines[0].running]'; "
                      "seq 1 40 >&3; wait");
    CHECK_STR(r.out, "[\"running\",2]\n");
}

TEST_MAIN()
