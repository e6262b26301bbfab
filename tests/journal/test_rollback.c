/* SPDX-License-Identifier: MIT
 *
 * Journals on file systems that other machines may use: they have a rollback journal and no write-ahead log. Files are
 * converted when they were moved, readers do not keep the run from writing, and a killed run's transaction is undone.
 *
 * The other programs of this suite also run with a rollback journal (NAME_shared in tests/meson.build).
 */
#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/file/shared.h"
#include "journal/db.h"
#include "journal/read/settled.h"
#include "support/journal.h"

static void file_systems_are_shared(bool shared)
{
    CHECK_EQ(setenv(GD__ENV_SHARED_FILES, shared ? "1" : "0", 1), 0);
}

static bool exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

static void copy_file(const char *from, const char *to)
{
    char command[128];
    snprintf(command, sizeof command, "cp '%s' '%s'", from, to);
    CHECK_EQ(system(command), 0);
}

static uint64_t done_in(const char *path)
{
    struct gd_journal_reader *r;
    struct gd_journal_summary s = { .size = sizeof s };
    if (gd_journal_reader_open(&r, path) < 0)
        FAIL("%s", gd_error_text());
    CHECK_EQ(gd_journal_reader_summary(r, &s), 0);
    gd_journal_reader_close(&r);
    return s.done;
}

/* --- which mode --- */

static void look_at_files(struct job *job, const struct gd_report *r)
{
    (void)r;
    bool *found = job->mine;
    *found = *found || exists("run.db-wal") || exists("run.db-shm");
}

TEST(a_shared_file_system_has_no_write_ahead_log)
{
    directory_enter();
    file_systems_are_shared(true);
    struct job job = JOB("");
    bool found = false;
    job_numbers(&job, 500);
    job.j.window_ms = 1;
    job.on_final = look_at_files;
    job.mine = &found;
    CHECK_EQ(job_run(&job), 0);
    CHECK(!found);
    CHECK(!exists("run.db-journal")); /* it is removed at the end */
    CHECK_STR(job_sql("run.db", "PRAGMA journal_mode"), "delete");
    CHECK_EQ(done_in("run.db"), 500);
}

TEST(a_file_with_a_log_is_converted)
{
    directory_enter();
    file_systems_are_shared(false);
    if (gd__file_is_shared("."))
        SKIP("the file system of the tests is not known to be local");
    struct job job = JOB("");
    job_numbers(&job, 2000);
    job.j.window_ms = 1;
    job.j.queue_bytes = 4000;
    job.o.queue_size = 16;
    job_run_and_die(&job, "journal_committed:3"); /* so the log has records that the file does not have */
    CHECK(exists("run.db-wal"));
    copy_file("run.db", "moved.db");
    copy_file("run.db-wal", "moved.db-wal");
    copy_file("run.db-shm", "moved.db-shm");
    const uint64_t before = done_in("run.db");
    CHECK_GT(before, 0);
    file_systems_are_shared(true);
    job.j.path = "moved.db";
    job.j.resume = GD_JOURNAL_RESUME_REST;
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(job.counts.skipped, before);
    CHECK(!exists("moved.db-wal"));
    CHECK(!exists("moved.db-shm"));
    CHECK_STR(job_sql("moved.db", "PRAGMA journal_mode"), "delete");
    CHECK_STR(job_sql("moved.db", "SELECT count(*), count(DISTINCT input) FROM task"), "2000|2000");
    CHECK_STR(job_sql("moved.db", "PRAGMA integrity_check"), "ok");
}

TEST(a_file_with_a_rollback_journal_gets_a_log_on_a_local_disk)
{
    directory_enter();
    file_systems_are_shared(true);
    struct job job = JOB("");
    job_numbers(&job, 100);
    job.n = 50;
    CHECK_EQ(job_run(&job), 0);
    file_systems_are_shared(false);
    if (gd__file_is_shared("."))
        SKIP("the file system of the tests is not known to be local");
    job.n = 100;
    job.j.resume = GD_JOURNAL_RESUME_REST;
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(job.counts.skipped, 50);
    CHECK_STR(job_sql("run.db", "PRAGMA journal_mode"), "wal");
}

/* --- readers --- */

/* A program that reads the journal, and takes its time. */
struct slow_reader {
    sqlite3 *db;
    bool began, ended;
};

static void read_slowly(struct job *job, const struct gd_report *r)
{
    struct slow_reader *slow = job->mine;
    (void)r;
    if (!slow->began) {
        slow->began = true;
        CHECK_EQ(sqlite3_open("run.db", &slow->db), SQLITE_OK);
        CHECK_EQ(sqlite3_exec(slow->db, "BEGIN; SELECT count(*) FROM task", NULL, NULL, NULL), SQLITE_OK);
    }
    if (job->done == job->n - 1) {
        slow->ended = true;
        CHECK_EQ(sqlite3_close(slow->db), SQLITE_OK);
    }
}

