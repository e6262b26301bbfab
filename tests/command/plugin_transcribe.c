/* SPDX-License-Identifier: MIT
 *
 * Replaces the transcription worker in tests that need no speech. It writes the same output files, and the text of its
 * result is its settings. When it begins a file, it adds a line to ./ran. The beginning of the file's name decides what
 * it does:
 *
 *   bad    fails without retries    once    fails unless ./mended exists
 *   crash  kills the worker         hang    never ends
 *   away   fails, and may be tried again
 *   part   kills the worker, and leaves a file in ./o that looks like an unfinished output
 *   a-fill fills the disk of ./o with the file ./o/large
 *   short  is truncated: fails without retries, or with accept_truncated, has a warning
 *   half   reports that half of the file is done, then waits as below
 *   wait   writes a line to the pipe ./began, then waits for a byte from the pipe ./gate
 *
 * What it says about itself is $STANDIN_ABOUT. If that is "crash", it ends the process.
 *
 * audio_duration is taken from the header of the audio file, and left out if there is no header.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gpu_dispatch/worker.h>

#include "apps/transcribe/audio/header.h"
#include "apps/transcribe/engine/about.h"
#include "apps/transcribe/engine/settings.h"
#include "base/failure.h"
#include "base/text/buffer.h"
#include "base/text/json_write.h"

static struct tr_settings settings;
static char *kept;

static void note(const char *file, const char *line)
{
    struct gd__buffer b = { 0 };
    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    gd__buffer_text(&b, line);
    gd__buffer_text(&b, "\n");
    if (fd < 0 || b.failed || write(fd, b.data, b.size) != (ssize_t)b.size)
        abort();
    close(fd);
    gd__buffer_free(&b);
}

static void fill(const char *file)
{
    static const char page[4096];
    int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    while (fd >= 0 && write(fd, page, sizeof page) > 0)
        ;
    if (fd < 0)
        abort();
    close(fd);
}

static int setup(struct gd_worker *w, const struct gd_setup *s)
{
    const size_t size = strnlen(s->args, s->args_size);
    if (getenv("STANDIN_NO_SETUP"))
        return gd_worker_error(w, "no such setup");
    return tr_settings_read(&settings, &kept, s->args, size) < 0 ? gd_worker_error(w, "%s", gd__fail_text()) : 0;
}

static int cleanup(struct gd_worker *w)
{
    (void)w;
    free(kept);
    return 0;
}

static bool begins(const char *name, const char *word)
{
    return strncmp(name, word, strlen(word)) == 0;
}

static int tell_half(const char *path, struct gd_result *r)
{
    struct tr_header h = { 0 };
    char text[64];
    if (tr_header_read(&h, path) < 0)
        return gd_result_error_final(r, "cannot be read");
    const int n = snprintf(text, sizeof text, "{\"audio_done\": %.3f}", h.seconds / 2);
    return gd_result_partial(r, text, (size_t)n);
}

static int behave(const char *name, const char *path, struct gd_result *r)
{
    if (begins(name, "bad") || (begins(name, "once") && access("mended", F_OK) < 0))
        return gd_result_error_final(r, "%s is no audio", name);
    if (begins(name, "away"))
        return gd_result_error(r, "%s is not available", name);
    if (begins(name, "short") && !settings.accept_truncated)
        return gd_result_error_final(r, "%s is truncated", name);
    if (begins(name, "a-fill"))
        fill("o/large");
    if (begins(name, "part"))
        note("o/.gd-1-1.part", name);
    if (begins(name, "crash") || begins(name, "part"))
        _exit(9);
    while (begins(name, "hang"))
        pause();
    if (begins(name, "half") && tell_half(path, r) < 0)
        return gd_result_error_final(r, "no partial result could be sent");
    if (begins(name, "wait") || begins(name, "half")) {
        note("began", name);
        char byte;
        int fd = open("gate", O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, &byte, 1) != 1)
            return gd_result_error_final(r, "the gate was not opened");
        close(fd);
    }
    return 0;
}

static int write_outputs(struct tr_outputs *outputs, const char *name, double seconds)
{
    struct tr_transcript t = { .duration = seconds, .language = "en", .language_probability = -1, .model = "x" };
    const struct tr_segment_facts segment = tr_segment_facts(0, seconds);
    int rc = tr_transcript_add(&t, &segment, name, strlen(name));
    if (rc == 0)
        rc = tr_outputs_finish(outputs, &t);
    tr_transcript_free(&t);
    return rc;
}

static int answer(struct gd_result *r, const char *path, const char *name, double seconds)
{
    struct gd__buffer b = { 0 }, text = { 0 };
    tr_settings_write(&text, &settings);
    gd__buffer_text(&b, "{\"file\":");
    gd__json_put_string(&b, path, strlen(path));
    if (seconds > 0)
        gd__buffer_format(&b, ",\"audio_duration\":%.3f", seconds);
    gd__buffer_text(&b, ",\"text\":");
    gd__json_put_string(&b, text.data, text.size);
    if (begins(name, "short"))
        gd__buffer_format(&b, ",\"warning\":\"%s is truncated\"", name);
    gd__buffer_text(&b, "}");
    int rc = b.failed || text.failed ? GD_E_NO_MEMORY : gd_result_set(r, b.data, b.size);
    gd__buffer_free(&b);
    gd__buffer_free(&text);
    return rc;
}

static int process(struct gd_worker *w, const struct gd_task *task, struct gd_result *r)
{
    (void)w;
    char *path = strndup(task->data, task->size);
    const char *slash = path ? strrchr(path, '/') : NULL, *name = slash ? slash + 1 : path;
    struct tr_header h = { 0 };
    struct tr_outputs *outputs = NULL;
    if (!path)
        return GD_E_NO_MEMORY;
    note("ran", path);
    int rc = tr_outputs_begin(&outputs, &settings.places, path, 0) < 0 ? gd_result_error(r, "%s", gd__fail_text()) : 0;
    if (rc == 0)
        rc = behave(name, path, r);
    if (rc == 0)
        rc = tr_header_read(&h, path) < 0 ? gd_result_error_final(r, "cannot be read") : 0;
    if (rc == 0 && write_outputs(outputs, name, h.seconds) < 0)
        rc = gd_result_error(r, "%s", gd__fail_text());
    if (rc == 0)
        rc = answer(r, path, name, h.seconds);
    tr_outputs_drop(&outputs);
    free(path);
    return rc;
}

__attribute__((visibility("default"))) tr_about_fn tr_transcriber_about;

char *tr_transcriber_about(void)
{
    const char *text = getenv("STANDIN_ABOUT");
    if (text && strcmp(text, "crash") == 0)
        abort();
    return strdup(text ? text : "");
}

const struct gd_worker_ops *gd_plugin_worker(void)
{
    static const struct gd_worker_ops ops = {
        .size = sizeof ops, .setup = setup, .process = process, .cleanup = cleanup
    };
    return &ops;
}
