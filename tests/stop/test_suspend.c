/* SPDX-License-Identifier: MIT
 *
 * Ctrl-Z, and jobs whose processes are all stopped by another program.
 */
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "cli/run/stop/interrupt.h"
#include "support/fifo.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

struct job {
    struct sh_running running; /* its pid is that of the command, a child of this case */
    int begun, go;
    pid_t workers[2], tasks[2];
};

/* Starts two tasks. When this returns, both are running and wait for let_go(). */
static struct job start(const char *options)
{
    struct job j = { .begun = fifo("begun"), .go = fifo("go") };
    char script[512], line[64];
    snprintf(script, sizeof script,
             "exec gpu-dispatch run --gpus sim:2 --quiet %s 'echo $PPID $$ > begun; read x < go; echo done #' ::: 1 2",
             options);
    j.running = sh_start_script(script);
    for (int i = 0; i < 2; i++) {
        int worker, task;
        read_line(j.begun, line, sizeof line);
        CHECK_EQ(sscanf(line, "%d %d", &worker, &task), 2);
        j.workers[i] = worker;
        j.tasks[i] = task;
    }
    return j;
}

static char state_of(pid_t pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_GT(read(fd, text, sizeof text - 1), 0);
    close(fd);
    const char *after = strrchr(text, ')');
    return after ? after[2] : '?';
}

/* Waits until the process is stopped. A signal may take a moment to arrive. */
static void await_stopped(pid_t pid)
{
    while (state_of(pid) != 'T')
        sched_yield();
}

/* Sends SIGTSTP, the signal of Ctrl-Z, to the command and waits until it is stopped. */
static void press_ctrl_z(const struct job *j)
{
    int status = 0;
    CHECK_EQ(kill(j->running.pid, SIGTSTP), 0);
    CHECK_EQ(waitpid(j->running.pid, &status, WUNTRACED), j->running.pid);
    CHECK(WIFSTOPPED(status));
}

static void let_go(const struct job *j)
{
    CHECK_EQ(write(j->go, "\n\n", 2), 2);
    struct ran r = sh_wait(j->running);
    CHECK_STR(r.out, "done\ndone\n");
    CHECK_EQ(r.status, 0);
}

TEST(ctrl_z_stops_workers_and_their_commands)
{
    struct job j = start("");
    press_ctrl_z(&j);
    for (int i = 0; i < 2; i++) {
        await_stopped(j.workers[i]);
        await_stopped(j.tasks[i]);
    }
    CHECK_EQ(kill(j.running.pid, SIGCONT), 0);
    let_go(&j);
}

TEST(ctrl_z_several_times)
{
    struct job j = start("");
    for (int n = 0; n < 3; n++) {
        press_ctrl_z(&j);
        for (int i = 0; i < 2; i++)
            await_stopped(j.tasks[i]);
        CHECK_EQ(kill(j.running.pid, SIGCONT), 0);
    }
    let_go(&j);
}

/* SIGCONT may come before the command has stopped. Then it must not stop, because nobody would continue it. The time
 * between the signals is different in each round. */
TEST(ctrl_z_and_a_continue_right_after_it)
{
    for (int n = 0; n < 40; n++) {
        struct job j = start("");
        CHECK_EQ(kill(j.running.pid, SIGTSTP), 0);
        for (int k = 0; k < n; k++)
            sched_yield();
        CHECK_EQ(kill(j.running.pid, SIGCONT), 0);
        let_go(&j);
        close(j.begun);
        close(j.go);
        CHECK_EQ(sh("rm begun go").status, 0);
    }
}