TEST(a_run_waits_for_a_slow_reader)
{
    directory_enter();
    file_systems_are_shared(true);
    struct job job = JOB("");
    struct slow_reader slow = { .db = NULL };
    job_numbers(&job, 3000);
    job.j.window_ms = 1;
    job.on_final = read_slowly;
    job.mine = &slow;
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(job.closed, 0);
    CHECK(slow.ended);
    CHECK_EQ(done_in("run.db"), 3000);
}

/* Checks that no transaction reads the file at this moment: otherwise the lock could not be had. */
static void lock_at_once(void)
{
    sqlite3 *db;
    CHECK_EQ(sqlite3_open("run.db", &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 0);
    CHECK_EQ(sqlite3_exec(db, "BEGIN EXCLUSIVE; COMMIT", NULL, NULL, NULL), SQLITE_OK);
    CHECK_EQ(sqlite3_close(db), SQLITE_OK);
}

struct seen {
    unsigned n;
    double last;
    enum gd_journal_order order;
};

static int see_record(void *user, const struct gd_journal_record *r)
{
    struct seen *seen = user;
    const double value = seen->order == GD_JOURNAL_BY_ID      ? (double)r->id
                         : seen->order == GD_JOURNAL_BY_START ? r->started
                                                              : -r->seconds;
    if (seen->n++ > 0)
        CHECK(value >= seen->last);
    seen->last = value;
    if (seen->n % 500 == 1)
        lock_at_once();
    return 0;
}

static int see_failure(void *user, const char *failure, uint64_t count)
{
    (void)user;
    CHECK_STR(failure, "error");
    CHECK_EQ(count, 1);
    lock_at_once();
    return 0;
}

TEST(nobody_waits_for_the_functions_of_a_reader)
{
    static const uint64_t limits[] = { 0, 10, 1500 };
    directory_enter();
    file_systems_are_shared(true);
    struct job job = JOB("");
    struct gd_journal_reader *r;
    job_numbers(&job, 3000);
    job.lines[17] = "!bad";
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(gd_journal_reader_open(&r, "run.db"), 0);
    for (int order = GD_JOURNAL_BY_ID; order <= GD_JOURNAL_SLOWEST; order++)
        for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
            const struct gd_journal_query q = { .size = sizeof q, .order = order, .limit = limits[i] };
            struct seen seen = { .order = order };
            CHECK_EQ(gd_journal_reader_each(r, &q, see_record, &seen), 0);
            CHECK_EQ(seen.n, limits[i] > 0 ? limits[i] : 3000);
        }
    const struct gd_journal_query failed = { .size = sizeof failed, .order = GD_JOURNAL_SLOWEST, .failed_only = true };
    struct seen seen = { .order = GD_JOURNAL_SLOWEST };
    CHECK_EQ(gd_journal_reader_each(r, &failed, see_record, &seen), 0);
    CHECK_EQ(seen.n, 1);
    CHECK_EQ(gd_journal_reader_failures(r, see_failure, NULL), 0);
    gd_journal_reader_close(&r);
}

/* A run commits while records are read, and ends. A reader that cannot lock the journal, because it may not write to the
 * directory, reads them again nevertheless. */
struct disturbed {
    sqlite3 *db;
    unsigned n, forgotten;
};

static int read_disturbed(void *user)
{
    struct disturbed *d = user;
    int64_t any;
    if (d->n++ == 0)
        (void)job_sql("run.db", "UPDATE task SET attempts = attempts + 1");
    CHECK_EQ(gd__db_integer(d->db, "SELECT max(id) FROM task", &any), SQLITE_OK);
    return 0;
}

static void forget_disturbed(void *user)
{
    struct disturbed *d = user;
    d->forgotten++;
}

TEST(a_reader_that_was_disturbed_by_the_end_of_a_run_locks_nothing)
{
    struct disturbed d = { .n = 0 };
    struct job job = JOB("");
    directory_enter();
    file_systems_are_shared(true);
    job_numbers(&job, 10);
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(gd__db_open_read(&d.db, "run.db"), 0);
    CHECK_EQ(mkdir("run.db-lock", 0755), 0); /* so the journal cannot be locked */
    if (gd__settled_read(d.db, "run.db", read_disturbed, forget_disturbed, &d) < 0)
        FAIL("%s", gd_error_text());
    CHECK_EQ(d.n, 2);
    CHECK_EQ(d.forgotten, 1);
    CHECK_EQ(sqlite3_close(d.db), SQLITE_OK);
}

/* --- transactions of killed runs --- */

enum { HOT_TASKS = 2000 };

/* Leaves hot.db in the state of a kill in the middle of a commit: some pages of the transaction are in the file, and
 * hot.db-journal has their old contents. */
