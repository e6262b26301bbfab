/* SPDX-License-Identifier: MIT
 *
 * A run with a journal is killed (SIGKILL) at every write to the journal, to --output and to --results, before the
 * write or in the middle of it. Each time it is resumed and must end as if it had not been killed.
 */
#include "journal.h"

TEST_WITHIN(600, at_every_write_of_the_journal)
{
    const long writes = job_kill_at_every_write((struct job){ .n = 300 }, "kill", "/kept/run.db", 1);
    CHECK_GT(writes, 10);
}

TEST_WITHIN(600, within_every_write_of_the_journal)
{
    job_kill_at_every_write((struct job){ .n = 300 }, "torn", "/kept/run.db", 1);
}

TEST_WITHIN(600, at_every_write_of_a_journal_that_is_forced_to_the_disk)
{
    job_kill_at_every_write((struct job){ .n = 100, .full = true }, "kill", "/kept/run.db", test_soak() ? 1 : 3);
}

TEST_WITHIN(600, at_every_write_of_the_output)
{
    const long writes = job_kill_at_every_write((struct job){ .n = 25 }, "kill", OUTPUT, 1);
    CHECK_GE(writes, 25);
}

TEST_WITHIN(600, within_every_write_of_the_output)
{
    job_kill_at_every_write((struct job){ .n = 25 }, "torn", OUTPUT, 1);
}

TEST_WITHIN(600, at_every_write_of_the_results)
{
    const long writes = job_kill_at_every_write((struct job){ .n = 8, .results = true }, "kill", "/kept/R/", 1);
    CHECK_GE(writes, 8 * 3);
}

TEST_WITHIN(600, within_every_write_of_the_results)
{
    job_kill_at_every_write((struct job){ .n = 8, .results = true }, "torn", "/kept/R/", 1);
}

/* --- a run that retries failed tasks ---------------------------------------------------------- */

/* Kills at every write of a run in which failed tasks now succeed. However it ends, each input has one record. */
TEST_WITHIN(600, at_every_write_of_a_run_that_retries)
{
    struct job first = { .n = 20 }, again = { .n = 20, .mend = "1", .resume = "--retry-failed", .preload = "kill" };
    job_need_preload();
    job_enter(&first);
    for (again.at = 1;; again.at++) {
        job_reset();
        CHECK_EQ(job_run(&first), job_bad(&first));
        const int status = job_run(&again);
        if (access("told", F_OK) < 0) {
            CHECK_EQ(status, 0);
            break;
        }
        CHECK_EQ(status, 128 + SIGKILL);
        struct job last = again;
        last.preload = NULL;
        last.resume = "--resume"; /* runs nothing, and leaves one record of each input */
        if (job_run(&last) > 101)
            FAIL("killed at write %ld, then: %s", again.at, job_message());
        CHECK_EQ(job_lines(OUTPUT), last.n);
        last.resume = "--retry-failed";
        if (job_run(&last) != 0)
            FAIL("killed at write %ld, then: %s", again.at, job_message());
        job_check_integrity();
        CHECK_EQ(job_committed(&last), last.n);
        CHECK_EQ(job_check_output(&last), last.n);
    }
    CHECK_EQ(job_committed(&again), again.n);
    CHECK_EQ(job_check_output(&again), again.n);
    CHECK_GT(again.at, 5);
}

/* --- all processes at once -------------------------------------------------------------------- */

/* Waits until the log has this many bytes. The end of the run does not end the wait, but the case's time limit does. */
static void await_log(off_t size)
{
    char events[4096];
    struct stat st;
    const int fd = inotify_init1(IN_CLOEXEC);
    CHECK(fd >= 0);
    CHECK(inotify_add_watch(fd, "log", IN_MODIFY) >= 0);
    while (stat("log", &st) == 0 && st.st_size < size)
        CHECK_GT(read(fd, events, sizeof events), 0);
    close(fd);
}

static void kill_children_of(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *f = fopen(path, "re");
    for (int child; f && fscanf(f, "%d", &child) == 1;)
        kill(child, SIGKILL);
    if (f)
        fclose(f);
}

TEST_WITHIN(600, all_processes_at_once)
{
    struct rng rng = { 5 };
    struct job job = { .n = 300, .burn_us = 20, .results = true };
    job_enter(&job);
    for (int killed = 0; killed < (test_soak() ? 200 : 10);) {
        job_reset();
        FILE *log = fopen("log", "we");
        CHECK(log != NULL);
        fclose(log);
        const pid_t pid = job_start(&job);
        await_log((off_t)(1 + rng_below(&rng, 1800)));
        kill(pid, SIGKILL);
        kill_children_of(pid);
        const int status = job_wait(pid);
        if (status == 128 + SIGKILL)
            killed++;
        else /* the run was done before that moment */
            CHECK_EQ(status, job_bad(&job));
        job_resume_and_check(job, "all processes");
    }
}

TEST_MAIN()
