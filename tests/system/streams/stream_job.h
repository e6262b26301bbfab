/* SPDX-License-Identifier: MIT
 *
 * A run whose workers are stream_program.c. The program does what its inputs say, and every report is stored:
 *
 *     struct job j;
 *     open_job(&j, NULL, NULL);               // the mode of the program, and its argument
 *     GIVE(&j, "a.wav", "segv");
 *     CHECK_EQ(run_job(&j), 0);
 *     CHECK_STR(j.finals[0].data, "\"a.wav\"");
 *     close_job(&j);
 *
 * The program is in the directory $GD_TEST_PLUGINS. $GPU_DISPATCH_HOST is the path of its host.
 */
#ifndef GD_TESTS_SYSTEM_STREAM_JOB_H
#define GD_TESTS_SYSTEM_STREAM_JOB_H

#include <fcntl.h>
#include <gpu_dispatch/gpu_dispatch.h>
#include <limits.h>
#include <sys/stat.h>

#include "support/test.h"

enum {
    MOST_WORDS = 16,
    /* A time limit that healthy programs do not exceed, even if they are paused for a while on a busy machine. */
    PATIENCE_MS = 2500,
};

struct final {
    unsigned finals, attempt;
    enum gd_failure failure;
    int signal, exit_code;
    char *data, *error;
    size_t size;
};

struct job {
    struct gd_options o;
    char *argv[MOST_WORDS];
    const char *const *inputs; /* n inputs; NULL: fill() makes them */
    size_t n, next;
    size_t (*fill)(size_t i, char **bytes); /* allocates *bytes, which the caller frees; returns the size */
    char *bytes;
    struct final *finals;
    char setup_error[4096], cleanup_error[4096];
    unsigned exits, setup_fails;
};

TEST_UNUSED static char *path_of(const char *name)
{
    char path[PATH_MAX];
    const char *directory = getenv("GD_TEST_PLUGINS");
    if (!directory)
        SKIP("GD_TEST_PLUGINS is not set");
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return strdup(path);
}

/* --- callbacks --------------------------------------------------------------- */

TEST_UNUSED static int source(void *user, struct gd_item *item)
{
    struct job *j = user;
    if (j->next == j->n)
        return 0;
    free(j->bytes);
    j->bytes = NULL;
    if (j->fill) {
        item->size = j->fill(j->next, &j->bytes);
        item->data = j->bytes;
    } else {
        item->data = j->inputs[j->next];
        item->size = strlen(j->inputs[j->next]);
    }
    j->next++;
    return 1;
}

TEST_UNUSED static void on_final(void *user, const struct gd_report *r)
{
    struct job *j = user;
    CHECK_LT(r->task_id, j->n);
    struct final *f = &j->finals[r->task_id];
    CHECK_EQ(f->finals++, 0);
    f->attempt = r->attempt;
    f->failure = r->failure;
    f->signal = r->signal;
    f->exit_code = r->exit_code;
    f->size = r->size;
    f->data = malloc(r->size + 1);
    CHECK(f->data);
    memcpy(f->data, r->data ? r->data : "", r->size);
    f->data[r->size] = '\0';
    f->error = r->error ? strdup(r->error) : NULL;
    CHECK(r->failure == GD_FAILURE_NONE || (r->error && *r->error));
    CHECK_LE(r->start_ns, r->end_ns);
}

TEST_UNUSED static void on_setup_fail(void *user, int worker_id, int gpu_id, const char *error)
{
    struct job *j = user;
    (void)worker_id, (void)gpu_id;
    j->setup_fails++;
    snprintf(j->setup_error, sizeof j->setup_error, "%s", error);
}

TEST_UNUSED static void on_cleanup_fail(void *user, int worker_id, int gpu_id, const char *error)
{
    struct job *j = user;
    (void)worker_id, (void)gpu_id;
    snprintf(j->cleanup_error, sizeof j->cleanup_error, "%s", error);
}

TEST_UNUSED static void on_worker_exit(void *user, int worker_id, int gpu_id, const char *why, bool given_up)
{
    struct job *j = user;
    (void)worker_id, (void)gpu_id, (void)why, (void)given_up;
    j->exits++;
}

/* --- a run -------------------------------------------------------------------- */

