/* SPDX-License-Identifier: MIT
 *
 * The journals of shards: their names, the shard that each records, journals of version 1, and which other journals are
 * refused.
 */
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "support/journal.h"

static const struct gd_shard third_of_16 = { 2, 16 };

static bool exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

enum { TASKS = 200 }; /* enough for each shard to have some */

/* Runs a list with a journal of that shard. */
static int run_shard(struct job *job, struct gd_shard shard, enum gd_journal_resume resume)
{
    job_numbers(job, TASKS);
    job->j.shard = shard;
    job->j.resume = resume;
    return job_run(job);
}

/* Turns a journal into one of version 1. */
static void make_version_1(const char *path)
{
#define COLUMNS_1                                                                                               \
    "number, command, started, ended, outcome, pid, host, total, taken, skipped, done, failed, written, busy, " \
    "all_done, all_failed"
    job_sql(path, "ALTER TABLE run RENAME TO run_2");
    job_sql(path,
            "CREATE TABLE run(number INTEGER PRIMARY KEY, command, started REAL NOT NULL, ended REAL, outcome TEXT,"
            " pid INTEGER NOT NULL, host TEXT, total INTEGER NOT NULL DEFAULT 0, taken INTEGER NOT NULL DEFAULT 0,"
            " skipped INTEGER NOT NULL DEFAULT 0, done INTEGER NOT NULL DEFAULT 0,"
            " failed INTEGER NOT NULL DEFAULT 0, written REAL, busy REAL NOT NULL DEFAULT 0,"
            " all_done INTEGER NOT NULL DEFAULT 0, all_failed INTEGER NOT NULL DEFAULT 0)");
    job_sql(path, "INSERT INTO run SELECT " COLUMNS_1 " FROM run_2");
    job_sql(path, "DROP TABLE run_2");
    job_sql(path, "PRAGMA user_version = 1");
}

static struct gd_journal_summary summary_of(struct gd_journal_reader **r, const char *path)
{
    struct gd_journal_summary s = { .size = sizeof s };
    CHECK_EQ(gd_journal_reader_open(r, path), 0);
    CHECK_EQ(gd_journal_reader_summary(*r, &s), 0);
    return s;
}

TEST(the_journal_of_a_shard_has_its_name_and_records_it)
{
    directory_enter();
    struct job job = JOB("");
    struct gd_journal_reader *r;
    char host[256] = "";
    CHECK_EQ(run_shard(&job, third_of_16, GD_JOURNAL_RESUME_NONE), 0);
    CHECK(!exists("run.db"));
    CHECK_STR(job_sql("run.3-of-16.db", "SELECT shard FROM run"), "3/16");
    CHECK_STR(job_sql("run.3-of-16.db", "PRAGMA user_version"), "2");
    const struct gd_journal_summary s = summary_of(&r, "run.3-of-16.db");
    CHECK_EQ(s.shard.index, 2);
    CHECK_EQ(s.shard.count, 16);
    CHECK_EQ(gethostname(host, sizeof host - 1), 0);
    CHECK_STR(s.host, host);
    gd_journal_reader_close(&r);
}

TEST(the_whole_list_has_no_shard)
{
    directory_enter();
    struct job job = JOB("");
    struct gd_journal_reader *r;
    CHECK_EQ(run_shard(&job, (struct gd_shard){ 0, 0 }, GD_JOURNAL_RESUME_NONE), 0);
    CHECK_STR(job_sql("run.db", "SELECT shard FROM run"), "NULL");
    const struct gd_journal_summary s = summary_of(&r, "run.db");
    CHECK_EQ(s.shard.count, 0);
    gd_journal_reader_close(&r);
}

TEST(a_shard_is_resumed)
{
    directory_enter();
    struct job job = JOB("");
    CHECK_EQ(run_shard(&job, third_of_16, GD_JOURNAL_RESUME_NONE), 0);
    const unsigned first = job.done;
    CHECK(first > 0);
    CHECK_EQ(run_shard(&job, third_of_16, GD_JOURNAL_RESUME_REST), 0);
    CHECK_EQ(job.done, 0);
    CHECK_EQ(job.counts.skipped, first);
}

