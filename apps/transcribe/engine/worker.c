/* SPDX-License-Identifier: MIT
 *
 * The transcription worker: a plugin for `gpu-dispatch transcribe`, or for `gpu-dispatch run --worker`.
 *
 * Its setup arguments are settings (settings.h). A task's payload is the path of an audio file. Files are opened and
 * decoded ahead on the I/O threads. The transcript is written to the output directory, and summarised in the result as
 * one line of JSON:
 *
 *     {"file": PATH, "audio_duration": SECONDS, "language": "en", "segments": N, "text": "...", "outputs": [PATH, ...]}
 */
#include <gpu_dispatch/worker.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/transcribe/audio/audio.h"
#include "apps/transcribe/engine/engine.h"
#include "apps/transcribe/engine/pieces.h"
#include "apps/transcribe/engine/settings.h"
#include "apps/transcribe/model/model.h"
#include "apps/transcribe/output/outputs.h"
#include "apps/transcribe/output/transcript.h"
#include "base/failure.h"
#include "base/text/buffer.h"
#include "base/text/json_write.h"

struct transcriber {
    struct tr_settings settings;
    char *kept; /* the text that settings point into */
    struct tr_engine *engine;
    struct tr_pieces pieces;
    struct tr_transcript transcript;
    struct gd__buffer line, path;
    char model[TR_MODEL_NAME];
};

static void close_transcriber(struct transcriber *x)
{
    if (!x)
        return;
    tr_engine_close(&x->engine);
    tr_pieces_close(&x->pieces);
    tr_transcript_free(&x->transcript);
    gd__buffer_free(&x->line);
    gd__buffer_free(&x->path);
    free(x->kept);
    free(x);
}

static int setup(struct gd_worker *w, const struct gd_setup *s)
{
    struct transcriber *x = calloc(1, sizeof *x);
    if (!x)
        return gd_worker_error(w, "no memory");
    signal(SIGXFSZ, SIG_IGN); /* so that writing past `ulimit -f` is an error like a full disk */
    const char *args = s->args;
    const size_t size = s->args_size; /* gpu-dispatch passes a string, and counts its final NUL */
    if (tr_settings_read(&x->settings, &x->kept, args, size > 0 && args[size - 1] == '\0' ? size - 1 : size) < 0 ||
        tr_pieces_open(&x->pieces, x->settings.piece_seconds) < 0 || tr_engine_open(&x->engine, &x->settings) < 0) {
        close_transcriber(x);
        return gd_worker_error(w, "%s", gd__fail_text());
    }
    tr_model_name(x->model, x->settings.model);
    if (x->settings.model_name)
        snprintf(x->model, sizeof x->model, "%s", x->settings.model_name);
    gd_worker_set_user(w, x);
    return 0;
}

static int cleanup(struct gd_worker *w)
{
    close_transcriber(gd_worker_user(w));
    gd_worker_set_user(w, NULL);
    return 0;
}

/* --- files ------------------------------------------------------------------ */

/* A file that is being read. Its path ends with a NUL, which a payload does not have. */
struct file {
    struct tr_audio *audio;
    char path[];
};

static int load(struct gd_worker *w, struct gd_task *task, struct gd_result *result)
{
    const struct tr_places *places = &((struct transcriber *)gd_worker_user(w))->settings.places;
    char message[TR_MESSAGE_MAX] = "";
    if (task->size == 0 || memchr(task->data, 0, task->size))
        return gd_result_error_final(result, "the task is not the path of a file");
    struct file *f = malloc(sizeof *f + task->size + 1);
    if (!f)
        return gd_result_error(result, "no memory for a path");
    memcpy(f->path, task->data, task->size);
    f->path[task->size] = '\0';
    int rc = places->output_dir ? tr_outputs_possible(places, f->path) : 0;
    if (rc < 0)
        rc = gd_result_error_final(result, "%s", gd__fail_text());
    else if ((rc = tr_audio_open(&f->audio, f->path, message)) < 0)
        rc = (rc == TR_UNREAD ? gd_result_error : gd_result_error_final)(result, "%s", message);
    if (rc == 0)
        task->loaded = f;
    else
        free(f);
    return rc;
}

static void unload(struct gd_worker *w, struct gd_task *task)
{
    (void)w;
    struct file *f = task->loaded;
    tr_audio_close(&f->audio);
    free(f);
}

/* --- results ---------------------------------------------------------------- */

