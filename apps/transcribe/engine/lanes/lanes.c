/* SPDX-License-Identifier: MIT
 *
 * Transcribes many files at once. Threads and what they do:
 *
 *   readers   read a part of a file and compute its spectrum; at the end of a file, put its text together and call done()
 *   decoder   computes: takes the parts that are read, and decodes one token for each in every round
 *
 * A file goes round between the two. `read` and `ready` are lists of files that wait for a reader; `parts` are read parts
 * that wait for the decoder. The number of parts between reading and the end of decoding is limited, so memory is bounded
 * whatever the length and number of files. All lists and counts are protected by one lock.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <whisper.h>

#include "apps/transcribe/engine/lanes/batch.h"
#include "apps/transcribe/engine/lanes/model.h"
#include "apps/transcribe/engine/lanes/part.h"
#include "apps/transcribe/engine/load.h"
#include "apps/transcribe/engine/transcriber.h"
#include "base/failure.h"
#include "base/thread.h"

enum { MOST_READERS = 16, NEVER_SPLIT_PART = TR_AHEAD };

struct tr_work {
    struct tr_request *request;
    struct tr_work *next;
    struct tr_reading reading;
    struct tr_part *first, *last; /* all its parts, in order */
    size_t undecoded;             /* parts that are read, but not decoded */
    double done;                  /* seconds; used by the decoder alone */
    bool with_reader;             /* a reader has it, or it waits for one */
    bool read;                    /* all parts are read, or no more will be */
    atomic_bool stopped; /* it failed or was cancelled; written with the lock, but a reader looks at it without */
    enum tr_outcome outcome;
    char message[TR_MESSAGE_MAX];
    int language;
    float language_probability;
};

struct list {
    struct tr_work *first, *last;
};

struct reader {
    struct lanes *lanes;
    struct tr_speech *speech; /* a VAD model of its own; NULL: none is used */
    pthread_t thread;
};

struct lanes {
    struct tr_transcriber base;
    const struct tr_settings *settings;
    struct tr_lanes_model model;
    struct tr_batch *batch; /* used by the decoder alone */
    struct tr_clips clips;
    struct tr_part_kit kit;
    pthread_t decoder;
    struct reader readers[MOST_READERS];
    int n_readers;
    bool has_decoder;

    pthread_mutex_t lock;
    pthread_cond_t for_readers, for_decoder;
    struct list to_read, to_finish;
    struct tr_part **parts; /* for the decoder; a ring would save nothing, there are few */
    size_t n_parts, most_parts;
    size_t undecoded; /* of all files */
    size_t n_stopped; /* files whose parts the decoder must drop */
    bool broken;      /* the device failed */
    char why[TR_MESSAGE_MAX];
    bool ends;
};

static void append(struct list *list, struct tr_work *w)
{
    w->next = NULL;
    if (list->last)
        list->last->next = w;
    else
        list->first = w;
    list->last = w;
}

static struct tr_work *shift(struct list *list)
{
    struct tr_work *w = list->first;
    if (w)
        list->first = w->next;
    if (!list->first)
        list->last = NULL;
    return w;
}

/* Returns whether the file was in the list. */
static bool drop(struct list *list, const struct tr_work *w)
{
    struct tr_work *before = NULL;
    for (struct tr_work *at = list->first; at; before = at, at = at->next) {
        if (at != w)
            continue;
        *(before ? &before->next : &list->first) = at->next;
        if (list->last == at)
            list->last = before;
        return true;
    }
    return false;
}

/* --- what is next for a file (with the lock) ------------------------------------------- */

/* A part may depend on the one before: on its text, or on the language that it shows. */
static bool may_read(const struct lanes *s, const struct tr_work *w)
{
    const bool knows_language = !s->model.weights.vocabulary.multilingual || w->language != TR_NO_LANGUAGE;
    return w->undecoded == 0 || (w->reading.split && knows_language);
}

/* A file that was stopped does not wait until there is room for another part. */
static void schedule(struct lanes *s, struct tr_work *w)
{
    if (w->stopped && drop(&s->to_read, w))
        w->with_reader = false;
    if (w->with_reader)
        return;
    if ((w->read || w->stopped) && w->undecoded == 0)
        append(&s->to_finish, w);
    else if (!w->read && !w->stopped && may_read(s, w))
        append(&s->to_read, w);
    else
        return;
    w->with_reader = true;
    pthread_cond_signal(&s->for_readers);
}

