/* SPDX-License-Identifier: MIT
 *
 * A job with a journal, for tests: a list of lines, workers that do what their line says, and the outcome of the run.
 *
 *     struct job job = JOB("run.db");
 *     job_lines(&job, "a", "b", "c", NULL);
 *     CHECK_EQ(job_run(&job), 0);
 *     CHECK_STR(job_ran(&job), "a b c");         // lines that ended, in the order of the list
 *
 * A line that begins with '!' fails. One with '?' fails in the first attempt of each run. One with '%' kills its
 * worker. main() calls job_main() first.
 */
#ifndef GD_TESTS_SUPPORT_JOURNAL_H
#define GD_TESTS_SUPPORT_JOURNAL_H

#include <gpu_dispatch/gpu_dispatch.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "support/directory.h"
#include "support/test.h"

enum { JOB_LINES = 20000 };

struct job {
    struct gd_journal_options j;
    struct gd_options o;
    struct gd_journal *journal;
    struct gd_dispatcher *d;
    const char **lines;
    const char **versions; /* NULL: the payload is the key */
    size_t n, next;
    unsigned *ended; /* how often each line of this run ended */
    unsigned done, failed, cancelled;
    struct gd_stats stats;
    struct gd_journal_counts counts; /* read before the journal was closed */
    int closed;                      /* the return value of gd_journal_close() */
    char text[2048];                 /* the error message of the run, or of the step that failed before it */
    char ran[4096];
    int follow_fd; /* >= 0: each line that ends is written there */
    const char *follow;
    void (*on_final)(struct job *job, const struct gd_report *r);
    void *mine;
};

#define JOB(file)                                                                                             \
    {                                                                                                         \
        .j = GD_JOURNAL_OPTIONS_INIT, .o = GD_OPTIONS_INIT, .follow_fd = -1, .closed = 1, .mine = (void *)0,  \
        .counts = { .size = sizeof(struct gd_journal_counts) }, .stats = { .size = sizeof(struct gd_stats) }, \
        .text = (file)                                                                                        \
    }

/* Allocates memory that is freed when the case ends. */
TEST_UNUSED static void *job_room(size_t size)
{
    static struct kept {
        struct kept *next;
        char room[];
    } * all;
    struct kept *k = calloc(1, sizeof *k + size);
    CHECK(k != NULL);
    k->next = all;
    all = k;
    return k->room;
}

TEST_UNUSED static int job_process(struct gd_worker *w, const struct gd_task *t, struct gd_result *r)
{
    (void)w;
    const char *line = t->data;
    if (t->size > 0 && line[0] == '!')
        return gd_result_error(r, "as requested");
    if (t->size > 0 && line[0] == '?' && t->attempt == 1)
        return gd_result_error(r, "the first time");
    if (t->size > 0 && line[0] == '%')
        raise(SIGKILL);
    char answer[64];
    const int n = snprintf(answer, sizeof answer, "%llu", (unsigned long long)t->id);
    return gd_result_set(r, answer, (size_t)n);
}

TEST_UNUSED static int job_main(int *argc, char **argv)
{
    static const struct gd_worker_ops ops = { .size = sizeof ops, .process = job_process };
    return gd_worker_main(argc, argv, &ops);
}

TEST_UNUSED static int job_source(void *user, struct gd_item *item)
{
    struct job *job = user;
    if (job->next == job->n)
        return 0;
    const char *line = job->lines[job->next];
    item->data = line;
    item->size = strlen(line);
    if (job->versions) {
        const int rc = gd_item_key(item, line, strlen(line), job->versions[job->next]);
        if (rc < 0)
            return rc;
    }
    job->next++;
    return 1;
}

TEST_UNUSED static void job_final(struct job *job, const struct gd_report *r)
{
    CHECK_LT(r->task_id, job->n);
    const char *line = job->lines[r->task_id];
    CHECK_EQ(r->input_size, strlen(line)); /* the task number is the index of the line */
    CHECK_MEM(r->input, line, r->input_size);
    job->ended[r->task_id]++;
    if (job->follow_fd >= 0) {
        char text[256];
        const int n = snprintf(text, sizeof text, "%s\n", line);
        CHECK_EQ(write(job->follow_fd, text, (size_t)n), n);
    }
    if (job->on_final)
        job->on_final(job, r);
}

TEST_UNUSED static void job_success(void *user, const struct gd_report *r)
{
    struct job *job = user;
    char number[32];
    snprintf(number, sizeof number, "%llu", (unsigned long long)r->task_id);
    CHECK_EQ(r->size, strlen(number)); /* the worker got the same number */
    CHECK_MEM(r->data, number, r->size);
    job->done++;
    job_final(job, r);
}