TEST(shards_out_of_range_are_refused)
{
    static const struct gd_shard bad[] = { { 16, 16 }, { 1, 0 }, { 0, 2000000 } };
    directory_enter();
    struct job job = JOB("");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_EQ(run_shard(&job, bad[i], GD_JOURNAL_RESUME_NONE), GD_E_INVALID);
    job.j.path = "directory/";
    CHECK_EQ(run_shard(&job, third_of_16, GD_JOURNAL_RESUME_NONE), GD_E_INVALID);
    /* the name of the shard's own file, which is not the name to give */
    job.j.path = "directory/run.3-of-16.db";
    CHECK_EQ(job_run(&job), GD_E_INVALID);
    CHECK_CONTAINS(job.text, "directory/run.3-of-16.db is the name of the journal of shard 3 of 16: give "
                             "directory/run.db, because the shard is added to the name");
}

/* One journal, copied to the name of another shard or of the whole list. */
TEST(another_shard_is_refused)
{
    directory_enter();
    static const struct {
        const char *from, *to;
        struct gd_shard made, used;
        const char *words;
    } rows[] = {
        { "run.3-of-16.db", "run.4-of-16.db", { 2, 16 }, { 3, 16 }, "records of shard 3 of 16" },
        { "run.3-of-16.db", "run.db", { 2, 16 }, { 0, 0 }, "this run has the whole list" },
        { "run.db", "run.3-of-16.db", { 0, 0 }, { 2, 16 }, "records of the whole list" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job job = JOB("");
        CHECK_EQ(run_shard(&job, rows[i].made, GD_JOURNAL_RESUME_NONE), 0);
        CHECK_EQ(rename(rows[i].from, rows[i].to), 0);
        job.j.force = true; /* this is for another command, not for another shard */
        CHECK_EQ(run_shard(&job, rows[i].used, GD_JOURNAL_RESUME_REST), GD_E_MISMATCH);
        CHECK_CONTAINS(job.text, rows[i].words);
        CHECK_EQ(unlink(rows[i].to), 0);
    }
}

TEST(a_journal_without_records_may_get_another_shard)
{
    directory_enter();
    struct job job = JOB("");
    CHECK_EQ(run_shard(&job, third_of_16, GD_JOURNAL_RESUME_NONE), 0);
    job_sql("run.3-of-16.db", "DELETE FROM task");
    CHECK_EQ(rename("run.3-of-16.db", "run.4-of-16.db"), 0);
    CHECK_EQ(run_shard(&job, (struct gd_shard){ 3, 16 }, GD_JOURNAL_RESUME_REST), 0);
}

/* --- other journals of the list --- */

TEST(journals_of_another_count_are_refused)
{
    directory_enter();
    struct job job = JOB("");
    static const char *const old[] = { "./run.1-of-8.db" };
    CHECK_EQ(run_shard(&job, (struct gd_shard){ 0, 8 }, GD_JOURNAL_RESUME_NONE), 0);
    CHECK_EQ(run_shard(&job, third_of_16, GD_JOURNAL_RESUME_REST), GD_E_MISMATCH);
    CHECK_CONTAINS(job.text, "run.1-of-8.db");
    CHECK_CONTAINS(job.text, "8 shards");
    CHECK_CONTAINS(job.text, "skip_done");
    CHECK(!exists("run.3-of-16.db"));
    CHECK(!exists("run.3-of-16.db-lock"));
    /* Named in skip_done, it is allowed. */
    job.j.skip_done = old;
    job.j.n_skip_done = 1;
    CHECK_EQ(run_shard(&job, third_of_16, GD_JOURNAL_RESUME_REST), 0);
}

TEST(journals_of_other_lists_do_not_matter)
{
    directory_enter();
    struct job job = JOB("");
    job.j.path = "other.db";
    CHECK_EQ(run_shard(&job, (struct gd_shard){ 0, 8 }, GD_JOURNAL_RESUME_NONE), 0);
    job.j.path = "run.db";
    CHECK_EQ(run_shard(&job, (struct gd_shard){ 3, 16 }, GD_JOURNAL_RESUME_NONE), 0);
    CHECK_EQ(run_shard(&job, third_of_16, GD_JOURNAL_RESUME_NONE), 0);
}

TEST(the_journal_of_the_whole_list_is_refused_beside_shards)
{
    directory_enter();
    struct job job = JOB("");
    CHECK_EQ(run_shard(&job, (struct gd_shard){ 0, 0 }, GD_JOURNAL_RESUME_NONE), 0);
    CHECK_EQ(run_shard(&job, third_of_16, GD_JOURNAL_RESUME_REST), GD_E_MISMATCH);
    CHECK_CONTAINS(job.text, "was not divided");
    CHECK_CONTAINS(job.text, "skip_done");
    CHECK(!exists("run.3-of-16.db"));
    job_sql("run.db", "DELETE FROM task"); /* without records it is not in the way */
    CHECK_EQ(run_shard(&job, third_of_16, GD_JOURNAL_RESUME_REST), 0);
}

TEST(a_new_journal_of_the_whole_list_is_refused_beside_those_of_shards)
{
    directory_enter();
    struct job job = JOB("");
    static const char *const old[] = { "run.3-of-16.db" };
    const struct gd_shard whole = { 0, 0 };
    CHECK_EQ(run_shard(&job, third_of_16, GD_JOURNAL_RESUME_NONE), 0);
    CHECK_EQ(run_shard(&job, whole, GD_JOURNAL_RESUME_REST), GD_E_MISMATCH);
    CHECK_CONTAINS(job.text,
                   "run.3-of-16.db is a journal of the same list in 16 shards, but this run has the whole list");
    CHECK(!exists("run.db"));
    job.j.skip_done = old;
    job.j.n_skip_done = 1;
    CHECK_EQ(run_shard(&job, whole, GD_JOURNAL_RESUME_REST), 0);
    job.j.n_skip_done = 0; /* a journal that exists is continued */
    CHECK_EQ(run_shard(&job, whole, GD_JOURNAL_RESUME_REST), 0);
}

/* --- tasks that are done in other journals --- */

/* Runs the numbers from..to with this journal. */
static void run_part(const char *path, size_t from, size_t to)
{
    struct job job = JOB("");
    job_numbers(&job, to);
    job.lines += from;
    job.n -= from;
    job.j.path = path;
    CHECK_EQ(job_run(&job), 0);
}

TEST(tasks_that_are_done_elsewhere_are_skipped)
{
    static const char *const others[] = { "a.db", "b.db" };
    directory_enter();
    run_part("a.db", 0, 5000);
    run_part("b.db", 5000, 9000);
    struct job job = JOB("");
    job_numbers(&job, 10000);
    job.j.skip_done = others;
    job.j.n_skip_done = 2;
    job.j.resume = GD_JOURNAL_RESUME_REST;
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(job.done, 1000);
    CHECK_EQ(job.counts.skipped, 9000);
    CHECK_STR(job_sql("run.db", "SELECT count(*), min(number), max(number), max(id) FROM task"), "1000|9000|9999|1000");
    CHECK_STR(job_sql("a.db", "SELECT count(*) FROM run"), "1"); /* they are only read */
    /* The second time, with the records of both. */
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(job.done, 0);
    CHECK_EQ(job.counts.skipped, 10000);
}

TEST(failed_tasks_and_other_versions_are_not_done_elsewhere)
{
    static const char *const others[] = { "a.db" }, *first[] = { "1", "1", NULL, "1" },
                             *second[] = { "1", "2", NULL, NULL };
    directory_enter();
    struct job job = JOB("");
    job_lines(&job, "same", "changed", "none", "gone", "!bad", NULL);
    job.j.path = "a.db";
    const char *versions[5];
    memcpy(versions, first, sizeof first);
    versions[4] = "1";
    job.versions = versions;
    CHECK_EQ(job_run(&job), 0);
    memcpy(versions, second, sizeof second);
    job.j.path = "run.db";
    job.j.skip_done = others;
    job.j.n_skip_done = 1;
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_ran(&job), "changed gone !bad");
    CHECK_EQ(job.counts.skipped, 2);
}

