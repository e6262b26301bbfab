/* SPDX-License-Identifier: MIT
 *
 * Runs whose output is not read: standard output, standard error or an output file is a full pipe, or the terminal is
 * stopped. Signals and time limits still work, and other tasks still run. If the output is read later, it is complete.
 *
 * Each task writes a byte to a FIFO when it begins. If more tasks begin than the workers can hold at once, the thread
 * of the run is not blocked.
 */
#include "command/common.h"

#include <sys/ioctl.h>
#include <termios.h>

enum { MANY = 400 }; /* tasks; the workers cannot hold this many at once */

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", sh_dir(), name);
    return path;
}

/* Makes a FIFO and opens it for reading and writing, so that writers never get an error and readers never see end of
 * file. */
static int make_fifo(const char *name)
{
    CHECK_EQ(mkfifo(path_of(name), 0600), 0);
    const int fd = open(path_of(name), O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

/* Writes to a pipe until it is full. Returns the number of bytes written. Restores the flags of the file description,
 * which no other process shares. */
static size_t fill(int fd)
{
    char some[4096] = { 0 };
    const int flags = fcntl(fd, F_GETFL);
    size_t all = 0;
    CHECK_EQ(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
    for (size_t size = sizeof some; size > 0;) {
        const ssize_t n = write(fd, some, size);
        if (n > 0)
            all += (size_t)n;
        else
            size /= 2;
    }
    CHECK_EQ(errno, EAGAIN);
    CHECK_EQ(fcntl(fd, F_SETFL, flags), 0);
    return all;
}

static int make_full_fifo(const char *name)
{
    const int fd = make_fifo(name);
    CHECK_GT(fill(fd), 0);
    return fd;
}

static void await_bytes(int fd, size_t n)
{
    char c;
    for (; n > 0; n--)
        CHECK_EQ(read(fd, &c, 1), 1);
}

static void await_line(int fd)
{
    char c = 0;
    while (c != '\n')
        CHECK_EQ(read(fd, &c, 1), 1);
}

#define START  "export GPU_DISPATCH_JOBS=$PWD/jobs; exec gpu-dispatch run --gpus sim:2 --quiet "
#define INPUTS " < <(seq 400)"

static void check_ended(struct sh_running r)
{
    CHECK_EQ(sh_wait(r).status, 130);
}

/* The first signal lets running tasks finish. The second ends the run at once. */
static void end_with_two_signals(struct sh_running r, int messages)
{
    CHECK_EQ(kill(r.pid, SIGINT), 0);
    await_line(messages);
    CHECK_EQ(kill(r.pid, SIGINT), 0);
    check_ended(r);
}

/* --- standard output ----------------------------------------------------------- */

TEST(tasks_continue_and_two_signals_end_the_run)
{
    const int begun = make_fifo("begun"), messages = make_fifo("messages");
    (void)make_full_fifo("out");
    struct sh_running r = sh_start_script(START "'printf x > begun; echo got #' > out 2> messages" INPUTS);
    await_bytes(begun, MANY);
    end_with_two_signals(r, messages);
}

TEST(one_sigterm_is_enough)
{
    const int begun = make_fifo("begun");
    (void)make_full_fifo("out");
    struct sh_running r = sh_start_script(START "'printf x > begun; echo got #' > out" INPUTS);
    await_bytes(begun, MANY);
    CHECK_EQ(kill(r.pid, SIGTERM), 0);
    struct ran ran = sh_wait(r);
    CHECK_EQ(ran.status, 143);
    CHECK_CONTAINS(ran.err, "could not be written, because nothing reads it");
}

/* The second task sleeps longer than the time limit of this case. It keeps a FIFO open, so the test sees when it is
 * killed. */
TEST(a_task_is_killed_at_its_time_limit)
{
    const int begun = make_fifo("begun"), held = make_fifo("held");
    const int out = make_fifo("out");
    const size_t before = fill(out);
    struct sh_running r =
        sh_start_script(START "-k --timeout 1 'if [ {} = 1 ]; then echo one; else exec 9> held; printf x > "
                              "begun; sleep 4322; fi' ::: 1 2 > out");
    struct pollfd p = { .fd = open(path_of("held"), O_RDONLY | O_NONBLOCK | O_CLOEXEC), .events = POLLIN };
    char text[4] = "";
    await_bytes(begun, 1);
    close(held);
    CHECK_EQ(poll(&p, 1, -1), 1);
    CHECK(p.revents & POLLHUP);
    await_bytes(out, before);
    CHECK_EQ(read(out, text, 4), 4);
    CHECK_EQ(memcmp(text, "one\n", 4), 0);
    struct ran ran = sh_wait(r);
    CHECK_EQ(ran.status, 1);
    CHECK_CONTAINS(ran.err, "timed out");
}

TEST(all_output_arrives_when_it_is_read_later)
{
    const int begun = make_fifo("begun"), out = make_fifo("out");
    const size_t before = fill(out);
    struct sh_running r = sh_start_script(START "-k 'printf x > begun; echo got {}' > out" INPUTS);
    await_bytes(begun, MANY);
    await_bytes(out, before);
    for (int i = 1; i <= MANY; i++) {
        char expected[32], line[32] = "";
        const int size = snprintf(expected, sizeof expected, "got %d\n", i);
        for (int k = 0; k < size; k++)
            CHECK_EQ(read(out, line + k, 1), 1);
        CHECK_STR(line, expected);
    }
    CHECK_EQ(sh_wait(r).status, 0);
}

TEST(output_larger_than_a_pipe_arrives_too)
{
    const int begun = make_fifo("begun"), out = make_fifo("out");
    const size_t before = fill(out);
    struct sh_running r = sh_start_script(START "'printf x > begun; head -c 1000000 /dev/zero #' > out ::: 1 2 3");
    await_bytes(begun, 3);
    await_bytes(out, before);
    await_bytes(out, 3000000);
    CHECK_EQ(sh_wait(r).status, 0);
}

/* Other processes share the file description, so its flags must not change. */
TEST(flags_of_inherited_descriptors_do_not_change)
{
    const int begun = make_fifo("begun"), messages = make_fifo("messages");
    int ends[2];
    CHECK_EQ(pipe(ends), 0); /* without close-on-exec: the command inherits this file description */
    (void)fill(ends[1]);
    const int flags = fcntl(ends[1], F_GETFL), said_flags = fcntl(messages, F_GETFL);
    char script[512];
    snprintf(script, sizeof script, START "'printf x > begun; echo got; echo err >&2 #' >&%d 2> messages" INPUTS,
             ends[1]);
    struct sh_running r = sh_start_script(script);
    await_bytes(begun, MANY);
    CHECK_EQ(fcntl(ends[1], F_GETFL), flags);
    CHECK_EQ(fcntl(messages, F_GETFL), said_flags);
    end_with_two_signals(r, messages);
    CHECK_EQ(fcntl(ends[1], F_GETFL), flags);
}

/* --- standard error -------------------------------------------------------------- */

TEST(standard_error_is_not_read)
{
    const int begun = make_fifo("begun"), err = make_fifo("err");
    const size_t before = fill(err);
    struct sh_running r = sh_start_script(START "'printf x > begun; echo err >&2 #' 2> err" INPUTS);
    await_bytes(begun, MANY);
    await_bytes(err, before + 4 * MANY);
    CHECK_EQ(sh_wait(r).status, 0);
}

static void await_in_top(struct sh_running r, const char *words)
{
    while (!strstr(sh("GPU_DISPATCH_JOBS=$PWD/jobs gpu-dispatch top --once %d", (int)r.pid).out, words))
        ;
}

/* Both signals take effect. After the first one, tasks that have been read and have not begun are cancelled. */
static void end_while_two_run(struct sh_running r)
{
    await_in_top(r, "of 400 tasks"); /* all have been read */
    CHECK_EQ(kill(r.pid, SIGINT), 0);
    await_in_top(r, "cancelled");
    CHECK_EQ(kill(r.pid, SIGINT), 0);
    check_ended(r);
}

TEST(signals_take_effect_although_no_message_can_be_written)
{
    const int begun = make_fifo("begun");
    (void)make_full_fifo("err");
    struct sh_running r = sh_start_script(START "'printf x > begun; echo err >&2; sleep 4322 #' 2> err" INPUTS);
    await_bytes(begun, 2);
    end_while_two_run(r);
}

TEST(the_progress_is_not_read)
{
    const int begun = make_fifo("begun");
    (void)make_full_fifo("err");
    (void)make_fifo("never");
    struct sh_running r = sh_start_script("export GPU_DISPATCH_JOBS=$PWD/jobs; exec gpu-dispatch run --gpus sim:2 "
                                          "--progress json 'printf x > begun; read y < never #' 2> err" INPUTS);
    await_bytes(begun, 2);
    end_while_two_run(r);
}

/* --- a terminal ------------------------------------------------------------------------ */

/* The terminal accepts a few kilobytes, which the panel soon writes. After that it accepts nothing. */
TEST(a_terminal_that_is_stopped)
{
    const int begun = make_fifo("begun"), master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
        SKIP("no pseudo-terminal");
    char script[512];
    snprintf(
        script, sizeof script,
        "export TERM=xterm GPU_DISPATCH_JOBS=$PWD/jobs; exec gpu-dispatch run --gpus sim:2 'printf x > begun; head -c "
        "3000 /dev/zero; head -c 3000 /dev/zero >&2 #' 2> %s" INPUTS,
        ptsname(master));
    struct sh_running r = sh_start_script(script);
    await_bytes(begun, MANY);
    CHECK_EQ(kill(r.pid, SIGINT), 0);
    /* The test cannot see when the first signal takes effect, because no message can be written. A second signal that
     * arrives earlier has no effect. So the test sends signals until the run ends. */
    int status;
    while (waitpid(r.pid, &status, WNOHANG) == 0)
        CHECK_EQ(kill(r.pid, SIGINT), 0);
    CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGINT : WEXITSTATUS(status) == 130);
}

/* --- files ---------------------------------------------------------------------------------- */

static void check_file(const char *option)
{
    const int begun = make_fifo("begun"), messages = make_fifo("messages"), file = make_fifo("file");
    (void)fcntl(file, F_SETPIPE_SZ, 4096); /* otherwise more output is needed to fill it */
    char script[512];
    snprintf(script, sizeof script,
             START "%s file 'printf x > begun; head -c 1000 /dev/zero | tr \"\\0\" a #' 2> messages" INPUTS, option);
    struct sh_running r = sh_start_script(script);
    await_bytes(begun, MANY);
    end_with_two_signals(r, messages);
}

TEST(the_records_are_not_read)
{
    check_file("--output");
}

TEST(the_log_is_not_read)
{
    check_file("--joblog");
}

/* --- the journal -------------------------------------------------------------------------------- */

static void need_journal(void)
{
    if (strstr(sh("gpu-dispatch run --gpus sim:1 --journal try.db true ::: 1").err, "SQLite"))
        SKIP("built without journals");
}

#define JOURNAL "GPU_DISPATCH_JOURNAL_MS=1; export GPU_DISPATCH_JOURNAL_MS; "

/* Resumes the run, and checks that it writes the results of n inputs. */
static void check_resumed(size_t n)
{
    struct ran ran =
        sh("seq 400 | gpu-dispatch run --gpus sim:2 --quiet --journal run.db --resume 'printf x > begun; echo "
           "got {}' | sort | uniq | wc -l");
    CHECK_EQ((size_t)atoi(ran.out), n);
    CHECK_EQ(ran.status, 0);
}

TEST(a_task_is_not_done_before_its_output_is_written)
{
    need_journal();
    const int begun = make_fifo("begun");
    (void)make_full_fifo("out");
    struct sh_running r =
        sh_start_script(JOURNAL START "--journal run.db 'printf x > begun; echo got {}' > out" INPUTS);
    await_bytes(begun, MANY);
    CHECK_EQ(kill(r.pid, SIGKILL), 0);
    CHECK_EQ(sh_wait(r).status, 128 + SIGKILL);
    check_resumed(MANY);
}

TEST(tasks_whose_output_was_abandoned_are_run_again)
{
    need_journal();
    const int begun = make_fifo("begun"), messages = make_fifo("messages");
    (void)make_full_fifo("out");
    struct sh_running r =
        sh_start_script(JOURNAL START "--journal run.db 'printf x > begun; echo got {}' > out 2> messages" INPUTS);
    await_bytes(begun, MANY);
    end_with_two_signals(r, messages);
    check_resumed(MANY);
}

TEST(tasks_whose_output_is_read_later_are_done)
{
    need_journal();
    const int begun = make_fifo("begun"), out = make_fifo("out");
    const size_t before = fill(out);
    struct sh_running r =
        sh_start_script(JOURNAL START "--journal run.db 'printf x > begun; echo got {}' > out" INPUTS);
    await_bytes(begun, MANY);
    await_bytes(out, before);
    for (int i = 0; i < MANY; i++)
        await_line(out);
    CHECK_EQ(sh_wait(r).status, 0);
    check_resumed(0);
}

TEST_MAIN()
