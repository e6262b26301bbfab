/* SPDX-License-Identifier: MIT
 *
 * Exit statuses, --halt, --retries, --timeout, --delay, --queue-size.
 */
#include "common.h"

/* --- exit status ------------------------------------------------------------------ */

TEST(nothing_failed)
{
    CHECK_EQ(sh(RUN "true ::: 1 2").status, 0);
}

TEST(the_status_is_the_number_of_failures)
{
    CHECK_EQ(sh("seq 10 | " RUN "'[ {} -gt 7 ]'").status, 7);
}

TEST(a_hundred_failed)
{
    CHECK_EQ(sh("seq 100 | " RUN "false").status, 100);
}

TEST(more_than_a_hundred_failed)
{
    CHECK_EQ(sh("seq 103 | " RUN "false").status, 101);
}

/* --- --halt ------------------------------------------------------------------------ */

TEST(halt_now_ends_running_tasks)
{
    /* The sleeping tasks here and below would sleep for longer than the case may take. */
    struct ran r = sh("mkfifo f; " RUN
                      "--halt now,fail=1 'if [ {} = 1 ]; then echo x > f; sleep 5000; fi; cat f; exit 7' ::: 1 2 3 4");
    CHECK_EQ(r.status, 7);
    CHECK_CONTAINS(r.err, " failed (exited with code 7): ending the running tasks\n");
}

TEST(halt_soon_lets_running_tasks_finish)
{
    /* Task 1 fails while task 2 runs. Task 2 waits for the message about this failure and may finish. Task 3 is not
     * begun. */
    struct ran r = sh("mkfifo f said; exec 4<> said; " RUN "--halt soon,fail=1 'case {} in 1) cat f > /dev/null; exit "
                      "3;; 2) echo > f; read -r line < said; echo done {}, $line;; *) echo no;; esac' ::: 1 2 3 4 2> "
                      "said");
    CHECK_STR(r.out, "done 2, gpu-dispatch: task \"1\" failed (exited with code 3): starting no more tasks, the "
                     "running ones may finish\n");
    CHECK_EQ(r.status, 3);
}

TEST(halt_is_the_reason_of_cancelled_tasks)
{
    sh(RUN "-j1 --gpus sim:1 --output out --halt soon,fail=1 'exit {}' ::: 0 3 0 0");
    CHECK_STR(sh("grep -o 'cancelled.*error.*attempt' out | sort -u").out,
              "cancelled\",\"error\":\"not done: --halt: task \\\"3\\\" failed (exited with code 3)\",\"attempt\n");
}

TEST(halt_at_a_success)
{
    CHECK_EQ(sh("seq 100 | " RUN "--halt now,success=1 true").status, 0);
}

TEST(halt_at_a_percentage)
{
    /* Every second of forty tasks fails. The run stops after eight failures, a fifth of all tasks. */
    struct ran r = sh("seq 40 | " RUN "-j1 --gpus sim:1 --halt soon,fail=20%% 'exit $(({} %% 2))'");
    CHECK_CONTAINS(r.err, "20%");
    CHECK_GT(r.status, 0);
    CHECK_LE(r.status, 100);
}

/* --- --retries ----------------------------------------------------------------------- */

TEST(attempts_in_all)
{
    struct ran r = sh(RUN "--retries 3 'echo x >> log; false #' ::: a; echo $? $(wc -l < log)");
    CHECK_STR(r.out, "1 3\n");
}

TEST(no_retry_after_a_success)
{
    CHECK_PRINTS(sh(RUN "--retries 5 'echo $GPU_DISPATCH_ATTEMPT; [ $GPU_DISPATCH_ATTEMPT = 2 ] #' ::: a"), "2\n");
}

TEST(retries_0_tries_until_success)
{
    CHECK_PRINTS(sh(RUN "--retries 0 '[ $GPU_DISPATCH_ATTEMPT = 4 ] && echo yes #' ::: a"), "yes\n");
}

TEST(one_attempt_means_no_retry)
{
    CHECK_STR(sh(RUN "'echo x >> log; false #' ::: a; wc -l < log").out, "1\n");
}

/* --- --timeout ------------------------------------------------------------------------- */

TEST(a_task_that_takes_too_long_is_tried_again)
{
    struct ran r =
        sh(RUN "--retries 3 --timeout 0.3s --output out sleep ::: 5000; echo $?; grep -o '\"attempt\":[0-9]*' out");
    CHECK_STR(r.out, "1\n\"attempt\":3\n");
    r = sh(RUN "--retries 0 --timeout 2s '[ $GPU_DISPATCH_ATTEMPT -gt 1 ] || exec sleep 5000; echo yes #' ::: a");
    CHECK_STR(r.out, "yes\n");
    CHECK_EQ(r.status, 0);
}