TEST(each_record_elsewhere_counts_once)
{
    static const char *const others[] = { "a.db" };
    directory_enter();
    struct job job = JOB("");
    job_lines(&job, "x", "x", "y", NULL);
    job.j.path = "a.db";
    CHECK_EQ(job_run(&job), 0);
    job_lines(&job, "x", "y", "x", "x", "y", NULL);
    job.j.path = "run.db";
    job.j.skip_done = others;
    job.j.n_skip_done = 1;
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_ran(&job), "x y");
    CHECK_EQ(job.counts.skipped, 3);
    job.j.resume = GD_JOURNAL_RESUME_REST;
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(job.done, 0);
}

TEST(other_journals_that_cannot_be_read_are_refused)
{
    static const struct {
        const char *name;
        int code;
        const char *words;
    } rows[] = {
        { "none.db", GD_E_SYSTEM, "none.db" },
        { "text.db", GD_E_CORRUPT, "not a journal" },
        { "run.db", GD_E_INVALID, "the journal of this run" },
        { "./link.db", GD_E_INVALID, "the journal of this run" },
        { "", GD_E_INVALID, "skip_done[0]" },
    };
    directory_enter();
    struct job job = JOB("");
    CHECK_EQ(system("echo 'this is a text, and long enough not to be empty' > text.db"), 0);
    job_lines(&job, "a", NULL);
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(symlink("run.db", "link.db"), 0);
    job.j.resume = GD_JOURNAL_RESUME_REST;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        job.j.skip_done = &rows[i].name;
        job.j.n_skip_done = 1;
        CHECK_EQ(job_run(&job), rows[i].code);
        CHECK_CONTAINS(job.text, rows[i].words);
    }
    job.j.skip_done = NULL;
    CHECK_EQ(job_run(&job), GD_E_INVALID);
    CHECK_STR(job_sql("run.db", "SELECT count(*) FROM run"), "1");
    /* A run that is refused creates nothing. */
    job.j.path = "new.db";
    job.j.skip_done = &rows[0].name;
    CHECK_EQ(job_run(&job), GD_E_SYSTEM);
    CHECK(!exists("new.db"));
    CHECK(!exists("new.db-lock"));
}

