/* SPDX-License-Identifier: MIT
 *
 * The transcription worker: a plugin for `gpu-dispatch transcribe`, or for `gpu-dispatch run --worker`.
 *
 * Its setup arguments are settings (settings.h). A task's payload is the path of an audio file. Files are opened, or
 * fetched, and decoded ahead on the I/O threads. The transcript is written to the output directory, and summarised in the result as
 * one line of JSON:
 *
 *     {"file": PATH, "audio_duration": SECONDS, "language": "en", "segments": N, "text": "...", "outputs": [PATH, ...]}
 *
 * It also has the member "warning" if the file is truncated and that was accepted.
 *
 * While a long file is transcribed, partial results tell how much of it is done. They are not part of the result:
 *
 *     {"audio_done": SECONDS}
 */
#include <errno.h>
#include <fcntl.h>
#include <gpu_dispatch/worker.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/transcribe/audio/audio.h"
#include "apps/transcribe/engine/decoding/limits.h"
#include "apps/transcribe/engine/settings.h"
#include "apps/transcribe/engine/transcriber.h"
#include "apps/transcribe/fetch/fetch.h"
#include "apps/transcribe/model/model.h"
#include "apps/transcribe/output/outputs.h"
#include "apps/transcribe/output/shown.h"
#include "apps/transcribe/output/transcript.h"
#include "base/failure.h"
#include "base/text/buffer.h"
#include "base/text/json_write.h"

struct worker {
    struct tr_settings settings;
    char *kept; /* the text that settings point into */
    struct tr_transcriber *transcriber;
    char model[TR_MODEL_NAME];
};

static void close_worker(struct worker *x)
{
    if (!x)
        return;
    tr_transcriber_close(&x->transcriber);
    free(x->kept);
    free(x);
}

/* Logs that the slower decoder is used. */
static int open_solo(struct worker *x, const char *why)
{
    if (why)
        (void)fprintf(stderr, "transcribe: decoding with whisper.cpp's own decoder, one file at a time: %s\n", why);
    return tr_solo_open(&x->transcriber, &x->settings);
}

static int open_transcriber(struct worker *x)
{
    const struct tr_settings *s = &x->settings;
    enum tr_decoder decoder;
    const char *beyond;
    char why[TR_MESSAGE_MAX];
    if (tr_decoding_choose(s, &decoder, &beyond) < 0)
        return -1;
    if (decoder == TR_DECODER_WHISPER) {
        snprintf(why, sizeof why, "lanes cannot do %s", beyond ? beyond : "this");
        return open_solo(x, beyond ? why : NULL);
    }
    const int rc = tr_lanes_open(&x->transcriber, s);
    if (rc != TR_LANES_UNFIT || s->decoder)
        return rc < 0 ? -1 : 0;
    snprintf(why, sizeof why, "%s", gd__fail_text());
    return open_solo(x, why);
}

/* --- set-ups that died -------------------------------------------------------- */

/* If a GPU lacks memory for a kernel, ggml ends the process, and the next process of this worker would do the same. So
 * a file tells it how many set-ups have died. Each adds a byte, and the first one that ends deletes the file. It is named
 * after the dispatcher and the worker. Without such a file, nothing is known. */
static void name_trial(char path[PATH_MAX], int worker_id)
{
    const char *directory = getenv("TMPDIR");
    snprintf(path, PATH_MAX, "%s/gpu-dispatch-transcribe-%u-%d-%d", directory && *directory ? directory : "/tmp",
             (unsigned)geteuid(), (int)getppid(), worker_id);
}

/* Returns the number of set-ups of this worker that have died. */
static unsigned begin_trial(const char *path, unsigned restarts)
{
    struct stat st;
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0)
        return 0;
    const bool own = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid();
    /* A first process has no earlier ones: what is in the file comes from another dispatcher with the same number. */
    const bool begun = own && (restarts > 0 || ftruncate(fd, 0) == 0) && write(fd, "x", 1) == 1;
    close(fd);
    return begun && restarts > 0 ? (unsigned)st.st_size : 0;
}

