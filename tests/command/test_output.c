/* SPDX-License-Identifier: MIT
 *
 * Outputs of the command: standard output and standard error, logs, records.
 */
#include "common.h"
#include "support/terminal.h"

TEST(output_appears_when_a_task_ends)
{
    /* The first task waits until the output of the second has been read. */
    CHECK_PRINTS(sh("mkfifo f; " RUN "'if [ {} = 1 ]; then cat f; fi; echo {}' ::: 1 2 | "
                    "while read -r line; do echo $line; if [ $line = 2 ]; then echo go > f; fi; done"),
                 "2\ngo\n1\n");
}

TEST(the_order_can_be_kept)
{
    CHECK_PRINTS(sh("mkfifo f; " RUN "-k 'if [ {} = 1 ]; then cat f; else echo go > f; fi; echo {}' ::: 1 2"),
                 "go\n1\n2\n");
}

TEST(output_is_never_mixed)
{
    CHECK_PRINTS(
        sh(RUN "-j4 'for i in 1 2 3 4 5; do echo {}; done' ::: $(seq 40) | uniq -c | awk '{ print $1 }' | sort -u"),
        "5\n");
}

TEST(standard_error_goes_to_standard_error)
{
    struct ran r = sh(RUN "'echo out; echo err >&2 #' ::: a");
    CHECK_STR(r.out, "out\n");
    CHECK_STR(r.err, "err\n");
}

TEST(output_of_a_failed_command_is_shown)
{
    struct ran r = sh(RUN "'echo out; exit 2 #' ::: a");
    CHECK_STR(r.out, "out\n");
    CHECK_STR(r.err, "");
    CHECK_EQ(r.status, 1);
}

TEST(large_output_is_whole)
{
    CHECK_PRINTS(sh(RUN "'head -c 3000000 /dev/zero #' ::: 1 2 | wc -c"), "6000000\n");
}

TEST(output_that_is_not_text)
{
    struct ran r = sh(RUN "\"printf 'a\\\\0\\\\377' #\" ::: a");
    CHECK_EQ(r.out_size, 3);
    CHECK_MEM(r.out, "a\0\377", 3);
}

TEST(ungrouped_output)
{
    CHECK_PRINTS(sh(RUN "-u echo ::: a"), "a\n");
}

TEST(ungrouped_output_comes_at_once)
{
    /* The command goes on only after its output has been read. */
    CHECK_PRINTS(sh("mkfifo f; " RUN "-u 'echo first; cat f #' ::: a | (read -r x; echo second > f; cat; echo $x)"),
                 "second\nfirst\n");
}

TEST(tags)
{
    CHECK_PRINTS(sh(RUNK "--tag 'echo one; echo two #' ::: a 'b c'"), "a\tone\na\ttwo\nb c\tone\nb c\ttwo\n");
}

TEST(tags_are_those_of_parallel)
{
    same_as_parallel("", "--tag 'printf \"%%s\\nno end\" {}' ::: a 'b c' ::: 1 2");
}

TEST(a_dry_run_runs_nothing)
{
    CHECK_PRINTS(sh(RUNK "--dry-run touch ::: x y && ls"), "touch x\ntouch y\n");
}

TEST(a_summary_at_the_end)
{
    struct ran r = sh("gpu-dispatch run --gpus sim:2 true ::: 1 2 3");
    CHECK_STR(r.out, "");
    CHECK_CONTAINS(r.err, "GPU  tasks  failed  busy  restarts");
    CHECK_CONTAINS(r.err, "\n3 tasks in ");
}

TEST(verbose_shows_the_workers_and_their_gpus)
{
    struct ran r = sh("gpu-dispatch run --gpus sim:2 -v --quiet true ::: 1");
    CHECK_CONTAINS(r.err, "worker 0: GPU 0, Simulated GPU, GPU-");
    CHECK_CONTAINS(r.err, "worker 1: GPU 1, Simulated GPU, GPU-");
}

TEST(a_bar)
{
    CHECK_CONTAINS(sh(RUN "--bar true ::: 1 2 3").err, "3/3");
}

/* Tasks that were never run are neither done nor failed. Workers that were killed had no time to clean up. */
TEST(a_bar_of_a_halted_run)
{
    struct ran r = sh("gpu-dispatch run --gpus sim:1 --quiet --bar --halt now,fail=1 'exit {}' ::: 1 1 1 1");
    CHECK_CONTAINS(r.err, "1/4, 1 failed");
    r = sh("gpu-dispatch run --gpus sim:4 --quiet --halt now,fail=1 'exit {}' ::: 1");
    CHECK_STR(r.err, "gpu-dispatch: task \"1\" failed (exited with code 1): ending the running tasks\n");
}

