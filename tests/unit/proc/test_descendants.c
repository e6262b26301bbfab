/* Descendants that have left their process group are found and get the signal. This needs no heap memory. */
#include "proc/descendants.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/child.h"
#include "support/test.h"

static void needs_children_files(void)
{
    if (access("/proc/thread-self/children", R_OK) < 0)
        SKIP("this kernel has no /proc/PID/task/TID/children");
}

_Noreturn static void wait_to_be_killed(void)
{
    for (;;)
        pause();
}

/* Starts a child that waits to be killed. If `away` is set, the child has its own process group. */
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

TEST(processes_that_left_the_group_are_signalled)
{
    needs_children_files();
    const pid_t away = start(true);
    CHECK_EQ(gd__descendants_signal(getpid(), SIGUSR1, false), 1);
    CHECK_EQ(signal_that_ended(away), SIGUSR1);
}

TEST(processes_in_the_group_get_no_second_signal)
{
    needs_children_files();
    const pid_t stayed = start(false);
    CHECK_EQ(gd__descendants_signal(getpid(), SIGKILL, false), 0);
    CHECK_EQ(kill(stayed, SIGTERM), 0);
    CHECK_EQ(signal_that_ended(stayed), SIGTERM);
}

TEST(no_descendants_is_not_an_error)
{
    CHECK_EQ(gd__descendants_signal(getpid(), SIGKILL, false), 0);
}

/* --- without a heap ------------------------------------------------------------------- */

/* Allocates all memory that malloc() can give, in smaller and smaller pieces. */
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

/* Starts a child in another group and uses up the heap. Exits with 0 if the child is still found. */
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
        SKIP("the memory of a sanitizer cannot be limited");
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        find_without_a_heap();
    int status = 0;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
}

/* --- no process is left stopped --------------------------------------------------------- */

enum { STEPS = 10000, TRIES = 500, SURELY_MS = 5000 };

/* Joins and leaves the group of its parent again and again, until a little after the parent has ended. */
_Noreturn static void dance(pid_t parent)
{
    for (int more = 0; more < STEPS; more += getppid() != parent) {
        (void)setpgid(0, 0);
        (void)setpgid(0, parent);
    }
    _exit(0);
}

static void end_at_once(int signal)
{
    (void)signal;
    kill(getpid(), SIGKILL);
}

/* Leads a group. Ends when one of its children ends. */
_Noreturn static void lead(int out)
{
    const pid_t self = getpid();
    if (setpgid(0, 0) < 0)
        _exit(2);
    start(true);
    const pid_t dancer = fork();
    if (dancer == 0)
        dance(self);
    signal(SIGCHLD, end_at_once);
    if (write(out, &dancer, sizeof dancer) != sizeof dancer)
        _exit(2);
    wait_to_be_killed();
}

static int pidfd_of(pid_t pid)
{
    const int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    CHECK(fd >= 0);
    return fd;
}

/* Returns true if the process stays stopped. Otherwise it is killed or ends by itself. */
static bool is_left_stopped(pid_t pid)
{
    siginfo_t info = { 0 };
    struct pollfd end = { .fd = pidfd_of(pid), .events = POLLIN };
    CHECK_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED | WSTOPPED | WNOWAIT), 0);
    const bool stopped = info.si_code == CLD_STOPPED && poll(&end, 1, SURELY_MS * TEST_SLOWDOWN) == 0;
    kill(pid, SIGKILL);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    close(end.fd);
    return stopped;
}

/* Kills a group while its leader dies and a process leaves the group. Returns true if that process is left stopped. */
static bool kill_a_dancing_group(void)
{
    int ends[2];
    pid_t dancer;
    struct gd__exit e;
    CHECK_EQ(pipe(ends), 0);
    const pid_t leader = fork();
    CHECK(leader >= 0);
    if (leader == 0)
        lead(ends[1]);
    CHECK_EQ(read(ends[0], &dancer, sizeof dancer), sizeof dancer);
    struct gd__child c = { .pid = leader, .pidfd = pidfd_of(leader) };
    struct pollfd end = { .fd = c.pidfd, .events = POLLIN };
    gd__child_signal(&c, SIGKILL);
    CHECK_EQ(poll(&end, 1, -1), 1);
    CHECK_EQ(gd__child_reap(&c, &e), 1);
    const bool left = is_left_stopped(dancer);
    while (waitpid(-1, NULL, 0) > 0) /* reap the process in another group */
        ;
    close(ends[0]);
    close(ends[1]);
    return left;
}

/* The race takes about a microsecond, so try many times. */
TEST(a_process_that_leaves_a_dying_group_is_not_left_stopped)
{
    needs_children_files();
    CHECK_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    for (int i = 0; i < TRIES; i++)
        CHECK(!kill_a_dancing_group());
}

TEST_MAIN()
