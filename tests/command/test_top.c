/* SPDX-License-Identifier: MIT
 *
 * `gpu-dispatch top`: lists jobs, shows one, in a real terminal and for programs.
 */
#include <gpu_dispatch/journal.h>

#include "tmux.h"

#define TOP "GPU_DISPATCH_JOBS=$PWD/jobs gpu-dispatch top "

/* Starts a run in the background. Its third task waits at the FIFO go.TAG. tag: the name of the run, which is the first
 * word of its command. */
static struct sh_running start_job(const char *tag)
{
    char script[512];
    CHECK_EQ(sh("tag=%s; mkfifo go.$tag begun.$tag; printf '#!/bin/sh\\ncase $1 in wait*) echo > begun.%%s; read x < "
                "go.%%s ;; esac\\n[ $1 != bad ]\\n' $tag $tag > $tag; chmod +x $tag",
                tag)
                 .status,
             0);
    snprintf(
        script, sizeof script,
        "export GPU_DISPATCH_JOBS=$PWD/jobs; exec gpu-dispatch run --quiet --gpus sim:1 ./%s ::: good bad wait rest",
        tag);
    struct sh_running r = sh_start_script(script);
    CHECK_EQ(sh("read x < begun.%s", tag).status, 0);
    /* The page is a little late. Waits until it shows the two tasks that ended and the one that waits. */
    for (const char *seen = "";
         !strstr(seen, "2 of 4 tasks") || !strstr(seen, "1 running\n") || !strstr(seen, "\n  0 processing wait ");)
        seen = sh(TOP "--once ./%s", tag).out;
    return r;
}

static void end_job(struct sh_running r)
{
    let_go("go.task");
    CHECK_EQ(sh_wait(r).status, 1);
}

TEST(no_jobs)
{
    CHECK_PRINTS(sh(TOP), "no jobs are running\n");
    CHECK_PRINTS(sh(TOP "--list"), "no jobs are running\n");
    CHECK_PRINTS(sh(TOP "--list --json"), "[]\n");
    CHECK_EQ(sh(TOP "--once").status, 0);
    struct ran r = sh(TOP "4711");
    CHECK_EQ(r.status, 255);
    CHECK_EQ(strncmp(r.err, "gpu-dispatch: ", 14), 0);
    CHECK_CONTAINS(r.err, "4711");
}

TEST(wrong_arguments)
{
    CHECK_REFUSED(sh(TOP "1 2"), "gpu-dispatch: top shows only one job, or several journals: leave out \"2\"");
}

TEST(one_job)
{
    struct sh_running job = start_job("task");
    struct ran r = sh(TOP "--once");
    CHECK_EQ(r.status, 0);
    CHECK_CONTAINS(r.out, "2 of 4 tasks, 50.0 %");
    CHECK_CONTAINS(r.out, "1 done  1 failed  0 timeouts  1 running\n");
    CHECK_CONTAINS(r.out, "\n  0 processing wait ");
    CHECK_CONTAINS(r.out, "last failure: bad: exited with code 1\n");
    CHECK(!strstr(r.out, "\033"));
    CHECK_STR(sh(TOP "%d --once | head -n 3", (int)job.pid).out, sh(TOP "--once | head -n 3").out);
    struct ran j = sh(TOP "--once --json %d", (int)job.pid);
    CHECK_CONTAINS(j.out, "\"job\":\"./task\"");
    CHECK_CONTAINS(j.out, "\"completed\":1,\"failed\":1");
    CHECK_CONTAINS(sh(TOP "--list").out, "  2 of 4  ./task\n");
    char pid[64];
    snprintf(pid, sizeof pid, "[{\"id\":\"%d\",\"pid\":%d,", (int)job.pid, (int)job.pid);
    CHECK_EQ(strncmp(sh(TOP "--list --json").out, pid, strlen(pid)), 0);
    end_job(job);
    CHECK_PRINTS(sh(TOP "--list"), "no jobs are running\n");
}

