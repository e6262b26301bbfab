/* SPDX-License-Identifier: MIT
 *
 * The same run is started on two machines, as by a scheduler that believes the first one dead. One of them runs, and the
 * other waits. Each of them is killed, and one is cut off and comes back after the other has taken over. Each input has
 * one record, and one line in the output.
 */
#include "cluster/fuse/jobs.h"

static struct host a, b;

static const struct job the_job = {
    .n = 400, .burn_us = 1000, .resume = "--resume", .more = { "--lock-wait", "100s" }
};

/* Takes seconds, so that a case can do something in the middle even if it is paused for a while. */
static const struct job slow_job = {
    .n = 400, .burn_us = 20000, .resume = "--resume", .more = { "--lock-wait", "100s" }
};

/* stale_ms: after this time without a heartbeat, a run is given up. */
static void begin(const struct job *job, const char *option, const char *value, unsigned stale_ms)
{
    char text[64];
    if (!gd_journal_available())
        SKIP("built without journals");
    mounts_enter();
    host_begin(&a, "a", option, value);
    host_begin(&b, "b", option, value);
    jobs_prepare(&a, job);
    jobs_prepare(&b, job);
    snprintf(text, sizeof text, "stale_ms=%u", stale_ms);
    setenv("GPU_DISPATCH_LOCK_TEST", text, 1);
}

static void end(const struct job *job)
{
    jobs_check(&b, job);
    host_end(&a);
    host_end(&b);
}

static void expect_success(const struct host *h, pid_t pid)
{
    const int status = jobs_wait(h, pid);
    if (status > 101)
        FAIL("the run on %s ended with %d: %s", h->name, status, jobs_message(h));
}

static void swap_hosts(const struct host **x, const struct host **y)
{
    const struct host *was = *x;
    *x = *y;
    *y = was;
}

/* --- both live --- */

static void start_both(const char *option, const char *value)
{
    begin(&the_job, option, value, 60000);
    const pid_t first = jobs_start(&a, &the_job), second = jobs_start(&b, &the_job);
    expect_success(&a, first);
    expect_success(&b, second);
    CHECK_EQ(jobs_logged(&a) + jobs_logged(&b), the_job.n); /* no task was run twice */
    end(&the_job);
}

TEST_WITHIN(120, twins_with_shared_locks)
{
    start_both("--locks", "shared");
}

TEST_WITHIN(120, twins_with_local_locks)
{
    start_both("--locks", "local");
}

TEST_WITHIN(120, twins_with_stale_files)
{
    start_both("--locks=local", "--stale");
}

/* The second one does not wait. */
static void refuse_second(const char *locks)
{
    struct job hasty = slow_job;
    hasty.more[1] = "0";
    begin(&slow_job, "--locks", locks, 60000);
    const pid_t first = jobs_start(&a, &slow_job);
    CHECK(jobs_await_log(&a, first, 10));
    const pid_t second = jobs_start(&b, &hasty);
    CHECK_EQ(jobs_wait(&b, second), 255);
    CHECK_CONTAINS(jobs_message(&b), "in use");
    CHECK_CONTAINS(jobs_message(&b), " on a");
    expect_success(&a, first);
    CHECK_EQ(jobs_logged(&b), 0);
    end(&slow_job);
}

TEST_WITHIN(120, a_twin_that_does_not_wait_with_shared_locks)
{
    refuse_second("shared");
}

TEST_WITHIN(120, a_twin_that_does_not_wait_with_local_locks)
{
    refuse_second("local");
}

/* --- one is killed --- */

/* The one that runs is killed several times, and its twin goes on each time. */
static void kill_in_turn(const char *locks)
{
    const struct host *runs = &a, *waits = &b;
    begin(&slow_job, "--locks", locks, 500);
    pid_t running = jobs_start(runs, &slow_job), waiting = 0;
    for (int kills = 0; kills < 4; kills++) {
        const bool alive = jobs_await_log(runs, running, jobs_logged(runs) + 50);
        waiting = jobs_start(waits, &slow_job);
        CHECK(alive);
        kill(running, SIGKILL);
        CHECK_EQ(jobs_wait(runs, running), 128 + SIGKILL);
        swap_hosts(&runs, &waits);
        running = waiting;
    }
    expect_success(runs, running);
    end(&slow_job);
}