TEST(a_task_that_takes_too_long)
{
    struct ran r = sh(RUN "--timeout 0.2s sleep ::: 5000");
    CHECK_EQ(r.status, 1);
    /* The message has the measured time, which varies. */
    static const char words[] = "gpu-dispatch: task \"5000\": timed out after ";
    char *end;
    CHECK_EQ(strncmp(r.err, words, sizeof words - 1), 0);
    CHECK(strtod(r.err + sizeof words - 1, &end) >= 0.2);
    CHECK_STR(end, "s\n");
}

TEST(a_task_that_is_in_time)
{
    CHECK_PRINTS(sh(RUN "--timeout 1m echo ::: a"), "a\n");
}

/* If the machine is too busy for the task to react in time, the limit is raised. */
TEST(a_task_gets_sigterm_first)
{
    for (int timeout_s = 1; sh("test -e listens").status != 0; timeout_s *= 2)
        sh(RUN "--timeout %d --term-grace 30 'trap \"sleep 1.3; echo asked > said; exit 1\" TERM; "
               "touch listens; sleep 5000 & wait #' ::: a",
           timeout_s);
    CHECK_STR(sh("cat said").out, "asked\n");
}

TEST(a_task_that_ignores_sigterm_is_killed)
{
    CHECK_EQ(sh(RUN "--timeout 0.2 --term-grace 0.2 'trap \"\" TERM; while :; do sleep 50; done #' ::: a").status, 1);
}

/* On a busy machine the task may not print in time. So the limit is raised until it does. */
static void time_out_after_printing(const char *options)
{
    double timeout_s = 0.25;
    do {
        timeout_s *= 2;
        CHECK_EQ(sh("rm -rf printed r; " RUN
                    "--timeout %g --term-grace 0.1 %s 'trap \"\" TERM; echo out; echo err >&2; "
                    "touch printed; while :; do sleep 50; done #' ::: a",
                    timeout_s, options)
                     .status,
                 1);
    } while (sh("test -e printed").status != 0);
}

TEST(the_output_of_a_task_that_takes_too_long_is_shown)
{
    time_out_after_printing("> o 2> e");
    CHECK_STR(sh("cat o").out, "out\n");
    CHECK_STR(sh("grep -c '^err$' e; grep -c 'timed out after' e").out, "1\n1\n");
}

TEST(the_output_of_a_task_that_takes_too_long_is_recorded)
{
    time_out_after_printing("--output o --results r");
    CHECK_STR(sh("grep -o '\"status\":\"[a-z]*\",\"output\":\"[^\"]*\"' o").out,
              "\"status\":\"timeout\",\"output\":\"out\\n\"\n");
    CHECK_STR(sh("cat r/1/a/stdout r/1/a/stderr").out, "out\nerr\n");
}

/* --- --max-tasks-per-worker -------------------------------------------------------------- */

/* A process may do more tasks than that, if it has begun them before it is asked to end. With --halt it is handed one
 * task at a time. */
TEST(a_new_process_after_two_tasks)
{
    CHECK_STR(
        sh("gpu-dispatch run --gpus sim:1 --quiet --halt soon,fail=1 --max-tasks-per-worker 2 'echo $PPID #' ::: a "
           "b c d e | uniq -c | awk '{ print $1 }'")
            .out,
        "2\n2\n1\n");
}

/* --- --delay ---------------------------------------------------------------------------- */

TEST(a_delay_between_starts)
{
    /* Four starts, three gaps. */
    int64_t start = ms_now();
    CHECK_EQ(sh(RUN "--delay 0.15 true ::: 1 2 3 4").status, 0);
    CHECK_GE(ms_now() - start, 440);
}

/* --- --queue-size ------------------------------------------------------------------------ */

/* The input has thirty lines, each larger than the pipe. The first task of the only worker ends when all lines have
 * been read. The shell itself holds the FIFO open, so that its content is not lost. */
#define READ_AHEAD(options)                                                                               \
    "mkfifo go; exec 3<>go; { for i in $(seq 30); do printf '%%0100000d\\n' $i; done; echo >&3; } | " RUN \
    "-j1 --gpus sim:1 " options " 'case {} in *001) read line < go;; esac'"

TEST(a_long_queue_is_read_far_ahead)
{
    CHECK_EQ(sh(READ_AHEAD("--queue-size 40 --timeout 60")).status, 0);
}

TEST(a_short_queue_is_not_read_far_ahead)
{
    const int failed = sh(READ_AHEAD("--queue-size 2 --timeout 0.3")).status;
    CHECK(failed >= 1 && failed <= 30); /* the first task fails; on a slow machine others fail too */
}

TEST(a_queue_of_one_loses_nothing)
{
    CHECK_EQ((int)count_lines(sh("seq 30 | " RUN "--queue-size 1 echo").out), 30);
}

TEST_MAIN()
