/* SPDX-License-Identifier: MIT
 *
 * A run whose journal is on a network file system is killed (SIGKILL) at random moments and at each change of a file,
 * and resumed. In the end each input has one record, and one line in the output.
 */
#include "cluster/fuse/jobs.h"

static struct host a, b;

static void begin_hosts(const struct job *job, const char *option, const char *value)
{
    host_begin(&a, "a", option, value);
    host_begin(&b, "b", option, value);
    jobs_prepare(&a, job);
    jobs_prepare(&b, job);
}

static void begin(const struct job *job, const char *option, const char *value)
{
    if (!gd_journal_available())
        SKIP("built without journals");
    mounts_enter();
    begin_hosts(job, option, value);
}

static void end(void)
{
    host_end(&a);
    host_end(&b);
}

/* --- at random moments --- */

static const struct job long_job = { .n = 3000, .burn_us = 40, .resume = "--resume" };

/* Kills the run until this many kills are used up, or the job is done. Then lets it end. other: a machine that can read
 * the journal right after a kill. Returns the number of kills. */
static int kill_and_resume(struct rng *rng, const struct host *other, int kills, int *fruitful)
{
    const struct job *job = &long_job;
    int64_t committed = 0;
    uint64_t logged = 0;
    int killed = 0;
    bool known = true; /* how many records there are: host b cannot tell after a kill in the middle of a transaction */
    while (killed < kills && committed < job->n) {
        const uint64_t share = (uint64_t)(job->n - committed) / (uint64_t)(kills - killed + 1) + 1;
        const pid_t pid = jobs_start(&a, job);
        jobs_await_log(&a, pid, jobs_logged(&a) + rng_below(rng, 2 * share));
        kill(pid, SIGKILL);
        const int status = jobs_wait(&a, pid);
        if (status <= 101)
            break; /* the job was done before the kill */
        if (status != 128 + SIGKILL)
            FAIL("after %d kills it ended with %d: %s", killed, status, jobs_message(&a));
        const int64_t now = jobs_committed(killed % 2 ? &a : other, job);
        CHECK_GE(now, now < 0 ? -1 : committed);
        *fruitful += now > committed;
        known = now >= 0;
        committed = now < 0 ? 0 : now;
        logged = jobs_logged(&a);
        killed++;
    }
    const int status = jobs_wait(&a, jobs_start(&a, job));
    if (status > 101)
        FAIL("the last run ended with %d: %s", status, jobs_message(&a));
    jobs_check(&a, job);
    jobs_check(&b, job);
    if (known)
        CHECK_EQ(jobs_logged(&a), logged + (uint64_t)(job->n - committed)); /* no record was made again */
    return killed;
}

static void kill_often(const char *option, const char *value)
{
    /* Without shared locks, b cannot tell for a minute that a run on a is dead. If it was killed in the middle of a
     * transaction, b does not read the journal until then. */
    const struct host *other = strcmp(value, "local") == 0 ? &a : &b;
    const int kills = test_soak() ? 500 : SANITIZED ? 5 : 12;
    struct rng rng = { 15 };
    int killed = 0, fruitful = 0;
    begin(&long_job, option, value);
    while (killed < kills) {
        killed += kill_and_resume(&rng, other, kills - killed, &fruitful);
        /* New mounts: caches would still have the names of the files that are removed here. */
        end();
        CHECK_EQ(system("rm -rf " SERVER "/* a b"), 0);
        begin_hosts(&long_job, option, value);
    }
    printf("killed %d times, %d times after new records had been written\n", killed, fruitful);
    CHECK_GT(fruitful, 0);
    end();
}

TEST_WITHIN(300, killed_often_with_shared_locks)
{
    kill_often("--locks", "shared");
}

TEST_WITHIN(300, killed_often_with_local_locks)
{
    kill_often("--locks", "local");
}

/* SQLite needs locks, although ours do not. */
TEST(a_file_system_without_locks_is_refused)
{
    static const struct job job = { .n = 10 };
    begin(&job, "--locks", "none");
    CHECK_EQ(jobs_wait(&a, jobs_start(&a, &job)), 255);
    CHECK_CONTAINS(jobs_message(&a), "cannot use kept/run.db: its file system has no locks");
    end();
}

/* As on NFS: names are cached, but the server is asked when a file is opened, and says that it was removed. */
TEST_WITHIN(300, killed_often_with_caches)
{
    kill_often("--cache=3600", "--stale");
}

/* --- at each change --- */

/* In a normal run only every `step`th change, because each takes two runs of the command. */
static void kill_at_changes(const char *locks, unsigned first, unsigned step)
{
    static const struct job new_job = { .n = 8, .results = true },
                            resumed = { .n = 8, .results = true, .resume = "--resume" };
    unsigned kills = 0;
    bool cut = true;
    begin(&new_job, "--locks", locks);
    for (unsigned change = first; cut; change += test_soak() ? 1 : step) {
        char command[32], what[64];
        snprintf(command, sizeof command, "cut-at %u", change);
        mount_tell(&a.mount, command);
        const pid_t pid = jobs_start(&a, &new_job);
        cut = mount_await_cut(&a.mount, pid);
        if (cut) {
            kill(pid, SIGKILL);
            mount_tell(&a.mount, "fail");
        }
        const int status = jobs_wait(&a, pid);
        mount_tell(&a.mount, "mend");
        if (status != (cut ? 128 + SIGKILL : (int)job_bad(&new_job)))
            FAIL("change %u: it ended with %d: %s", change, status, jobs_message(&a));
        snprintf(what, sizeof what, "killed at change %u", change);
        host_enter(&a);
        if (cut)
            job_resume_and_check(resumed, what);
        host_leave();
        kills += cut;
        directory_remove(SERVER "/R");
        CHECK_EQ(system("rm -f " SERVER "/*"), 0);
        jobs_prepare(&a, &new_job);
    }
    printf("killed at %u changes\n", kills);
    CHECK_GE(kills, 10);
    end();
}

TEST_WITHIN(600, killed_at_changes_with_shared_locks)
{
    kill_at_changes("shared", 1, 7);
}

TEST_MAIN()