TEST_WITHIN(120, the_one_that_runs_is_killed_with_shared_locks)
{
    kill_in_turn("shared");
}

TEST_WITHIN(120, the_one_that_runs_is_killed_with_local_locks)
{
    kill_in_turn("local");
}

TEST_WITHIN(120, the_one_that_waits_is_killed)
{
    begin(&slow_job, "--locks", "local", 60000);
    const pid_t first = jobs_start(&a, &slow_job);
    CHECK(jobs_await_log(&a, first, 10));
    const pid_t second = jobs_start(&b, &slow_job);
    CHECK(jobs_await_log(&a, first, 200));
    kill(second, SIGKILL);
    CHECK_EQ(jobs_wait(&b, second), 128 + SIGKILL);
    expect_success(&a, first);
    CHECK_EQ(jobs_logged(&a), slow_job.n);
    end(&slow_job);
}

/* --- one is cut off --- */

/* The server still has the lock of the machine that is cut off, so the other one gives up. */
TEST_WITHIN(120, a_machine_that_is_cut_off_keeps_its_shared_lock)
{
    struct job hasty = slow_job;
    hasty.more[1] = "2s";
    begin(&slow_job, "--locks", "shared", 500);
    const pid_t first = jobs_start(&a, &slow_job);
    CHECK(jobs_await_log(&a, first, 100));
    mount_tell(&a.mount, "cut");
    const pid_t second = jobs_start(&b, &hasty);
    CHECK_EQ(jobs_wait(&b, second), 255);
    mount_tell(&a.mount, "mend");
    expect_success(&a, first);
    end(&slow_job);
}

/* The machine comes back when the other one has done everything, or is in the middle. */
static void come_back(const char *option, const char *value, bool in_the_middle)
{
    begin(&slow_job, option, value, 500);
    const pid_t first = jobs_start(&a, &slow_job);
    CHECK(jobs_await_log(&a, first, 100));
    mount_tell(&a.mount, "cut");
    const pid_t second = jobs_start(&b, &slow_job);
    if (in_the_middle)
        CHECK(jobs_await_log(&b, second, 100));
    else
        expect_success(&b, second);
    mount_tell(&a.mount, "mend");
    const int status = jobs_wait(&a, first);
    if (status <= 101)
        FAIL("the run that was given up ended with %d: %s", status, jobs_message(&a));
    if (in_the_middle)
        expect_success(&b, second);
    end(&slow_job);
}

TEST_WITHIN(120, a_machine_comes_back_at_the_end)
{
    come_back("--locks", "local", false);
}

TEST_WITHIN(120, a_machine_comes_back_in_the_middle)
{
    come_back("--locks", "local", true);
}

TEST_WITHIN(120, a_machine_comes_back_to_stale_files)
{
    come_back("--locks=local", "--stale", true);
}

/* The machine is cut off before a certain change: in mid-transaction, or while it makes or records its output, for example.
 * That change, and others that were on their way, are carried out when it comes back. */
static void come_back_at_changes(unsigned first_change, unsigned step, unsigned most)
{
    static const struct job job = { .n = 30, .burn_us = 200, .resume = "--resume", .more = { "--lock-wait", "100s" } };
    unsigned n = 0;
    begin(&job, "--locks", "local", 300);
    for (unsigned change = first_change; n < most; change += step, n++) {
        char command[32];
        snprintf(command, sizeof command, "cut-at %u", change);
        mount_tell(&a.mount, command);
        const pid_t first = jobs_start(&a, &job);
        const bool cut = mount_await_cut(&a.mount, first);
        const pid_t second = jobs_start(&b, &job);
        if (n % 2 == 0)
            jobs_await_log(&b, second, jobs_logged(&b) + 5); /* in the middle */
        else
            expect_success(&b, second);
        mount_tell(&a.mount, "mend");
        (void)jobs_wait(&a, first);
        if (n % 2 == 0)
            expect_success(&b, second);
        jobs_check(&b, &job);
        CHECK_EQ(system("rm -rf " SERVER "/*"), 0);
        if (!cut)
            break;
    }
    printf("cut off at %u changes\n", n);
    host_end(&a);
    host_end(&b);
}

TEST_WITHIN(300, a_machine_comes_back_at_changes)
{
    if (test_soak())
        come_back_at_changes(1, 1, 1000);
    else
        come_back_at_changes(1, 9, 25);
}

TEST_MAIN()