TEST(inputs_from_a_terminal_are_announced_once)
{
    need("script");
    struct ran r =
        sh("printf '\\004' | script -qec 'gpu-dispatch run --gpus sim:1 --quiet echo' /dev/null | grep -c terminal");
    CHECK_STR(r.out, "1\n");
}

TEST(an_eta)
{
    struct ran r = sh(RUN "--eta true ::: 1 2 3");
    CHECK_EQ(r.status, 0);
    CHECK_STR(r.out, "");
}

/* --- --joblog ------------------------------------------------------------------ */

TEST(a_joblog_has_the_columns_of_parallel)
{
    need_parallel();
    struct ran r = sh("export PARALLEL_SHELL=/bin/bash HOME=$PWD; parallel --will-cite -j1 --joblog theirs 'echo {}; "
                      "exit {}' ::: 0 3 >&2;" RUN "-k --joblog ours 'echo {}; exit {}' ::: 0 3 >&2;"
                      "cut -f 1,2,5-9 theirs > a; cut -f 1,2,5-9 ours | sort > b; sort a | diff - b && head -n1 theirs "
                      "| diff - <(head -n1 ours)");
    CHECK_STR(r.out, "");
    CHECK_EQ(r.status, 0);
}

TEST(a_joblog_has_timeouts_and_signals)
{
    CHECK_PRINTS(sh(RUN "--timeout 0.2 --joblog log sleep ::: 90 > out 2>&1; cut -f 7,8 log"),
                 "Exitval\tSignal\n-1\t15\n");
    CHECK_PRINTS(sh(RUN "--joblog log '{} #' ::: 'kill -9 $$' true > out 2>&1; cut -f 7,8 log | sort"),
                 "0\t0\n0\t9\nExitval\tSignal\n");
}

TEST(a_joblog_has_the_numbers_of_the_workers)
{
    /* Their ids are those of the devices: 2 and 3. */
    CHECK_PRINTS(
        sh("GPU_DISPATCH_SIM=4 gpu-dispatch run --gpus 2-3 --quiet --joblog log 'echo w{%%}' ::: 1 2 3 4 > out;"
           "cut -f 9 log | sed 1d | sort > a; sed 's/^/echo /' out | sort | diff a - && grep -c 'w[12]$' out"),
        "4\n");
}

/* --- --results ----------------------------------------------------------------- */

TEST(results_are_those_of_parallel)
{
    need_parallel();
    struct ran r = sh("export PARALLEL_SHELL=/bin/bash HOME=$PWD; parallel --will-cite --results theirs 'echo {}; echo "
                      "e >&2' ::: a 'b/c d' ::: 1 2 > o1 2>&1;" RUN
                      "--results ours 'echo {}; echo e >&2' ::: a 'b/c d' ::: 1 2 > o2 2>&1; diff -r theirs ours");
    CHECK_STR(r.out, "");
    CHECK_EQ(r.status, 0);
}

/* --- --output ------------------------------------------------------------------- */

TEST(a_record_per_task)
{
    need("python3");
    CHECK_PRINTS(
        sh(RUN "--output o.jsonl 'echo {}; exit {}' ::: 0 3 > out;"
               "python3 -c \"import json\nfor l in sorted(open('o.jsonl')):\n r = json.loads(l)\n"
               " print(r['id'], r['input'], r['status'], repr(r['output']), r.get('error'), r['attempt'], r['worker'] "
               "in (0, 1), r['gpu'] in (0, 1), "
               "r['started'] > 1e9, 0 < r['seconds'] < 60)\""),
        "0 0 ok '0\\n' None 1 True True True True\n1 3 error '3\\n' exited with code 3 1 True True True True\n");
}

TEST(records_on_standard_output_are_alone_there)
{
    struct ran r = sh(RUNK "--output - echo ::: a b");
    CHECK_EQ(count_lines(r.out), 2);
    CHECK_CONTAINS(r.out, "{\"id\":0,\"input\":\"a\",\"status\":\"ok\",\"output\":\"a\\n\"");
}

TEST(records_of_names_that_are_not_text)
{
    CHECK_CONTAINS(sh("printf 'a\\xff\\0' | " RUN "-0 --output - echo").out, "\"input\":\"a\\udcff\"");
}

