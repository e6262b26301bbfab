/* Stream programs that break the protocol, die, hang or are killed: only their current task is affected, and the report
 * says what happened. */
#include <pthread.h>

#include "system/streams/stream_job.h"
#include "worker/host.h"

/* --- errors in the middle of a task --------------------------------------------------- */

static size_t bad_at;
static const char *bad_input;
static size_t one_bad(size_t i, char **bytes)
{
    return i == bad_at ? (size_t)asprintf(bytes, "%s", bad_input) : number(i, bytes);
}

/* Runs one bad task among 200. Only the bad task fails, as a crash, and its report contains this text. Other tasks that
 * were in flight at the same time are run again. */
static void bad_among_others(const char *input, int sig, int code, const char *expected)
{
    struct job j;
    open_job(&j, NULL, NULL);
    bad_at = 120;
    bad_input = input;
    j.n = 200;
    j.fill = one_bad;
    CHECK_EQ(run_job(&j), 0);
    for (size_t i = 0; i < j.n; i++)
        if (i != bad_at && j.finals[i].failure != GD_FAILURE_NONE)
            FAIL("task %zu failed too: %s", i, j.finals[i].error);
    const struct final *f = &j.finals[bad_at];
    CHECK_EQ(f->failure, GD_FAILURE_CRASH);
    CHECK_CONTAINS(f->error, expected);
    CHECK_EQ(f->signal, sig);
    CHECK_EQ(f->exit_code, code);
    CHECK_GE(f->attempt, 3);
    CHECK_LE(f->attempt, 4); /* one more attempt if other tasks were in flight at the first crash */
    CHECK_EQ(j.exits, f->attempt);
    close_job(&j);
}

#define BREAK(name, input, expected)                             \
    TEST(name)                                                   \
    {                                                            \
        bad_among_others(input, 0, GD__EXIT_PROTOCOL, expected); \
    }

BREAK(a_line_that_is_not_json, "hello",
      "not a JSON object (a value is missing at byte 1; messages belong on stderr): its line was \"Processing...\"")
BREAK(json_that_is_not_an_object, "array", "stream worker broke the protocol: a line that is not a JSON object")
BREAK(an_empty_line, "empty", "not a JSON object")
BREAK(nuls_in_a_line, "nuls", "its line was \"{\\\"id\\\":\\u0000\\u0000}\"")
BREAK(an_answer_for_another_task, "other", "an answer for task 1000120, which it was not given")
BREAK(neither_output_nor_error, "neither", "neither \"output\" nor \"error\"")
BREAK(both_output_and_error, "both", "both \"output\" and \"error\"")
BREAK(an_answer_without_id, "no-id", "without the \"id\" of a task")
BREAK(final_that_is_not_a_boolean, "odd-final", "\"final\" is neither")
BREAK(an_unknown_kind, "odd-kind", "\"kind\" must be ")
BREAK(a_last_line_without_a_newline, "half", "(the line end is missing): its line was \"{\\\"id\\\":120,")
BREAK(an_exit_with_code_0_before_the_end_of_the_input, "exit 0",
      "ended before its standard input was closed, with exit code 0")
BREAK(input_closed, "go-deaf", "closed its standard input but kept running")
BREAK(output_closed, "close", "closed its standard output but kept running")

TEST(death_by_a_signal)
{
    bad_among_others("segv", SIGSEGV, 0, "ended before its standard input was closed: killed by signal 11");
}
TEST(exit_while_a_child_keeps_the_pipes_open)
{
    bad_among_others("bequeath 3", 0, 3, "ended before its standard input was closed: exited with code 3");
}
TEST(exit_with_a_code)
{
    bad_among_others("exit 3", 0, 3, "ended before its standard input was closed: exited with code 3");
}

TEST(a_line_that_is_too_long)
{
    setenv("GD_STREAM_LINE", "100000", 1);
    bad_among_others("long 30", 0, GD__EXIT_PROTOCOL,
                     "a line of more than 100000 bytes: its line was \"{\\\"output\\\":\\\"xxx");
}

/* The program gives a good answer and then writes more text. The answer counts. The text belongs to no task. */
static void good_answer_then_rubbish(const char *input)
{
    struct job j;
    open_job(&j, NULL, NULL);
    j.o.window = 1; /* so that the next task is not sent yet */
    GIVE(&j, "a", input, "b", input, "c");
    CHECK_EQ(run_job(&j), 0);
    for (size_t i = 0; i < j.n; i++)
        CHECK_EQ(j.finals[i].failure, GD_FAILURE_NONE);
    CHECK_EQ(j.finals[1].attempt, 1);
    CHECK_EQ(j.finals[3].attempt, 1);
    CHECK_EQ(j.exits, 2);
    if (strcmp(input, "twice") == 0)
        CHECK_STR(j.finals[1].data, "1"); /* the first answer counts */
    close_job(&j);
}