/* The workers and tasks are stopped, so they can't end by themselves. */
TEST(a_stopped_run_that_is_killed_leaves_nothing)
{
    struct job j = start("");
    struct pollfd all[4];
    for (int i = 0; i < 4; i++) {
        const pid_t pid = i < 2 ? j.workers[i] : j.tasks[i - 2];
        all[i] = (struct pollfd){ .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
        CHECK(all[i].fd >= 0);
    }
    press_ctrl_z(&j);
    for (int i = 0; i < 2; i++)
        await_stopped(j.tasks[i]);
    CHECK_EQ(kill(j.running.pid, SIGKILL), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(poll(&all[i], 1, -1), 1);
    CHECK_EQ(sh_wait(j.running).status, 128 + SIGKILL);
}

TEST(an_ignored_ctrl_z_stays_ignored)
{
    struct job j;
    CHECK(signal(SIGTSTP, SIG_IGN) != SIG_ERR); /* the command inherits this */
    j = start("");
    CHECK_EQ(kill(j.running.pid, SIGTSTP), 0);
    let_go(&j);
}

/* --- at the end of a run --- */

/* The thread that handles signals is held in a callback until the main thread waits for its end. So it does not act on
 * the signals that come in the callback. */
static const int *late_signals; /* the last one is 0 */
static atomic_bool is_held, is_closing;

static void send_late_signals(void *user, unsigned count)
{
    (void)user, (void)count;
    for (const int *s = late_signals; *s; s++)
        kill(getpid(), *s);
    atomic_store(&is_held, true);
    while (!atomic_load(&is_closing))
        sched_yield();
    while (state_of(getpid()) != 'S')
        sched_yield();
}

static void do_nothing(int number)
{
    (void)number;
}

/* Runs in a child process: ends the handling of signals while signals come. */
static void end_with_late_signals(void)
{
    struct cli_interrupt *i;
    signal(SIGINT, do_nothing); /* SIGINT starts the callback */
    if (cli_interrupt_open(&i, NULL, 0, NULL, send_late_signals, NULL) < 0)
        _exit(2);
    cli_interrupt_over(i);
    kill(getpid(), SIGINT);
    while (!atomic_load(&is_held))
        sched_yield();
    atomic_store(&is_closing, true);
    cli_interrupt_close(&i);
    _exit(0);
}

/* Returns what waitpid() reports first: that the child was stopped, or that it has ended. */
static int status_after(const int *signals, pid_t *child)
{
    int status = -1;
    late_signals = signals;
    *child = fork();
    CHECK_GE(*child, 0);
    if (*child == 0)
        end_with_late_signals();
    CHECK_EQ(waitpid(*child, &status, WUNTRACED), *child);
    return status;
}

TEST(a_ctrl_z_at_the_end_stops_the_command)
{
    pid_t child;
    int status = status_after((const int[]){ SIGTSTP, 0 }, &child);
    CHECK(WIFSTOPPED(status));
    CHECK_EQ(kill(child, SIGCONT), 0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

TEST(a_ctrl_z_and_a_continue_at_the_end)
{
    pid_t child;
    CHECK_EQ(status_after((const int[]){ SIGTSTP, SIGCONT, 0 }, &child), 0);
}

/* --- time limits --- */

enum { LIMIT_MS = 3000, STILL_MS = 2 * LIMIT_MS };
#define LIMIT "--timeout 3s "

static void signal_job(const struct job *j, int signal)
{
    CHECK_EQ(kill(j->running.pid, signal), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(kill(-j->workers[i], signal), 0);
}

/* Waits for this many seconds on the clock that measures time limits. */
static void pass(int seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += seconds;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

TEST(time_while_everything_is_stopped_does_not_count)
{
    struct job j = start(LIMIT);
    signal_job(&j, SIGSTOP);
    for (int i = 0; i < 2; i++)
        await_stopped(j.workers[i]);
    pass(STILL_MS / 1000);
    signal_job(&j, SIGCONT);
    let_go(&j);
}

/* Only the command is stopped, not its workers. So the time counts. */
TEST(tasks_time_out_although_the_command_is_often_stopped)
{
    struct job j = start("--timeout 1s ");
    int ended = 0;
    while (!ended) {
        struct pollfd end = { .fd = (int)syscall(SYS_pidfd_open, j.running.pid, 0), .events = POLLIN };
        CHECK(end.fd >= 0);
        CHECK_EQ(kill(j.running.pid, SIGSTOP), 0);
        pass(2);
        CHECK_EQ(kill(j.running.pid, SIGCONT), 0);
        ended = poll(&end, 1, 20);
        close(end.fd);
    }
    CHECK_EQ(sh_wait(j.running).status, 2); /* both tasks failed */
}

TEST(time_stopped_by_ctrl_z_does_not_count)
{
    struct job j = start(LIMIT);
    press_ctrl_z(&j);
    pass(STILL_MS / 1000);
    CHECK_EQ(kill(j.running.pid, SIGCONT), 0);
    let_go(&j);
}

TEST(a_worker_that_is_stopped_alone_times_out)
{
    struct job j = start(LIMIT "--joblog log");
    CHECK_EQ(kill(-j.workers[0], SIGSTOP), 0);
    CHECK_EQ(write(j.go, "\n\n", 2), 2);
    CHECK_EQ(sh_wait(j.running).status, 1);
    CHECK_STR(sh("tail -n +2 log | cut -f 7 | sort").out, "-1\n0\n");
}

TEST_MAIN()