static int add_outputs(struct transcriber *x, const char *file)
{
    const struct tr_places *p = &x->settings.places;
    const char *before = "";
    for (int f = 0; p->output_dir && f < TR_FORMATS; f++) {
        if (!(p->formats & 1u << f))
            continue;
        if (tr_output_path(&x->path, p, file, (enum tr_format)f) < 0)
            return -1;
        gd__buffer_text(&x->line, before);
        gd__json_put_string(&x->line, x->path.data, strlen(x->path.data));
        before = ", ";
    }
    return 0;
}

static int give_result(struct transcriber *x, const char *file, struct gd_result *result)
{
    const struct tr_transcript *t = &x->transcript;
    struct gd__buffer *b = &x->line;
    b->size = 0;
    b->failed = false;
    gd__buffer_text(b, "{\"file\": ");
    gd__json_put_string(b, file, strlen(file));
    gd__buffer_format(b, ", \"audio_duration\": %.3f, \"language\": ", t->duration);
    if (t->language)
        gd__json_put_string(b, t->language, strlen(t->language));
    else
        gd__buffer_text(b, "null"); /* no speech was found */
    gd__buffer_format(b, ", \"segments\": %zu, \"text\": ", t->n_segments);
    tr_format_text(b, t);
    gd__buffer_text(b, ", \"outputs\": [");
    if (add_outputs(x, file) < 0)
        return gd_result_error(result, "%s", gd__fail_text());
    gd__buffer_text(b, "]}");
    return b->failed ? gd_result_error(result, "no memory for the result") : gd_result_set(result, b->data, b->size);
}

/* --- transcribing ----------------------------------------------------------- */

static bool is_cancelled(void *user)
{
    return gd_task_cancelled(user);
}

static enum tr_outcome hear(struct transcriber *x, struct gd_worker *w, const struct file *f,
                            char message[TR_MESSAGE_MAX])
{
    struct tr_transcript *t = &x->transcript;
    tr_transcript_clear(t);
    t->model = x->model;
    t->translated = x->settings.translate;
    enum tr_outcome outcome = tr_engine_begin(x->engine, is_cancelled, w);
    if (outcome == TR_HEARD)
        outcome = tr_pieces_hear(&x->pieces, x->engine, f->audio, t, message);
    t->language = tr_engine_language(x->engine, &t->language_probability);
    return outcome;
}

/* outputs NULL: the text is only in the result. */
static int transcribe(struct gd_worker *w, const struct file *f, struct tr_outputs *outputs, struct gd_result *result)
{
    struct transcriber *x = gd_worker_user(w);
    char message[TR_MESSAGE_MAX] = "";
    switch (hear(x, w, f, message)) {
    case TR_HEARD:
        break;
    case TR_CANCELLED:
        return gd_result_cancelled(result);
    case TR_BAD_FILE:
        return gd_result_error_final(result, "%s", message);
    case TR_FILE_AWAY:
        return gd_result_error(result, "%s", message);
    case TR_NO_MEMORY:
        return gd_result_out_of_memory(result, "%s", gd__fail_text());
    case TR_LOST:
        return gd_result_device_lost(result, "%s", gd__fail_text());
    case TR_FAILED:
        return gd_result_error(result, "%s", gd__fail_text());
    }
    if (outputs && tr_outputs_finish(outputs, &x->transcript) < 0)
        return gd_result_error(result, "%s", gd__fail_text());
    return give_result(x, f->path, result);
}

/* The outputs are opened first: a file whose outputs can't be written is not transcribed. */
static int process(struct gd_worker *w, const struct gd_task *task, struct gd_result *result)
{
    const struct tr_places *places = &((struct transcriber *)gd_worker_user(w))->settings.places;
    const struct file *f = task->loaded;
    struct tr_outputs *outputs = NULL;
    if (places->output_dir && tr_outputs_begin(&outputs, places, f->path, tr_audio_seconds(f->audio)) < 0)
        return gd_result_error(result, "%s", gd__fail_text());
    const int rc = transcribe(w, f, outputs, result);
    tr_outputs_drop(&outputs);
    return rc;
}

const struct gd_worker_ops *gd_plugin_worker(void)
{
    static const struct gd_worker_ops ops = {
        .size = sizeof ops,
        .setup = setup,
        .process = process,
        .load = load,
        .unload = unload,
        .cleanup = cleanup,
    };
    return &ops;
}
