/* SPDX-License-Identifier: MIT
 *
 * A stop uses up no attempts. Tasks that fail after Ctrl-C or SIGTERM count as not done, and the next run does them.
 * When a task begins, it writes the process id of its worker to a FIFO. Then it waits at another FIFO.
 */
#include <gpu_dispatch/journal.h>
#include <signal.h>

#include "support/fifo.h"

struct stopped {
    struct sh_running running; /* its pid is that of the command */
    int begun, go;
    pid_t workers[2]; /* each is the leader of its process group */
};

/* The shell command with which a task reports that it has begun. */
#define BEGUN "echo $PPID > begun; "

static bool top_shows(const struct stopped *s, const char *words)
{
    return strstr(sh("GPU_DISPATCH_JOBS=$PWD/jobs gpu-dispatch top --once %d", (int)s->running.pid).out, words) != NULL;
}

/* Starts a run of a thousand tasks. When this returns, two of them run, and all have been read, so a stop cancels some. */
static struct stopped start(const char *options, const char *what)
{
    struct stopped s = { .begun = fifo("begun"), .go = fifo("go") };
    char script[1024], line[64];
    snprintf(script, sizeof script,
             "export GPU_DISPATCH_JOBS=$PWD/jobs; exec gpu-dispatch run --gpus sim:2 --quiet --joblog log %s "
             "'%s; #' < <(seq 1000)",
             options, what);
    s.running = sh_start_script(script);
    for (int i = 0; i < 2; i++) {
        read_line(s.begun, line, sizeof line);
        s.workers[i] = (pid_t)atol(line);
        CHECK_GT(s.workers[i], 1);
    }
    while (!top_shows(&s, "of 1,000 tasks"))
        ;
    return s;
}

/* Waits until observers see that the stop has cancelled tasks that had not begun. */
static void await_stop(const struct stopped *s)
{
    while (!top_shows(s, "cancelled"))
        ;
}

#define JOURNAL "--journal run.db "
#define FAILED  "gpu-dispatch status run.db | awk '$1 == \"failed\" { print $2 }'"

/* Checks that no task has failed, and that the next run does all tasks that are not done. */
static void check_nothing_failed(const struct stopped *s)
{
    const int status = sh_wait(s->running).status;
    CHECK(status == 128 + SIGINT || status == 128 + SIGTERM);
    CHECK_STR(sh("tail -n +2 log | awk '$7 || $8'").out, "");
    CHECK_STR(sh(FAILED).out, "0\n");
    CHECK_STR(sh("gpu-dispatch run --gpus sim:2 --quiet " JOURNAL "--resume --force-resume --joblog again true < <(seq "
                 "1000) && cat log again | grep -vc ^Seq")
                  .out,
              "1000\n");
}

static void need_journal(void)
{
    if (!gd_journal_available())
        SKIP("built without journals");
}

static void failure_after(int signal, const char *options)
{
    struct stopped s = start(options, BEGUN "read x < go; exit 1");
    CHECK_EQ(kill(s.running.pid, signal), 0);
    await_stop(&s);
    CHECK_EQ(write(s.go, "\n\n", 2), 2);
    check_nothing_failed(&s);
}

TEST(a_failure_after_ctrl_c_is_not_done)
{
    need_journal();
    failure_after(SIGINT, JOURNAL);
}

TEST(a_failure_after_sigterm_with_attempts_left_is_not_done)
{
    need_journal();
    failure_after(SIGTERM, JOURNAL "--retries 3 ");
}

TEST(a_worker_that_dies_after_the_stop_is_not_a_crash)
{
    need_journal();
    struct stopped s = start(JOURNAL, BEGUN "read x < go; kill -KILL $PPID");
    CHECK_EQ(kill(s.running.pid, SIGTERM), 0);
    await_stop(&s);
    CHECK_EQ(write(s.go, "\n\n", 2), 2);
    check_nothing_failed(&s);
}

/* Stops a job as systemd and Slurm do: every process gets the signal. The command is suspended during that time. So its
 * own signal and the ends of its workers are pending at the same time, and the command may see them in any order. */
static void stop_everything(const char *options, const char *what, int signal)
{
    struct stopped s = start(options, what);
    CHECK_EQ(kill(s.running.pid, SIGSTOP), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(kill(-s.workers[i], signal), 0);
    CHECK_EQ(kill(s.running.pid, SIGTERM), 0);
    CHECK_EQ(kill(s.running.pid, SIGCONT), 0);
    /* Lets all tasks end, because the command may begin other tasks before it handles its own signal. */
    static const char lines[2000] = { [0 ... 1999] = '\n' };
    CHECK_EQ(write(s.go, lines, sizeof lines), sizeof lines);
    check_nothing_failed(&s);
}

TEST(a_stop_of_every_process_charges_no_task)
{
    need_journal();
    stop_everything(JOURNAL "--crash-limit 1 ", BEGUN "read x < go", SIGHUP); /* the signal kills the workers */
}

TEST(a_stop_that_kills_only_the_commands_charges_no_task)
{
    need_journal();
    stop_everything(JOURNAL, BEGUN "read x < go", SIGTERM);
}

TEST(a_stop_signal_that_commands_catch_charges_no_task)
{
    need_journal();
    stop_everything(JOURNAL, "trap \"exit 1\" TERM; " BEGUN "read x < go", SIGTERM);
}

/* Without a stop the task is charged as usual, one second later. */
TEST(a_signal_to_one_worker_alone_charges_its_task)
{
    struct ran r =
        sh("gpu-dispatch run --gpus sim:1 --quiet --crash-limit 1 --joblog log 'kill -HUP $PPID; sleep 4321 #' ::: 1; "
           "echo $?; tail -n +2 log | cut -f 7,8");
    CHECK_STR(r.out, "1\n0\t1\n");
    CHECK_CONTAINS(r.err, "killed by signal 1");
}

TEST(a_signal_to_one_command_alone_charges_its_task)
{
    struct ran r = sh("gpu-dispatch run --gpus sim:1 --quiet --joblog log 'kill -TERM $$ #' ::: 1 2 3; echo $?; "
                      "tail -n +2 log | cut -f 7,8");
    CHECK_STR(r.out, "3\n0\t15\n0\t15\n0\t15\n");
}

TEST(a_task_whose_command_got_a_signal_is_tried_again)
{
    struct ran r = sh("gpu-dispatch run --gpus sim:1 --quiet --retries 2 '[ -e {} ] && echo done || { touch {}; kill "
                      "-TERM $$; }' ::: 1 2");
    CHECK_STR(r.out, "done\ndone\n");
    CHECK_EQ(r.status, 0);
}

TEST(the_failure_that_triggers_halt_is_recorded)
{
    need_journal();
    struct ran r =
        sh("gpu-dispatch run --gpus sim:1 --quiet --journal run.db --halt now,fail=1 'exit 7 #' ::: 1 2 3; echo $?");
    CHECK_STR(r.out, "7\n");
    CHECK_STR(sh(FAILED).out, "1\n");
}

TEST_MAIN()
