/* The files of a journal: its own files, under every name by which it is opened, and the files that it follows. */
#include <dirent.h>
#include <fcntl.h>

#include "base/fault.h"
#include "base/file/shared.h"
#include "base/hash/key.h"
#include "journal/db.h"
#include "journal/journal.h"
#include "support/journal.h"

/* --- files beside the journal --- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in the current directory, sorted, with blanks between them. */
static const char *names_here(void)
{
    static char text[1024];
    char *names[32];
    size_t n = 0, at = 0;
    DIR *dir = opendir(".");
    CHECK(dir != NULL);
    for (const struct dirent *e; n < 32 && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            names[n++] = strdup(e->d_name);
    closedir(dir);
    qsort(names, n, sizeof *names, by_name);
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i > 0 ? " " : "", names[i]);
        free(names[i]);
    }
    return text;
}

static void read_once(const char *path, uint64_t done)
{
    struct gd_journal_reader *r;
    struct gd_journal_summary s = { .size = sizeof s };
    CHECK_EQ(gd_journal_reader_open(&r, path), 0);
    CHECK_EQ(gd_journal_reader_summary(r, &s), 0);
    CHECK_EQ(s.done, done);
    gd_journal_reader_close(&r);
}

TEST(nothing_is_left_beside_it)
{
    directory_enter();
    struct job job = JOB("");
    job_numbers(&job, 20);
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(names_here(), "run.db");
    read_once("run.db", 20);
    CHECK_STR(names_here(), "run.db");
}

TEST(the_last_reader_removes_the_log_files)
{
    directory_enter();
    struct job job = JOB("");
    job_numbers(&job, 20);
    CHECK_EQ(job_open(&job), 0);
    CHECK_EQ(gd_run(&job.o), 0);
    struct gd_journal_reader *r;
    CHECK_EQ(gd_journal_reader_open(&r, "run.db"), 0);
    CHECK_EQ(gd_journal_close(&job.journal), 0);
    gd_journal_reader_close(&r);
    CHECK_STR(names_here(), "run.db");
    CHECK_STR(job_sql("run.db", "SELECT count(*) FROM task"), "20");
}

/* Leaves a journal in the state that kill -9 would leave. */
static void run_and_leave(struct job *job)
{
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(job_open(job) == 0 && gd_run(&job->o) == 0 ? 0 : 1);
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK(access("run.db-wal", F_OK) == 0 || access("run.db-journal", F_OK) == 0);
}

TEST(a_reader_changes_no_content)
{
    static const char all[] = "SELECT *, hex(key) FROM task, run ORDER BY task.id";
    directory_enter();
    struct job job = JOB("");
    job_numbers(&job, 20);
    run_and_leave(&job);
    read_once("run.db", 20);
    char *before = strdup(job_sql("run.db", all));
    CHECK_GT(strlen(before), 1000);
    read_once("run.db", 20);
    CHECK_STR(job_sql("run.db", all), before);
    free(before);
    sqlite3 *db;
    CHECK_EQ(gd__db_open_read(&db, "run.db"), 0);
    CHECK_EQ(gd__db_exec(db, "DELETE FROM task"), SQLITE_READONLY);
    sqlite3_close(db);
    CHECK_STR(job_sql("run.db", "SELECT count(*) FROM task"), "20");
}

/* --- names of a journal --- */

TEST(a_journal_is_held_under_every_name)
{
    directory_enter();
    struct job job = JOB(""), other = JOB("");
    job_numbers(&job, 5);
    job_numbers(&other, 5);
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(symlink("run.db", "link.db"), 0);
    job.j.resume = other.j.resume = GD_JOURNAL_RESUME_REST;
    CHECK_EQ(job_open(&job), 0);
    other.j.path = "link.db";
    CHECK_EQ(job_open(&other), GD_E_BUSY);
    CHECK_EQ(gd_journal_close(&job.journal), 0);
    CHECK_EQ(job_open(&other), 0);
    CHECK_EQ(job_open(&job), GD_E_BUSY);
    CHECK_EQ(gd_journal_close(&other.journal), 0);
    CHECK_STR(names_here(), "link.db run.db");
}

