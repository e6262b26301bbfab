/* SPDX-License-Identifier: MIT
 *
 * --shard with lists of inputs: who runs what, the names of files, and journals. Files in directories are in
 * test_shard_files.c.
 */
#include <gpu_dispatch/journal.h>

#include "command/common.h"
#include "support/fifo.h"

static void need_journal(void)
{
    if (!gd_journal_available())
        SKIP("built without journals");
}

/* Runs these options once in each of n shards, one after the other, and returns everything that was printed. */
static struct ran all_shards(int n, const char *options)
{
    return sh("for k in $(seq %d); do " RUN "--shard $k/%d %s || exit; done", n, n, options);
}

/* --- who runs what --- */

TEST(each_input_is_run_by_exactly_one_shard_in_any_order_of_the_list)
{
    static const int counts[] = { 1, 2, 5 };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct ran r = sh("for k in $(seq %d); do shuf -i 1-60 | " RUN "--shard $k/%d -j8 echo || exit; done | sort -n",
                          counts[i], counts[i]);
        CHECK_STR(r.err, "");
        CHECK_STR(r.out, sh("seq 60").out);
    }
}

TEST(a_list_that_has_grown_keeps_its_division)
{
    const char *before = sh("seq 50 | " RUNK "--shard 2/3 echo").out;
    const char *after = sh("seq 100 | " RUNK "--shard 2/3 echo").out;
    CHECK_GT(strlen(before), 0);
    CHECK(strncmp(after, before, strlen(before)) == 0);
}

TEST(combinations_are_divided_too)
{
    struct ran r = sh("for k in 1 2 3; do " RUN "--shard $k/3 echo {1}{2} ::: a b c d ::: 1 2 3; done | sort | xargs");
    CHECK_STR(r.out, "a1 a2 a3 b1 b2 b3 c1 c2 c3 d1 d2 d3\n");
}

TEST(records_are_divided_by_their_key)
{
    need_journal();
    struct ran r =
        sh("printf '{\"id\":%%d,\"x\":1}\\n' $(seq 30) > a; sed s/:1}/:2}/ a > b; for k in 1 2 3; do for f in "
           "a b; do " RUN "--shard $k/3 --journal $f.db --jsonl --key .id -a $f 'echo {} | grep -o id.:[0-9]*' "
           "| sort > $f$k || exit; done; cmp a$k b$k; done; cat a1 a2 a3 | sort -u | wc -l");
    CHECK_STR(r.out, "30\n");
    CHECK_STR(r.err, "");
}

TEST(the_task_number_is_the_position_in_the_whole_list)
{
    CHECK_STR(sh("for k in 1 2 3; do seq 20 | " RUN "--shard $k/3 echo {} {#}; done | awk '$1 != $2'").out, "");
    CHECK_STR(sh("for k in 1 2 3; do " RUN "--shard $k/3 echo {} {#} ::: $(seq 20); done | awk '$1 != $2'").out, "");
}

TEST(order_dry_run_and_shuffle_work_in_a_shard)
{
    const char *ours = sh("seq 100 | " RUN "--shard 1/4 echo | sort -n").out;
    CHECK_GT(count_lines(ours), 5);
    CHECK_STR(sh("seq 100 | " RUNK "-j4 --shard 1/4 echo").out, ours);
    CHECK_STR(sh("seq 100 | " RUNK "--dry-run --shard 1/4 echo").out, sh("printf '%s' | sed 's/^/echo /'", ours).out);
    CHECK_STR(sh("seq 100 | " RUN "--shuf --shard 1/4 echo | sort -n").out, ours);
}

TEST(a_shard_without_inputs_succeeds)
{
    need_journal();
    CHECK_STR(all_shards(20, "--journal j.db echo ::: only").out, "only\n");
    CHECK_STR(sh("ls *.db | wc -l").out, "20\n");
}

/* --- what is printed --- */

TEST(the_shard_and_its_origin_are_printed_once)
{
    struct ran r = sh("SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=3 gpu-dispatch run --gpus sim:1 "
                      "--progress none --shard auto echo ::: 1 2 3 4 5 6");
    CHECK_EQ(r.status, 0);
    char line[128];
    snprintf(line, sizeof line, "gpu-dispatch: shard 2 of 3 (task 2 of 3 of srun): %zu of 6 tasks\n",
             count_lines(r.out));
    CHECK(strncmp(r.err, line, strlen(line)) == 0);
    CHECK(!strstr(r.err + 1, "gpu-dispatch: shard"));
    CHECK_CONTAINS(sh("seq 9 | gpu-dispatch run --gpus sim:1 --shard 1/3 echo").err, "gpu-dispatch: shard 1 of 3\n");
}

