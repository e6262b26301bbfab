/* SPDX-License-Identifier: MIT
 *
 * Ctrl-C in the middle of a thousand tasks. Tasks report through a FIFO that they have begun, and wait at another to be
 * released. The command's messages go to a third FIFO. So a test knows how far the run is.
 */
#include "common.h"

#include <poll.h>
#include <time.h>

#include "support/fifo.h"

struct interrupted {
    struct sh_running running; /* its pid is that of the command itself */
    int begun, said, go;
};

static bool top_shows(pid_t pid, const char *words)
{
    return strstr(sh("GPU_DISPATCH_JOBS=$PWD/jobs gpu-dispatch top --once %d", (int)pid).out, words) != NULL;
}

/* Starts a thousand tasks. When this returns, two of them run, and all have been read, so a signal cancels some. before: shell commands to run first; what: the commands
 * of each task after it has reported its start. */
static struct interrupted start_with(const char *before, const char *options, const char *what)
{
    struct interrupted i = { .begun = fifo("begun"), .said = fifo("said"), .go = fifo("go") };
    char script[1024];
    snprintf(script, sizeof script,
             "export GPU_DISPATCH_JOBS=$PWD/jobs; %s exec gpu-dispatch run --gpus sim:2 --quiet %s 'echo > begun; %s; "
             "echo done #' < <(seq 1000) 2> said",
             before, options, what);
    i.running = sh_start_script(script);
    await_lines(i.begun, 2);
    while (!top_shows(i.running.pid, "of 1,000 tasks"))
        ;
    return i;
}

static struct interrupted start(const char *options, const char *what)
{
    return start_with("", options, what);
}

#define WAIT "read x < go"

/* Waits until observers see that waiting tasks are cancelled. If a task ends before that, another may begin. */
static void await_heeded(struct interrupted i)
{
    while (!top_shows(i.running.pid, "cancelled"))
        ;
}

/* Sends the signal, releases the two tasks after it has taken effect, and waits for the end. */
static struct ran interrupt(struct interrupted i, int signal)
{
    CHECK_EQ(kill(i.running.pid, signal), 0);
    await_heeded(i);
    CHECK_EQ(write(i.go, "\n\n", 2), 2);
    return sh_wait(i.running);
}

static void read_message(struct interrupted i, char *words, size_t size)
{
    memset(words, 0, size);
    for (size_t n = 0; !strchr(words, '\n'); n++)
        CHECK_EQ(n < size - 1 ? read(i.said, words + n, 1) : -1, 1);
}

TEST(one_signal_lets_running_tasks_finish)
{
    struct ran r = interrupt(start("", WAIT), SIGINT);
    CHECK_EQ(r.status, 130);
    CHECK_STR(r.out, "done\ndone\n");
}

TEST(a_message_explains_the_signal)
{
    struct interrupted i = start("", WAIT);
    char words[256];
    CHECK_EQ(kill(i.running.pid, SIGINT), 0);
    read_message(i, words, sizeof words);
    /* The figures may be some milliseconds old, from a time before the second or even the first task began. */
    if (strstr(words, "1 running"))
        CHECK_STR(words, "gpu-dispatch: interrupted: 1 running task may finish; Ctrl-C again ends it at once\n");
    else if (strstr(words, "2 running"))
        CHECK_STR(words, "gpu-dispatch: interrupted: 2 running tasks may finish; Ctrl-C again ends them at once\n");
    else
        CHECK_STR(words, "gpu-dispatch: interrupted: running tasks may finish; Ctrl-C again ends them at once\n");
    await_heeded(i);
    CHECK_EQ(write(i.go, "\n\n", 2), 2);
    CHECK_EQ(sh_wait(i.running).status, 130);
}

/* The tasks would sleep for longer than the case may take. Each holds a FIFO open, which shows when none is left. */
TEST(two_signals_end_the_run_at_once)
{
    const int held = fifo("held");
    struct interrupted i = start("", "exec 9> held; echo > begun; sleep 4322");
    struct pollfd p = { .fd = open_to_read("held"), .events = POLLIN };
    await_lines(i.begun, 2); /* both tasks hold it */
    close(held);
    CHECK_EQ(kill(i.running.pid, SIGINT), 0);
    await_lines(i.said, 1);
    CHECK_EQ(kill(i.running.pid, SIGINT), 0);
    struct ran r = sh_wait(i.running);
    CHECK_EQ(r.status, 130);
    CHECK_STR(r.out, "");
    CHECK_EQ(poll(&p, 1, -1), 1); /* killed tasks may take a moment to end */
    CHECK(p.revents & POLLHUP);
}

/* --- SIGTERM --- */