/* Tasks that were never tried have not failed. */
TEST(a_job_that_was_interrupted)
{
    struct sh_running job = start_job("task");
    CHECK_EQ(kill(job.pid, SIGINT), 0);
    while (!strstr(sh(TOP "--once").out, "cancelled"))
        ;
    struct ran r = sh(TOP "--once");
    CHECK_CONTAINS(r.out, "2 of 4 tasks, 50.0 %");
    CHECK_CONTAINS(r.out, "1 done  1 failed  0 timeouts  1 cancelled  1 running\n");
    CHECK_CONTAINS(r.out, " - ETA");
    let_go("go.task");
    CHECK_EQ(sh_wait(job).status, 130);
}

TEST(json_until_the_end)
{
    struct sh_running job = start_job("task");
    CHECK_EQ(sh("mkfifo lines").status, 0);
    struct ran r =
        sh(TOP "--json > lines & exec 3< lines; head -n 2 <&3 > two; echo > go.task; cat <&3 | tail -n 1; wait");
    CHECK_CONTAINS(r.out, "\"ended\":true,\"total\":4,\"taken\":4,\"waiting\":0,\"running\":0,\"completed\":3");
    CHECK_EQ(sh("grep -c '\"ended\":false' two").out[0], '2');
    CHECK_EQ(sh_wait(job).status, 1);
}

static void check_top_at(unsigned width)
{
    char name[64];
    need_tmux();
    struct sh_running job = start_job("task");
    open_terminal(width, 20, "");
    type("echo before");
    await_screen("\nbefore");
    type("gpu-dispatch top");
    await_screen("q leaves");
    await_screen("tasks/s now");
    snprintf(name, sizeof name, "top-%u.txt", width);
    await_kept_screen(name);
    CHECK_STR(sh(TMUX "display -p -t t '#{alternate_on}#{cursor_flag}'").out, "10\n");
    press("q");
    await_screen("\nbefore");
    type("stty -a | grep -ow '[-]*echo' && stty -a | grep -ow '[-]*icanon'");
    await_screen("\necho\nicanon");
    CHECK_EQ(count_on_screen("2 of 4 tasks"), 0);
    await_clean();
    end_job(job);
}

TEST(a_screen_of_40_columns)
{
    check_top_at(40);
}

TEST(a_screen_of_80_columns)
{
    check_top_at(80);
}

TEST(a_screen_of_200_columns)
{
    check_top_at(200);
}

TEST(resizing)
{
    need_tmux();
    struct sh_running job = start_job("task");
    open_terminal(200, 20, "");
    type("gpu-dispatch top");
    await_screen("Device");
    resize(40, 12);
    await_no("Device");
    await_screen("q leaves");
    await_count("2 of 4 tasks", 1);
    press("C-c");
    await_screen("$ ");
    await_no("q leaves");
    await_clean();
    end_job(job);
}

TEST(top_ends_with_the_job)
{
    need_tmux();
    struct sh_running job = start_job("task");
    open_terminal(80, 20, "");
    type("gpu-dispatch top; echo status $?");
    await_screen("q leaves");
    end_job(job);
    await_screen("status 0");
    CHECK_CONTAINS(look(""), "\n4 of 4 tasks, 100.0 %, ended");
    CHECK_CONTAINS(look(""), "\n3 done  1 failed  0 timeouts\n");
    await_clean();
}

TEST(top_ends_with_a_job_that_is_killed)
{
    need_tmux();
    struct sh_running job = start_job("task");
    open_terminal(80, 20, "");
    type("gpu-dispatch top; echo status $?");
    await_screen("q leaves");
    CHECK_EQ(kill(job.pid, SIGKILL), 0);
    CHECK_EQ(sh_wait(job).status, 137);
    await_screen("\nstatus "); /* the output, not the line that was typed */
    CHECK_CONTAINS(look(""), "2 of 4 tasks");
    await_clean();
}

