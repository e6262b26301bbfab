/* SPDX-License-Identifier: MIT
 *
 * Programs that read a journal on a network file system while a run on another machine writes to it. They neither stop
 * the run nor damage the journal, whatever the locks of the file system are worth.
 */
#include "cluster/fuse/jobs.h"
#include "support/shell.h"

static struct host a, b;

static const struct job the_job = { .n = 6000, .burn_us = 1000 };

static void begin(const char *option, const char *value)
{
    if (!gd_journal_available())
        SKIP("built without journals");
    mounts_enter();
    host_begin(&a, "a", option, value);
    host_begin(&b, "b", option, value);
    jobs_prepare(&a, &the_job);
    jobs_prepare(&b, &the_job);
}

/* Checks that the run has ended well, and that each input has one record. */
static void finish(pid_t pid)
{
    const int status = jobs_wait(&a, pid);
    if (status > 101)
        FAIL("the run ended with %d: %s", status, jobs_message(&a));
    jobs_check(&a, &the_job);
    host_end(&a);
    host_end(&b);
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = { .si_pid = 0 };
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

/* Runs a command of gpu-dispatch on the machine. Returns its exit status. */
static int run_on(const struct host *h, const char *script)
{
    char text[PATH_MAX + 256];
    snprintf(text, sizeof text, "cd %s/%s && %s", directory_path, h->name, script);
    host_enter(h);
    const struct ran r = sh("%s", text);
    host_leave();
    if (r.status != 0)
        printf("%s: %s", script, r.err);
    return r.status;
}

/* Reads all the time, on both machines. */
static void read_all_the_time(const char *option, const char *value)
{
    static const char *const scripts[] = { "gpu-dispatch status kept/run.db",
                                           "gpu-dispatch export --jsonl kept/run.db > /dev/null",
                                           "gpu-dispatch status --json kept/run.db" };
    unsigned n = 0, failed = 0;
    begin(option, value);
    const pid_t pid = jobs_start(&a, &the_job);
    jobs_await_log(&a, pid, 200);
    while (!has_ended(pid)) {
        failed += run_on(n % 4 == 3 ? &a : &b, scripts[n % 3]) != 0;
        n++;
    }
    printf("read %u times, %u times without success\n", n, failed);
    finish(pid);
    CHECK_GT(n, 0);
    CHECK_EQ(failed, 0);
}

TEST_WITHIN(120, readers_with_shared_locks)
{
    read_all_the_time("--locks", "shared");
}

TEST_WITHIN(120, readers_with_local_locks)
{
    read_all_the_time("--locks", "local");
}

/* Another program, such as the shell of SQLite, reads in one transaction for longer than SQLite waits. The run goes on
 * with its tasks, and writes its records when the transaction has ended. */
TEST_WITHIN(120, a_reader_in_a_long_transaction)
{
    enum { HELD_MS = 4000 };
    sqlite3 *db = NULL;
    begin("--locks", "shared");
    const pid_t pid = jobs_start(&a, &the_job);
    jobs_await_log(&a, pid, 1000);
    host_enter(&b);
    CHECK_EQ(sqlite3_open_v2(JOURNAL, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    sqlite3_busy_timeout(db, 60000);
    CHECK_EQ(sqlite3_exec(db, "BEGIN; SELECT count(*) FROM task", NULL, NULL, NULL), SQLITE_OK);
    host_leave();
    const uint64_t since = now_ns();
    jobs_await_log(&a, pid, the_job.n); /* every task is run meanwhile */
    CHECK(!has_ended(pid));
    while (now_ns() - since < HELD_MS * MS && !has_ended(pid))
        poll(NULL, 0, 20);
    CHECK(!has_ended(pid));
    CHECK_EQ(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    CHECK_EQ(sqlite3_close(db), SQLITE_OK);
    finish(pid);
}

TEST_MAIN()
