/* Problems with a journal: files that are not journals, full disks, killed processes, truncated files. In every case
 * there is an error message, and no record that was reported as written is lost. */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/file/shared.h"
#include "support/journal.h"

static int try_open(const char *path, char *words, size_t size)
{
    struct gd_journal_options o = GD_JOURNAL_OPTIONS_INIT;
    struct gd_journal *j;
    o.path = path;
    o.resume = GD_JOURNAL_RESUME_REST;
    const int rc = gd_journal_open(&j, &o);
    snprintf(words, size, "%s", gd_error_text());
    CHECK_EQ(gd_journal_close(&j), 0);
    return rc;
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, bytes, size), (ssize_t)size);
    close(fd);
}

/* Sets *size. */
static char *read_file(const char *path, size_t *size)
{
    struct stat info;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQ(fstat(fd, &info), 0);
    char *bytes = job_room((size_t)info.st_size + 1);
    CHECK_EQ(read(fd, bytes, (size_t)info.st_size), info.st_size);
    close(fd);
    *size = (size_t)info.st_size;
    return bytes;
}

/* --- opening --- */

TEST(a_file_that_is_not_a_journal_is_refused_and_left_alone)
{
    directory_enter();
    char words[1024], text[5000];
    memset(text, 'x', sizeof text);
    write_file("notes.txt", text, sizeof text);
    CHECK_EQ(try_open("notes.txt", words, sizeof words), GD_E_CORRUPT);
    CHECK_CONTAINS(words, "not a journal");
    size_t size;
    char *now = read_file("notes.txt", &size);
    CHECK_EQ(size, sizeof text);
    CHECK_MEM(now, text, size);
    CHECK(access("notes.txt-lock", F_OK) < 0);
}

TEST(a_database_of_something_else_is_refused_and_left_alone)
{
    directory_enter();
    char words[1024];
    write_file("other.db", "", 0);
    job_sql("other.db", "CREATE TABLE t(x)");
    CHECK_EQ(try_open("other.db", words, sizeof words), GD_E_CORRUPT);
    CHECK_CONTAINS(words, "another program");
    CHECK_STR(job_sql("other.db", "PRAGMA journal_mode"), "delete");
}

TEST(a_newer_version_is_refused)
{
    directory_enter();
    struct job job = JOB("");
    char words[1024];
    job_lines(&job, "a", NULL);
    CHECK_EQ(job_run(&job), 0);
    job_sql("run.db", "PRAGMA user_version = 3");
    CHECK_EQ(try_open("run.db", words, sizeof words), GD_E_VERSION);
    CHECK_CONTAINS(words, "version 3");
    struct gd_journal_reader *r;
    CHECK_EQ(gd_journal_reader_open(&r, "run.db"), GD_E_VERSION);
}

TEST(an_empty_file_becomes_a_journal)
{
    directory_enter();
    struct job job = JOB("");
    write_file("run.db", "", 0);
    job_lines(&job, "a", NULL);
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_sql("run.db", "SELECT count(*) FROM task"), "1");
}

TEST(a_missing_directory_is_named)
{
    directory_enter();
    char words[1024];
    CHECK_LT(try_open("no/such/folder/run.db", words, sizeof words), 0);
    CHECK_STR(words, "cannot create the journal: the directory no/such/folder does not exist. Create it first");
    CHECK_EQ(mkdir("d", 0755), 0);
    CHECK_LT(try_open("d", words, sizeof words), 0);
    CHECK_CONTAINS(words, "d is not a regular file");
}

TEST(a_second_run_is_refused)
{
    directory_enter();
    struct gd_journal_options o = GD_JOURNAL_OPTIONS_INIT;
    struct gd_journal *j, *second;
    char words[64];
    o.path = "run.db";
    CHECK_EQ(gd_journal_open(&j, &o), 0);
    CHECK_EQ(gd_journal_open(&second, &o), GD_E_BUSY);
    snprintf(words, sizeof words, "process %ld", (long)getpid());
    CHECK_CONTAINS(gd_error_text(), words);
    CHECK_EQ(gd_journal_close(&j), 0);
    CHECK_EQ(gd_journal_open(&j, &o), 0);
    CHECK_EQ(gd_journal_close(&j), 0);
    CHECK_STR(job_sql("run.db", "SELECT count(*) FROM run"), "0"); /* none ever began */
}