TEST(terminated)
{
    need_tmux();
    struct sh_running job = start_job("task");
    open_terminal(80, 20, "");
    type("sh -c 'echo $$ > pid; exec gpu-dispatch top'; stty -a | grep -ow '[-]*echo'");
    await_screen("q leaves");
    CHECK_EQ(sh("kill $(cat pid)").status, 0);
    await_screen("\necho");
    await_clean();
    end_job(job);
}

TEST(ctrl_z_and_fg)
{
    need_tmux();
    struct sh_running job = start_job("task");
    open_terminal(80, 20, "");
    type("gpu-dispatch top");
    await_screen("q leaves");
    press("C-z");
    await_screen("Stopped");
    await_clean();
    type("stty -a | grep -ow '[-]*echo'");
    await_screen("\necho");
    type("fg");
    await_screen("q leaves");
    press("q");
    await_no("q leaves");
    await_clean();
    end_job(job);
}

TEST(choosing)
{
    need_tmux();
    struct sh_running one = start_job("one"), two = start_job("two");
    CHECK_CONTAINS(sh(TOP "--once").out, "./one\n");
    CHECK_CONTAINS(sh(TOP "--once").out, "./two\n");
    CHECK_EQ(sh(TOP "--once --json").status, 255);
    CHECK_CONTAINS(sh(TOP "--once ./two").out, " ./two\n");
    open_terminal(80, 20, "");
    type("gpu-dispatch top");
    await_screen("Enter opens");
    await_kept_screen("top-choose.txt");
    press("Down");
    await_screen(">  2 ");
    press("Up");
    await_screen(">  1 ");
    press("2");
    await_screen(">  2 ");
    press("Enter");
    await_screen("2 of 4 tasks");
    await_screen(" ./two\n");
    press("q");
    await_no("2 of 4");
    await_clean();
    let_go("go.one");
    let_go("go.two");
    CHECK_EQ(sh_wait(one).status, 1);
    CHECK_EQ(sh_wait(two).status, 1);
}

/* Two shards wait for lines of a FIFO. When they have ended, their last state stays on the terminal. */
TEST(journals_of_several_runs)
{
    need_tmux();
    if (!gd_journal_available())
        SKIP("built without journals");
    CHECK_EQ(sh("mkfifo p").status, 0);
    struct sh_running job = sh_start_script(
        "exec 3<> p; export GPU_DISPATCH_JOURNAL_MS=1 GPU_DISPATCH_JOBS=$PWD/jobs; for k in 1 2; do "
        "gpu-dispatch run --quiet --gpus sim:1 --shard $k/2 --journal run.db 'read x < p; : {}' ::: $(seq 1 8) & "
        "done; until [ -e end ]; do read x < ends; done; seq 1 8 >&3; wait");
    CHECK_EQ(
        sh("mkfifo ends; until gpu-dispatch status run.1-of-2.db run.2-of-2.db 2> /dev/null | grep -q '2 running'; "
           "do :; done")
            .status,
        0);
    open_terminal(100, 30, "");
    type("gpu-dispatch top run.*.db bad.db; echo status $?");
    await_screen("top shows only one job, or several journals: leave out");
    type("echo no > bad.db; gpu-dispatch top run.*.db bad.db; echo status $?");
    await_screen("2 journals: 2 running; 1 cannot be read");
    await_screen("cannot read bad.db: file is not a database");
    await_screen("q leaves");
    press("q");
    await_screen("status 255");
    type("clear; gpu-dispatch top run.*.db; echo status $?");
    await_screen("2 journals: 2 running");
    CHECK_EQ(sh("touch end; echo > ends").status, 0);
    await_screen("2 journals: 2 finished");
    await_screen("status 0");
    CHECK_CONTAINS(look(""), "of 8, 100.0 %");
    await_clean();
    CHECK_EQ(sh_wait(job).status, 0);
}

TEST_MAIN()
