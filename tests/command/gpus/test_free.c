/* SPDX-License-Identifier: MIT
 *
 * --gpus free, with several real runs at the same time on two simulated devices. Tasks report through a FIFO that they
 * have begun, and wait at another to be released. Messages go to a third FIFO. So a test knows how far a run is. */
#include "command/common.h"
#include "support/fifo.h"

#define ENV  "export GPU_DISPATCH_LOCKS=$PWD GPU_DISPATCH_SIM=2; exec "
#define HOLD " --quiet 'echo {gpu} > begun; read x < go #' ::: a"

static int begun, said, go;

static void open_fifos(void)
{
    begun = fifo("begun");
    said = fifo("said");
    go = fifo("go");
}

/* A run whose task has begun. gpu gets the device that it runs on. */
static struct sh_running hold(const char *gpus, char gpu[16])
{
    char script[256];
    snprintf(script, sizeof script, ENV "gpu-dispatch run --gpus %s" HOLD, gpus);
    const struct sh_running r = sh_start_script(script);
    read_line(begun, gpu, 16);
    return r;
}

static struct ran let_go(struct sh_running r)
{
    CHECK_EQ(write(go, "\n", 1), 1);
    return sh_wait(r);
}

/* A run that waits. line gets what it printed. */
static struct sh_running start_waiting(const char *rest, char *line, size_t size)
{
    char script[256];
    snprintf(script, sizeof script, ENV "gpu-dispatch run --quiet %s 2> said", rest);
    const struct sh_running r = sh_start_script(script);
    read_line(said, line, size);
    return r;
}

TEST(two_runs_never_share_and_a_third_one_waits_until_a_device_is_free)
{
    char a[16], b[16], line[1024], who[128];
    open_fifos();
    struct sh_running first = hold("free:1", a), second = hold("free:1", b);
    CHECK_STR(a, "0");
    CHECK_STR(b, "1");
    struct sh_running third = start_waiting("--gpus free:1 'echo {gpu} #' ::: a", line, sizeof line);
    snprintf(who, sizeof who, "gpu-dispatch: waiting for 1 free GPU: GPU 0 is held by process %d (", (int)first.pid);
    CHECK_CONTAINS(line, who);
    snprintf(who, sizeof who, "; GPU 1 is held by process %d (", (int)second.pid);
    CHECK_CONTAINS(line, who);
    CHECK_CONTAINS(line, "gpu-dispatch run --gpus free:1");
    CHECK_EQ(write(go, "\n", 1), 1); /* one of the two ends, whichever reads it */
    struct ran r = sh_wait(third);
    CHECK_EQ(r.status, 0);
    CHECK(strcmp(r.out, "0\n") == 0 || strcmp(r.out, "1\n") == 0);
    CHECK_EQ(write(go, "\n", 1), 1);
    CHECK_EQ(sh_wait(first).status, 0);
    CHECK_EQ(sh_wait(second).status, 0);
}

TEST(kill_9_of_a_run_frees_its_device_at_once)
{
    char gpu[16], line[1024];
    open_fifos();
    struct sh_running held = hold("free:2", gpu);
    struct sh_running next = start_waiting("--gpus free:2 echo ::: a", line, sizeof line);
    CHECK_EQ(kill(held.pid, SIGKILL), 0);
    struct ran r = sh_wait(next);
    CHECK_EQ(r.status, 0);
    CHECK_STR(r.out, "a\n");
    CHECK_EQ(sh_wait(held).status, 128 + SIGKILL);
}

static void check_signal_ends_the_wait(int number)
{
    char gpu[16], line[1024];
    open_fifos();
    struct sh_running held = hold("free:2", gpu);
    struct sh_running next = start_waiting("--gpus free:1 true ::: a", line, sizeof line);
    CHECK_EQ(kill(next.pid, number), 0);
    read_line(said, line, sizeof line);
    CHECK_CONTAINS(line, "gpu-dispatch: interrupted while waiting for 1 free GPU: GPU 0 is held by process ");
    CHECK_EQ(sh_wait(next).status, 128 + number);
    CHECK_EQ(let_go(held).status, 0);
}

TEST(ctrl_c_ends_the_wait_with_a_message)
{
    check_signal_ends_the_wait(SIGINT);
}

TEST(sigterm_ends_the_wait_with_a_message)
{
    check_signal_ends_the_wait(SIGTERM);
}

TEST(a_run_that_was_given_the_last_device_after_a_wait_can_still_be_interrupted)
{
    char gpu[16], line[1024];
    open_fifos();
    struct sh_running held = hold("free:2", gpu);
    struct sh_running next = start_waiting("--gpus free:2" HOLD, line, sizeof line);
    CHECK_EQ(let_go(held).status, 0);
    read_line(begun, gpu, sizeof gpu);
    CHECK_EQ(kill(next.pid, SIGINT), 0);
    CHECK_EQ(let_go(next).status, 130);
}

TEST(auto_leaves_the_devices_of_other_runs_alone)
{
    char gpu[16];
    open_fifos();
    struct sh_running held = hold("free:1", gpu);
    struct ran r = sh(ENV "gpu-dispatch run --quiet -k 'echo {gpu} #' ::: a b");
    CHECK_STR(r.out, "1\n1\n");
    CHECK_CONTAINS(r.err, "gpu-dispatch: GPU 0 is held by process ");
    CHECK_CONTAINS(r.err, ", and is left out\n");
    CHECK_EQ(r.status, 0);
    CHECK_EQ(let_go(held).status, 0);
}

