/* SPDX-License-Identifier: MIT
 *
 * Shared by the crash tests of journals. The real command runs a job in its own directory, with a journal, --output and
 * --results. There are ways to kill it, and checks that every input is final exactly once in all three.
 *
 *     in            one input a line: "task0", "bad1" (every 7th fails), ...
 *     kept/run.db   the journal          kept/out.jsonl   --output       kept/R   --results
 *     log           a line per task that a worker was given (plugin_log.c)
 */
#ifndef GD_TESTS_CRASH_JOURNAL_H
#define GD_TESTS_CRASH_JOURNAL_H

#include <gpu_dispatch/journal.h>

#include <fcntl.h>
#include <ftw.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "common.h"

#define JOURNAL "kept/run.db"
#define OUTPUT  "kept/out.jsonl"
#define RESULTS "kept/R"

struct job {
    unsigned n;
    bool results;
    bool full;           /* --sync full */
    const char *resume;  /* "--resume", ... or NULL */
    const char *preload; /* "kill", "torn", "ENOSPC", "EIO", or NULL */
    const char *files;   /* files that the preload library watches */
    long at;
    long burn_us;
    const char *mend;    /* set: the "bad" inputs succeed */
    const char *more[4]; /* more arguments of the command */
};

static char job_dir[64];