static void stop(struct lanes *s, struct tr_work *w, enum tr_outcome outcome, const char *message)
{
    if (w->stopped)
        return;
    w->stopped = true;
    w->outcome = outcome;
    snprintf(w->message, sizeof w->message, "%s", message);
    if (w->undecoded > 0) {
        s->n_stopped++;
        pthread_cond_signal(&s->for_decoder);
    }
}

/* --- readers ------------------------------------------------------------------------------ */

/* Puts the text of all parts together. */
static enum tr_outcome collect(struct tr_work *w)
{
    enum tr_outcome outcome = w->stopped ? w->outcome : TR_HEARD;
    for (struct tr_part *p = w->first; p; p = w->first) {
        if (outcome == TR_HEARD && tr_part_add(p, w->request->transcript) < 0) {
            outcome = TR_NO_MEMORY;
            snprintf(w->message, sizeof w->message, "no memory for a file's text");
        }
        w->first = p->next;
        tr_part_free(p);
    }
    return outcome;
}

static void finish(struct lanes *s, struct tr_work *w)
{
    struct tr_request *r = w->request;
    r->transcript->duration = (double)w->reading.position / TR_RATE;
    const int language = s->model.weights.vocabulary.multilingual ? w->language : whisper_lang_id("en");
    r->language = language == TR_NO_LANGUAGE ? NULL : whisper_lang_str(language);
    r->language_probability = w->language_probability;
    const enum tr_outcome outcome = collect(w);
    char message[TR_MESSAGE_MAX];
    memcpy(message, w->message, sizeof message);
    pthread_mutex_lock(&s->lock); /* cancel() may be looking at it */
    r->work = NULL;
    pthread_mutex_unlock(&s->lock);
    tr_reading_free(&w->reading);
    free(w);
    r->done(r, outcome, message);
}

/* Takes a part that was read, or an error. */
static void take_part(struct lanes *s, struct tr_work *w, int rc, struct tr_part *p, const char *message)
{
    if (rc < 0) {
        w->read = true;
        stop(s, w, rc == TR_UNREAD ? TR_FILE_AWAY : TR_BAD_FILE, message);
        return;
    }
    p->user = w;
    if (w->last)
        w->last->next = p;
    else
        w->first = p;
    w->last = p;
    w->read = p->last;
    if (w->stopped) {
        p->decoded = true;
        return;
    }
    w->undecoded++;
    s->undecoded++;
    s->parts[s->n_parts++] = p;
    pthread_cond_signal(&s->for_decoder);
}

/* Reads the next part of a file. Called and returns with the lock. */
static void read_part(struct lanes *s, struct tr_work *w, struct tr_speech *speech)
{
    struct tr_part *p = NULL;
    char message[TR_MESSAGE_MAX] = "";
    const int language = w->language;
    pthread_mutex_unlock(&s->lock);
    int rc = w->last && tr_part_follow(w->last, &w->reading) < 0 ? TR_UNREAD : 0;
    if (rc < 0)
        snprintf(message, sizeof message, "no memory for a file's text");
    else
        rc = tr_part_read(&p, &w->reading, &s->kit, speech, language, message);
    pthread_mutex_lock(&s->lock);
    take_part(s, w, rc, p, message);
    w->with_reader = false;
    schedule(s, w);
}

/* There may be as many parts as the decoder can decode, and a few more that wait. */
static bool has_room(const struct lanes *s)
{
    return s->undecoded < s->most_parts;
}