TEST(the_name_of_the_job_has_the_shard)
{
    struct ran r = sh("export GPU_DISPATCH_JOBS=$PWD/jobs; " RUN "--shard 2/2 'gpu-dispatch top --once #' ::: 1 2 3 4");
    CHECK_CONTAINS(r.out, "[2/2] gpu-dispatch top --once #");
}

TEST(the_total_is_that_of_the_shard)
{
    struct ran r =
        sh("gpu-dispatch run --gpus sim:1 --progress json --shard 1/3 echo ::: $(seq 40) 2>&1 >out | tail -1 | "
           "grep -o '\"total\":[0-9]*'; wc -l < out");
    char line[64];
    unsigned total = 0, printed = 1;
    CHECK_EQ(sscanf(r.out, "\"total\":%u %u", &total, &printed), 2);
    CHECK_EQ(total, printed);
    snprintf(line, sizeof line, "%u", total);
    /* A stream has been counted when it has ended. */
    CHECK_CONTAINS(sh("seq 40 | gpu-dispatch run --gpus sim:1 --progress json --shard 1/3 echo 2>&1 >out | tail -1 | "
                      "grep -o '\"total\":[0-9]*'")
                       .out,
                   line);
}

/* All tasks fail, so the run stops when half of the tasks of this shard have failed. */
TEST(halt_counts_the_tasks_of_the_shard)
{
    const int all = atoi(sh("seq 60 | " RUN "--shard 1/3 echo | wc -l").out);
    struct ran r = sh("seq 60 | gpu-dispatch run --gpus sim:1 --quiet --shard 1/3 --halt now,fail=50%% --joblog log "
                      "false; tail -n +2 log.1-of-3 | wc -l");
    CHECK_EQ(atoi(r.out), (all + 1) / 2);
}

TEST(a_drained_journal_counts_the_inputs_of_its_shard)
{
    need_journal();
    struct ran r =
        sh("gpu-dispatch run --gpus sim:1 --progress none --shard 1/3 --journal j.db echo ::: $(seq 40) > out");
    char line[128];
    snprintf(line, sizeof line, "gpu-dispatch: journal j.1-of-3.db: %d done\n", atoi(sh("wc -l < out").out));
    CHECK_CONTAINS(r.err, line); /* no advice to run the rest */
}

/* --- names --- */

TEST(each_shard_has_its_own_files)
{
    need_journal();
    (void)all_shards(2,
                     "--journal run.db --output o.d/out.jsonl --joblog log --failed f.x --results r false ::: 1 2 3 4");
    CHECK_STR(sh("mkdir o.d; for k in 1 2; do " RUN "--shard $k/2 --journal run.db --output o.d/out.jsonl --joblog log "
                 "--failed f.x --results r false ::: 1 2 3 4; done; ls | xargs; ls o.d r/1 | xargs")
                  .out,
              "f.1-of-2.x f.2-of-2.x log.1-of-2 log.2-of-2 o.d r run.1-of-2.db run.2-of-2.db\n"
              "o.d: out.1-of-2.jsonl out.2-of-2.jsonl r/1: 1 2 3 4\n");
    CHECK_STR(sh("cat o.d/out.* | grep -c error").out, "4\n");
}

TEST(the_list_of_failures_is_beside_the_journal)
{
    need_journal();
    CHECK_STR(sh("for k in 1 2; do " RUN
                 "--shard $k/2 --journal run.db false ::: 1 2 3 4; done; ls *.jsonl | xargs; cat "
                 "*.jsonl | wc -l")
                  .out,
              "run.1-of-2.failed.jsonl run.2-of-2.failed.jsonl\n4\n");
}