TEST(a_journal_has_one_run)
{
    directory_enter();
    struct job job = JOB("");
    job_lines(&job, "a", NULL);
    CHECK_EQ(job_open(&job), 0);
    CHECK_EQ(gd_run(&job.o), 0);
    CHECK_EQ(gd_run(&job.o), GD_E_BUSY);
    CHECK_EQ(gd_journal_close(&job.journal), 0);
}

TEST(bad_options_are_refused)
{
    struct gd_journal_options o = GD_JOURNAL_OPTIONS_INIT;
    struct gd_journal *j;
    CHECK_EQ(gd_journal_open(&j, &o), GD_E_INVALID);
    CHECK_EQ(gd_journal_open(&j, NULL), GD_E_INVALID);
    CHECK_EQ(gd_journal_open(NULL, &o), GD_E_INVALID);
    o.path = "run.db";
    o.resume = (enum gd_journal_resume)9;
    CHECK_EQ(gd_journal_open(&j, &o), GD_E_INVALID);
    CHECK_EQ(gd_journal_close(NULL), 0);
    gd_journal_add_note(NULL, NULL);
}

/* --- being killed --- */

/* Makes the run write its records in several groups, however fast it is: it may not get far ahead of the records. */
static void in_small_groups(struct job *job)
{
    job->j.window_ms = 1;
    job->j.queue_bytes = 4000;
    job->o.queue_size = 16;
}

TEST(a_run_killed_at_any_point_can_be_resumed)
{
    static const char *const points[] = { "journal_begin",     "journal_begin:2",     "journal_record:1",
                                          "journal_record:77", "journal_record:1500", "journal_commit",
                                          "journal_commit:2",  "journal_committed",   "journal_committed:2" };
    directory_enter();
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        struct job job = JOB("");
        job_numbers(&job, 2000);
        in_small_groups(&job);
        job.j.resume = GD_JOURNAL_RESUME_REST;
        job_run_and_die(&job, points[i]);
        CHECK_EQ(job_run(&job), 0);
        CHECK_EQ(job.closed, 0);
        CHECK_STR(job_sql("run.db", "PRAGMA integrity_check"), "ok");
        CHECK_STR(job_sql("run.db", "SELECT count(*), count(DISTINCT input), max(id), sum(id <> number + 1) FROM task"),
                  "2000|2000|2000|0");
        CHECK_STR(job_sql("run.db", "SELECT all_done FROM run ORDER BY number DESC LIMIT 1"), "2000");
        CHECK_EQ(unlink("run.db"), 0);
    }
}

/* --- followed files --- */

TEST(a_followed_file_has_each_line_once)
{
    directory_enter();
    struct job job = JOB("");
    job_numbers(&job, 500);
    job.j.window_ms = 1;
    job.j.resume = GD_JOURNAL_RESUME_REST;
    job.follow = "out";
    job.follow_fd = open("out", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    CHECK(job.follow_fd >= 0);
    job_run_and_die(&job, "journal_record:400");
    CHECK_EQ(write(job.follow_fd, "torn", 4), 4);
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(job.closed, 0);
    size_t size;
    char *text = read_file("out", &size);
    unsigned seen[500] = { 0 };
    text[size] = '\0';
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        CHECK(strspn(line, "0123456789") == strlen(line));
        CHECK_LT(atoi(line), 500);
        seen[atoi(line)]++;
    }
    for (unsigned i = 0; i < 500; i++)
        CHECK_EQ(seen[i], 1);
}