TEST(sigterm_lets_running_tasks_finish)
{
    struct ran r = interrupt(start("--stop-grace 1h", WAIT), SIGTERM);
    CHECK_EQ(r.status, 143);
    CHECK_STR(r.out, "done\ndone\n");
}

TEST(a_message_explains_sigterm)
{
    struct interrupted i = start("--stop-grace 100s", WAIT);
    char words[256];
    CHECK_EQ(kill(i.running.pid, SIGTERM), 0);
    read_message(i, words, sizeof words);
    CHECK_CONTAINS(words, "gpu-dispatch: terminated: ");
    CHECK_CONTAINS(words, "may finish within 1m35s; SIGINT (Ctrl-C) ends ");
    CHECK_EQ(kill(i.running.pid, SIGINT), 0);
    CHECK_EQ(sh_wait(i.running).status, 143);
}

/* When Slurm preempts a job, it sends SIGCONT and SIGTERM, and two more SIGTERMs at the end of its grace time. */
TEST(more_sigterms_change_nothing)
{
    struct interrupted i = start("--stop-grace 1h", WAIT);
    CHECK_EQ(kill(i.running.pid, SIGCONT), 0);
    CHECK_EQ(kill(i.running.pid, SIGTERM), 0);
    await_lines(i.said, 1);
    for (int n = 0; n < 2; n++) {
        CHECK_EQ(kill(i.running.pid, SIGTERM), 0);
        await_heeded(i);
    }
    struct ran r = interrupt(i, SIGTERM);
    CHECK_EQ(r.status, 143);
    CHECK_STR(r.out, "done\ndone\n");
}

TEST(sigterm_after_ctrl_c_sets_a_time_limit)
{
    struct interrupted i = start("--stop-grace 1h", WAIT);
    CHECK_EQ(kill(i.running.pid, SIGINT), 0);
    await_lines(i.said, 1);
    CHECK_EQ(kill(i.running.pid, SIGTERM), 0);
    char words[256];
    read_message(i, words, sizeof words);
    CHECK_CONTAINS(words, "gpu-dispatch: terminated: ");
    struct ran r = interrupt(i, SIGTERM);
    CHECK_EQ(r.status, 130);
    CHECK_STR(r.out, "done\ndone\n");
}

/* The tasks would run for longer than the case may take. */
TEST(tasks_that_do_not_finish_after_sigterm_are_ended)
{
    struct interrupted i = start("--stop-grace 2s --journal j.db --joblog log", "sleep 4323");
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    CHECK_EQ(kill(i.running.pid, SIGTERM), 0);
    struct ran r = sh_wait(i.running);
    clock_gettime(CLOCK_MONOTONIC, &after);
    CHECK_EQ(r.status, 143);
    CHECK_STR(r.out, "");
    CHECK_GE(after.tv_sec - before.tv_sec, 1); /* four fifths of the time are for the tasks */
    CHECK_STR(sh("gpu-dispatch export j.db --jsonl; wc -l < log").out, "1\n"); /* the killed tasks are not done */
}

TEST(no_grace_at_all)
{
    struct interrupted i = start("--stop-grace 0", "sleep 4324");
    CHECK_EQ(kill(i.running.pid, SIGTERM), 0);
    CHECK_EQ(sh_wait(i.running).status, 143);
}

/* --- SIGHUP --- */

/* A second SIGHUP changes nothing: a terminal that is closed may send several. */
TEST(sighup_lets_running_tasks_finish)
{
    struct interrupted i = start("--stop-grace 0", WAIT);
    char words[256];
    CHECK_EQ(kill(i.running.pid, SIGHUP), 0);
    read_message(i, words, sizeof words);
    CHECK_CONTAINS(words, "gpu-dispatch: SIGHUP: ");
    CHECK_CONTAINS(words, "may finish, and no more are started\n");
    CHECK_EQ(kill(i.running.pid, SIGHUP), 0);
    struct ran r = interrupt(i, SIGHUP);
    CHECK_EQ(r.status, 129);
    CHECK_STR(r.out, "done\ndone\n");
}

TEST(sigterm_after_sighup)
{
    struct interrupted i = start("--stop-grace 0", "sleep 4325");
    CHECK_EQ(kill(i.running.pid, SIGHUP), 0);
    await_lines(i.said, 1);
    CHECK_EQ(kill(i.running.pid, SIGTERM), 0);
    CHECK_EQ(sh_wait(i.running).status, 143);
}

