/* SPDX-License-Identifier: MIT
 *
 * Many files at once, inside this process: what happens to a file while others are being decoded. The function of ggml
 * that computes is replaced by one with a gate, so that a case decides when the decoder goes on. No case depends on
 * time. */
#include <dlfcn.h>
#include <ggml-backend.h>
#include <pthread.h>
#include <stdlib.h>

#include "apps/transcribe/engine/lanes/part.h"
#include "apps/transcribe/engine/lanes/sound/cut.h"
#include "apps/transcribe/engine/transcriber.h"
#include "base/failure.h"
#include "support/directory.h"
#include "support/test.h"
#include "transcribe/sound.h"

/* --- the gate ------------------------------------------------------------------------ */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool closed;
    unsigned permits; /* computations that may pass the closed gate */
    bool inside;      /* the decoder waits at the gate */
    bool fails;       /* the device does not compute any more */
    unsigned ended;   /* files */
} gate = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

/* Returns false if the computation must fail. */
static bool pass(void)
{
    pthread_mutex_lock(&gate.lock);
    while (gate.closed && gate.permits == 0) {
        gate.inside = true;
        pthread_cond_broadcast(&gate.changed);
        pthread_cond_wait(&gate.changed, &gate.lock);
    }
    gate.inside = false;
    gate.permits -= gate.closed;
    const bool fails = gate.fails;
    pthread_mutex_unlock(&gate.lock);
    return !fails;
}

typedef enum ggml_status compute(ggml_backend_t backend, struct ggml_cgraph *graph);

/* One of these functions may call the other, through the replacement or not: the gate is passed once. */
static enum ggml_status compute_as(const char *name, ggml_backend_t backend, struct ggml_cgraph *graph)
{
    static _Thread_local bool within;
    if (!within && !pass())
        return GGML_STATUS_FAILED;
    const bool before = within;
    within = true;
    const enum ggml_status status = ((compute *)dlsym(RTLD_NEXT, name))(backend, graph);
    within = before;
    return status;
}

enum ggml_status ggml_backend_graph_compute(ggml_backend_t backend, struct ggml_cgraph *graph)
{
    return compute_as("ggml_backend_graph_compute", backend, graph);
}

enum ggml_status ggml_backend_graph_compute_async(ggml_backend_t backend, struct ggml_cgraph *graph)
{
    return compute_as("ggml_backend_graph_compute_async", backend, graph);
}

static void set_gate(bool closed)
{
    pthread_mutex_lock(&gate.lock);
    gate.closed = closed;
    gate.permits = 0;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
}

