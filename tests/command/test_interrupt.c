/* SPDX-License-Identifier: MIT
 *
 * Ctrl-C in the middle of a thousand tasks. They say through a fifo that they have begun and wait at another to be let
 * go, the command says through a third what it says to a person: so that a test knows where it stands.
 */
#include "common.h"

#include <poll.h>

#include "support/fifo.h"

struct interrupted {
    struct sh_running running; /* its pid is the command's own */
    int begun, said, go;
};

/* A thousand tasks, two of which run when this returns. before: of the shell; what: what each does then. */
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
    return i;
}

static struct interrupted start(const char *options, const char *what)
{
    return start_with("", options, what);
}

#define WAIT "read x < go"

/* Until observers see that what was not begun is cancelled: a task that ends before that may be followed by another. */
static void await_heeded(struct interrupted i)
{
    while (!strstr(sh("GPU_DISPATCH_JOBS=$PWD/jobs gpu-dispatch top --once %d", (int)i.running.pid).out, "cancelled"))
        ;
}

/* Signals, lets the two go when it was heeded, and waits for the end. */
static struct ran interrupt(struct interrupted i, int signal)
{
    CHECK_EQ(kill(i.running.pid, signal), 0);
    await_heeded(i);
    CHECK_EQ(write(i.go, "\n\n", 2), 2);
    return sh_wait(i.running);
}

TEST(once_lets_the_running_ones_finish)
{
    struct ran r = interrupt(start("", WAIT), SIGINT);
    CHECK_EQ(r.status, 130);
    CHECK_STR(r.out, "done\ndone\n");
}

TEST(a_person_is_told)
{
    struct interrupted i = start("", WAIT);
    char words[256] = "";
    CHECK_EQ(kill(i.running.pid, SIGINT), 0);
    for (size_t n = 0; !strchr(words, '\n'); n++)
        CHECK_EQ(n < sizeof words - 1 ? read(i.said, words + n, 1) : -1, 1);
    /* The figures may be some milliseconds old: from before the second, or the first, was begun. */
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

/* They would sleep for longer than the case may take. That none is left is seen by a fifo that each holds open. */
TEST(twice_ends_at_once)
{
    const int held = fifo("held");
    struct interrupted i = start("", "exec 9> held; echo > begun; sleep 4322");
    struct pollfd p = { .fd = open_to_read("held"), .events = POLLIN };
    await_lines(i.begun, 2); /* both hold it */
    close(held);
    CHECK_EQ(kill(i.running.pid, SIGINT), 0);
    await_lines(i.said, 1);
    CHECK_EQ(kill(i.running.pid, SIGINT), 0);
    struct ran r = sh_wait(i.running);
    CHECK_EQ(r.status, 130);
    CHECK_STR(r.out, "");
    CHECK_EQ(poll(&p, 1, -1), 1); /* killed, they may still be on their way out */
    CHECK(p.revents & POLLHUP);
}

TEST(a_request_to_end_is_the_same)
{
    struct ran r = interrupt(start("", WAIT), SIGTERM);
    CHECK_EQ(r.status, 130);
    CHECK_STR(r.out, "done\ndone\n");
}

/* A driver's library may have threads of its own in the command, and what they do with signals is theirs. */
#define DRIVER "export GPU_DISPATCH_NVML=$GD_TEST_PLUGINS/fake_nvml.so FAKE_NVML_THREAD=1;"

TEST(whatever_threads_there_are)
{
    struct ran r = interrupt(start_with(DRIVER, "--gpus auto", WAIT), SIGINT);
    CHECK_EQ(r.status, 130);
    CHECK_STR(r.out, "done\ndone\n");
}

TEST(twice_whatever_threads_there_are)
{
    struct interrupted i = start_with(DRIVER, "--gpus auto", WAIT);
    CHECK_EQ(kill(i.running.pid, SIGTERM), 0);
    await_lines(i.said, 1); /* what comes before that is the same wish */
    CHECK_EQ(kill(i.running.pid, SIGTERM), 0);
    CHECK_EQ(sh_wait(i.running).status, 130);
}

TEST(the_joblog_has_what_was_run)
{
    CHECK_EQ(interrupt(start("--joblog log", WAIT), SIGINT).status, 130);
    CHECK_STR(sh("cut -f 7,8 log | sort").out, "0\t0\n0\t0\nExitval\tSignal\n");
}

TEST(while_the_input_is_awaited)
{
    int in = fifo("in"), begun = fifo("begun");
    struct sh_running running = sh_start_script("exec gpu-dispatch run --gpus sim:1 --quiet 'echo > begun #' < in");
    CHECK_EQ(write(in, "1\n", 2), 2);
    await_lines(begun, 1);
    CHECK_EQ(kill(running.pid, SIGINT), 0);
    CHECK_EQ(sh_wait(running).status, 130);
}

TEST(while_the_whole_input_is_read_first)
{
    int in = fifo("in");
    struct sh_running running = sh_start_script("exec gpu-dispatch run --gpus sim:1 --quiet --shuf echo < in");
    /* More than a pipe holds: when all of it is written, most of it has been read. */
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