TEST(an_ignored_sighup_stays_ignored)
{
    int go = fifo("go"), begun = fifo("begun");
    struct sh_running running =
        sh_start_script("trap '' HUP; exec gpu-dispatch run --gpus sim:1 --quiet 'echo > begun; "
                        "read x < go; echo {} #' ::: a b");
    await_lines(begun, 1);
    CHECK_EQ(kill(running.pid, SIGHUP), 0);
    CHECK_EQ(write(go, "\n\n", 2), 2);
    struct ran r = sh_wait(running);
    CHECK_STR(r.out, "a\nb\n");
    CHECK_EQ(r.status, 0);
}

/* Nothing can be written to a terminal that is gone, but running tasks are not killed for that. Task 2 ends after the
 * failed write of task 1, and task 3 after both. */
TEST(a_closed_terminal_ends_no_running_task)
{
    int begun = fifo("begun"), go[] = { fifo("go1"), fifo("go2"), fifo("go3") };
    struct sh_running terminal = sh_start_script(
        "exec script -qec \"gpu-dispatch run --gpus sim:3 --progress none --joblog log 'echo > begun; read x < go{}; "
        "echo {} | tee made{} #' ::: 1 2 3\" /dev/null");
    await_lines(begun, 3);
    CHECK_EQ(kill(terminal.pid, SIGKILL), 0);
    (void)sh_wait(terminal);
    for (int i = 0; i < 3; i++) {
        char number[] = { (char)('1' + i), '\0' };
        CHECK_EQ(write(go[i], "\n", 1), 1);
        while (sh("grep -q ^%s log", number).status != 0)
            ;
    }
    CHECK_STR(sh("cat made*").out, "1\n2\n3\n");
}

/* A driver's library may run threads in the command, and these may handle signals in any way. */
#define DRIVER "export GPU_DISPATCH_NVML=$GD_TEST_PLUGINS/fake_nvml.so FAKE_NVML_THREAD=1;"

TEST(one_signal_with_threads_of_a_driver)
{
    struct ran r = interrupt(start_with(DRIVER, "--gpus auto", WAIT), SIGINT);
    CHECK_EQ(r.status, 130);
    CHECK_STR(r.out, "done\ndone\n");
}

TEST(two_signals_with_threads_of_a_driver)
{
    struct interrupted i = start_with(DRIVER, "--gpus auto", WAIT);
    CHECK_EQ(kill(i.running.pid, SIGTERM), 0);
    await_lines(i.said, 1);
    CHECK_EQ(kill(i.running.pid, SIGINT), 0);
    CHECK_EQ(sh_wait(i.running).status, 143);
}

TEST(the_joblog_has_the_tasks_that_were_run)
{
    CHECK_EQ(interrupt(start("--joblog log", WAIT), SIGINT).status, 130);
    CHECK_STR(sh("cut -f 7,8 log | sort").out, "0\t0\n0\t0\nExitval\tSignal\n");
}

static void check_reason(int signal, const char *reason)
{
    const struct ran r = interrupt(start("--stop-grace 1h --output out", WAIT), signal);
    CHECK_EQ(r.status, 128 + signal);
    CHECK_STR(sh("grep -o 'cancelled.*error[^,]*' out | sort -u; rm -r out begun said go jobs").out, reason);
}

TEST(the_output_says_why_tasks_were_cancelled)
{
    check_reason(SIGINT, "cancelled\",\"error\":\"not done: the run was interrupted (SIGINT)\"\n");
    check_reason(SIGTERM, "cancelled\",\"error\":\"not done: the run was ended by SIGTERM\"\n");
    check_reason(SIGHUP, "cancelled\",\"error\":\"not done: the run was ended by SIGHUP\"\n");
}

TEST(a_signal_while_waiting_for_input)
{
    int in = fifo("in"), begun = fifo("begun");
    struct sh_running running = sh_start_script("exec gpu-dispatch run --gpus sim:1 --quiet 'echo > begun #' < in");
    CHECK_EQ(write(in, "1\n", 2), 2);
    await_lines(begun, 1);
    CHECK_EQ(kill(running.pid, SIGINT), 0);
    CHECK_EQ(sh_wait(running).status, 130);
}

TEST(a_signal_while_the_whole_input_is_read_first)
{
    int in = fifo("in");
    struct sh_running running = sh_start_script("exec gpu-dispatch run --gpus sim:1 --quiet --shuf echo < in");
    /* The input is larger than a pipe: when all of it is written, most of it has been read. */
    static char lines[1 << 20];
    memset(lines, '\n', sizeof lines);
    for (size_t at = 0; at < sizeof lines;) {
        ssize_t n = write(in, lines + at, sizeof lines - at);
        CHECK_GT(n, 0);
        at += (size_t)n;
    }
    CHECK_EQ(kill(running.pid, SIGINT), 0);
    CHECK_EQ(sh_wait(running).status, 128 + SIGINT);
}

TEST_MAIN()