TEST(standard_output_devices_and_pipes_keep_their_names)
{
    struct ran r =
        sh("mkfifo pipe; cat pipe > got & for k in 1 2; do " RUN "--shard $k/2 --output - --joblog /dev/null "
           "true ::: 1 2 3 4; done | wc -l; " RUN "--shard 1/1 --output pipe true ::: 1 2; wait; wc -l < got; " RUN
           "--shard 1/2 --output /dev/stdout true ::: 1 2 3 4 > file; " RUN
           "--shard 2/2 --output /dev/stdout true ::: 1 2 3 4 > more; cat file more | wc -l; ls | xargs");
    CHECK_STR(r.out, "4\n2\n4\nfile got more pipe\n");
    CHECK_STR(r.err, "");
}

/* /dev/shm is a directory for files. */
TEST(files_in_memory_get_the_name_of_their_shard)
{
    need_journal();
    struct ran r =
        sh("d=$(mktemp -d -p /dev/shm) || exit; for k in 1 2; do " RUN
           "--shard $k/2 --journal $d/run.db --output $d/out true ::: 1 2 3 4; done; ls $d | xargs; rm -r $d");
    CHECK_STR(r.out, "out.1-of-2 out.2-of-2 run.1-of-2.db run.2-of-2.db\n");
    CHECK_STR(r.err, "");
}

/* --- wrong use --- */

TEST(wrong_shards_are_refused)
{
    CHECK_REFUSED(sh(RUN "--shard 4/3 echo ::: 1"),
                  "gpu-dispatch: --shard 4/3: there is no such shard, the last one is 3/3");
    CHECK_REFUSED(sh(RUN "--shard 0/3 echo ::: 1"),
                  "gpu-dispatch: --shard 0/3: shards are counted from 1, so the first one is 1/3");
    CHECK_REFUSED(
        sh(RUN "--shard three echo ::: 1"),
        "gpu-dispatch: --shard three: \"three\" is not a shard: write K/N for shard K of N (the first is 1/N), "
        "\"auto\", or \"auto/N\"");
    CHECK_CONTAINS(sh(RUN "--shard auto echo ::: 1").err,
                   "gpu-dispatch: --shard auto: the environment has no variables");
    CHECK_CONTAINS(sh(RUN "--shard auto echo ::: 1").err, "tell which shard this is. Write --shard K/N\n");
    CHECK_CONTAINS(sh("RANK=1 " RUN "--shard auto echo ::: 1").err, "unchanged, or write --shard K/N\n");
    CHECK_CONTAINS(sh("SLURM_JOB_ID=3 " RUN "--shard auto echo ::: 1").err, "or run without --shard\n");
    struct ran r = sh("SLURM_JOB_ID=3 SLURM_NTASKS=3 SLURM_PROCID=0 " RUN "--shard auto echo ::: 1");
    CHECK_CONTAINS(r.err, "gpu-dispatch: --shard auto: ");
    CHECK_CONTAINS(r.err, "with \"srun gpu-dispatch run --shard auto ...\", or submit");
    CHECK_REFUSED(sh(RUN "--shard 1/3 --output d/ echo ::: 1"),
                  "gpu-dispatch: --output: \"d/\" does not end with the name of a file");
    CHECK_REFUSED(sh(RUN "--shard 1/3 --output x --joblog x echo ::: 1"),
                  "gpu-dispatch: --output x.1-of-3 and --joblog x.1-of-3 are the same file: give two different files");
    CHECK_REFUSED(sh(RUN "--skip-done j.db echo ::: 1"),
                  "gpu-dispatch: --skip-done needs a journal for this run: give --journal FILE");
    CHECK_REFUSED(sh(RUN "--lock-wait 1m echo ::: 1"),
                  "gpu-dispatch: --lock-wait is for a journal: give --journal FILE");
}

TEST(help_needs_no_shard)
{
    CHECK_EQ(sh("gpu-dispatch run --shard auto --help").status, 0);
}

/* --- journals --- */

TEST(a_shard_is_resumed)
{
    need_journal();
    const char *flags = "--journal run.db --resume --output out.jsonl 'test {} != 7 && echo {} >> ran' ::: $(seq 20)";
    (void)all_shards(3, flags); /* stops after the shard with the failure */
    for (int i = 0; i < 2; i++)
        (void)sh("for k in 1 2 3; do " RUN "--shard $k/3 %s; done", flags);
    CHECK_STR(sh("sort -n ran | xargs").out, sh("seq 20 | grep -v -x 7 | xargs").out);
    (void)sh("for k in 1 2 3; do " RUN "--shard $k/3 %s; done",
             "--journal run.db --retry-failed 'test {} != 7 && echo {} "
             ">> ran' ::: $(seq 20)");
    CHECK_STR(sh("wc -l < ran; cat out.*.jsonl | wc -l").out, "19\n20\n");
}