TEST(a_followed_file_that_is_too_short_is_refused)
{
    directory_enter();
    struct job job = JOB("");
    job_numbers(&job, 10);
    job.follow = "out";
    job.follow_fd = open("out", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(ftruncate(job.follow_fd, 5), 0);
    job.j.resume = GD_JOURNAL_RESUME_REST;
    CHECK_EQ(job_run(&job), GD_E_MISMATCH);
    CHECK_CONTAINS(job.text, "out has 5 bytes");
    job.j.force = true;
    CHECK_EQ(job_run(&job), 0);
}

TEST(full_sync_keeps_everything_too)
{
    directory_enter();
    struct job job = JOB("");
    job_numbers(&job, 2000);
    job.j.sync = GD_JOURNAL_SYNC_FULL;
    job.j.window_ms = 1;
    job.follow = "out";
    job.follow_fd = open("out", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_sql("run.db", "SELECT count(*) FROM task"), "2000");
    struct stat info;
    CHECK_EQ(fstat(job.follow_fd, &info), 0);
    char sql[64], size[32];
    snprintf(sql, sizeof sql, "SELECT size FROM file");
    snprintf(size, sizeof size, "%lld", (long long)info.st_size);
    CHECK_STR(job_sql("run.db", sql), size);
}

/* --- disks --- */

/* Sets the limit after the rings are made, because they are larger than the limit. */
static void fill_disk(struct job *job, const struct gd_report *r)
{
    (void)r;
    const struct rlimit small = { 256 << 10, RLIM_INFINITY };
    if (job->done == 1)
        CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
}

TEST(a_full_disk_ends_the_run_and_loses_nothing)
{
    directory_enter();
    struct job job = JOB("");
    job_numbers(&job, 20000);
    job.j.window_ms = 1;
    job.j.resume = GD_JOURNAL_RESUME_REST;
    job.on_final = fill_disk;
    const struct rlimit large = { RLIM_INFINITY, RLIM_INFINITY };
    signal(SIGXFSZ, SIG_IGN);
    CHECK_EQ(job_run(&job), GD_E_JOURNAL);
    CHECK_EQ(job.closed, GD_E_JOURNAL);
    CHECK_CONTAINS(job.text, "run.db");
    CHECK_CONTAINS(job.text, "runs the tasks without a record on disk again");
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &large), 0);
    char on_disk[32];
    snprintf(on_disk, sizeof on_disk, "%llu", (unsigned long long)job.counts.recorded);
    CHECK_STR(job_sql("run.db", "SELECT count(*) FROM task"), on_disk);
    CHECK_STR(job_sql("run.db", "PRAGMA integrity_check"), "ok");
    job.on_final = NULL;
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(job.closed, 0);
    CHECK_STR(job_sql("run.db", "SELECT count(*), count(DISTINCT input) FROM task"), "20000|20000");
}

/* There is room again when the journal is closed. */
TEST(a_failed_write_is_tried_once_more)
{
    directory_enter();
    struct job job = JOB("");
    job_numbers(&job, 20000);
    job.j.window_ms = 1;
    job.on_final = fill_disk;
    const struct rlimit large = { RLIM_INFINITY, RLIM_INFINITY };
    signal(SIGXFSZ, SIG_IGN);
    CHECK_EQ(job_open(&job), 0);
    CHECK_EQ(gd_run(&job.o), GD_E_JOURNAL);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &large), 0);
    CHECK_EQ(gd_journal_close(&job.journal), 0);
    char ended[32];
    snprintf(ended, sizeof ended, "%u", job.done);
    CHECK_STR(job_sql("run.db", "SELECT count(*) FROM task"), ended);
    CHECK_STR(job_sql("run.db", "SELECT outcome FROM run"), "journal failed");
}

/* SQLite's file functions, which watch for files without a name. Such files are in a default directory, whose disk may
 * be full when the journal's disk is not. */
static sqlite3_vfs watched, *usual;
static atomic_int n_nameless;

static int open_watched(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    (void)vfs;
    n_nameless += name == NULL;
    return usual->xOpen(usual, name, file, flags, out);
}

