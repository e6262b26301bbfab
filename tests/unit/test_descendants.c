/* Descendants that have left their process group are found and signalled, whatever state the heap is in. */
#include "proc/descendants.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

static void needs_children_files(void)
{
    if (access("/proc/thread-self/children", R_OK) < 0)
        SKIP("this kernel does not say whose child a process is");
}

_Noreturn static void wait_to_be_killed(void)
{
    for (;;)
        pause();
}

/* A child that waits to be killed; away: in a group of its own. */
static pid_t start(bool away)
{
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        wait_to_be_killed();
    }
    if (away)
        CHECK_EQ(setpgid(pid, pid), 0);
    return pid;
}

static int signal_that_ended(pid_t pid)
{
    int status = 0;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(who_left_the_group_is_signalled)
{
    needs_children_files();
    const pid_t away = start(true);
    CHECK_EQ(gd__descendants_signal(getpid(), SIGUSR1, false), 1);
    CHECK_EQ(signal_that_ended(away), SIGUSR1);
}

TEST(who_stayed_is_left_to_the_groups_signal)
{
    needs_children_files();
    const pid_t stayed = start(false);
    CHECK_EQ(gd__descendants_signal(getpid(), SIGKILL, false), 0);
    CHECK_EQ(kill(stayed, SIGTERM), 0);
    CHECK_EQ(signal_that_ended(stayed), SIGTERM);
}

TEST(nobody_is_nobody)
{
    CHECK_EQ(gd__descendants_signal(getpid(), SIGKILL, false), 0);
}

/* --- without a heap ------------------------------------------------------------------- */

/* Takes all that malloc() has, down to the smallest piece. */
static void use_up_the_heap(void)
{
    struct rlimit none = { 0 };
    if (getrlimit(RLIMIT_AS, &none) < 0)
        _exit(2);
    none.rlim_cur = 1;
    if (setrlimit(RLIMIT_AS, &none) < 0)
        _exit(2);
    for (size_t size = (size_t)1 << 20; size >= 16;) {
        void *volatile piece = malloc(size);
        if (!piece)
            size /= 2;
    }
}

/* Its own child is away; the heap is gone: found all the same? */
_Noreturn static void find_without_a_heap(void)
{
    const pid_t away = fork();
    if (away == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        wait_to_be_killed();
    }
    if (away < 0 || setpgid(away, away) < 0)
        _exit(2);
    use_up_the_heap();
    _exit(gd__descendants_signal(getpid(), SIGKILL, false) == 1 ? 0 : 1);
}

TEST(no_memory_is_needed)
{
    needs_children_files();
    if (TEST_SLOWDOWN > 1)
        SKIP("a sanitizer's memory has no such limit");
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        find_without_a_heap();
    int status = 0;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
}

TEST_MAIN()