TEST(an_answer_given_twice)
{
    good_answer_then_rubbish("twice");
}
TEST(text_after_an_answer)
{
    good_answer_then_rubbish("late");
}

TEST(input_closed_before_an_answer)
{
    struct job j;
    open_job(&j, NULL, NULL);
    GIVE(&j, "a", "once deafen", "b", "c");
    CHECK_EQ(run_job(&j), 0);
    for (size_t i = 0; i < j.n; i++)
        CHECK_EQ(j.finals[i].failure, GD_FAILURE_NONE);
    close_job(&j);
}

static size_t deafen_then_large(size_t i, char **bytes)
{
    return i == 0 ? (size_t)asprintf(bytes, "once deafen") : two_megabytes(i, bytes);
}

TEST(input_closed_while_it_is_written_to)
{
    struct job j;
    open_job(&j, NULL, NULL);
    j.o.batch_size = 2;
    j.n = 2;
    j.fill = deafen_then_large;
    CHECK_EQ(run_job(&j), 0);
    CHECK_STR(j.finals[0].data, "\"once deafen\"");
    CHECK_EQ(j.finals[0].attempt, 1); /* the task was answered */
    check_large(&j, 1, 2000001, 'b');
    close_job(&j);
}

static size_t one_in_fifty(size_t i, char **bytes)
{
    static const char *const bad[] = { "once segv", "once exit 9", "once hello", "once half", "once exit 0" };
    return i % 50 == 49 ? (size_t)asprintf(bytes, "%s", bad[i / 50 % 5]) : number(i, bytes);
}

TEST(no_task_is_lost_when_many_programs_die)
{
    struct job j;
    open_job(&j, NULL, NULL);
    j.o.n_gpus = 2;
    j.n = 1500;
    j.fill = one_in_fifty;
    CHECK_EQ(run_job(&j), 0);
    for (size_t i = 0; i < j.n; i++)
        if (j.finals[i].failure != GD_FAILURE_NONE)
            FAIL("task %zu failed: %s", i, j.finals[i].error);
    CHECK_GE(j.exits, 30 / 5);
    close_job(&j);
}

/* The host dies at each of its kill points in turn. */
TEST(a_host_that_dies_anywhere)
{
    static const char *const points[] = { "boot",           "mapped",         "before_setup", "after_setup",
                                          "ready",          "waiting",        "claimed:40",   "started:3",
                                          "processed:70",   "result_half:80", "committed:90", "flushed:2",
                                          "before_cleanup", "after_cleanup",  "after_bye" };
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        struct job j;
        setenv("GD_KILL", points[i], 1);
        open_job(&j, NULL, NULL);
        j.n = 300;
        j.fill = number;
        CHECK_EQ(run_job(&j), 0);
        for (size_t k = 0; k < j.n; k++)
            if (j.finals[k].failure != GD_FAILURE_NONE)
                FAIL("%s: task %zu: %s", points[i], k, j.finals[k].error);
        close_job(&j);
    }
}

/* The host's nth allocation or system call fails. The result is a failed setup or a failed task, never a wrong
 * result. */
TEST(a_host_whose_nth_call_fails)
{
    for (unsigned n = 1; n <= 40; n++) {
        struct job j;
        char text[16];
        snprintf(text, sizeof text, "%u", n);
        setenv("GD_FAULT_WORKER", text, 1);
        open_job(&j, NULL, NULL);
        j.o.shortage_wait_ms = 1; /* waiting longer would not help, because the call always fails */
        GIVE(&j, "a", "error 0", "big 100000", "b", "big 300000");
        const int rc = run_job(&j);
        CHECK(rc == 0 || rc == GD_E_SETUP || rc == GD_E_NO_WORKERS);
        if (rc == 0 && j.finals[0].failure == GD_FAILURE_NONE)
            CHECK_STR(j.finals[0].data, "\"a\"");
        if (rc == 0 && j.finals[4].failure == GD_FAILURE_NONE)
            check_large(&j, 4, 300000, 'y');
        close_job(&j);
    }
}

/* --- stuck, killed ------------------------------------------------------------------- */

TEST(a_stuck_program_is_killed)
{
    struct job j;
    open_job(&j, NULL, NULL);
    j.o.task_timeout_ms = PATIENCE_MS;
    j.o.cancel_grace_ms = 50;
    GIVE(&j, "a", "hang", "b", "c");
    CHECK_EQ(run_job(&j), 0);
    CHECK_EQ(j.finals[0].failure, GD_FAILURE_NONE);
    CHECK_EQ(j.finals[1].failure, GD_FAILURE_TIMEOUT);
    CHECK_EQ(j.finals[2].failure, GD_FAILURE_NONE);
    CHECK_EQ(j.finals[3].failure, GD_FAILURE_NONE);
    close_job(&j);
}

static size_t hang_then_large(size_t i, char **bytes)
{
    return i == 0 ? (size_t)asprintf(bytes, "hang") : two_megabytes(i, bytes);
}