static void *work_as_reader(void *argument)
{
    const struct reader *reader = argument;
    struct lanes *s = reader->lanes;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        struct tr_work *w = shift(&s->to_finish);
        if (w) {
            pthread_mutex_unlock(&s->lock);
            finish(s, w);
            pthread_mutex_lock(&s->lock);
        } else if (s->to_read.first && has_room(s)) {
            read_part(s, shift(&s->to_read), reader->speech);
        } else if (s->ends) {
            break;
        } else {
            pthread_cond_wait(&s->for_readers, &s->lock);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* --- the decoder --------------------------------------------------------------------------- */

/* A part is decoded, or need not be. */
static void leave(struct lanes *s, struct tr_part *p)
{
    struct tr_work *w = p->user;
    p->decoded = true;
    w->undecoded--;
    s->undecoded--;
    if (w->language == TR_NO_LANGUAGE) {
        w->language = p->lane->language;
        w->language_probability = p->lane->language_probability;
    }
    pthread_cond_signal(&s->for_readers);
    schedule(s, w);
}

/* Drops the parts of files that were stopped. */
static void drop_stopped(struct lanes *s, struct tr_part **at, size_t *n)
{
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++) {
        struct tr_part *p = at[i];
        if (((struct tr_work *)p->user)->stopped)
            leave(s, p);
        else
            at[kept++] = p;
    }
    *n = kept;
}

/* Parts in the batch, in any order. */
struct decoding {
    struct tr_part **parts;
    size_t n;
};

static void take_parts(struct lanes *s, struct decoding *d)
{
    for (size_t i = 0; i < s->n_parts; i++) {
        struct tr_part *p = s->parts[i];
        p->lane->user = p;
        d->parts[d->n++] = p;
        tr_batch_add(s->batch, p->lane);
    }
    s->n_parts = 0;
}

static void remove_stopped(struct lanes *s, struct decoding *d)
{
    if (s->n_stopped == 0)
        return;
    s->n_stopped = 0;
    for (size_t i = 0; i < d->n; i++) {
        if (((struct tr_work *)d->parts[i]->user)->stopped)
            tr_batch_remove(s->batch, d->parts[i]->lane);
    }
    drop_stopped(s, d->parts, &d->n);
    drop_stopped(s, s->parts, &s->n_parts);
}

static void take_decoded(struct lanes *s, struct decoding *d)
{
    struct tr_lane *l;
    while ((l = tr_batch_take(s->batch)) != NULL) {
        struct tr_part *p = l->user;
        for (size_t i = 0; i < d->n; i++) {
            if (d->parts[i] == p)
                d->parts[i--] = d->parts[--d->n];
        }
        tr_spectrum_free(&l->spectrum);
        leave(s, p);
    }
}

/* Reports how much of the files is done. Parts of a file that was cut are decoded at once, so their times are added.
 * Without the lock: a file that has a part in the batch is not ended by others. */
static void report(const struct decoding *d)
{
    for (size_t i = 0; i < d->n; i++) {
        struct tr_part *p = d->parts[i];
        struct tr_work *w = p->user;
        const double done = tr_part_done(p);
        if (done == p->told)
            continue;
        w->done = w->reading.split ? w->done + done - p->told : p->offset + done;
        p->told = done;
        if (w->request->progress)
            w->request->progress(w->request, w->done);
    }
}

/* The device has failed: this process cannot transcribe any more. */
static void fail_all(struct lanes *s, struct decoding *d)
{
    for (size_t i = 0; i < d->n; i++)
        stop(s, d->parts[i]->user, TR_LOST, s->why);
    for (size_t i = 0; i < s->n_parts; i++)
        stop(s, s->parts[i]->user, TR_LOST, s->why);
    remove_stopped(s, d);
}

static void mark_broken(struct lanes *s, const char *why)
{
    s->broken = true;
    snprintf(s->why, sizeof s->why, "%s", why);
}

static void *work_as_decoder(void *argument)
{
    struct lanes *s = argument;
    struct decoding d = { calloc(s->most_parts + MOST_READERS, sizeof *d.parts), 0 };
    pthread_mutex_lock(&s->lock);
    if (!d.parts)
        mark_broken(s, "no memory for the decoder");
    for (;;) {
        if (s->broken)
            fail_all(s, &d);
        remove_stopped(s, &d);
        if (!s->broken)
            take_parts(s, &d);
        if (tr_batch_size(s->batch) == 0) {
            if (s->ends)
                break;
            pthread_cond_wait(&s->for_decoder, &s->lock);
            continue;
        }
        pthread_mutex_unlock(&s->lock);
        const int rc = tr_batch_round(s->batch);
        report(&d);
        pthread_mutex_lock(&s->lock);
        take_decoded(s, &d);
        if (rc < 0)
            mark_broken(s, gd__fail_text());
    }
    pthread_mutex_unlock(&s->lock);
    free(d.parts);
    return NULL;
}

/* --- the interface -------------------------------------------------------------------------- */

static void add(struct tr_transcriber *t, struct tr_request *r)
{
    struct lanes *s = (struct lanes *)t;
    struct tr_work *w = calloc(1, sizeof *w);
    if (!w) {
        r->done(r, TR_NO_MEMORY, "no memory for a file");
        return;
    }
    const bool split = !s->settings->split || strcmp(s->settings->split, "never") != 0;
    const unsigned whole = s->settings->piece_seconds ? s->settings->piece_seconds : NEVER_SPLIT_PART;
    w->request = r;
    w->language = s->model.language;
    w->language_probability = -1;
    w->reading = (struct tr_reading){
        .audio = r->audio,
        .split = split,
        .most = (size_t)(split ? TR_MOST_PART : whole) * TR_RATE,
        .stopped = &w->stopped,
    };
    pthread_mutex_lock(&s->lock);
    r->work = w;
    if (r->cancelled)
        stop(s, w, TR_CANCELLED, "");
    else if (s->broken)
        stop(s, w, TR_LOST, s->why);
    schedule(s, w);
    pthread_mutex_unlock(&s->lock);
}

static void cancel(struct tr_transcriber *t, struct tr_request *r)
{
    struct lanes *s = (struct lanes *)t;
    pthread_mutex_lock(&s->lock);
    r->cancelled = true;
    if (r->work) {
        stop(s, r->work, TR_CANCELLED, "");
        schedule(s, r->work);
    }
    pthread_mutex_unlock(&s->lock);
}

static void close_lanes(struct tr_transcriber *t)
{
    struct lanes *s = (struct lanes *)t;
    pthread_mutex_lock(&s->lock);
    s->ends = true;
    pthread_cond_broadcast(&s->for_readers);
    pthread_cond_signal(&s->for_decoder);
    pthread_mutex_unlock(&s->lock);
    if (s->has_decoder)
        pthread_join(s->decoder, NULL);
    for (int i = 0; i < s->n_readers; i++)
        pthread_join(s->readers[i].thread, NULL);
    for (int i = 0; i < MOST_READERS; i++)
        tr_speech_close(&s->readers[i].speech);
    tr_clips_free(&s->clips);
    tr_batch_close(&s->batch);
    tr_lanes_model_close(&s->model);
    pthread_cond_destroy(&s->for_readers);
    pthread_cond_destroy(&s->for_decoder);
    pthread_mutex_destroy(&s->lock);
    free(s->parts);
    free(s);
}

static const struct tr_transcriber_ops ops = { add, cancel, close_lanes };

/* Reading and spectra need about a hundredth of the time of sound. */
static int wanted_readers(const struct tr_settings *s)
{
    const unsigned cores = tr_load_cores(s);
    return s->no_gpu ? 1 : cores > MOST_READERS ? MOST_READERS : (int)cores;
}

/* The threads that could not be started are not missed, if there is one. */
static int start_threads(struct lanes *s)
{
    const int wanted = wanted_readers(s->settings);
    s->has_decoder = gd__thread_start(&s->decoder, "decoder", work_as_decoder, s) == 0;
    for (bool more = s->has_decoder; more && s->n_readers < wanted; s->n_readers += more) {
        struct reader *r = &s->readers[s->n_readers];
        r->lanes = s;
        if (s->settings->vad_model && tr_speech_open(&r->speech, s->settings) < 0)
            return -1;
        more = gd__thread_start(&r->thread, "reader", work_as_reader, r) == 0;
    }
    return s->n_readers > 0 ? 0 : gd__fail("no threads for transcribing");
}

static int make_kit(struct lanes *s)
{
    s->kit = (struct tr_part_kit){
        .filters = s->model.filters,
        .how = &s->model.decoding,
        .prompt = s->model.prompt,
        .n_prompt = s->model.n_prompt,
        .clips = &s->clips,
        .words = s->settings->word_timestamps,
    };
    return tr_clips_parse(&s->clips, "clip_timestamps", s->settings->clip_timestamps);
}

int tr_lanes_open(struct tr_transcriber **out, const struct tr_settings *settings)
{
    struct lanes *s = calloc(1, sizeof *s);
    if (!s)
        return gd__fail("no memory");
    s->base.ops = &ops;
    s->settings = settings;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->for_readers, NULL);
    pthread_cond_init(&s->for_decoder, NULL);
    int rc = tr_lanes_model_open(&s->model, settings);
    if (rc == 0) {
        s->base.files = s->model.slots;
        s->most_parts = (size_t)s->model.slots + (size_t)s->model.slots / 2 + 1;
        s->parts = calloc(s->most_parts + MOST_READERS, sizeof *s->parts);
        rc = s->parts ? 0 : gd__fail("no memory");
    }
    if (rc == 0)
        rc = make_kit(s);
    if (rc == 0)
        rc = tr_batch_open(&s->batch, s->model.net, &s->model.shape, s->model.weights.vocabulary.size);
    if (rc == 0)
        rc = start_threads(s);
    if (rc < 0)
        close_lanes(&s->base);
    else
        *out = &s->base;
    return rc;
}