static int open_settings(struct worker *x, const struct gd_setup *s)
{
    char trial[PATH_MAX];
    const char *args = s->args;
    const size_t size = s->args_size; /* gpu-dispatch passes a string, and counts its final NUL */
    if (tr_settings_read(&x->settings, &x->kept, args, size > 0 && args[size - 1] == '\0' ? size - 1 : size) < 0)
        return -1;
    name_trial(trial, s->worker_id);
    x->settings.halvings = begin_trial(trial, s->restarts);
    const int rc = open_transcriber(x);
    unlink(trial);
    return rc;
}

/* --- set-up ------------------------------------------------------------------- */

static int setup(struct gd_worker *w, const struct gd_setup *s)
{
    struct worker *x = calloc(1, sizeof *x);
    if (!x)
        return gd_worker_error(w, "no memory");
    signal(SIGXFSZ, SIG_IGN); /* so that writing past `ulimit -f` is an error like a full disk */
    if (open_settings(x, s) < 0) {
        close_worker(x);
        return gd_worker_error(w, "%s", gd__fail_text());
    }
    if (gd_worker_set_concurrency(w, x->transcriber->files) < 0) {
        close_worker(x);
        return gd_worker_error(w, "%s", gd_error_text());
    }
    tr_model_name(x->model, x->settings.model);
    if (x->settings.model_name)
        snprintf(x->model, sizeof x->model, "%s", x->settings.model_name);
    gd_worker_set_user(w, x);
    return 0;
}

static int cleanup(struct gd_worker *w)
{
    close_worker(gd_worker_user(w));
    gd_worker_set_user(w, NULL);
    return 0;
}

/* --- files ------------------------------------------------------------------ */

enum {
    MOST_SPEAKERS = 8, /* channels with a speaker: each is decoded ahead by itself */
    SHORT_AHEAD = 60,  /* seconds of a file that are decoded before it begins, if many files are open */
};

/* A file that is being read and transcribed. Its path ends with a NUL, which a payload does not have. */
struct file {
    struct tr_request request; /* first */
    struct worker *worker;
    struct gd_result *result;
    struct tr_audio *audio[MOST_SPEAKERS]; /* all channels mixed, or one for each channel */
    unsigned n_audio, channel;             /* the channel that is transcribed, from 0 */
    struct tr_outputs *outputs;            /* NULL: the text is only in the result */
    struct tr_transcript transcript;
    double told, step; /* up to where progress was reported; how much more is worth a message */
    char path[];
};

static void close_file(struct file *f)
{
    for (unsigned i = 0; i < f->n_audio; i++)
        tr_audio_close(&f->audio[i]);
    tr_outputs_drop(&f->outputs);
    tr_transcript_free(&f->transcript);
    free(f);
}