/* --- version 1 --- */

TEST(a_journal_of_version_1_is_read_and_then_upgraded)
{
    directory_enter();
    struct job job = JOB("");
    struct gd_journal_reader *r;
    CHECK_EQ(run_shard(&job, (struct gd_shard){ 0, 0 }, GD_JOURNAL_RESUME_NONE), 0);
    make_version_1("run.db");
    struct gd_journal_summary s = summary_of(&r, "run.db");
    CHECK_EQ(s.done, TASKS);
    CHECK_EQ(s.shard.count, 0);
    CHECK_STR(job_sql("run.db", "PRAGMA user_version"), "1"); /* reading changes nothing */
    CHECK_EQ(run_shard(&job, (struct gd_shard){ 0, 0 }, GD_JOURNAL_RESUME_REST), 0);
    CHECK_EQ(job.counts.skipped, TASKS);
    CHECK_STR(job_sql("run.db", "PRAGMA user_version"), "2");
    CHECK_STR(job_sql("run.db", "SELECT number, shard FROM run"), "1|NULL 2|NULL");
    CHECK_EQ(gd_journal_reader_summary(r, &s), 0); /* the open reader goes on */
    CHECK_EQ(s.runs, 2);
    gd_journal_reader_close(&r);
}

TEST(a_refused_journal_of_version_1_is_left_alone)
{
    directory_enter();
    struct job job = JOB("");
    job.j.command = "one";
    CHECK_EQ(run_shard(&job, (struct gd_shard){ 0, 0 }, GD_JOURNAL_RESUME_NONE), 0);
    make_version_1("run.db");
    job.j.command = "two";
    CHECK_EQ(run_shard(&job, (struct gd_shard){ 0, 0 }, GD_JOURNAL_RESUME_REST), GD_E_MISMATCH);
    CHECK_STR(job_sql("run.db", "PRAGMA user_version"), "1");
}

TEST(an_upgrade_that_is_killed_leaves_version_1)
{
    directory_enter();
    struct job job = JOB("");
    int status;
    CHECK_EQ(run_shard(&job, (struct gd_shard){ 0, 0 }, GD_JOURNAL_RESUME_NONE), 0);
    make_version_1("run.db");
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        setenv("GD_KILL_DISPATCHER", "journal_upgrade", 1);
        gd__fault_read_kill();
        job.j.resume = GD_JOURNAL_RESUME_REST;
        (void)gd_journal_open(&job.journal, &job.j);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK_STR(job_sql("run.db", "PRAGMA user_version"), "1");
    CHECK_STR(job_sql("run.db", "SELECT count(*) FROM pragma_table_info('run') WHERE name = 'shard'"), "0");
    CHECK_EQ(run_shard(&job, (struct gd_shard){ 0, 0 }, GD_JOURNAL_RESUME_REST), 0);
    CHECK_EQ(job.counts.skipped, TASKS);
}

int main(int argc, char **argv)
{
    if (job_main(&argc, argv) < 0)
        return fprintf(stderr, "%s\n", gd_error_text()), 1;
    return test_main(argc, argv);
}