TEST(the_log_is_found_by_another_name)
{
    directory_enter();
    struct job job = JOB("");
    job_numbers(&job, 2000);
    CHECK_EQ(mkdir("there", 0755), 0);
    CHECK_EQ(chdir("there"), 0);
    run_and_leave(&job);
    CHECK_EQ(chdir(".."), 0);
    CHECK_EQ(symlink("there/run.db", "link.db"), 0);
    job.j.path = "link.db";
    job.j.resume = GD_JOURNAL_RESUME_REST;
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_ran(&job), "");
    read_once("link.db", 2000);
    CHECK_STR(names_here(), "link.db there");
}

TEST(a_link_to_nothing_is_refused)
{
    directory_enter();
    CHECK_EQ(symlink("run.db", "link.db"), 0);
    struct job job = JOB("");
    job.j.path = "link.db";
    CHECK_EQ(job_open(&job), GD_E_INVALID);
    CHECK_CONTAINS(job.text, "link.db is a symbolic link to a file that does not exist");
    CHECK_STR(names_here(), "link.db");
}

TEST(another_working_directory_changes_nothing)
{
    directory_enter();
    struct job job = JOB("");
    job_lines(&job, "new", "c", "b", "a", NULL); /* the index is made in the directory of the journal */
    job.lines++;
    job.n--;
    CHECK_EQ(job_run(&job), 0);
    job.lines--;
    job.n++;
    job.j.resume = GD_JOURNAL_RESUME_REST;
    CHECK_EQ(mkdir("there", 0755), 0);
    CHECK_EQ(job_open(&job), 0);
    CHECK_EQ(chdir("there"), 0);
    CHECK_EQ(gd_run(&job.o), 0);
    CHECK_EQ(gd_journal_close(&job.journal), 0);
    CHECK_STR(names_here(), "");
    CHECK_EQ(chdir(".."), 0);
    CHECK_STR(job_ran(&job), "new");
    CHECK_STR(names_here(), "run.db there");
}

TEST(a_forked_process_does_not_close_it)
{
    directory_enter();
    struct job job = JOB("");
    job_numbers(&job, 10);
    CHECK_EQ(job_open(&job), 0);
    CHECK_EQ(gd_run(&job.o), 0); /* the journal's thread exists until the journal is closed */
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(gd_journal_close(&job.journal) == 0 && !job.journal ? 0 : 1);
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    CHECK(access("run.db-lock", F_OK) == 0);
    CHECK_EQ(gd_journal_close(&job.journal), 0);
    CHECK_STR(names_here(), "run.db");
    CHECK_STR(job_sql("run.db", "SELECT outcome FROM run"), "finished");
}

/* --- errors --- */

TEST(a_journal_that_cannot_have_a_log_gets_a_rollback_journal)
{
    directory_enter();
    setenv(GD__ENV_SHARED_FILES, "0", 1);
    if (gd__file_is_shared("."))
        SKIP("the file system of the tests is not known to be local");
    struct job job = JOB("");
    bool without_log = false;
    for (unsigned long nth = 1; nth < 30 && !without_log; nth++) {
        gd__fault_begin(nth);
        const int rc = job_open(&job);
        gd__fault_begin(0);
        without_log = rc == 0 && strcmp(job_sql("run.db", "PRAGMA journal_mode"), "delete") == 0;
        gd_journal_close(&job.journal);
        unlink("run.db");
    }
    CHECK(without_log);
}

