/* SPDX-License-Identifier: MIT
 *
 * Commands that leave their process group, as timeout(1), setsid(1) and a shell with job control do. Each of their
 * processes holds a FIFO open for writing. A reader sees end of file when the last of them is gone.
 */
#include "common.h"

#include <poll.h>
#include <sys/ioctl.h>

static int fifo(const char *name, int flags)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", sh_dir(), name);
    CHECK(mkfifo(path, 0600) == 0 || errno == EEXIST);
    int fd = open(path, flags | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

struct held {
    struct sh_running running; /* its pid is that of the command itself */
    int begun, alive,
        own; /* own: a writing end of the test, so that a reader gets end of file even if no task opened the FIFO */
};

/* Starts two tasks. */
static struct held start(const char *options, const char *command)
{
    struct held h = { .begun = fifo("begun", O_RDWR), .alive = fifo("alive", O_RDONLY | O_NONBLOCK) };
    char script[1024];
    h.own = fifo("alive", O_WRONLY);
    snprintf(script, sizeof script,
             "exec gpu-dispatch run --gpus sim:2 --quiet %s 'exec 9> alive; %s #' ::: 1 2 2> /dev/null", options,
             command);
    h.running = sh_start_script(script);
    return h;
}

/* Waits until both tasks run. */
static struct held start_both(const char *options, const char *command)
{
    struct held h = start(options, command);
    char both[4];
    for (size_t n = 0; n < sizeof both;) {
        ssize_t got = read(h.begun, both, sizeof both - n);
        CHECK_GT(got, 0);
        n += (size_t)got;
    }
    return h;
}

/* Waits until no process holds the FIFO. Only the case's time limit limits the wait. */
static void check_gone(const struct held *h)
{
    struct pollfd p = { .fd = h->alive, .events = POLLIN };
    close(h->own);
    CHECK_EQ(poll(&p, 1, -1), 1);
    CHECK(p.revents & POLLHUP);
}

#define GROUP   "timeout 4321 sh -c \"echo 1 > begun; exec sleep 4321\"; :"
#define SESSION "setsid -w sh -c \"echo 1 > begun; exec sleep 4322\"; :"
#define ITSELF  "exec setsid sh -c \"echo 1 > begun; exec sleep 4323\""
#define JOB     "set -m; sh -c \"echo 1 > begun; exec sleep 4324\"; :"

static const char *const commands[] = { GROUP, SESSION, ITSELF, JOB };

/* Whether both tasks had begun before their time limit was exceeded. */
static bool timed_out_within(const char *command, double timeout_s)
{
    char options[64];
    int begun = 0;
    snprintf(options, sizeof options, "--timeout %g --term-grace 0.5", timeout_s);
    struct held h = start(options, command);
    CHECK_EQ(sh_wait(h.running).status, 2);
    check_gone(&h);
    CHECK_EQ(ioctl(h.begun, FIONREAD, &begun), 0);
    close(h.begun);
    close(h.alive);
    return begun == 4;
}

/* If the machine is too busy to begin both tasks in time, tries again with a longer time limit. */
static void check_timeout(const char *command)
{
    for (double timeout_s = 0.5; !timed_out_within(command, timeout_s); timeout_s *= 2)
        ;
}

TEST(a_separate_group_ends_at_the_time_limit)
{
    check_timeout(commands[0]);
}

TEST(a_separate_session_ends_at_the_time_limit)
{
    check_timeout(commands[1]);
}

TEST(a_command_that_leads_a_session_ends_at_the_time_limit)
{
    check_timeout(commands[2]);
}

TEST(a_job_of_a_shell_ends_at_the_time_limit)
{
    check_timeout(commands[3]);
}

TEST(a_process_that_ignores_sigterm_is_killed_in_its_own_group)
{
    check_timeout("timeout 4325 sh -c \"trap : TERM; echo 1 > begun; while :; do sleep 4325; done\"; :");
}

static void check_dispatcher_killed(const char *command)
{
    struct held h = start_both("", command);
    CHECK_EQ(kill(h.running.pid, SIGKILL), 0);
    CHECK_EQ(sh_wait(h.running).status, 128 + SIGKILL);
    check_gone(&h);
}

TEST(a_separate_group_ends_with_a_killed_dispatcher)
{
    check_dispatcher_killed(commands[0]);
}

TEST(a_separate_session_ends_with_a_killed_dispatcher)
{
    check_dispatcher_killed(commands[1]);
}

TEST(halt_now_ends_a_separate_group)
{
    int go = fifo("go", O_RDWR);
    struct held h = start_both("--halt now,done=1", "[ {} = 1 ] && { echo 1 > begun; read x < go; exit 1; }; " GROUP);
    CHECK_EQ(write(go, "1\n", 2), 2);
    (void)sh_wait(h.running);
    check_gone(&h);
}

TEST(processes_left_in_another_group_end_with_the_run)
{
    struct held h = start_both("", "mkfifo r{}; timeout 4326 sh -c \"echo > r{}; exec sleep 4326\" & read x < r{}; "
                                   "echo 1 > begun");
    CHECK_EQ(sh_wait(h.running).status, 0);
    check_gone(&h);
}

/* If a command that succeeded leaves a process in its own session, that process stays. It answers after the run. */
TEST(a_daemon_stays)
{
    struct ran r = sh("mkfifo begun go done; " RUN
                      "'setsid -f sh -c \"echo > begun; read x < go; echo stayed > done\"; read x < begun #' ::: 1; "
                      "echo > go; cat done");
    CHECK_STR(r.out, "stayed\n");
    CHECK_EQ(r.status, 0);
}

TEST_MAIN()