TEST_UNUSED static void job_error(void *user, const struct gd_report *r)
{
    struct job *job = user;
    if (r->failure == GD_FAILURE_CANCELLED || r->failure == GD_FAILURE_NO_WORKER) {
        job->cancelled++;
        return;
    }
    job->failed++;
    job_final(job, r);
}

TEST_UNUSED static void job_lines(struct job *job, ...)
{
    va_list args;
    va_start(args, job);
    job->lines = job_room(JOB_LINES * sizeof *job->lines);
    job->n = 0;
    for (const char *line; (line = va_arg(args, const char *)) != NULL; job->n++)
        job->lines[job->n] = line;
    va_end(args);
}

/* Lines "0", "1", ... */
TEST_UNUSED static void job_numbers(struct job *job, size_t n)
{
    job->lines = job_room((n + 1) * sizeof *job->lines);
    for (size_t i = 0; i < n; i++) {
        char *text = job_room(24);
        snprintf(text, 24, "%zu", i);
        job->lines[i] = text;
    }
    job->n = n;
}

TEST_UNUSED static int job_failed_with(struct job *job, int rc)
{
    snprintf(job->text, sizeof job->text, "%s", gd_error_text());
    return rc;
}

TEST_UNUSED static int job_open(struct job *job)
{
    static const int gpus[] = { 0, 1 };
    job->j.path = job->j.path ? job->j.path : "run.db";
    job->done = job->failed = job->cancelled = 0;
    job->next = 0;
    job->ended = job_room((job->n + 1) * sizeof *job->ended);
    const int rc = gd_journal_open(&job->journal, &job->j);
    if (rc < 0)
        return job_failed_with(job, rc);
    if (job->follow_fd >= 0) {
        const int followed = gd_journal_follow(job->journal, job->follow, job->follow_fd);
        if (followed < 0) {
            job_failed_with(job, followed);
            gd_journal_close(&job->journal);
            return followed;
        }
    }
    job->o.journal = job->journal;
    job->o.gpu_ids = gpus;
    job->o.n_gpus = 2;
    job->o.source = job_source;
    job->o.on_success = job_success;
    job->o.on_error = job_error;
    job->o.user = job;
    job->o.retry_delay_ms = 1;
    return 0;
}

/* Opens the journal, runs the job and closes the journal. Returns the result of the run, or the error of the step that
 * failed before it. */
TEST_UNUSED static int job_run(struct job *job)
{
    int rc = job_open(job);
    if (rc < 0)
        return rc;
    rc = gd_dispatcher_open(&job->d, &job->o);
    if (rc == 0)
        rc = gd_dispatcher_run(job->d);
    job_failed_with(job, rc);
    if (job->d)
        CHECK_EQ(gd_dispatcher_stats(job->d, &job->stats), 0);
    gd_dispatcher_close(&job->d);
    CHECK_EQ(gd_journal_get_counts(job->journal, &job->counts), 0);
    job->closed = gd_journal_close(&job->journal);
    CHECK(job->journal == NULL);
    return rc;
}

/* Runs the job in a separate process, which dies at the given point. */
TEST_UNUSED static void job_run_and_die(struct job *job, const char *point)
{
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        setenv("GD_KILL_DISPATCHER", point, 1);
        gd__fault_read_kill();
        job_run(job);
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* The lines that ended in the last run, in the order of the list. */
TEST_UNUSED static const char *job_ran(struct job *job)
{
    size_t at = 0;
    job->ran[0] = '\0';
    for (size_t i = 0; i < job->n; i++)
        for (unsigned k = 0; k < job->ended[i] && at < sizeof job->ran - 64; k++)
            at += (size_t)snprintf(job->ran + at, sizeof job->ran - at, "%s%s", at > 0 ? " " : "", job->lines[i]);
    return job->ran;
}

/* Returns the result of a query as text: '|' between the values of a row, a blank between rows. Valid until the next
 * call. */
TEST_UNUSED static const char *job_sql(const char *path, const char *sql)
{
    static char text[1 << 16];
    sqlite3 *db;
    sqlite3_stmt *s;
    size_t at = 0;
    text[0] = '\0';
    CHECK_EQ(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
        FAIL("%s: %s", sql, sqlite3_errmsg(db));
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW && at < sizeof text - 4096)
        for (int i = 0; i < sqlite3_column_count(s); i++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%.2000s",
                                   at == 0 ? ""
                                   : i > 0 ? "|"
                                           : " ",
                                   sqlite3_column_text(s, i) ? (const char *)sqlite3_column_text(s, i) : "NULL");
    if (rc != SQLITE_DONE && rc != SQLITE_ROW)
        FAIL("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_finalize(s);
    sqlite3_close(db);
    return text;
}

#endif
