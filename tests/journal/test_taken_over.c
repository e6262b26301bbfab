/* A run that was given up but goes on: it was stopped, or its host was cut off. It must write nothing more, neither to
 * the journal nor to the files of its successor. $GPU_DISPATCH_LOCK_TEST lets two runs be on two hosts whose locks do not
 * exclude each other. */
#include <sys/inotify.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/file/shared.h"
#include "binding.h"
#include "journal/internal.h"
#include "support/journal.h"

static void be_on(const char *host, const char *stale_ms)
{
    char text[256];
    snprintf(text, sizeof text, "shared=1,host=%s,boot=boot-of-%s,locks=local,stale_ms=%s", host, host, stale_ms);
    setenv("GPU_DISPATCH_LOCK_TEST", text, 1);
}

static const char *records(void)
{
    return job_sql("run.db", "SELECT count(*), count(DISTINCT input) FROM task");
}

static int open_output(void)
{
    const int fd = open("out", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    return fd;
}

/* --- in one process --- */

/* Another host takes the journal over, does nothing, and closes it. */
static void take_over(struct job *job, const struct gd_report *r)
{
    struct gd_journal_options o = GD_JOURNAL_OPTIONS_INIT;
    struct gd_journal *other = NULL;
    (void)r;
    if (job->mine)
        return;
    job->mine = job;
    be_on("b", "50");
    o.path = "run.db";
    o.command = job->j.command;
    o.resume = GD_JOURNAL_RESUME_REST;
    o.lock_wait_ms = 600 * 1000;
    if (gd_journal_open(&other, &o) < 0)
        FAIL("%s", gd_error_text());
    CHECK_EQ(gd_journal_close(&other), 0);
    be_on("a", "3600000");
}

TEST(a_run_that_was_given_up_writes_nothing)
{
    directory_enter();
    struct job job = JOB("run.db");
    job_lines(&job, "a", "b", "c", NULL);
    job.j.window_ms = 1000 * 1000;
    job.on_final = take_over;
    be_on("a", "3600000");
    CHECK_EQ(job_run(&job), GD_E_JOURNAL);
    CHECK_CONTAINS(job.text, "another run took over this journal");
    CHECK_EQ(job.closed, GD_E_JOURNAL);
    CHECK_CONTAINS(gd_error_text(), "3 are not"); /* closing had another error after that */
    CHECK_EQ(job.counts.recorded, 0);
    CHECK_STR(records(), "0|0");
    CHECK_STR(job_sql("run.db", "SELECT number, outcome, taken, done, nonce FROM run"), "1|NULL|0|0|NULL");
    CHECK(access("run.db-lock", F_OK) < 0);
    struct job again = JOB("run.db");
    job_lines(&again, "a", "b", "c", NULL);
    again.j.resume = GD_JOURNAL_RESUME_REST;
    CHECK_EQ(job_run(&again), 0);
    CHECK_STR(records(), "3|3");
}

/* The lock file does not always show it: the database does. */
TEST(the_database_decides)
{
    directory_enter();
    struct job job = JOB("run.db");
    job_lines(&job, "a", "b", "c", NULL);
    CHECK_EQ(job_open(&job), 0);
    (void)job_sql("run.db", "UPDATE run SET nonce = 'another'");
    const int fd = open("out", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    CHECK_EQ(gd_journal_follow(job.journal, "out", fd), GD_E_JOURNAL);
    CHECK_CONTAINS(gd_error_text(), "another run took over this journal");
    CHECK_STR(job_sql("run.db", "SELECT count(*) FROM file"), "0");
    CHECK_EQ(gd_dispatcher_open(&job.d, &job.o), 0);
    CHECK_EQ(gd_dispatcher_run(job.d), GD_E_JOURNAL);
    CHECK_CONTAINS(gd_error_text(), "another run took over this journal");
    gd_dispatcher_close(&job.d);
    CHECK_EQ(gd_journal_close(&job.journal), GD_E_JOURNAL);
    CHECK_STR(records(), "0|0");
    close(fd);
}

/* A program may open the file before it waits for the journal. The run before it may replace the file. */
TEST(a_file_that_was_replaced_is_refused)
{
    directory_enter();
    struct job job = JOB("run.db");
    job_lines(&job, "a", NULL);
    const int fd = open("out", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    CHECK_EQ(close(open("new", O_WRONLY | O_CREAT | O_CLOEXEC, 0644)), 0);
    CHECK_EQ(rename("new", "out"), 0);
    CHECK_EQ(job_open(&job), 0);
    CHECK_EQ(gd_journal_follow(job.journal, "out", fd), GD_E_MISMATCH);
    CHECK_CONTAINS(gd_error_text(), "out was replaced after it was opened");
    CHECK_EQ(gd_journal_close(&job.journal), 0);
    close(fd);
}

/* --- a file that the journal does not know yet --- */

static struct gd_journal *open_on(const char *host, const char *stale_ms)
{
    struct gd_journal_options o = GD_JOURNAL_OPTIONS_INIT;
    struct gd_journal *j = NULL;
    be_on(host, stale_ms);
    o.path = "run.db";
    o.resume = GD_JOURNAL_RESUME_REST;
    o.lock_wait_ms = 600 * 1000;
    if (gd_journal_open(&j, &o) < 0)
        FAIL("%s", gd_error_text());
    return j;
}

static void check_output(const char *expected)
{
    char text[64] = "";
    FILE *out = fopen("out", "re");
    CHECK(out != NULL);
    CHECK_LT(fread(text, 1, sizeof text - 1, out), sizeof text - 1);
    fclose(out);
    CHECK_STR(text, expected);
}

typedef int follow_fn(struct gd_journal *j, const char *path, int fd);

static void open_output_and_take_over(follow_fn *follow, void (*between)(const char *point), const char *before,
                                      const char *after)
{
    directory_enter();
    struct gd_journal *first = open_on("a", "3600000");
    const int fd = open_output();
    CHECK_EQ(write(fd, before, strlen(before)), (ssize_t)strlen(before));
    if (between)
        between(NULL);
    struct gd_journal *second = open_on("b", "50");
    const int new_fd = open_output();
    if (follow(second, "out", new_fd) < 0)
        FAIL("%s", gd_error_text());
    CHECK_EQ(write(fd, "late\n", 5), 5); /* a write that was on its way */
    check_output(after);
    CHECK_EQ(write(new_fd, "new\n", 4), 4);
    /* Nor can it use the new file. */
    const int late = open_output();
    CHECK_LT(gd__journal_follow_empty(first, "out", late), 0);
    CHECK_CONTAINS(gd_error_text(), "another run took over this journal");
    CHECK_LT(gd_journal_follow(first, "out", late), 0);
    CHECK(gd__journal_was_taken_over(first));
    CHECK(!gd__journal_was_taken_over(second));
    (void)gd_journal_close(&first);
    char all[64];
    snprintf(all, sizeof all, "%snew\n", after);
    check_output(all);
    CHECK_EQ(gd_journal_close(&second), 0);
    close(fd);
    close(new_fd);
    close(late);
}

static void take_over_and_die(const char *point);

TEST(a_file_that_was_not_recorded_is_replaced)
{
    open_output_and_take_over(gd_journal_follow, NULL, "old\n", "old\n");
    open_output_and_take_over(gd_journal_follow_anew, NULL, "old\n", "old\n");
    open_output_and_take_over(gd__journal_follow_empty, NULL, "old\n", "");
}

/* The run between them is certainly gone, but the first one is not. */
TEST(a_file_that_was_not_recorded_is_replaced_later)
{
    open_output_and_take_over(gd_journal_follow, take_over_and_die, "old\n", "old\n");
    open_output_and_take_over(gd__journal_follow_empty, take_over_and_die, "old\n", "");
}

static int lose_lock(void *user)
{
    (void)user;
    return unlink("run.db-lock");
}

/* COMMIT itself may take so long that the run is given up. It finds that out before it writes to the file. */
TEST(a_run_that_is_given_up_during_commit_stops)
{
    directory_enter();
    struct gd_journal *j = open_on("a", "3600000");
    const int fd = open_output();
    sqlite3_commit_hook(j->db, lose_lock, NULL);
    CHECK_LT(gd_journal_follow(j, "out", fd), 0);
    CHECK_CONTAINS(gd_error_text(), "another run took over this journal");
    (void)gd_journal_close(&j);
    close(fd);
}

TEST(a_recorded_file_is_emptied_and_replaced)
{
    directory_enter();
    struct gd_journal *first = open_on("a", "3600000");
    const int fd = open_output();
    CHECK_EQ(gd_journal_follow(first, "out", fd), 0);
    CHECK_EQ(write(fd, "old\n", 4), 4);
    struct gd_journal *second = open_on("b", "50");
    const int new_fd = open_output();
    CHECK_EQ(gd__journal_follow_empty(second, "out", new_fd), 0);
    CHECK_EQ(write(fd, "late\n", 5), 5);
    check_output("");
    (void)gd_journal_close(&first);
    CHECK_EQ(gd_journal_close(&second), 0);
    close(fd);
    close(new_fd);
}

/* --- a process that is stopped --- */

enum { LINES = 300, STOPPED_AFTER = 40 };

/* The first run stops itself in a callback, when some records are on disk and some are not. */
static void stop_once(struct job *job, const struct gd_report *r)
{
    (void)r;
    if (job->done != STOPPED_AFTER)
        return;
    struct gd_journal_counts c = { .size = sizeof c };
    do
        CHECK_EQ(gd_journal_get_counts(job->journal, &c), 0);
    while (c.recorded == 0);
    raise(SIGSTOP);
}

static void run_first(void)
{
    struct job job = JOB("run.db");
    job_numbers(&job, LINES);
    job.j.window_ms = 1;
    job.follow = "out";
    job.follow_fd = open_output();
    job.on_final = stop_once;
    be_on("a", "3600000");
    CHECK_EQ(job_run(&job), GD_E_JOURNAL);
    CHECK_CONTAINS(job.text, "another run took over this journal");
    CHECK_CONTAINS(job.text, "records of this run are on disk, and ");
    _exit(0);
}

/* Another host takes the journal over, and is killed at that point, or if it is NULL, before its run begins. */
static void take_over_and_die(const char *point)
{
    struct gd_journal_options o = GD_JOURNAL_OPTIONS_INIT;
    struct gd_journal *j;
    int status;
    const pid_t pid = fork();
    if (pid == 0) {
        be_on("b", "100");
        if (point)
            setenv("GD_KILL_DISPATCHER", point, 1);
        gd__fault_read_kill();
        o.path = "run.db";
        o.resume = GD_JOURNAL_RESUME_REST;
        o.lock_wait_ms = 600 * 1000;
        CHECK_EQ(gd_journal_open(&j, &o), 0);
        raise(SIGKILL);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void check_lines(void)
{
    bool seen[LINES] = { false };
    FILE *out = fopen("out", "re");
    char line[64];
    int n = 0;
    for (; fgets(line, sizeof line, out); n++) {
        const int number = atoi(line);
        if (number < 0 || number >= LINES || seen[number])
            FAIL("line %d of the followed file is %s again", n + 1, line);
        seen[number] = true;
    }
    fclose(out);
    CHECK_EQ(n, LINES);
}

/* between: what happens before the second run. */
static void stop_and_take_over(void (*between)(const char *point), const char *point)
{
    directory_enter();
    const pid_t first = fork();
    if (first == 0)
        run_first();
    int status;
    CHECK_EQ(waitpid(first, &status, WUNTRACED), first);
    CHECK(WIFSTOPPED(status));
    if (between)
        between(point);
    be_on("b", "100");
    struct job job = JOB("run.db");
    job_numbers(&job, LINES);
    job.j.resume = GD_JOURNAL_RESUME_REST;
    job.j.lock_wait_ms = 600 * 1000;
    job.follow = "out";
    job.follow_fd = open_output();
    int rc;
    while ((rc = job_run(&job)) == GD_E_BUSY) { /* it was stopped in the middle of a transaction */
        kill(first, SIGCONT);
        kill(first, SIGSTOP);
    }
    if (rc < 0)
        FAIL("%s", job.text);
    CHECK_EQ(job.closed, 0);
    CHECK_GT(job.counts.before, 0);
    CHECK_EQ(job.counts.before + job.done, LINES);
    char all[32];
    snprintf(all, sizeof all, "%d|%d", LINES, LINES);
    CHECK_STR(records(), all);
    kill(first, SIGCONT);
    CHECK_EQ(waitpid(first, &status, 0), first);
    CHECK_EQ(status, 0);
    /* One record and one line for each input, although the first run went on. */
    CHECK_STR(records(), all);
    check_lines();
    close(job.follow_fd);
}

TEST(a_run_that_was_stopped_too_long_stops)
{
    stop_and_take_over(NULL, NULL);
}

/* The run that continues finds the lock of a run that is certainly gone. But the stopped one is not. */
TEST(a_run_that_was_given_up_is_not_forgotten)
{
    stop_and_take_over(take_over_and_die, NULL);
    stop_and_take_over(take_over_and_die, "lock_replaced");
}

static ino_t inode_of(const char *path)
{
    struct stat info;
    CHECK_EQ(stat(path, &info), 0);
    return info.st_ino;
}

/* The lock file does not tell that the first run may still exist, on another host: somebody removed it, or it is that of
 * a run that took the journal over and was killed before it had copied the database. */
TEST(a_database_is_copied_even_if_the_lock_file_says_nothing)
{
    CHECK_EQ(setenv(GD__ENV_SHARED_FILES, "1", 1), 0);
    for (int killed = 0; killed < 2; killed++) {
        directory_enter();
        struct job first = JOB("run.db"), second = JOB("run.db");
        be_on("a", "3600000");
        CHECK_EQ(job_open(&first), 0);
        const ino_t before = inode_of("run.db");
        if (killed)
            take_over_and_die("lock_replaced");
        else
            CHECK_EQ(unlink("run.db-lock"), 0);
        CHECK_EQ(inode_of("run.db"), before);
        be_on("b", "100");
        second.j.resume = GD_JOURNAL_RESUME_REST;
        CHECK_EQ(job_open(&second), 0);
        CHECK(inode_of("run.db") != before);
        CHECK_EQ(gd_journal_close(&second.journal), 0);
        CHECK_EQ(gd_journal_close(&first.journal), 0);
    }
    CHECK_EQ(unsetenv(GD__ENV_SHARED_FILES), 0);
}

/* --- a run that goes on while its database is copied --- */

enum { ROWS = 20000, COMMITS = 500 };

/* Commits all the time, and stops some time after the lock file was replaced. Both records always have the same value. */
static void write_while_copied(int ready)
{
    struct job job = JOB("run.db");
    char event[4096], sql[128];
    sqlite3 *db;
    be_on("a", "3600000");
    job.j.resume = GD_JOURNAL_RESUME_REST;
    CHECK_EQ(job_open(&job), 0);
    CHECK_EQ(sqlite3_open("run.db", &db), SQLITE_OK);
    CHECK_EQ(sqlite3_exec(db, "PRAGMA synchronous = OFF; PRAGMA journal_mode = PERSIST; SELECT count(*) FROM task",
                          NULL, NULL, NULL),
             SQLITE_OK);
    const int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    CHECK(inotify_add_watch(watch, "run.db-lock", IN_ATTRIB | IN_DELETE_SELF) >= 0);
    CHECK_EQ(write(ready, "", 1), 1);
    int rc = SQLITE_OK;
    for (int i = 2, after = 0; rc == SQLITE_OK && after < COMMITS; i++) {
        snprintf(sql, sizeof sql, "UPDATE task SET attempts = %d WHERE id IN (1, %d)", i, ROWS);
        rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
        after += after > 0 || read(watch, event, sizeof event) > 0;
    }
    _exit(0); /* rc: the file was replaced */
}

TEST(a_database_that_is_written_is_not_copied_half)
{
    int ready[2], status;
    char byte;
    CHECK_EQ(setenv(GD__ENV_SHARED_FILES, "1", 1), 0);
    directory_enter();
    struct job job = JOB("run.db");
    be_on("a", "3600000");
    job_numbers(&job, ROWS);
    CHECK_EQ(job_run(&job), 0);
    CHECK_EQ(pipe(ready), 0);
    const pid_t first = fork();
    if (first == 0)
        write_while_copied(ready[1]);
    CHECK_EQ(read(ready[0], &byte, 1), 1);
    be_on("b", "100");
    job.j.resume = GD_JOURNAL_RESUME_REST;
    job.j.lock_wait_ms = 600 * 1000;
    if (job_open(&job) < 0)
        FAIL("%s", gd_error_text());
    CHECK_EQ(gd_journal_close(&job.journal), 0);
    CHECK_EQ(waitpid(first, &status, 0), first);
    CHECK_EQ(status, 0);
    CHECK_STR(job_sql("run.db", "SELECT count(*), count(DISTINCT attempts) FROM task WHERE id IN (1, 20000)"), "2|1");
    CHECK_STR(job_sql("run.db", "PRAGMA integrity_check"), "ok");
    close(ready[0]);
    close(ready[1]);
    CHECK_EQ(unsetenv(GD__ENV_SHARED_FILES), 0);
}

/* The copy is made only if it is needed. */
TEST(files_of_a_dead_run_are_not_copied)
{
    directory_enter();
    struct stat before, after;
    be_on("a", "3600000");
    for (int round = 0; round < 3; round++) { /* a new journal, a run that was killed, and one that has ended */
        int status;
        const pid_t pid = fork();
        if (pid == 0) {
            struct job job = JOB("run.db");
            job_numbers(&job, 20 + (size_t)round);
            job.j.resume = GD_JOURNAL_RESUME_REST;
            job.follow = "out";
            job.follow_fd = open_output();
            CHECK_EQ(job_open(&job), 0);
            if (round == 0)
                raise(SIGKILL);
            CHECK_EQ(gd_journal_close(&job.journal), 0);
            CHECK_EQ(job_run(&job), 0);
            _exit(0);
        }
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        CHECK_EQ(status, round == 0 ? SIGKILL : 0);
        CHECK_EQ(stat("out", &after), 0);
        if (round > 0)
            CHECK_EQ(after.st_ino, before.st_ino);
        before = after;
    }
}

int main(int argc, char **argv)
{
    if (job_main(&argc, argv) < 0)
        return fprintf(stderr, "%s\n", gd_error_text()), 1;
    return test_main(argc, argv);
}