TEST(a_device_by_number_is_refused_if_another_run_holds_it)
{
    char gpu[16], who[64];
    open_fifos();
    struct sh_running held = hold("free:1", gpu);
    struct ran r = sh(ENV "gpu-dispatch run --gpus 0 true ::: a");
    snprintf(who, sizeof who, "gpu-dispatch: --gpus 0: GPU 0 is held by process %d (", (int)held.pid);
    CHECK_CONTAINS(r.err, who);
    CHECK_EQ(count_lines(r.err), 1);
    CHECK_EQ(r.status, 255);
    CHECK_PRINTS(sh(ENV "gpu-dispatch run --gpus 0 --ignore-gpu-locks --quiet 'echo {gpu} #' ::: a"), "0\n");
    CHECK_EQ(let_go(held).status, 0);
}

TEST(a_run_on_shared_devices_is_waited_for)
{
    char gpu[16], line[1024];
    open_fifos();
    struct sh_running held = hold("0", gpu);
    struct sh_running next = start_waiting("--gpus free:2 'echo {gpu} #' ::: a", line, sizeof line);
    CHECK_CONTAINS(line, "waiting for 2 free GPUs (1 free now): GPU 0 is held by process ");
    CHECK_EQ(let_go(held).status, 0);
    CHECK_EQ(sh_wait(next).status, 0);
}

TEST(a_process_that_computes_is_waited_for)
{
    char line[1024];
    open_fifos();
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        for (;;)
            pause();
    char script[256];
    snprintf(
        script, sizeof script,
        "export GPU_DISPATCH_LOCKS=$PWD GPU_DISPATCH_SIM=1,pid=%d; exec gpu-dispatch run --quiet --gpus free 'echo "
        "{gpu} #' ::: a 2> said",
        (int)pid);
    struct sh_running next = sh_start_script(script);
    read_line(said, line, sizeof line);
    CHECK_CONTAINS(line, "waiting for 1 free GPU: GPU 0 is used by process ");
    CHECK_EQ(kill(pid, SIGKILL), 0);
    CHECK_STR(sh_wait(next).out, "0\n");
}

TEST(workers_and_their_commands_do_not_keep_the_lock)
{
    /* The command goes on after its run was killed. */
    char gpu[16];
    open_fifos();
    struct sh_running held = sh_start_script(
        ENV "gpu-dispatch run --gpus free:2 --quiet 'setsid sh -c \"echo on > begun; read x < go\" #' ::: a");
    read_line(begun, gpu, sizeof gpu);
    CHECK_EQ(kill(held.pid, SIGKILL), 0);
    CHECK_EQ(sh_wait(held).status, 128 + SIGKILL);
    CHECK_PRINTS(sh(ENV "gpu-dispatch run --gpus free:2 --quiet echo ::: a"), "a\n");
}

TEST(a_task_may_dispatch_on_the_device_of_its_own_run)
{
    CHECK_PRINTS(
        sh(ENV "gpu-dispatch run --quiet --gpus free 'gpu-dispatch run --quiet echo inner ::: {} #' ::: 1 2>&1"),
        "inner 1\n");
}

TEST(the_devices_that_are_free_are_listed)
{
    char gpu[16];
    open_fifos();
    struct sh_running held = hold("free:1", gpu);
    CHECK_PRINTS(sh("export GPU_DISPATCH_LOCKS=$PWD GPU_DISPATCH_SIM=3; gpu-dispatch gpus --gpus free --json | grep -o "
                    "'\"id\":[0-9]'"),
                 "\"id\":1\n\"id\":2\n");
    CHECK_EQ(let_go(held).status, 0);
}

TEST(if_no_device_is_free_the_list_is_empty_and_the_status_is_1)
{
    struct ran r = sh("GPU_DISPATCH_SIM=1,memory=16G,free=1G gpu-dispatch gpus --gpus free");
    CHECK_EQ(r.status, 1);
    CHECK_STR(r.out, "");
    CHECK_STR(r.err, "gpu-dispatch: --gpus free: no GPU is free now\n");
    r = sh("GPU_DISPATCH_SIM=1,memory=16G,free=1G gpu-dispatch gpus --gpus free --json");
    CHECK_EQ(r.status, 1);
    CHECK_STR(r.out, "[]\n");
}

TEST(a_dry_run_waits_for_nothing)
{
    char gpu[16];
    open_fifos();
    struct sh_running held = hold("free", gpu);
    CHECK_PRINTS(sh(ENV "gpu-dispatch run --gpus free:2 --dry-run echo ::: a"), "echo a\n");
    CHECK_EQ(let_go(held).status, 0);
}

TEST(the_map_of_workers_names_free_devices_too)
{
    CHECK_CONTAINS(sh(ENV "gpu-dispatch run --gpus free:1 -v true ::: a").err, "worker 0: GPU 0, Simulated GPU, GPU-");
}

TEST(more_devices_than_there_are_is_refused)
{
    CHECK_REFUSED(sh(ENV "gpu-dispatch run --gpus free:3 true ::: a"),
                  "gpu-dispatch: --gpus free:3: 3 free GPUs were asked for, but only 2 can be used here");
}

TEST(free_devices_and_ignored_locks_exclude_each_other)
{
    struct ran r = sh(ENV "gpu-dispatch run --gpus free --ignore-gpu-locks true ::: a");
    CHECK_EQ(r.status, 255);
    CHECK_CONTAINS(r.err, "free GPUs cannot be chosen if locks are ignored (--ignore-gpu-locks)");
}

TEST_MAIN()
