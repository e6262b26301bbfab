/* SPDX-License-Identifier: MIT
 *
 * A job of 20,000 tasks is killed 200 times (SIGKILL), at moments spread over the whole job, and resumed each time. In
 * the end every input is final once, and no task that was in the journal was run again. A kill comes when the log of
 * the workers has a certain number of entries. This number is chosen again for each kill, so that the remaining tasks
 * are spread evenly over the remaining kills.
 */
#include "journal.h"

static const struct job the_job = { .n = 20000, .burn_us = 40, .resume = "--resume" };

static void make_log(void)
{
    FILE *log = fopen("log", "ae");
    CHECK(log != NULL);
    fclose(log);
}

static off_t log_size(void)
{
    struct stat st;
    return stat("log", &st) == 0 ? st.st_size : 0;
}

/* Waits until the log has grown to that size, or the run has ended. */
static void await(int watch, pid_t pid, off_t size)
{
    char events[4096];
    const int ended = (int)syscall(SYS_pidfd_open, pid, 0);
    CHECK(ended >= 0);
    struct pollfd p[] = { { watch, POLLIN, 0 }, { ended, POLLIN, 0 } };
    while (log_size() < size && !(p[1].revents & POLLIN)) {
        CHECK_GT(poll(p, 2, -1), 0);
        if (p[0].revents & POLLIN)
            CHECK_GT(read(watch, events, sizeof events), 0);
    }
    close(ended);
}

/* Tasks that were in the journal at a kill are not run again. So these counts determine how many lines the log must
 * have in the end. */
struct tally {
    uint64_t logged;
    int64_t committed;
};

static struct tally tally(void)
{
    const int64_t committed = job_committed(&the_job);
    return (struct tally){ job_lines("log"), committed < 0 ? 0 : committed };
}

static void run_to_the_end(const struct tally *before)
{
    const int status = job_run(&the_job);
    if (status > 101)
        FAIL("the last run ended with %d: %s", status, job_message());
    job_check_integrity();
    CHECK_EQ(job_committed(&the_job), the_job.n);
    CHECK_EQ(job_check_output(&the_job), the_job.n);
    CHECK_EQ(job_lines("log"), before->logged + the_job.n - (uint64_t)before->committed);
}

/* Starts with a new journal. Kills the run until this many kills are used up, or the job is done. Returns the number of
 * kills. */
static int kill_and_resume(struct rng *rng, int kills, int *fruitful)
{
    struct tally t = { 0 };
    int killed = 0;
    job_reset();
    make_log();
    const int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    CHECK(watch >= 0);
    CHECK(inotify_add_watch(watch, "log", IN_MODIFY) >= 0);
    while (killed < kills && t.committed < (int64_t)the_job.n) {
        const uint64_t share = (the_job.n - (uint64_t)t.committed) / (uint64_t)(kills - killed + 1) + 1;
        const off_t bytes = (off_t)(rng_below(rng, 2 * share) * 10); /* "task12345\n" */
        const pid_t pid = job_start(&the_job);
        await(watch, pid, log_size() + bytes);
        kill(pid, SIGKILL);
        if (job_wait(pid) != 128 + SIGKILL)
            break; /* the job was done before the kill */
        const struct tally now = tally();
        CHECK_GE(now.committed, t.committed);
        *fruitful += now.committed > t.committed;
        t = now;
        killed++;
    }
    close(watch);
    run_to_the_end(&t);
    return killed;
}

TEST_WITHIN(600, killed_200_times)
{
    const int kills = test_soak() ? 2000 : SANITIZED ? 50 : 200;
    struct rng rng = { 17 };
    int killed = 0, fruitful = 0, jobs = 0;
    job_enter(&the_job);
    for (; killed < kills; jobs++)
        killed += kill_and_resume(&rng, kills - killed, &fruitful);
    printf("killed %d times in %d jobs, %d times after new records had been written\n", killed, jobs, fruitful);
    CHECK_GT(fruitful, kills / 10);
}

TEST_MAIN()
