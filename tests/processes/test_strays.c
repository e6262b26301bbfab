/* A worker may start processes in another session or process group (strays). If the worker is killed, its strays end
 * before the task's next attempt. Other processes are not ended: children of the dispatching program, and daemons of
 * commands that succeeded. */
#include "command/common.h"
#include "support/world.h"

static void need_setsid(void)
{
    if (sh("setsid true").status != 0)
        SKIP("no setsid");
}

/* --- the option `orphans` of the library --- */

static bool exists(pid_t pid)
{
    return kill(pid, 0) == 0 || errno != ESRCH;
}

static pid_t start_own_child(void)
{
    const pid_t pid = fork();
    CHECK_GE(pid, 0);
    if (pid == 0) {
        setsid();
        for (;;)
            pause();
    }
    return pid;
}

static void stray_is_gone(struct world *w, const struct gd_report *r)
{
    if (w->orders[r->task_id].what == W_STRAY)
        CHECK(!exists((pid_t)atomic_load(&w->page->grandchild))); /* not even as a zombie */
}

static void run_with_strays(enum gd_orphans orphans)
{
    struct world w;
    world_open(&w, 2);
    const pid_t own = start_own_child();
    w.leaves_children = 1;
    w.o.orphans = orphans;
    w.on_final = stray_is_gone;
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO });
    world_add(&w, (struct world_order){ .what = W_STRAY, .tries = 1 });
    world_add_many(&w, 20, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(world_callbacks(&w, 'S'), 41);
    CHECK_EQ(w.finals[20].attempt, 2);
    CHECK(exists(own));
    kill(own, SIGKILL);
    CHECK_EQ(waitpid(own, NULL, 0), own);
    world_close(&w);
}

TEST(a_stray_is_gone_before_the_next_attempt)
{
    run_with_strays(GD_ORPHANS_END);
}

TEST(a_stray_is_gone_if_all_orphans_are_reaped)
{
    run_with_strays(GD_ORPHANS_REAP);
}

/* The run restores the settings of the program. */
TEST(orphans_are_not_adopted_after_the_run)
{
    struct world w;
    int before = -1, after = -1;
    sigset_t mask;
    CHECK_EQ(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
    CHECK_EQ(prctl(PR_GET_CHILD_SUBREAPER, &before), 0);
    world_open(&w, 1);
    w.o.orphans = GD_ORPHANS_REAP;
    world_add(&w, (struct world_order){ .what = W_ECHO });
    CHECK_EQ(world_run(&w), 0);
    CHECK_EQ(prctl(PR_GET_CHILD_SUBREAPER, &after), 0);
    CHECK_EQ(after, before);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
    CHECK(!sigismember(&mask, SIGCHLD));
    world_close(&w);
}

TEST(an_invalid_value_is_refused)
{
    struct world w;
    world_open(&w, 1);
    w.o.orphans = (enum gd_orphans)3;
    CHECK_EQ(gd_run(&w.o), GD_E_INVALID);
    CHECK_CONTAINS(gd_error_text(), "orphans is 3");
    world_close(&w);
}

/* --- the command --- */

#define ONE   "gpu-dispatch run --gpus sim:1 --quiet "
#define FIRST "test $GPU_DISPATCH_ATTEMPT = 1"
#define SAY   "kill -0 $(cat stray) 2> /dev/null && echo beside it || echo alone"

/* The argument is a shell command that runs stray.sh. This script writes its process id to the FIFO "up" and never ends
 * by itself. */
static void check_stray(const char *stray)
{
    need_setsid();
    struct ran r = sh("mkfifo up never; " ONE "'if " FIRST "; then %s & read x < up; echo $x > stray; "
                      "kill -9 $PPID; wait; else " SAY "; fi #' ::: 1",
                      stray);
    CHECK_STR(r.out, "alone\n");
    CHECK_EQ(r.status, 0);
}

static void write_stray(void)
{
    sh("echo 'echo $$ > up; exec cat never' > stray.sh");
}

TEST(a_stray_in_its_own_session)
{
    write_stray();
    check_stray("setsid sh stray.sh");
}

TEST(a_stray_in_its_own_process_group)
{
    write_stray();
    if (sh("timeout 1000 true").status != 0)
        SKIP("no timeout");
    check_stray("timeout 1000 sh stray.sh");
}

/* A child of the stray clears its environment. It still ends together with the stray. */
TEST(a_child_of_a_stray_with_a_cleared_environment)
{
    write_stray();
    check_stray("setsid sh -c \"env -i sh stray.sh; true\"");
}

/* A command starts a daemon and succeeds. The daemon keeps running when the worker is killed later. When the daemon
 * ends, it is reaped. */
TEST(a_daemon_of_a_command_that_succeeded_keeps_running)
{
    need_setsid();
    struct ran r =
        sh("mkfifo up go; echo 'echo $$ > up; read x < go; echo stayed >> said' > daemon.sh; " ONE "'case {} in "
           "1) setsid sh daemon.sh > /dev/null 2>&1 & read x < up; echo $x > daemon;; "
           "2) if " FIRST "; then kill -9 $PPID; wait; fi; kill -0 $(cat daemon) && echo there;; "
           "3) echo > go; while kill -0 $(cat daemon) 2> /dev/null; do :; done; cat said;; esac #' "
           "::: 1 2 3");
    CHECK_STR(r.out, "there\nstayed\n");
    CHECK_EQ(r.status, 0);
}

WORLD_MAIN()
