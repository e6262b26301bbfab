/* SPDX-License-Identifier: MIT
 *
 * Jobs of the command (crash/journal.h) on machines (hosts.h). Each machine has a list of inputs and a log of its
 * workers in its own directory. Journal, output and results are in kept/, on the network file system.
 */
#ifndef GD_TESTS_CLUSTER_FUSE_JOBS_H
#define GD_TESTS_CLUSTER_FUSE_JOBS_H

#include "cluster/fuse/hosts.h"
#include "crash/journal.h"

/* Gives a machine the inputs and an empty log. */
TEST_UNUSED static void jobs_prepare(const struct host *h, const struct job *job)
{
    host_enter(h);
    job_write_inputs(job);
    host_write("log", "");
    host_leave();
}

TEST_UNUSED static pid_t jobs_start(const struct host *h, const struct job *job)
{
    host_enter(h);
    const pid_t pid = job_start(job);
    host_leave();
    return pid;
}

/* Waits until the command and its workers have ended. Returns the exit code, or 128 + signal. */
TEST_UNUSED static int jobs_wait(const struct host *h, pid_t pid)
{
    char path[64];
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    snprintf(path, sizeof path, "%s/log", h->name);
    const int log = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(log >= 0);
    CHECK_EQ(flock(log, LOCK_EX), 0);
    close(log);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_UNUSED static const char *jobs_message(const struct host *h)
{
    host_enter(h);
    const char *text = job_message();
    host_leave();
    return text;
}

TEST_UNUSED static uint64_t jobs_logged(const struct host *h)
{
    char path[64];
    snprintf(path, sizeof path, "%s/log", h->name);
    return job_lines(path);
}

/* Waits until the workers of the machine have logged so many tasks in all, or the process has ended. Returns whether it
 * still runs. */
TEST_UNUSED static bool jobs_await_log(const struct host *h, pid_t pid, uint64_t lines)
{
    char path[64], events[4096];
    bool ended = false;
    const int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), process = (int)syscall(SYS_pidfd_open, pid, 0);
    snprintf(path, sizeof path, "%s/log", h->name);
    CHECK(watch >= 0 && process >= 0);
    CHECK(inotify_add_watch(watch, path, IN_MODIFY) >= 0);
    struct pollfd p[] = { { watch, POLLIN, 0 }, { process, POLLIN, 0 } };
    while (!ended && jobs_logged(h) < lines) {
        CHECK_GT(poll(p, 2, -1), 0);
        if (p[0].revents)
            CHECK_GT(read(watch, events, sizeof events), 0);
        ended = p[1].revents != 0;
    }
    close(watch);
    close(process);
    return !ended;
}

/* How many records the journal has, as the machine sees it. Checks that each is correct and unique. */
TEST_UNUSED static int64_t jobs_committed(const struct host *h, const struct job *job)
{
    host_enter(h);
    const int64_t n = job_committed(job);
    host_leave();
    return n;
}

/* Checks that each input is final once, in the journal and in the output. */
TEST_UNUSED static void jobs_check(const struct host *h, const struct job *job)
{
    host_enter(h);
    CHECK_EQ(job_committed(job), job->n);
    CHECK_EQ(job_check_output(job), job->n);
    if (job->results)
        CHECK_EQ(job_check_results(false), job->n * 3);
    host_leave();
    /* Read on the server: the locks of the mount may not work. */
    CHECK_EQ(symlink(SERVER, "kept"), 0);
    job_check_integrity();
    CHECK_EQ(unlink("kept"), 0);
}

#endif