static void watch_files(void)
{
    usual = sqlite3_vfs_find(NULL);
    watched = *usual;
    watched.zName = "watched";
    watched.xOpen = open_watched;
    CHECK_EQ(sqlite3_vfs_register(&watched, 1), SQLITE_OK);
}

/* One group has new records and records that replace others. SQLite must not hold all their pages in memory either. */
TEST(records_that_replace_others_need_only_the_journals_disk)
{
    enum { OLD = 3000, NEW = 6000 };
    directory_enter();
    struct job job = JOB("");
    static const char *first[NEW], *second[NEW];
    static char long_one[2001] = "1";
    memset(long_one + 1, ' ', sizeof long_one - 2);
    job_numbers(&job, NEW);
    for (size_t i = 0; i < NEW; i++) {
        first[i] = long_one;
        second[i] = i % 2 ? long_one : "2";
    }
    job.n = OLD;
    job.j.window_ms = 60000;
    job.versions = first;
    CHECK_EQ(job_run(&job), 0);
    job.n = NEW;
    job.versions = second;
    job.j.resume = GD_JOURNAL_RESUME_REST;
    watch_files();
    sqlite3_memory_highwater(1);
    CHECK_EQ(job_run(&job), 0);
    CHECK_LT(sqlite3_memory_highwater(0), 8 << 20); /* it is 6 MiB, 4 of them caches; with all pages it would be 11 */
    CHECK_EQ(job.closed, 0);
    CHECK_EQ(n_nameless, 0);
    CHECK_STR(job_sql("run.db", "SELECT count(*), count(DISTINCT input), sum(run = 1), sum(version = '2') FROM task"),
              "6000|6000|1500|3000");
    CHECK_STR(job_sql("run.db", "SELECT done, all_done FROM run WHERE number = 2"), "4500|6000");
    CHECK_STR(job_sql("run.db", "PRAGMA integrity_check"), "ok");
}

static void break_journal(struct job *job, const struct gd_report *r)
{
    (void)r;
    if (job->done + job->failed == 100) { /* after that, no record can be written */
        job_sql("run.db", "DROP TABLE task");
    }
}

TEST(a_journal_that_cannot_be_written_ends_the_run)
{
    directory_enter();
    struct job job = JOB("");
    job_numbers(&job, 20000);
    in_small_groups(&job); /* otherwise the run might end before it writes to the disk */
    job.on_final = break_journal;
    CHECK_EQ(job_run(&job), GD_E_JOURNAL);
    CHECK_EQ(job.closed, GD_E_JOURNAL);
    CHECK_CONTAINS(job.text, "no such table");
    CHECK_GT(job.cancelled + (job.n - job.next), 0);
}

/* --- calls that fail --- */