/* Lets so many computations pass, and waits until the decoder waits for the next one. */
static void let_pass(unsigned n)
{
    pthread_mutex_lock(&gate.lock);
    gate.permits = n;
    pthread_cond_broadcast(&gate.changed);
    while (gate.permits > 0 || !gate.inside)
        pthread_cond_wait(&gate.changed, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
}

/* --- files --------------------------------------------------------------------------- */

struct file {
    struct tr_request request; /* first */
    struct tr_transcript transcript;
    enum tr_outcome outcome;
    char message[TR_MESSAGE_MAX];
    unsigned order;  /* it was the first, second, ... that ended; 0: not ended */
    double progress; /* seconds */
};

static void on_progress(struct tr_request *r, double seconds)
{
    pthread_mutex_lock(&gate.lock);
    ((struct file *)r)->progress = seconds;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
}

static void on_done(struct tr_request *r, enum tr_outcome outcome, const char *message)
{
    struct file *f = (struct file *)r;
    pthread_mutex_lock(&gate.lock);
    f->outcome = outcome;
    snprintf(f->message, sizeof f->message, "%s", message);
    f->order = ++gate.ended;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
}

static struct tr_transcriber *transcriber;
static struct tr_settings settings;

/* A case may begin again, after it has closed the transcriber before. */
static void begin(const char *more)
{
    static char *kept; /* what the settings point to */
    char text[PATH_MAX + 200];
    free(kept);
    kept = NULL;
    const int n =
        snprintf(text, sizeof text, "model=%s\nno_gpu=yes\nthreads=1\n%s", source_path("models/ggml-demo.bin"), more);
    if (tr_settings_read(&settings, &kept, text, (size_t)n) < 0 || tr_lanes_open(&transcriber, &settings) < 0)
        FAIL("%s", gd__fail_text());
}

static void open_file(struct file *f, const char *path, unsigned ahead_s)
{
    const struct tr_audio_how how = { .path = path, .ahead_s = ahead_s };
    *f = (struct file){ .request = { .transcript = &f->transcript, .progress = on_progress, .done = on_done } };
    if (tr_audio_open_how(&f->request.audio, &how, f->message) < 0)
        FAIL("%s", f->message);
}

static void add(struct file *f, const char *path)
{
    open_file(f, path, 0);
    tr_transcriber_add(transcriber, &f->request);
}

static void add_number(struct file *f, int clip)
{
    char name[100];
    snprintf(name, sizeof name, "tests/data/speech/clip_%03d.flac", clip);
    add(f, source_path(name));
}

static enum tr_outcome wait_for(struct file *f)
{
    pthread_mutex_lock(&gate.lock);
    while (f->order == 0)
        pthread_cond_wait(&gate.changed, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
    return f->outcome;
}

static unsigned order_of(const struct file *f)
{
    pthread_mutex_lock(&gate.lock);
    const unsigned order = f->order;
    pthread_mutex_unlock(&gate.lock);
    return order;
}

static double progress_of(const struct file *f)
{
    pthread_mutex_lock(&gate.lock);
    const double seconds = f->progress;
    pthread_mutex_unlock(&gate.lock);
    return seconds;
}

/* The text as it is in the outputs. */
static const char *text_of(const struct file *f)
{
    static struct gd__buffer out;
    out.size = 0;
    tr_format_write(&out, TR_JSON, &f->transcript, NULL);
    gd__buffer_add(&out, "", 1);
    CHECK(!out.failed);
    return out.data;
}

static void check_clip(struct file *f, int number)
{
    char name[100], wanted[400];
    CHECK_EQ(wait_for(f), TR_HEARD);
    snprintf(name, sizeof name, "/clip_%03d.flac", number);
    snprintf(wanted, sizeof wanted, "\"text\": \"%s\"", spoken(name));
    CHECK_CONTAINS(text_of(f), wanted);
}

static void release(struct file *files, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        tr_audio_close(&files[i].request.audio);
        tr_transcript_free(&files[i].transcript);
    }
}

static void end(struct file *files, size_t n)
{
    tr_transcriber_close(&transcriber);
    release(files, n);
}

/* Thirty seconds of speech, or more. */
static void make_talk(const char *path, int clips)
{
    FILE *f = begin_wav(path);
    for (int i = 0; i < clips; i++) {
        char name[100];
        snprintf(name, sizeof name, "tests/data/speech/clip_%03d.flac", 20 + i);
        put_clip(f, source_path(name));
    }
    end_wav(f);
}

/* Waits until the files that were added before are read: the only reader reads them in this order. There must be room for
 * one more. */
static void wait_until_read(void)
{
    static struct file bad;
    make_silence("bad.wav", 10);
    open_file(&bad, "bad.wav", 1);
    CHECK_EQ(truncate("bad.wav", 5 * TR_RATE * 2), 0); /* so that reading it fails, without the decoder */
    tr_transcriber_add(transcriber, &bad.request);
    const enum tr_outcome outcome = wait_for(&bad);
    CHECK(outcome == TR_BAD_FILE || outcome == TR_FILE_AWAY);
    release(&bad, 1);
}

/* --- cancelling -------------------------------------------------------------------------- */

/* There is room for two parts. The decoder waits, so there will be no room for others. */
TEST_WITHIN(300, a_file_without_room_is_cancelled_at_once)
{
    static struct file files[4];
    set_gate(true);
    begin("batch_size=1\n");
    for (int i = 0; i < 4; i++)
        add_number(&files[i], 20 + i);
    tr_transcriber_cancel(transcriber, &files[3].request);
    CHECK_EQ(wait_for(&files[3]), TR_CANCELLED);
    tr_transcriber_cancel(transcriber, &files[2].request);
    CHECK_EQ(wait_for(&files[2]), TR_CANCELLED);
    CHECK_EQ(order_of(&files[0]), 0);
    set_gate(false);
    check_clip(&files[0], 20);
    check_clip(&files[1], 21);
    end(files, 4);
}

/* Both files are being decoded. A round has at most three computations: windows, what is before the text, one token. */
TEST_WITHIN(300, one_lane_of_two_is_cancelled)
{
    enum { ROUND = 3 };
    static struct file files[3];
    directory_enter();
    make_talk("talk.wav", 24);
    begin("batch_size=2\n");
    add(&files[0], "talk.wav");
    CHECK_EQ(wait_for(&files[0]), TR_HEARD);
    set_gate(true);
    add(&files[1], "talk.wav");
    add(&files[2], "talk.wav");
    wait_until_read();
    while (progress_of(&files[1]) == 0 || progress_of(&files[2]) == 0)
        let_pass(1);
    tr_transcriber_cancel(transcriber, &files[1].request);
    let_pass(ROUND);
    CHECK_EQ(wait_for(&files[1]), TR_CANCELLED);
    CHECK_EQ(order_of(&files[2]), 0);
    set_gate(false);
    CHECK_EQ(wait_for(&files[2]), TR_HEARD);
    char alone[20000];
    snprintf(alone, sizeof alone, "%s", text_of(&files[0]));
    CHECK_STR(text_of(&files[2]), alone);
    end(files, 3);
}

/* The clip begins after an hour. Nothing is read before it. */
TEST_WITHIN(60, reading_stops_where_samples_are_skipped)
{
    struct tr_audio *audio;
    char message[TR_MESSAGE_MAX];
    directory_enter();
    make_silence("a.wav", 3);
    CHECK_EQ(tr_audio_open(&audio, "a.wav", message), 0);
    atomic_bool stopped = true;
    struct tr_reading r = { .audio = audio, .most = 300 * TR_RATE, .stopped = &stopped };
    const struct tr_clip clip = { 3600, 3660 };
    const struct tr_clips clips = { .items = (struct tr_clip *)(uintptr_t)&clip, .n = 1 };
    const struct tr_part_kit kit = { .clips = &clips };
    struct tr_part *part;
    CHECK_EQ(tr_part_read(&part, &r, &kit, NULL, 0, message), TR_UNREAD);
    CHECK(part == NULL);
    CHECK_EQ(r.position, 0);
    tr_reading_free(&r);
    tr_audio_close(&audio);
}

/* --- order, and a device that fails ------------------------------------------------------- */

/* There are two slots. The long file has one of them, and the clips the other, one after the other. */
TEST_WITHIN(300, a_long_file_does_not_hold_up_others)
{
    static struct file files[3];
    directory_enter();
    make_talk("talk.wav", 40);
    set_gate(true);
    begin("batch_size=2\n");
    add(&files[0], "talk.wav");
    add_number(&files[1], 20);
    add_number(&files[2], 21);
    wait_until_read();
    set_gate(false);
    check_clip(&files[1], 20);
    check_clip(&files[2], 21);
    CHECK_EQ(wait_for(&files[0]), TR_HEARD);
    CHECK(order_of(&files[1]) < order_of(&files[2]) && order_of(&files[2]) < order_of(&files[0]));
    end(files, 3);
}

/* This process cannot be used any more: files that come later must go to another one too. */
TEST_WITHIN(300, a_device_that_fails_is_lost)
{
    static struct file files[3];
    begin("batch_size=2\n");
    gate.fails = true;
    add_number(&files[0], 20);
    add_number(&files[1], 21);
    CHECK_EQ(wait_for(&files[0]), TR_LOST);
    CHECK_EQ(wait_for(&files[1]), TR_LOST);
    add_number(&files[2], 22);
    CHECK_EQ(wait_for(&files[2]), TR_LOST);
    for (int i = 0; i < 3; i++)
        CHECK_CONTAINS(files[i].message, "failed on");
    end(files, 3);
}

/* --- cuts ------------------------------------------------------------------------------------ */

TEST(a_cut_is_in_the_quietest_half_second)
{
    enum { N = 20 * TR_RATE };
    static float samples[N];
    for (int i = 0; i < N; i++)
        samples[i] = i % 2 ? 0.1f : -0.1f;
    for (int i = 7 * TR_RATE; i < 8 * TR_RATE; i++)
        samples[i] /= 10;
    for (int i = 12 * TR_RATE; i < 12 * TR_RATE + TR_RATE / 2; i++)
        samples[i] /= 20;
    CHECK_EQ(tr_cut_find(samples, 0, N), 12 * TR_RATE + TR_RATE / 4);
    CHECK_EQ(tr_cut_find(samples, 0, 10 * TR_RATE), 7 * TR_RATE + TR_RATE / 4);
}

/* Clips with pauses, with known times. */
enum { TALK_PAUSE = 3 }; /* seconds */

struct talk {
    int n;
    double start[200], end[200];
    char text[200][100];
};

static void make_long(const char *path, struct talk *t, double seconds)
{
    FILE *f = begin_wav(path);
    double at = 0;
    for (t->n = 0; at < seconds; t->n++) {
        char name[100];
        snprintf(name, sizeof name, "tests/data/speech/clip_%03d.flac", 20 + t->n % 40);
        put_clip(f, source_path(name));
        t->start[t->n] = at;
        t->end[t->n] = at = (double)(ftell(f) - 44) / 2 / TR_RATE;
        snprintf(t->text[t->n], sizeof t->text[0], "%s", spoken(name));
        put_silence(f, TALK_PAUSE);
        at += TALK_PAUSE;
    }
    end_wav(f);
}

/* Checks that each clip is one segment, which may begin or end in a pause beside it, and that nearly all words are right. The model takes
 * some words for others, wherever they are. */
static void check_talk(const struct tr_transcript *t, const struct talk *talk)
{
    int wrong = 0;
    CHECK_EQ(t->n_segments, talk->n);
    for (int i = 0; i < talk->n; i++) {
        const struct tr_segment *s = &t->segments[i];
        char got[200];
        snprintf(got, sizeof got, "%.*s", (int)s->size, t->text.data + s->text);
        if (s->start > talk->end[i] || s->end < talk->start[i] || s->start < talk->start[i] - TALK_PAUSE ||
            s->end > talk->end[i] + TALK_PAUSE)
            FAIL("\"%s\" is at %.2f to %.2f, not %.2f to %.2f", got, s->start, s->end, talk->start[i], talk->end[i]);
        wrong += !strstr(got, talk->text[i]);
    }
    CHECK_LT(wrong, talk->n / 20);
}

/* Whether a window begins at this time, in hundredths of a second. */
static bool begins_at(const struct tr_transcript *t, long hundredths)
{
    size_t i = 0;
    while (i < t->n_segments && t->segments[i].seek != hundredths)
        i++;
    return i < t->n_segments;
}

/* A file of more than five minutes is cut once, in the first pause after two minutes. Its text is complete, and has the
 * times of the file. The cut is at the same place whatever the number of slots. Without a cut, windows begin elsewhere.
 * The text before is not used: it confuses this small model, and would be missing after a cut. */
TEST_WITHIN(600, nothing_is_lost_at_a_cut)
{
    static struct file files[3];
    static struct talk talk;
    static char first[200000];
    static const char *const how[] = { "batch_size=1\ncondition_on_previous_text=no\n",
                                       "batch_size=3\ncondition_on_previous_text=no\n",
                                       "split=never\ncondition_on_previous_text=no\n" };
    directory_enter();
    make_long("long.wav", &talk, TR_MOST_PART + 5);
    for (int i = 0; i < 3; i++) {
        begin(how[i]);
        add(&files[i], "long.wav");
        CHECK_EQ(wait_for(&files[i]), TR_HEARD);
        tr_transcriber_close(&transcriber);
        check_talk(&files[i].transcript, &talk);
    }
    int next = 0; /* the first clip after the cut */
    while (talk.start[next] < TR_LEAST_PART)
        next++;
    CHECK(talk.end[next - 1] < TR_LEAST_PART && talk.start[next] > TR_LEAST_PART + 0.5);
    const long cut = TR_LEAST_PART * 100 + 25; /* the middle of the first silent half second */
    CHECK(begins_at(&files[0].transcript, cut));
    CHECK(!begins_at(&files[2].transcript, cut));
    snprintf(first, sizeof first, "%s", text_of(&files[0]));
    CHECK_STR(text_of(&files[1]), first);
    CHECK(strcmp(text_of(&files[2]), first) != 0);
    release(files, 3);
}

TEST_MAIN()
