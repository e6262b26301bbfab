/* SPDX-License-Identifier: MIT
 *
 * Runs of the transcription worker:
 *
 *     struct job *j = new_job();
 *     j->settings = "beam_size=5\n";
 *     add_clip(j, 20);
 *     CHECK_EQ(run(j), 0);
 *     CHECK_STR(member(j, 0, "text"), spoken(j->files[0]));
 */
#ifndef GD_TESTS_TRANSCRIBE_JOB_H
#define GD_TESTS_TRANSCRIBE_JOB_H

#include <fcntl.h>
#include <gpu_dispatch/gpu_dispatch.h>
#include <limits.h>
#include <unistd.h>

#include "base/text/buffer.h"
#include "base/text/json.h"
#include "support/test.h"

enum { MOST_FILES = 64, MOST_TEXT = 4096 };

/* One run: files in, a result or an error for each. */
struct job {
    const char *gpus, *settings; /* settings: all lines except the model's */
    const char *model;           /* NULL: the demo model */
    char files[MOST_FILES][PATH_MAX];
    size_t n_files, given;
    char results[MOST_FILES][MOST_TEXT], errors[MOST_FILES][600];
    enum gd_failure failures[MOST_FILES];
    unsigned attempts[MOST_FILES];
    char setup_error[1000];
    char parts[1000];                             /* the partial results, one after the other */
    unsigned timeout_ms, retries, setup_attempts; /* setup_attempts 0: one */
    const char *const *env;
    const char *log; /* the file that gets the workers' output; NULL: it is dropped */
};

/* A job with two workers. */
TEST_UNUSED static struct job *new_job(void)
{
    static struct job jobs[2];
    static int made;
    struct job *j = &jobs[made++ % 2];
    memset(j, 0, sizeof *j);
    j->gpus = "cpu:1";
    j->settings = "";
    return j;
}

static const char *source_path(const char *relative)
{
    static char path[PATH_MAX];
    const char *root = getenv("GD_SOURCE_ROOT");
    if (!root || !getenv("GD_TEST_TRANSCRIBER"))
        SKIP("GD_SOURCE_ROOT or GD_TEST_TRANSCRIBER is not set");
    snprintf(path, sizeof path, "%s/%s", root, relative);
    return path;
}

static void add_file(struct job *j, const char *path)
{
    CHECK_LT(j->n_files, MOST_FILES);
    snprintf(j->files[j->n_files++], PATH_MAX, "%s", path);
}

TEST_UNUSED static void add_clip(struct job *j, int number)
{
    char name[100];
    snprintf(name, sizeof name, "tests/data/speech/clip_%03d.flac", number);
    add_file(j, source_path(name));
}

/* Preloads a library into the workers of this test case only. */
TEST_UNUSED static void preload(const char *name)
{
    char path[PATH_MAX];
    if (TEST_SLOWDOWN > 1)
        SKIP("a sanitizer must be the first library, and so must the library of this test");
    snprintf(path, sizeof path, "%s/%s", getenv("GD_TEST_PLUGINS"), name);
    setenv("LD_PRELOAD", path, 1);
}

static int next_file(void *user, struct gd_item *item)
{
    struct job *j = user;
    if (j->given == j->n_files)
        return 0;
    item->data = j->files[j->given];
    item->size = strlen(j->files[j->given++]);
    return 1;
}

static void on_success(void *user, const struct gd_report *r)
{
    struct job *j = user;
    CHECK_LT(r->size, MOST_TEXT);
    memcpy(j->results[r->task_id], r->data, r->size);
    j->attempts[r->task_id] = r->attempt;
    CHECK(gd__json_valid(r->data, r->size));
}

static void on_error(void *user, const struct gd_report *r)
{
    struct job *j = user;
    j->failures[r->task_id] = r->failure;
    j->attempts[r->task_id] = r->attempt;
    snprintf(j->errors[r->task_id], sizeof *j->errors, "%s", r->error);
}

static void on_partial(void *user, uint64_t task_id, int worker_id, unsigned attempt, const void *data, size_t size)
{
    struct job *j = user;
    const size_t n = strlen(j->parts);
    (void)task_id, (void)worker_id, (void)attempt;
    CHECK(gd__json_valid(data, size));
    snprintf(j->parts + n, sizeof j->parts - n, "%.*s", (int)size, (const char *)data);
}