static void leave_hot(void)
{
    struct job job = JOB("");
    sqlite3 *db;
    directory_enter();
    file_systems_are_shared(true);
    job_numbers(&job, HOT_TASKS);
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(sqlite3_open("run.db", &db), SQLITE_OK);
    /* The pages do not fit in the cache, so that they are written before the end of the transaction. */
    CHECK_EQ(sqlite3_exec(db, "PRAGMA cache_size = 4; BEGIN; UPDATE task SET state = 'failed', input = 'wrong'", NULL,
                          NULL, NULL),
             SQLITE_OK);
    copy_file("run.db", "hot.db");
    copy_file("run.db-journal", "hot.db-journal");
    CHECK_EQ(sqlite3_close(db), SQLITE_OK);
    CHECK(system("cmp -s run.db hot.db") != 0); /* run.db is as it was */
}

static int count_right(void *user, const struct gd_journal_record *r)
{
    *(unsigned *)user += r->done && strncmp(r->input, "wrong", 5) != 0;
    return 0;
}

TEST(a_reader_undoes_the_transaction_of_a_killed_run)
{
    struct gd_journal_reader *r;
    unsigned right = 0;
    leave_hot();
    CHECK_EQ(gd_journal_reader_open(&r, "hot.db"), 0);
    CHECK_EQ(gd_journal_reader_each(r, NULL, count_right, &right), 0);
    CHECK_EQ(right, HOT_TASKS);
    gd_journal_reader_close(&r);
    CHECK(!exists("hot.db-journal"));
}

TEST(a_run_undoes_the_transaction_of_a_killed_run)
{
    struct job job = JOB("");
    leave_hot();
    job_numbers(&job, HOT_TASKS + 10);
    job.j.path = "hot.db";
    job.j.resume = GD_JOURNAL_RESUME_REST;
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(job.counts.skipped, HOT_TASKS);
    CHECK_STR(job_sql("hot.db", "SELECT count(*), count(DISTINCT input), total(state = 'done') FROM task"),
              "2010|2010|2010.0");
    CHECK_STR(job_sql("hot.db", "PRAGMA integrity_check"), "ok");
}

TEST(the_transaction_of_a_killed_run_is_not_done_elsewhere)
{
    static const char *const others[] = { "hot.db" };
    struct job job = JOB("");
    leave_hot();
    job_numbers(&job, HOT_TASKS + 10);
    job.j.path = "new.db";
    job.j.skip_done = others;
    job.j.n_skip_done = 1;
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(job.counts.skipped, HOT_TASKS); /* the transaction had made them failed */
    CHECK_EQ(job.done, 10);
}

/* A reader that may not write. Root may always write, so it becomes another user first. */
TEST(a_reader_without_permission_says_what_is_needed)
{
    int status;
    leave_hot();
    CHECK_EQ(chmod("hot.db", 0444), 0);
    CHECK_EQ(chmod("hot.db-journal", 0444), 0);
    CHECK_EQ(chmod(".", 0555), 0);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct gd_journal_reader *r = NULL;
        if (geteuid() == 0 &&
            (setgroups(0, NULL) < 0 || setgid(65534) < 0 || setuid(65534) < 0 || access(".", R_OK) < 0))
            _exit(77);
        const int rc = gd_journal_reader_open(&r, "hot.db");
        const bool told = rc == GD_E_SYSTEM && strstr(gd_error_text(), "was killed while it wrote to it") &&
                          strstr(gd_error_text(), "hot.db-journal");
        if (!told)
            fprintf(stderr, "%d: %s\n", rc, gd_error_text());
        _exit(!told);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(chmod(".", 0755), 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP("cannot become another user, or that user cannot read the directory");
    CHECK_EQ(status, 0);
}

/* SQLite would delete the file that the end of a rollback journal names, after it has undone the transaction. */
TEST(a_rollback_journal_that_names_a_file_is_refused)
{
    static const char tail[] = "\0\0\0\0victim\0\0\0\6\0\0\2\213\xd9\xd5\x05\xf9\x20\xa1\x63\xd7";
    struct job job = JOB("");
    struct gd_journal_reader *r;
    leave_hot();
    const int fd = open("hot.db-journal", O_WRONLY | O_APPEND | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, tail, sizeof tail - 1), sizeof tail - 1);
    close(fd);
    CHECK_EQ(gd_journal_reader_open(&r, "hot.db"), GD_E_CORRUPT);
    CHECK_CONTAINS(gd_error_text(), "names another file");
    job_numbers(&job, 10);
    job.j.path = "hot.db";
    job.j.resume = GD_JOURNAL_RESUME_REST;
    CHECK_EQ(job_run(&job), GD_E_CORRUPT);
}

int main(int argc, char **argv)
{
    if (job_main(&argc, argv) < 0)
        return fprintf(stderr, "%s\n", gd_error_text()), 1;
    return test_main(argc, argv);
}