TEST_UNUSED static int job_remove(const char *path, const struct stat *s, int flag, struct FTW *f)
{
    (void)s, (void)flag, (void)f;
    return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

TEST_UNUSED static void job_remove_all(const char *path)
{
    nftw(path, job_remove, 16, FTW_DEPTH | FTW_PHYS);
}

TEST_UNUSED static void job_leave(void)
{
    if (*job_dir && chdir("/") == 0)
        job_remove_all(job_dir);
}

/* Every seventh task fails. */
TEST_UNUSED static bool job_is_bad(unsigned i)
{
    return i % 7 == 3;
}

TEST_UNUSED static unsigned job_bad(const struct job *job)
{
    unsigned bad = 0;
    for (unsigned i = 0; i < job->n && !job->mend; i++)
        bad += job_is_bad(i);
    return bad;
}

TEST_UNUSED static void job_write_inputs(const struct job *job)
{
    FILE *in = fopen("in", "we");
    CHECK(in != NULL);
    for (unsigned i = 0; i < job->n; i++)
        fprintf(in, "%s%u\n", job_is_bad(i) ? "bad" : "task", i);
    CHECK_EQ(fclose(in), 0);
}

/* Changes to a new directory with the list of inputs. The directory is removed at the end of the case. */
TEST_UNUSED static void job_enter(const struct job *job)
{
    if (!gd_journal_available())
        SKIP("built without journals");
    strcpy(job_dir, "/tmp/gd-crash-XXXXXX");
    CHECK(mkdtemp(job_dir) != NULL);
    CHECK_EQ(chdir(job_dir), 0);
    atexit(job_leave);
    job_write_inputs(job);
}

/* Removes all files of earlier runs. */
TEST_UNUSED static void job_reset(void)
{
    job_remove_all("kept");
    unlink("log");
    unlink("told");
    CHECK_EQ(mkdir("kept", 0777), 0);
}

/* --- running ------------------------------------------------------------------------- */

TEST_UNUSED static void job_environment(const struct job *job)
{
    char text[4200];
    setenv("GD_TEST_LOG", "log", 1);
    if (!getenv("GPU_DISPATCH_JOURNAL_MS"))
        setenv("GPU_DISPATCH_JOURNAL_MS", "1", 1);
    snprintf(text, sizeof text, "%ld", job->burn_us);
    setenv("GD_TEST_BURN", text, 1);
    if (job->mend)
        setenv("GD_TEST_MEND", "1", 1);
    if (!job->preload)
        return;
    snprintf(text, sizeof text, "%ld", job->at);
    setenv("GD_PRELOAD_AT", text, 1);
    setenv("GD_PRELOAD_HOW", job->preload, 1);
    setenv("GD_PRELOAD_FILES", job->files ? job->files : "/kept/", 1);
    setenv("GD_PRELOAD_TOLD", "told", 1);
    snprintf(text, sizeof text, "%s/preload.so", getenv("GD_TEST_PLUGINS"));
    setenv("LD_PRELOAD", text, 1);
}

TEST_UNUSED static pid_t job_start(const struct job *job)
{
    char command[4096], plugin[4096];
    const char *argv[32];
    int n = 0;
    snprintf(command, sizeof command, "%s/gpu-dispatch", getenv("GD_COMMAND_DIR"));
    snprintf(plugin, sizeof plugin, "%s/plugin_log.so", getenv("GD_TEST_PLUGINS"));
    const char *const always[] = { command,    "run",  "--gpus", "sim:2", "--quiet",  "--journal", JOURNAL,
                                   "--output", OUTPUT, "-a",     "in",    "--worker", plugin };
    for (size_t i = 0; i < COUNT_OF(always); i++)
        argv[n++] = always[i];
    if (job->resume)
        argv[n++] = job->resume;
    if (job->results)
        argv[n++] = "--results", argv[n++] = RESULTS;
    if (job->full)
        argv[n++] = "--sync", argv[n++] = "full";
    for (size_t i = 0; i < COUNT_OF(job->more) && job->more[i]; i++)
        argv[n++] = job->more[i];
    argv[n] = NULL;
    fflush(NULL);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    job_environment(job);
    const int null = open("/dev/null", O_RDWR), err = open("err", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(err, 2) < 0)
        _exit(127);
    execv(command, (char *const *)(uintptr_t)argv);
    _exit(127);
}

/* A process that was killed while it started a worker still holds its journal for a moment: until the worker, which
 * began as a copy of the process, executes its own program. */
TEST_UNUSED static void job_wait_for_journal(void)
{
    struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    const int fd = open(JOURNAL "-lock", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    while (fcntl(fd, F_OFD_SETLKW, &all) < 0)
        CHECK_EQ(errno, EINTR);
    close(fd);
}

/* The exit code, or 128 + signal. No worker is left when it returns. */
TEST_UNUSED static int job_wait(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        CHECK_EQ(errno, EINTR);
    job_wait_for_journal();
    const int log = open("log", O_RDONLY | O_CREAT | O_CLOEXEC, 0666);
    CHECK(log >= 0);
    CHECK_EQ(flock(log, LOCK_EX), 0);
    close(log);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_UNUSED static int job_run(const struct job *job)
{
    return job_wait(job_start(job));
}

TEST_UNUSED static char *job_read(const char *path, size_t *size)
{
    FILE *f = fopen(path, "re");
    char *text = NULL;
    size_t room = 0;
    *size = 0;
    if (!f)
        return NULL;
    CHECK_EQ(fseek(f, 0, SEEK_END), 0);
    room = (size_t)ftell(f);
    rewind(f);
    text = malloc(room + 1);
    CHECK(text != NULL);
    *size = fread(text, 1, room, f);
    text[*size] = '\0';
    fclose(f);
    return text;
}

/* The last message of the command. */
TEST_UNUSED static const char *job_message(void)
{
    static char words[600];
    size_t size;
    char *text = job_read("err", &size);
    snprintf(words, sizeof words, "%s", !text ? "" : size < sizeof words ? text : text + size - sizeof words + 1);
    free(text);
    return words;
}

TEST_UNUSED static uint64_t job_lines(const char *path)
{
    size_t size;
    uint64_t n = 0;
    char *text = job_read(path, &size);
    for (size_t i = 0; i < size; i++)
        n += text[i] == '\n';
    free(text);
    return n;
}

/* --- what is final ---------------------------------------------------------------------- */

struct finals {
    const struct job *job;
    uint8_t *seen;
    uint64_t n;
};

/* The number of "task12" or "bad3". */
TEST_UNUSED static unsigned job_number(const char *text, size_t size)
{
    char name[32];
    CHECK_LT(size, sizeof name);
    memcpy(name, text, size);
    name[size] = '\0';
    const char *digits = name + strcspn(name, "0123456789");
    const unsigned i = (unsigned)strtoul(digits, NULL, 10);
    char expected[32];
    snprintf(expected, sizeof expected, "%s%u", job_is_bad(i) ? "bad" : "task", i);
    if (strcmp(name, expected) != 0)
        FAIL("\"%s\" is not an input", name);
    return i;
}

TEST_UNUSED static void job_see(struct finals *f, const char *what, const char *input, size_t size, bool done)
{
    const unsigned i = job_number(input, size);
    CHECK_LT(i, f->job->n);
    if (f->seen[i]++)
        FAIL("input %u is final twice in %s", i, what);
    if (done != (f->job->mend || !job_is_bad(i)))
        FAIL("input %u is %s in %s", i, done ? "done" : "failed", what);
    f->n++;
}

TEST_UNUSED static int job_see_record(void *user, const struct gd_journal_record *r)
{
    job_see(user, "the journal", r->input, r->input_size, r->done);
    return 0;
}

/* The number of records in the journal; -1: there is no journal yet. Checks that each record is correct and unique. */
TEST_UNUSED static int64_t job_committed(const struct job *job)
{
    struct finals f = { .job = job, .seen = calloc(job->n, 1) };
    struct gd_journal_reader *r = NULL;
    const struct gd_journal_query q = { .size = sizeof q };
    if (access(JOURNAL, F_OK) < 0 || gd_journal_reader_open(&r, JOURNAL) < 0) {
        free(f.seen);
        return -1;
    }
    const int rc = gd_journal_reader_each(r, &q, job_see_record, &f);
    if (rc < 0)
        FAIL("reading the journal: %s", gd_error_text());
    gd_journal_reader_close(&r);
    free(f.seen);
    return (int64_t)f.n;
}

TEST_UNUSED static void job_check_integrity(void)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *s = NULL;
    CHECK_EQ(sqlite3_open_v2(JOURNAL, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    CHECK_EQ(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &s, NULL), SQLITE_OK);
    CHECK_EQ(sqlite3_step(s), SQLITE_ROW);
    CHECK_STR((const char *)sqlite3_column_text(s, 0), "ok");
    sqlite3_finalize(s);
    CHECK_EQ(sqlite3_close(db), SQLITE_OK);
}

/* Checks that each line is complete, and that no two lines belong to the same input. */
TEST_UNUSED static uint64_t job_check_output(const struct job *job)
{
    struct finals f = { .job = job, .seen = calloc(job->n, 1) };
    size_t size;
    char *text = job_read(OUTPUT, &size), *next;
    for (char *line = text; line && *line; line = next) {
        char *end = strchr(line, '\n');
        if (!end)
            FAIL("the last line of the output is torn: %s", line);
        *end = '\0';
        next = end + 1;
        char *input = strstr(line, "\"input\":\""), *stop = input ? strchr(input + 9, '"') : NULL;
        if (strncmp(line, "{\"id\":", 6) != 0 || end[-1] != '}' || !stop)
            FAIL("a line of the output is \"%s\"", line);
        job_see(&f, "the output", input + 9, (size_t)(stop - input - 9), strstr(line, "\"status\":\"ok\"") != NULL);
    }
    free(text);
    free(f.seen);
    return f.n;
}

static bool job_parts_allowed;
static unsigned job_files;

TEST_UNUSED static int job_check_file(const char *path, const struct stat *s, int flag, struct FTW *f)
{
    size_t size;
    const char *base = path + f->base;
    (void)s;
    if (flag != FTW_F)
        return 0;
    if (strstr(base, ".part")) {
        if (!job_parts_allowed)
            FAIL("%s was left", path);
        return 0;
    }
    /* kept/R/1/task12/stdout */
    char *text = job_read(path, &size), directory[128], expected[160] = "";
    snprintf(directory, sizeof directory, "%.*s", (int)(f->base - 1), path);
    const char *input = strrchr(directory, '/') + 1;
    const bool bad = strncmp(input, "bad", 3) == 0;
    if (strcmp(base, "stdout") == 0)
        snprintf(expected, sizeof expected, "%s%s", bad ? "" : "did ", bad ? "" : input);
    else if (strcmp(base, "stderr") == 0)
        snprintf(expected, sizeof expected, "%s", bad ? "it is bad" : "");
    if (strcmp(base, "seq") == 0 ? size == 0 : strcmp(text, expected) != 0)
        FAIL("%s has \"%s\", not \"%s\"", path, text, expected);
    free(text);
    job_files++;
    return 0;
}

/* Checks that no file is incomplete. parts: incomplete files that will be overwritten are allowed. */
TEST_UNUSED static unsigned job_check_results(bool parts)
{
    job_parts_allowed = parts;
    job_files = 0;
    if (access(RESULTS, F_OK) == 0)
        CHECK_EQ(nftw(RESULTS, job_check_file, 16, FTW_PHYS), 0);
    return job_files;
}

/* After the run was killed or failed: resumes it to the end and checks everything. what: for messages. */
TEST_UNUSED static void job_resume_and_check(struct job job, const char *what)
{
    job_check_results(true);
    const int64_t committed = job_committed(&job), before = committed < 0 ? 0 : committed;
    const uint64_t logged = job_lines("log");
    job.preload = NULL;
    job.resume = "--resume";
    const int status = job_run(&job);
    if (status > 101)
        FAIL("%s: the resumed run ended with %d: %s", what, status, job_message());
    job_check_integrity();
    CHECK_EQ(job_committed(&job), job.n);
    CHECK_EQ(job_check_output(&job), job.n);
    if (job.results)
        CHECK_EQ(job_check_results(false), job.n * 3);
    /* Checks that committed tasks were not run again, and that all others were. */
    const uint64_t expected = logged + job.n - (uint64_t)before;
    if (job_lines("log") != expected)
        FAIL("%s: %llu tasks were run; %llu of them before the run ended, of which the journal had %lld", what,
             (unsigned long long)job_lines("log"), (unsigned long long)logged, (long long)committed);
}

/* --- kills ---------------------------------------------------------------------------- */

TEST_UNUSED static void job_need_preload(void)
{
    if (SANITIZED)
        SKIP("a sanitizer must be the first library, and so must the library of this test");
}

/* Kills at every step-th write to these files, until a run ends without a kill. Returns the number of kills. */
TEST_UNUSED static long job_kill_at_every_write(struct job job, const char *how, const char *files, long step)
{
    char what[100];
    job_need_preload();
    job_enter(&job);
    job.preload = how;
    job.files = files;
    for (job.at = 1;; job.at += step) {
        job_reset();
        const int status = job_run(&job);
        if (access("told", F_OK) < 0) {
            CHECK_EQ(status, job_bad(&job));
            break;
        }
        if (status != 128 + SIGKILL)
            FAIL("%s at write %ld ended with %d: %s", how, job.at, status, job_message());
        snprintf(what, sizeof what, "%s at write %ld", how, job.at);
        job_resume_and_check(job, what);
    }
    printf("%s: %ld moments\n", how, job.at - 1);
    return job.at;
}

#endif