TEST(a_full_disk_shows_in_the_status)
{
    static const char *const options[] = { "--joblog", "--output" };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        struct ran r = sh(RUN "%s /dev/full true ::: 1 2 3", options[i]);
        CHECK_EQ(r.status, 255);
        CHECK_CONTAINS(r.err, "/dev/full");
        CHECK_EQ(count_lines(r.err), 1);
    }
}

TEST(a_full_disk_shows_in_the_status_of_a_halted_run)
{
    static const char *const halts[] = { "now,fail=1", "soon,fail=1", "now,success=1", "soon,done=100%" };
    for (size_t i = 0; i < sizeof halts / sizeof halts[0]; i++) {
        struct ran r = sh(RUN "--halt %s --output /dev/full '[ {} = 1 ] && exit 7; exit {}' ::: 1 0", halts[i]);
        CHECK_EQ(r.status, 255);
        CHECK_CONTAINS(r.err, "/dev/full");
    }
}

TEST(a_run_ends_quietly_when_its_reader_is_gone)
{
    struct ran r = sh("yes | " RUN "echo | head -n 2; echo ${PIPESTATUS[1]}");
    CHECK_STR(r.out, "y\ny\n255\n");
    CHECK_STR(r.err, "");
}

TEST(a_run_ends_when_the_reader_of_its_records_is_gone)
{
    struct ran r = sh("yes | " RUN "--output - echo | head -n 1 | wc -l; echo ${PIPESTATUS[1]}");
    CHECK_STR(r.out, "1\n255\n");
}

TEST(json_inputs_in_the_records)
{
    CHECK_PRINTS(
        sh("printf '{\"a\":[1]}\\n\"x\"\\n' | " RUNK "--jsonl --output - true | grep -o '\"input\":.*,\"status\"'"),
        "\"input\":{\"a\":[1]},\"status\"\n\"input\":\"x\",\"status\"\n");
}

/* Escape sequences, C1 control characters as one byte and as UTF-8, and characters that change the writing direction.
 * They come from inputs and from a program. */
#define TROUBLE "\\033[2J\\233m\\302\\233m\\342\\200\\256\\342\\201\\246\\342\\200\\250\\177"

TEST(messages_about_a_task_contain_no_terminal_commands)
{
    struct ran r =
        sh("printf 'x " TROUBLE " y\\n' > in; cat > w.sh <<'end'\n"
           "echo '{\"ready\":true}'\n"
           "while read -r line; do\n"
           "    printf '{\"id\":0,\"error\":\"a\\\\u001b[2J \\302\\233m \\\\u009bm \\\\u202e \\342\\200\\256 "
           "\\\\u2028 \\\\udc9b z\"}\\n'\n"
           "done\n"
           "end\n" RUN "-a in --output o --stream sh w.sh; cat o");
    CHECK_CONTAINS(r.err, "task \"x ");
    CHECK_CONTAINS(r.err, " z");
    check_harmless(r.err, r.err_size, "an error message");
    check_harmless(r.out, r.out_size, "a record");
}

TEST(messages_about_a_worker_contain_no_terminal_commands)
{
    static const char *const lines[] = { "echo '{\"ready\":true}'; read x; printf '{ " TROUBLE "\\n'",
                                         "printf '{ " TROUBLE "\\n'",
                                         "printf '{\"ready\":false,\"error\":\"\\\\u001b[2J\\302\\233 m\"}\\n'" };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct ran r = sh("cat > w.sh <<'end'\n%s\ncat > /dev/null\nend\n" RUN "--stream sh w.sh ::: a", lines[i]);
        CHECK_GT(r.err_size, 20);
        check_harmless(r.err, r.err_size, lines[i]);
    }
}

TEST(messages_about_options_and_files_contain_no_terminal_commands)
{
    struct ran r = sh("x=$(printf 'n" TROUBLE "'); gpu-dispatch run --$x; gpu-dispatch $x; gpu-dispatch status $x; " RUN
                      "-a $x echo; gpu-dispatch export --csv $x; gpu-dispatch gpus --gpus $x; gpu-dispatch help $x; "
                      "touch $x; gpu-dispatch status $x; gpu-dispatch report $x");
    CHECK_GT(count_lines(r.err), 8);
    check_harmless(r.err, r.err_size, "messages");
}

TEST_MAIN()
