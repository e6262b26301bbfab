/* SPDX-License-Identifier: MIT
 *
 * The hooks that other tests use: only the nth call fails, and a worker dies at the chosen kill point.
 */
#include "support/test.h"

#include "base/fault.h"

#ifndef GD_TEST_HOOKS
TEST(hooks_are_compiled_out)
{
    CHECK(!GD__FAULT("any"));
    GD__KILL_POINT("any");
}
#else

static int first_failure(int calls)
{
    for (int i = 1; i <= calls; i++) {
        errno = 0;
        if (gd__fault("call")) {
            CHECK_EQ(errno, ENOMEM);
            return i;
        }
    }
    return 0;
}

/* Runs a worker with this many restarts, which passes the kill points a, b, a, b. Returns the number of the point (1 to
 * 4) at which it died, or 0 if it did not die. */
static int dies_at(unsigned restarts)
{
    int pipes[2];
    CHECK_EQ(pipe(pipes), 0);
    pid_t pid = fork();
    if (pid == 0) {
        static const char *const names[] = { "a", "b", "a", "b" };
        gd__fault_worker(restarts);
        for (int i = 0; i < 4; i++) {
            CHECK_EQ(write(pipes[1], "", 1), 1);
            gd__kill_point(names[i]);
        }
        _exit(0);
    }
    close(pipes[1]);
    int status;
    char passed[8];
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    int n = (int)read(pipes[0], passed, sizeof passed);
    close(pipes[0]);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? n : 0;
}

TEST(no_call_fails_by_default)
{
    CHECK_EQ(first_failure(100), 0);
}

TEST(only_the_nth_call_fails)
{
    gd__fault_begin(3);
    CHECK_EQ(first_failure(10), 3);
    CHECK_EQ(first_failure(100), 0);
    CHECK_EQ(gd__fault_count(), 103);
    gd__fault_begin(1);
    CHECK_EQ(first_failure(10), 1);
    gd__fault_begin(0);
    CHECK_EQ(first_failure(10), 0);
}

TEST(a_worker_has_its_own_count)
{
    setenv("GD_FAULT_WORKER", "2", 1);
    CHECK_EQ(first_failure(10), 0);
    gd__fault_worker(0);
    CHECK_EQ(first_failure(10), 2);
}

TEST(faults_set_for_the_dispatcher_do_not_reach_workers)
{
    gd__fault_begin(2);
    gd__fault_worker(0);
    CHECK_EQ(first_failure(10), 0);
}

TEST(a_worker_dies_at_the_chosen_point)
{
    CHECK_EQ(dies_at(0), 0);
    setenv("GD_KILL", "b", 1);
    CHECK_EQ(dies_at(0), 2);
    setenv("GD_KILL", "b:2", 1);
    CHECK_EQ(dies_at(0), 4);
    setenv("GD_KILL", "b:3", 1);
    CHECK_EQ(dies_at(0), 0);
    setenv("GD_KILL", "c", 1);
    CHECK_EQ(dies_at(0), 0);
}

TEST(the_replacement_of_a_killed_worker_does_not_die_by_default)
{
    setenv("GD_KILL", "a", 1);
    CHECK_EQ(dies_at(1), 0);
    setenv("GD_KILL_ALWAYS", "1", 1);
    CHECK_EQ(dies_at(1), 1);
}

#endif

TEST_MAIN()