/* A followed file that is replaced after the run. */
static void run_following(struct job *job)
{
    directory_enter();
    job_numbers(job, 10);
    job->follow = "out";
    job->follow_fd = open("out", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    CHECK_EQ(job_open(job), 0);
    CHECK_EQ(gd_run(&job->o), 0);
    CHECK_STR(job_sql("run.db", "SELECT size FROM file"), "20");
    CHECK_EQ(ftruncate(job->follow_fd, 4), 0);
}

TEST(a_length_is_written_although_the_journal_was_locked)
{
    struct job job = JOB("");
    run_following(&job);
    gd__fault_begin(1); /* the first call that can fail is the transaction */
    CHECK_EQ(gd_journal_follow_anew(job.journal, "out", job.follow_fd), 0);
    CHECK_EQ(gd__fault_count() > 1, true);
    gd__fault_begin(0);
    CHECK_STR(job_sql("run.db", "SELECT size FROM file"), "4");
    CHECK_EQ(gd_journal_close(&job.journal), 0);
    CHECK_STR(job_sql("run.db", "SELECT outcome FROM run"), "finished");
}

TEST(a_failed_sync_is_not_tried_again)
{
    struct job job = JOB("");
    job.j.sync = GD_JOURNAL_SYNC_FULL;
    run_following(&job);
    gd__fault_begin(3); /* the calls before it are the transaction and the write */
    CHECK_EQ(gd_journal_follow_anew(job.journal, "out", job.follow_fd), GD_E_JOURNAL);
    CHECK_CONTAINS(gd_error_text(), "cannot flush");
    gd__fault_begin(0);
    CHECK_EQ(gd_journal_close(&job.journal), GD_E_JOURNAL);
    CHECK_STR(job_sql("run.db", "SELECT size FROM file"), "20");
}

TEST(a_replaced_file_of_the_same_length_is_recognised)
{
    struct job job = JOB("");
    run_following(&job);
    char *was = strdup(job_sql("run.db", "SELECT hex(tail) FROM file"));
    CHECK_EQ(ftruncate(job.follow_fd, 0), 0);
    CHECK_EQ(write(job.follow_fd, "other\nother\nother12\n", 21), 21);
    CHECK_EQ(ftruncate(job.follow_fd, 20), 0);
    CHECK_EQ(gd_journal_follow_anew(job.journal, "out", job.follow_fd), 0);
    CHECK(strcmp(job_sql("run.db", "SELECT hex(tail) FROM file"), was) != 0);
    free(was);
    CHECK_EQ(gd_journal_close(&job.journal), 0);
    job.j.resume = GD_JOURNAL_RESUME_REST;
    CHECK_EQ(job_run(&job), 0);
}

/* --- followed files that were moved or edited --- */

/* Changes the journal as if the run had been killed. Then text beyond the recorded length may be the run's own. */
static void not_ended(void)
{
    job_sql("run.db", "UPDATE file SET ended = NULL");
}

static void follow_out(struct job *job)
{
    job->follow = "out";
    job->follow_fd = open("out", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    CHECK(job->follow_fd >= 0);
}

/* The content of "out" after it was followed again; '!' if that was refused. */
static const char *out_after_resume(struct job *job, const char *before)
{
    static char text[256];
    CHECK_EQ(ftruncate(job->follow_fd, 0), 0);
    CHECK_EQ(write(job->follow_fd, before, strlen(before)), (ssize_t)strlen(before));
    job->j.resume = GD_JOURNAL_RESUME_REST;
    const int rc = job_open(job);
    gd_journal_close(&job->journal);
    if (rc < 0) {
        CHECK_EQ(rc, GD_E_MISMATCH);
        CHECK_CONTAINS(job->text, "out was changed since the journal run.db wrote to it");
    }
    const ssize_t n = pread(job->follow_fd, text, sizeof text - 1, 0);
    CHECK(n >= 0);
    text[n] = '\0';
    if (rc < 0)
        CHECK_STR(text, before); /* nothing was cut */
    return rc < 0 ? "!" : text;
}

TEST(a_followed_file_is_cut_only_if_it_is_unchanged)
{
    directory_enter();
    struct job job = JOB("");
    job_lines(&job, "one", "two", NULL);
    job.o.ordered = true;
    follow_out(&job);
    CHECK_EQ(job_run(&job), 0);
    not_ended();
    CHECK_STR(out_after_resume(&job, "one\ntwo\n"), "one\ntwo\n");
    CHECK_STR(out_after_resume(&job, "one\ntwo\nthr"), "one\ntwo\n");
    CHECK_STR(out_after_resume(&job, "# own\none\ntwo\n"), "!");
    CHECK_STR(out_after_resume(&job, "won\ntwo\nthr"), "!"); /* a line happens to end there */
    CHECK_STR(out_after_resume(&job, "won\ntwo\n"), "!");
    job.j.force = true;
    CHECK_STR(out_after_resume(&job, "# own\none\ntwo"), "# own\none\ntwo\n");
}

TEST(text_added_after_the_end_is_not_cut_off)
{
    directory_enter();
    struct job job = JOB("");
    job_lines(&job, "one", NULL);
    follow_out(&job);
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(write(job.follow_fd, "own\n", 4), 4);
    job.j.resume = GD_JOURNAL_RESUME_REST;
    CHECK_EQ(job_run(&job), GD_E_MISMATCH);
    CHECK_CONTAINS(job.text, "out has 4 bytes more");
    CHECK_STR(job_sql("run.db", "SELECT size, ended FROM file"), "4|1");
    job.j.force = true;
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_sql("run.db", "SELECT size, ended FROM file"), "8|1");
}

/* Only the end of a long file is read: the part before it may have changed. */
TEST(only_the_end_of_a_long_file_is_checked)
{
    enum { LONG = 300000, TAIL = 64 << 10 };
    directory_enter();
    struct job job = JOB("");
    job_lines(&job, "one", NULL);
    follow_out(&job);
    CHECK_EQ(ftruncate(job.follow_fd, LONG), 0);
    CHECK_EQ(job_run(&job), 0);
    const off_t size = LONG + 4;
    job.j.resume = GD_JOURNAL_RESUME_REST;
    CHECK_EQ(fcntl(job.follow_fd, F_SETFL, 0), 0); /* otherwise it is appended to */
    CHECK_EQ(pwrite(job.follow_fd, "x", 1, size - TAIL - 1), 1);
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(pwrite(job.follow_fd, "x", 1, size - TAIL), 1);
    CHECK_EQ(job_run(&job), GD_E_MISMATCH);
}

/* Makes the table of files as version 0.1 did. */
static void make_table_of_0_1(const char *path)
{
    char sql[PATH_MAX + 100], size[32];
    snprintf(size, sizeof size, "%s", job_sql("run.db", "SELECT size FROM file"));
    job_sql("run.db", "DROP TABLE file");
    job_sql("run.db", "CREATE TABLE file(path PRIMARY KEY, size INTEGER NOT NULL) WITHOUT ROWID");
    snprintf(sql, sizeof sql, "INSERT INTO file VALUES('%s', %s)", path, size);
    job_sql("run.db", sql);
}

TEST(a_journal_of_version_0_1_is_resumed)
{
    directory_enter();
    struct job job = JOB("");
    char full[PATH_MAX];
    job_lines(&job, "one", "two", NULL);
    job.o.ordered = true;
    follow_out(&job);
    CHECK(realpath("out", full) != NULL);
    CHECK_EQ(job_run(&job), 0);
    make_table_of_0_1(full);
    CHECK_STR(out_after_resume(&job, "# own\none\ntwo\n"), "!"); /* no line ends where it would be cut */
    make_table_of_0_1(full);
    CHECK_STR(out_after_resume(&job, "one\ntwo\nthr"), "one\ntwo\n");
    CHECK_STR(job_sql("run.db", "SELECT size, beside, length(tail) FROM file"), "8|out|16");
    /* And version 0.1 can resume this journal. */
    char sql[PATH_MAX + 100];
    snprintf(sql, sizeof sql, "INSERT OR REPLACE INTO file(path, size) VALUES('%s', 4)", full);
    job_sql("run.db", sql);
    CHECK_STR(out_after_resume(&job, "one\ntwo\nthr"), "one\n");
    CHECK_STR(job_sql("run.db", "SELECT size, beside, length(tail) FROM file"), "4|out|16");
}

/* Version 0.1 resumed a journal that had been moved, and added its own row. */
TEST(the_greater_of_two_lengths_counts)
{
    directory_enter();
    struct job job = JOB("");
    char sql[PATH_MAX + 100], full[PATH_MAX];
    job_lines(&job, "one", "two", NULL);
    job.o.ordered = true;
    follow_out(&job);
    CHECK(realpath("out", full) != NULL);
    CHECK_EQ(job_run(&job), 0);
    job_sql("run.db", "UPDATE file SET path = '/elsewhere/out', size = 4, tail = NULL");
    snprintf(sql, sizeof sql, "INSERT INTO file(path, size) VALUES('%s', 8)", full);
    job_sql("run.db", sql);
    CHECK_STR(out_after_resume(&job, "one\ntwo\nthr"), "one\ntwo\n");
    snprintf(sql, sizeof sql, "8|out|%s", full);
    CHECK_STR(job_sql("run.db", "SELECT size, beside, path FROM file"), sql);
}

TEST(a_file_that_cannot_be_read_is_cut_by_its_length_alone)
{
    directory_enter();
    struct job job = JOB("");
    job_lines(&job, "one", NULL);
    follow_out(&job);
    CHECK_EQ(job_run(&job), 0);
    not_ended();
    CHECK_EQ(rename("out", "away"), 0); /* the name of the file now belongs to another file */
    make_file("out", 0);
    CHECK_STR(out_after_resume(&job, "two\nthr"), "two\n");
    CHECK_STR(job_sql("run.db", "SELECT size, tail FROM file"), "4|NULL");
}

/* The place of the journal, the place of the file, and the path from one to the other. */
TEST(the_path_from_the_journal_to_a_file)
{
    static const char *const ways[][3] = {
        { "run.db", "out", "out" },           { "a/run.db", "a/out", "out" },   { "a/run.db", "out", "../out" },
        { "a/run.db", "ab/o", "../ab/o" },    { "ab/run.db", "a/o", "../a/o" }, { "run.db", "a/b/o", "a/b/o" },
        { "a/b/run.db", "c/d", "../../c/d" },
    };
    directory_enter();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct job job = JOB("");
        make_file(ways[i][1], 0);
        char *above = strdup(ways[i][0]), *slash = strrchr(above, '/');
        if (slash) {
            *slash = '\0';
            make_directories(above);
        }
        free(above);
        job.j.path = ways[i][0];
        job.follow = ways[i][1];
        job.follow_fd = open(job.follow, O_RDWR | O_CLOEXEC);
        CHECK_EQ(job_open(&job), 0);
        gd_journal_close(&job.journal);
        close(job.follow_fd);
        CHECK_STR(job_sql(ways[i][0], "SELECT beside FROM file"), ways[i][2]);
        CHECK_EQ(unlink(ways[i][0]), 0);
    }
}