TEST(retry_failed_needs_the_journal_of_the_shard)
{
    need_journal();
    CHECK_REFUSED(sh(RUN "--shard 2/3 --journal run.db --retry-failed echo ::: 1"),
                  "gpu-dispatch: --retry-failed: cannot open the journal run.2-of-3.db: No such file or directory");
}

TEST(the_journal_of_another_shard_is_refused)
{
    need_journal();
    CHECK_EQ(all_shards(1, "--journal run.db true ::: $(seq 9)").status, 0);
    struct ran r = sh(RUN "--shard 1/2 --journal a.db true ::: $(seq 9) && mv a.1-of-2.db a.2-of-2.db && " RUN
                          "--shard 2/2 --journal a.db --resume true ::: $(seq 9)");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "a.2-of-2.db has records of shard 1 of 2, but this run is shard 2 of 2");
    CHECK(!strstr(r.err, "--force-resume"));
}

TEST(another_number_of_shards_is_refused)
{
    need_journal();
    CHECK_EQ(all_shards(2, "--journal run.db true ::: $(seq 9)").status, 0);
    struct ran r = sh(RUN "--shard 1/3 --journal run.db --resume true ::: $(seq 9)");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "run.1-of-2.db is a journal of the same list in 2 shards, but this run has 3");
    CHECK_CONTAINS(r.err, "with --skip-done FILE");
    CHECK_STR(sh("ls | xargs").out, "run.1-of-2.db run.2-of-2.db\n");
}

TEST(a_run_without_a_shard_is_refused_beside_journals_of_shards)
{
    need_journal();
    CHECK_EQ(all_shards(2, "--journal run.db true ::: $(seq 9)").status, 0);
    struct ran r = sh(RUN "--journal run.db --resume true ::: $(seq 9)");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "run.1-of-2.db is a journal of the same list in 2 shards, but this run has the whole list");
    CHECK_CONTAINS(r.err, "with --skip-done FILE");
}

/* --- twins --- */

/* The first process of the shard waits at a FIFO, and the second one waits for the first. */
TEST(the_same_shard_started_twice_runs_each_input_once)
{
    need_journal();
    const int begun = fifo("begun"), go = fifo("go"), said = fifo("said");
    const char *script =
        "exec gpu-dispatch run --gpus sim:1 --quiet --shard 1/1 --journal run.db --resume 'echo {} >> ran; "
        "echo > begun; read x < go #' ::: a b 2> said";
    const struct sh_running first = sh_start_script(script);
    await_lines(begun, 1);
    const struct sh_running second = sh_start_script(script);
    char line[256];
    read_line(said, line, sizeof line);
    CHECK_CONTAINS(line, "gpu-dispatch: waiting up to 120 s for run.1-of-1.db: another run uses it (process ");
    CHECK_EQ(write(go, "\n\n", 2), 2);
    CHECK_EQ(sh_wait(first).status, 0);
    CHECK_EQ(sh_wait(second).status, 0);
    CHECK_STR(sh("cat ran").out, "a\nb\n");
}

TEST(a_signal_ends_the_wait_for_the_journal)
{
    need_journal();
    const int begun = fifo("begun"), go = fifo("go"), said = fifo("said");
    const struct sh_running first = sh_start_script(
        "exec gpu-dispatch run --gpus sim:1 --quiet --journal run.db 'echo > begun; read x < go #' ::: a");
    await_lines(begun, 1);
    const struct sh_running second = sh_start_script(
        "exec gpu-dispatch run --gpus sim:1 --quiet --journal run.db --lock-wait 1h --resume true ::: a 2> said");
    await_lines(said, 1);
    CHECK_EQ(kill(second.pid, SIGTERM), 0);
    CHECK_EQ(sh_wait(second).status, 143);
    CHECK_EQ(sh("gpu-dispatch run --gpus sim:1 --journal run.db --resume true ::: a").status, 255); /* does not wait */
    CHECK_EQ(write(go, "\n", 1), 1);
    CHECK_EQ(sh_wait(first).status, 0);
}

TEST_MAIN()