static void on_setup_fail(void *user, int worker_id, int gpu_id, const char *error)
{
    struct job *j = user;
    (void)worker_id, (void)gpu_id;
    snprintf(j->setup_error, sizeof j->setup_error, "%s", error);
}

TEST_UNUSED static int run(struct job *j)
{
    char settings[4000], model[PATH_MAX];
    snprintf(model, sizeof model, "%s", j->model ? j->model : source_path("models/ggml-demo.bin"));
    const int n = snprintf(settings, sizeof settings, "model=%s\n%s%s%s", model,
                           strstr(j->settings, "no_gpu") ? "" : "no_gpu=yes\n",
                           strstr(j->settings, "threads") ? "" : "threads=1\n", j->settings);
    struct gd_options o = GD_OPTIONS_INIT;
    o.gpus = j->gpus;
    o.plugin = getenv("GD_TEST_TRANSCRIBER");
    o.setup_args = settings;
    o.setup_args_size = (size_t)n;
    o.setup_attempts = j->setup_attempts ? j->setup_attempts : 1;
    o.output = GD_OUTPUT_DISCARD;
    o.task_timeout_ms = j->timeout_ms;
    o.retries = j->retries;
    o.retry_delay_ms = 1;
    o.window = 1;
    o.user = j;
    o.source = next_file;
    o.on_success = on_success;
    o.on_error = on_error;
    o.on_setup_fail = on_setup_fail;
    o.on_partial = on_partial;
    o.env = j->env;
    if (!j->log)
        return gd_run(&o);
    o.output = GD_OUTPUT_INHERIT;
    fflush(stderr);
    const int kept = dup(STDERR_FILENO), log = open(j->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(kept >= 0 && log >= 0);
    CHECK(dup2(log, STDERR_FILENO) >= 0);
    const int rc = gd_run(&o);
    CHECK(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
    close(log);
    return rc;
}

/* --- results --------------------------------------------------------------------- */

/* A member of a file's result, as text: strings without their quotes. */
TEST_UNUSED static const char *member(const struct job *j, size_t i, const char *name)
{
    static struct gd__buffer out;
    struct gd__json value;
    out.size = 0;
    if (!j->results[i][0])
        FAIL("%s failed: %s", j->files[i], j->errors[i]);
    if (!gd__json_member(j->results[i], strlen(j->results[i]), name, &value))
        FAIL("no %s in %s", name, j->results[i]);
    if (!gd__json_read_string(&out, value.at, value.size))
        gd__buffer_add(&out, value.at, value.size);
    gd__buffer_add(&out, "", 1);
    CHECK(!out.failed);
    return out.data;
}

/* The text spoken in a clip, from the list in the same directory. */
TEST_UNUSED static const char *spoken(const char *file)
{
    static char line[200];
    const char *base = strrchr(file, '/') + 1;
    FILE *f = fopen(source_path("tests/data/speech/transcripts.tsv"), "re");
    CHECK(f);
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, base, strlen(base)) == 0 && line[strlen(base)] == '\t') {
            fclose(f);
            char *text = line + strlen(base) + 1;
            text[strcspn(text, "\t")] = '\0';
            return text;
        }
    }
    FAIL("%s is not in the list", base);
}

TEST_UNUSED static const char *contents(const char *path)
{
    static char text[20000];
    FILE *f = fopen(path, "re");
    if (!f)
        FAIL("%s: %s", path, strerror(errno));
    const size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    return text;
}

/* The outputs of a run over one clip with these settings, as json. */
TEST_UNUSED static const char *json_with(const char *settings, const char *model, const char *file)
{
    struct job *j = new_job();
    char all[1000];
    snprintf(all, sizeof all, "output_dir=out\nformats=json\n%s\n", settings);
    j->settings = all;
    j->model = model;
    if (file)
        add_file(j, file);
    else
        add_clip(j, 50);
    CHECK_EQ(run(j), 0);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", member(j, 0, "outputs"));
    CHECK(path[0] == '[');
    path[strlen(path) - 2] = '\0'; /* ["PATH"] */
    return contents(path + 2);
}

#endif