/* --- records that wait --- */

TEST(a_full_queue_is_written_before_the_window_is_over)
{
    directory_enter();
    struct job job = JOB("");
    job_numbers(&job, 5000);
    job.j.window_ms = 3600 * 1000;
    job.j.queue_bytes = 4000;
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(job.closed, 0);
    CHECK_STR(job_sql("run.db", "SELECT count(*) FROM task"), "5000");
}

/* --- no memory for a record --- */

static void end_task(struct gd_journal *j, int out, uint64_t number, const char *input, size_t size)
{
    struct gd__journal_key key = { .version = NULL };
    struct gd__journal_task *t = NULL;
    const struct gd_report r = { .task_id = number, .attempt = 1, .input = input, .input_size = size };
    gd__key_hash(&number, sizeof number, key.hash);
    CHECK_EQ(gd__journal_take(j, &key, number, &t), 1);
    CHECK_EQ(write(out, "0123456789", 10), 10);
    if (size > 1000)
        gd__fault_begin(1);
    gd__journal_put(j, t, &r);
    gd__fault_begin(0);
}

TEST(after_a_lost_record_a_followed_file_counts_up_to_the_last_record)
{
    static char large[100000];
    directory_enter();
    struct job job = JOB("");
    job.j.window_ms = 3600 * 1000;
    job.j.input_bytes = sizeof large;
    job.follow = "out";
    job.follow_fd = open("out", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    CHECK_EQ(job_open(&job), 0);
    const struct gd__journal_run run = { .total = 0 };
    CHECK_EQ(gd__journal_begin(job.journal, &run), 0);
    end_task(job.journal, job.follow_fd, 0, "a", 1);
    end_task(job.journal, job.follow_fd, 1, large, sizeof large);
    end_task(job.journal, job.follow_fd, 2, "c", 1);
    CHECK_EQ(gd__journal_end(job.journal, "finished"), GD_E_JOURNAL);
    CHECK_CONTAINS(gd_error_text(), "no memory for a record");
    CHECK_EQ(gd_journal_close(&job.journal), GD_E_JOURNAL);
    CHECK_STR(job_sql("run.db", "SELECT number, input FROM task"), "0|a");
    CHECK_STR(job_sql("run.db", "SELECT size FROM file"), "10");
    CHECK_STR(job_sql("run.db", "SELECT outcome FROM run"), "journal failed");
}

int main(int argc, char **argv)
{
    if (job_main(&argc, argv) < 0)
        return 1;
    return test_main(argc, argv);
}