/* Opens one channel (from 1), or all channels mixed (0). fd < 0: the file is opened by its path. */
static int open_channel(struct file *f, int fd, unsigned channel, char message[TR_MESSAGE_MAX])
{
    const struct worker *x = f->worker;
    struct tr_audio_how how = { .path = f->path,
                                .has_fd = fd >= 0,
                                .channel = channel,
                                .ahead_s = x->transcriber->files > 1 ? SHORT_AHEAD : TR_AHEAD,
                                .accept_truncated = x->settings.accept_truncated };
    if (fd >= 0 && (how.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0) {
        snprintf(message, TR_MESSAGE_MAX, "a channel cannot be opened: %s", strerror(errno));
        return TR_UNREAD;
    }
    const int rc = tr_audio_open_how(&f->audio[f->n_audio], &how, message);
    f->n_audio += rc == 0;
    return rc;
}

static int open_channels(struct file *f, int fd, char message[TR_MESSAGE_MAX])
{
    char room[TR_SHOWN];
    const bool each = f->worker->settings.diarize_channels;
    int rc = open_channel(f, fd, each ? 1 : 0, message);
    const int n = rc == 0 && each ? tr_audio_channels(f->audio[0]) : 1;
    if (n > MOST_SPEAKERS) {
        snprintf(message, TR_MESSAGE_MAX,
                 "%s has %d channels, but --diarize channels takes files with at most %d: leave it out",
                 tr_shown(room, f->path), n, MOST_SPEAKERS);
        return TR_UNFIT;
    }
    for (int channel = 2; rc == 0 && channel <= n; channel++)
        rc = open_channel(f, fd, (unsigned)channel, message);
    return rc;
}

/* A fetch cannot be cancelled. It ends by itself if the server is silent. */
static int open_input(struct file *f, char message[TR_MESSAGE_MAX])
{
    const struct tr_settings *s = &f->worker->settings;
    if (!s->input_base)
        return open_channels(f, -1, message);
    const int fd = tr_fetch(s->input_base, f->path, message);
    if (fd < 0)
        return fd;
    const int rc = open_channels(f, fd, message);
    close(fd);
    return rc;
}

static int load(struct gd_worker *w, struct gd_task *task, struct gd_result *result)
{
    struct worker *x = gd_worker_user(w);
    const struct tr_places *places = &x->settings.places;
    char message[TR_MESSAGE_MAX] = "";
    if (task->size == 0 || memchr(task->data, 0, task->size))
        return gd_result_error_final(result, "the task is not the path of a file");
    struct file *f = calloc(1, sizeof *f + task->size + 1);
    if (!f)
        return gd_result_error(result, "no memory for a path");
    memcpy(f->path, task->data, task->size);
    f->worker = x;
    int rc = places->output_dir ? tr_outputs_possible(places, f->path) : 0;
    if (rc < 0)
        rc = gd_result_error_final(result, "%s", gd__fail_text());
    else if ((rc = open_input(f, message)) < 0)
        rc = (rc == TR_UNREAD ? gd_result_error : gd_result_error_final)(result, "%s", message);
    if (rc == 0)
        task->loaded = f;
    else
        close_file(f);
    return rc;
}

static void unload(struct gd_worker *w, struct gd_task *task)
{
    (void)w;
    close_file(task->loaded);
}

/* --- results ---------------------------------------------------------------- */

static int add_outputs(struct gd__buffer *line, const struct tr_places *p, const char *file)
{
    struct gd__buffer path = { 0 };
    const char *before = "";
    int rc = 0;
    for (int f = 0; p->output_dir && f < TR_FORMATS && rc == 0; f++) {
        if (!(p->formats & 1u << f))
            continue;
        rc = tr_output_path(&path, p, file, (enum tr_format)f);
        if (rc < 0)
            break;
        gd__buffer_text(line, before);
        gd__json_put_string(line, path.data, strlen(path.data));
        before = ", ";
    }
    gd__buffer_free(&path);
    return rc;
}

static int give_result(const struct file *f, struct gd__buffer *b)
{
    const struct tr_transcript *t = &f->transcript;
    gd__buffer_text(b, "{\"file\": ");
    gd__json_put_string(b, f->path, strlen(f->path));
    gd__buffer_format(b, ", \"audio_duration\": %.3f, \"language\": ", t->duration);
    if (t->language)
        gd__json_put_string(b, t->language, strlen(t->language));
    else
        gd__buffer_text(b, "null"); /* no speech was found */
    gd__buffer_format(b, ", \"segments\": %zu, \"text\": ", t->n_segments);
    tr_format_text(b, t);
    gd__buffer_text(b, ", \"outputs\": [");
    if (add_outputs(b, &f->worker->settings.places, f->path) < 0)
        return gd_result_error(f->result, "%s", gd__fail_text());
    gd__buffer_text(b, "]");
    if (t->warning) {
        gd__buffer_text(b, ", \"warning\": ");
        gd__json_put_string(b, t->warning, strlen(t->warning));
    }
    gd__buffer_text(b, "}");
    return b->failed ? gd_result_error(f->result, "no memory for the result")
                     : gd_result_set(f->result, b->data, b->size);
}

static void give_text(struct file *f)
{
    struct gd__buffer line = { 0 };
    tr_transcript_merge(&f->transcript);
    if (f->outputs && tr_outputs_finish(f->outputs, &f->transcript) < 0)
        gd_result_error(f->result, "%s", gd__fail_text());
    else
        give_result(f, &line); /* a failure is part of the result */
    gd__buffer_free(&line);
}

/* --- progress --------------------------------------------------------------- */

/* A message for each of these parts of a file, but not for less audio than a window. */
#define PROGRESS_PART   0.01
#define PROGRESS_WINDOW 30.

/* All channels count alike. A failure is no reason to give up the file: its progress is then not reported. */
static void tell_progress(struct tr_request *r, double seconds)
{
    struct file *f = (struct file *)r;
    const double length = tr_audio_seconds(f->audio[0]);
    const double done = (f->channel * length + seconds) / f->n_audio;
    char text[64];
    if (done < f->told + f->step)
        return;
    const unsigned tenths = (unsigned)(done * 10); /* as integers: %f would use the locale's decimal point */
    const int n = snprintf(text, sizeof text, "{\"audio_done\": %u.%u}", tenths / 10, tenths % 10);
    f->told = gd_result_partial(f->result, text, (size_t)n) < 0 ? INFINITY : done;
}

/* --- transcribing ----------------------------------------------------------- */

static void done(struct tr_request *request, enum tr_outcome outcome, const char *message);

static void begin_channel(struct file *f)
{
    struct worker *x = f->worker;
    tr_transcript_speak(&f->transcript, x->settings.diarize_channels ? f->channel + 1 : 0);
    f->request.audio = f->audio[f->channel]; /* cancel() may look at other members meanwhile */
    f->request.transcript = &f->transcript;
    f->request.language_probability = -1;
    f->request.progress = tell_progress;
    f->request.done = done;
    tr_transcriber_add(x->transcriber, &f->request);
}

/* If the language is detected in each channel, the most probable one is that of the file. */
static void note_channel(struct file *f)
{
    struct tr_transcript *t = &f->transcript;
    const struct tr_request *r = &f->request;
    if (r->language && (!t->language || r->language_probability > t->language_probability)) {
        t->language = r->language;
        t->language_probability = r->language_probability;
    }
    if (!t->warning)
        t->warning = tr_audio_warning(f->audio[f->channel]);
}

/* Called by the transcriber, on one of its threads. */
static void done(struct tr_request *request, enum tr_outcome outcome, const char *message)
{
    struct file *f = (struct file *)request;
    switch (outcome) {
    case TR_HEARD:
        note_channel(f);
        if (++f->channel < f->n_audio) {
            begin_channel(f);
            return;
        }
        give_text(f);
        break;
    case TR_CANCELLED:
        gd_result_cancelled(f->result);
        break;
    case TR_BAD_FILE:
        gd_result_error_final(f->result, "%s", message);
        break;
    case TR_NO_MEMORY:
        gd_result_out_of_memory(f->result, "%s", message);
        break;
    case TR_LOST:
        gd_result_device_lost(f->result, "%s", message);
        break;
    case TR_FILE_AWAY:
    case TR_FAILED:
        gd_result_error(f->result, "%s", message);
        break;
    }
    gd_result_finish(f->result);
}

/* The outputs are opened first: a file whose outputs can't be written is not transcribed. */
static int begin(struct gd_worker *w, const struct gd_task *task, struct gd_result *result)
{
    struct worker *x = gd_worker_user(w);
    const struct tr_places *places = &x->settings.places;
    struct file *f = task->loaded;
    const double seconds = tr_audio_seconds(f->audio[0]);
    if (places->output_dir && tr_outputs_begin(&f->outputs, places, f->path, seconds) < 0)
        return gd_result_error(result, "%s", gd__fail_text());
    f->result = result;
    f->step = fmax(seconds * PROGRESS_PART, PROGRESS_WINDOW);
    f->transcript.model = x->model;
    f->transcript.translated = x->settings.translate;
    f->transcript.language_probability = -1;
    begin_channel(f);
    return 0;
}

static void cancel(struct gd_worker *w, const struct gd_task *task)
{
    struct worker *x = gd_worker_user(w);
    struct file *f = task->loaded;
    tr_transcriber_cancel(x->transcriber, &f->request);
}

const struct gd_worker_ops *gd_plugin_worker(void)
{
    static const struct gd_worker_ops ops = {
        .size = sizeof ops,
        .setup = setup,
        .load = load,
        .unload = unload,
        .begin = begin,
        .cancel = cancel,
        .cleanup = cleanup,
    };
    return &ops;
}