TEST(a_program_that_stops_reading_is_killed)
{
    struct job j;
    open_job(&j, NULL, NULL);
    j.o.batch_size = 4;
    j.o.task_timeout_ms = PATIENCE_MS * TEST_SLOWDOWN;
    j.o.cancel_grace_ms = 50;
    j.n = 4;
    j.fill = hang_then_large;
    CHECK_EQ(run_job(&j), 0);
    CHECK_EQ(j.finals[0].failure, GD_FAILURE_TIMEOUT);
    for (size_t i = 1; i < j.n; i++)
        check_large(&j, i, 2000000 + i, (char)('a' + (int)i));
    close_job(&j);
}

static void read_pids(pid_t *program, pid_t *host)
{
    int a = 0, b = 0;
    FILE *f = fopen(fifo, "re");
    CHECK(f);
    CHECK_EQ(fscanf(f, "%d %d", &a, &b), 2);
    fclose(f);
    *program = a;
    *host = b;
}

static void *kill_program(void *unused)
{
    pid_t program, host;
    read_pids(&program, &host);
    CHECK_EQ(kill(program, SIGKILL), 0);
    return unused;
}

static void *kill_host(void *unused)
{
    pid_t program, host;
    read_pids(&program, &host);
    CHECK_EQ(kill(host, SIGKILL), 0);
    return unused;
}

/* Another process kills the first attempt. The second attempt succeeds, and no program is left running. */
static void kill_once(void *(*killer)(void *))
{
    struct job j;
    pthread_t thread;
    make_fifo();
    open_job(&j, "hang-to", fifo);
    GIVE(&j, "a", "once hang", "b");
    CHECK_EQ(pthread_create(&thread, NULL, killer, NULL), 0);
    CHECK_EQ(run_job(&j), 0);
    pthread_join(thread, NULL);
    for (size_t i = 0; i < j.n; i++)
        CHECK_EQ(j.finals[i].failure, GD_FAILURE_NONE);
    CHECK_EQ(j.finals[1].attempt, 2);
    CHECK_EQ(j.exits, 1);
    close_job(&j);
}

TEST(the_program_is_killed)
{
    kill_once(kill_program);
}
TEST(the_host_is_killed)
{
    kill_once(kill_host);
}

TEST(the_report_names_the_signal_of_another_process)
{
    struct job j;
    pthread_t thread;
    make_fifo();
    open_job(&j, "hang-to", fifo);
    j.o.crash_limit = 1;
    GIVE(&j, "hang");
    CHECK_EQ(pthread_create(&thread, NULL, kill_program, NULL), 0);
    CHECK_EQ(run_job(&j), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(j.finals[0].failure, GD_FAILURE_CRASH);
    CHECK_EQ(j.finals[0].signal, SIGKILL);
    CHECK_CONTAINS(j.finals[0].error, "killed by signal 9");
    close_job(&j);
}

static size_t leave_first(size_t i, char **bytes)
{
    if (i == 0)
        return (size_t)asprintf(bytes, "once leave");
    if (i == 1) { /* wait until the program has ended */
        FILE *f = fopen(fifo, "re");
        CHECK(f);
        CHECK_EQ(fgetc(f), EOF);
        fclose(f);
    }
    return number(i, bytes);
}

TEST(an_end_between_two_tasks_charges_no_task)
{
    struct job j;
    make_fifo();
    open_job(&j, "hang-to", fifo);
    j.n = 3;
    j.fill = leave_first;
    CHECK_EQ(run_job(&j), 0);
    for (size_t i = 0; i < j.n; i++) {
        CHECK_EQ(j.finals[i].failure, GD_FAILURE_NONE);
        if (j.finals[i].attempt != 1)
            FAIL("task %zu had %u attempts", i, j.finals[i].attempt);
    }
    CHECK_EQ(j.exits, 1);
    close_job(&j);
}

static void await_end(int pidfd)
{
    struct pollfd p = { .fd = pidfd, .events = POLLIN };
    CHECK_EQ(poll(&p, 1, -1), 1); /* if the process still runs, this case reaches its time limit */
}

TEST(a_killed_dispatcher_leaves_nothing_running)
{
    pid_t program, host;
    free(path_of("stream_program")); /* skips the case if the program is missing, before the fork */
    make_fifo();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const pid_t dispatcher = fork();
    CHECK_GE(dispatcher, 0);
    if (dispatcher == 0) {
        struct job j;
        open_job(&j, "hang-to", fifo);
        GIVE(&j, "a", "hang");
        run_job(&j);
        _exit(0);
    }
    read_pids(&program, &host);
    const int program_fd = (int)syscall(SYS_pidfd_open, program, 0), host_fd = (int)syscall(SYS_pidfd_open, host, 0);
    CHECK(program_fd >= 0 && host_fd >= 0);
    kill(dispatcher, SIGKILL);
    await_end(host_fd);
    await_end(program_fd);
}

TEST_MAIN()