/* words: the arguments that follow --stream of the host, NULL-terminated. */
TEST_UNUSED static void open_with(struct job *j, const char *const *words)
{
    static const int gpus[] = { 0, 1 };
    *j = (struct job){ .o = GD_OPTIONS_INIT };
    int n = 0;
    const char *host = getenv("GPU_DISPATCH_HOST");
    if (!host)
        SKIP("GPU_DISPATCH_HOST is not set");
    j->argv[n++] = strdup(host);
    j->argv[n++] = strdup("--stream");
    while (*words)
        j->argv[n++] = strdup(*words++);
    j->o.gpu_ids = gpus;
    j->o.n_gpus = 1;
    j->o.worker_argv = j->argv;
    j->o.output = GD_OUTPUT_DISCARD;
    j->o.restart_delay_ms = 1;
    j->o.death_limit = 1000;
    j->o.user = j;
    j->o.source = source;
    j->o.on_success = j->o.on_error = on_final;
    j->o.on_setup_fail = on_setup_fail;
    j->o.on_cleanup_fail = on_cleanup_fail;
    j->o.on_worker_exit = on_worker_exit;
}

TEST_UNUSED static void open_job(struct job *j, const char *mode, const char *argument)
{
    char *program = path_of("stream_program");
    open_with(j, (const char *[]){ "--", program, mode ? mode : "", argument ? argument : "", NULL });
    free(program);
}

/* Runs the job. After that, no process may be left, not even one that the program has started. Orphans become our
 * children. */
TEST_UNUSED static int run_job(struct job *j)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    j->finals = calloc(j->n + 1, sizeof *j->finals);
    CHECK(j->finals);
    const int rc = gd_run(&j->o);
    for (size_t i = 0; i < j->next; i++)
        CHECK_EQ(j->finals[i].finals, 1);
    pid_t left;
    while ((left = waitpid(-1, NULL, WNOHANG)) > 0) /* a process that was killed with its group and is our child now */
        ;
    if (left == 0)
        CHECK_GT(waitpid(-1, NULL, 0), 0); /* if a process still runs, this case reaches its time limit */
    return rc;
}

TEST_UNUSED static void close_job(struct job *j)
{
    for (size_t i = 0; i < j->n; i++) {
        free(j->finals[i].data);
        free(j->finals[i].error);
    }
    for (int i = 0; j->argv[i]; i++)
        free(j->argv[i]);
    free(j->finals);
    free(j->bytes);
}

TEST_UNUSED static void give(struct job *j, const char *const *inputs, size_t n)
{
    j->inputs = inputs;
    j->n = n;
}
#define GIVE(j, ...) give(j, (const char *[]){ __VA_ARGS__ }, sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *))

TEST_UNUSED static size_t number(size_t i, char **bytes)
{
    return (size_t)asprintf(bytes, "task %zu", i);
}

TEST_UNUSED static void check_numbers(const struct job *j)
{
    for (size_t i = 0; i < j->n; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, "\"task %zu\"", i);
        CHECK_EQ(j->finals[i].failure, GD_FAILURE_NONE);
        CHECK_STR(j->finals[i].data, expected);
        CHECK_EQ(j->finals[i].attempt, 1);
    }
}

TEST_UNUSED static size_t two_megabytes(size_t i, char **bytes)
{
    const size_t n = 2000000 + i;
    *bytes = malloc(n);
    CHECK(*bytes);
    memset(*bytes, 'a' + (int)(i % 26), n);
    return n;
}

TEST_UNUSED static void check_large(const struct job *j, size_t i, size_t n, char c)
{
    const struct final *f = &j->finals[i];
    CHECK_EQ(f->failure, GD_FAILURE_NONE);
    CHECK_EQ(f->size, n + 2);
    CHECK(f->data[0] == '"' && f->data[n + 1] == '"');
    for (size_t k = 1; k <= n; k++)
        if (f->data[k] != c)
            FAIL("byte %zu of result %zu is wrong", k, i);
}

/* A FIFO of this case. A program that hangs writes its process ids to it. Other programs wait until the test opens
 * it. */
static char fifo_dir[] = "/tmp/gd-stream-XXXXXX";
static char fifo[64];

TEST_UNUSED static void remove_fifo(void)
{
    unlink(fifo);
    rmdir(fifo_dir);
}

TEST_UNUSED static void make_fifo(void)
{
    CHECK(mkdtemp(fifo_dir));
    snprintf(fifo, sizeof fifo, "%s/fifo", fifo_dir);
    CHECK_EQ(mkfifo(fifo, 0600), 0);
    atexit(remove_fifo);
}

#endif