/* Runs in a separate process, in which the nth call that can fail fails. False: there are fewer calls. */
static bool run_with_fault(unsigned long nth)
{
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct job job = JOB("");
        job_numbers(&job, 12);
        job.j.resume = GD_JOURNAL_RESUME_REST;
        job.follow = "out";
        job.follow_fd = open("out", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        gd__fault_begin(nth);
        const int rc = job_run(&job);
        const bool all = gd__fault_count() < nth;
        gd__fault_begin(0);
        CHECK(!all || rc == 0);
        _exit(all ? 42 : 0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 42);
    return WEXITSTATUS(status) == 0;
}

TEST_WITHIN(300, whatever_fails_nothing_is_lost)
{
    directory_enter();
    unsigned long nth = 1;
    for (; run_with_fault(nth); nth++) {
        struct job job = JOB("");
        job_numbers(&job, 12);
        job.j.resume = GD_JOURNAL_RESUME_REST;
        CHECK_EQ(job_run(&job), 0);
        CHECK_EQ(job.closed, 0);
        CHECK_STR(job_sql("run.db", "SELECT count(*), count(DISTINCT input) FROM task"), "12|12");
        if (nth % 3 == 0) { /* sometimes from the beginning, so that calls also fail while resuming */
            CHECK_EQ(unlink("run.db"), 0);
            CHECK_EQ(unlink("out"), 0);
        }
    }
    CHECK_GT(nth, 50);
}

/* --- tails --- */

TEST_WITHIN(300, a_journal_cut_anywhere_opens_or_says_that_it_is_damaged)
{
    directory_enter();
    struct job job = JOB("");
    char words[1024];
    job_numbers(&job, 300);
    CHECK_EQ(job_run(&job), 0);
    size_t size;
    char *whole = read_file("run.db", &size);
    const size_t from = size > 9000 ? size - 9000 : 0;
    for (size_t cut = from; cut < size; cut += cut % 512 < 500 && cut + 600 < size ? 61 : 1) {
        write_file("cut.db", whole, cut);
        unlink("cut.db-wal");
        unlink("cut.db-shm");
        const int rc = try_open("cut.db", words, sizeof words);
        if (rc == 0)
            CHECK_STR(job_sql("cut.db", "PRAGMA integrity_check"), "ok");
        else
            CHECK_EQ(rc, GD_E_CORRUPT);
    }
    CHECK_EQ(try_open("run.db", words, sizeof words), 0);
}

/* Cuts at every byte where frames of the log meet, and at some bytes in between. */
TEST_WITHIN(300, a_log_cut_anywhere_is_read_up_to_there)
{
    directory_enter();
    struct job job = JOB("");
    char words[1024];
    job_numbers(&job, 300);
    in_small_groups(&job);
    if (gd__file_is_shared("."))
        SKIP("a journal on a shared file system has no log");
    job_run_and_die(&job, "journal_committed:2");
    size_t size, log_size;
    char *whole = read_file("run.db", &size), *log = read_file("run.db-wal", &log_size);
    const size_t frame = (size_t)atoi(job_sql("run.db", "PRAGMA page_size")) + 24;
    CHECK_GT(log_size, 3 * frame);
    for (size_t off = 0; off < 2 * frame + 40; off += off % frame < 40 || frame - off % frame < 40 ? 1 : 211) {
        write_file("cut.db", whole, size);
        write_file("cut.db-wal", log, log_size - off);
        unlink("cut.db-shm");
        CHECK_EQ(try_open("cut.db", words, sizeof words), 0);
        CHECK_STR(job_sql("cut.db", "PRAGMA integrity_check"), "ok");
        CHECK_STR(job_sql("cut.db",
                          "SELECT (SELECT count(*) FROM task) = coalesce((SELECT all_done FROM run ORDER BY number"
                          " DESC LIMIT 1), 0)"),
                  "1");
    }
}

/* Journals of an earlier release have another page size. */
TEST(a_journal_with_other_pages_is_resumed)
{
    directory_enter();
    struct job job = JOB("");
    sqlite3 *db;
    job_numbers(&job, 2000);
    job.n = 1000;
    CHECK_EQ(job_run(&job), 0);
    CHECK_STR(job_sql("run.db", "PRAGMA page_size"), "16384");
    CHECK_EQ(sqlite3_open("run.db", &db), SQLITE_OK);
    CHECK_EQ(sqlite3_exec(db, "PRAGMA journal_mode = DELETE; PRAGMA page_size = 4096; VACUUM", NULL, NULL, NULL),
             SQLITE_OK);
    sqlite3_close(db);
    job.n = 2000;
    job.j.resume = GD_JOURNAL_RESUME_REST;
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(job.done, 1000);
    CHECK_STR(job_sql("run.db", "PRAGMA page_size"), "4096");
    CHECK_STR(job_sql("run.db", "PRAGMA journal_mode"), gd__file_is_shared(".") ? "delete" : "wal");
    CHECK_STR(job_sql("run.db", "SELECT count(*), count(DISTINCT input) FROM task"), "2000|2000");
    CHECK_STR(job_sql("run.db", "PRAGMA integrity_check"), "ok");
}

int main(int argc, char **argv)
{
    if (job_main(&argc, argv) < 0)
        return fprintf(stderr, "%s\n", gd_error_text()), 1;
    return test_main(argc, argv);
}
