/* SPDX-License-Identifier: MIT
 *
 * Transcribes one file after the other with whisper.cpp's decoder, on one thread.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "apps/transcribe/engine/pieces.h"
#include "apps/transcribe/engine/transcriber.h"
#include "base/failure.h"
#include "base/thread.h"

struct tr_work {
    struct tr_request *request;
    atomic_bool cancelled;
    struct tr_work *next;
};

struct solo {
    struct tr_transcriber base;
    struct tr_engine *engine;
    struct tr_pieces pieces;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct tr_work *first, *last; /* files that wait */
    bool ends;
};

static bool is_cancelled(void *user)
{
    return atomic_load(&((struct tr_work *)user)->cancelled);
}

static void reached(void *user, double seconds)
{
    struct tr_request *r = ((struct tr_work *)user)->request;
    if (r->progress)
        r->progress(r, seconds);
}

static void transcribe(struct solo *s, struct tr_work *w)
{
    struct tr_request *r = w->request;
    char message[TR_MESSAGE_MAX] = "";
    s->pieces.reached = reached;
    s->pieces.user = w;
    enum tr_outcome outcome = tr_engine_begin(s->engine, is_cancelled, w);
    if (outcome == TR_HEARD)
        outcome = tr_pieces_hear(&s->pieces, s->engine, r->audio, r->transcript, message);
    r->language = tr_engine_language(s->engine, &r->language_probability);
    const bool is_file = outcome == TR_BAD_FILE || outcome == TR_FILE_AWAY;
    const bool has_text = outcome != TR_HEARD && outcome != TR_CANCELLED;
    pthread_mutex_lock(&s->lock); /* cancel() may be looking at it */
    r->work = NULL;
    pthread_mutex_unlock(&s->lock);
    free(w);
    r->done(r, outcome, is_file ? message : has_text ? gd__fail_text() : "");
}

static void *work(void *argument)
{
    struct solo *s = argument;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->first && !s->ends)
            pthread_cond_wait(&s->changed, &s->lock);
        struct tr_work *w = s->first;
        if (!w)
            break;
        s->first = w->next;
        if (!s->first)
            s->last = NULL;
        pthread_mutex_unlock(&s->lock);
        transcribe(s, w);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void add(struct tr_transcriber *t, struct tr_request *r)
{
    struct solo *s = (struct solo *)t;
    struct tr_work *w = calloc(1, sizeof *w);
    if (!w) {
        r->done(r, TR_NO_MEMORY, "no memory for a file");
        return;
    }
    w->request = r;
    pthread_mutex_lock(&s->lock);
    r->work = w;
    atomic_store(&w->cancelled, r->cancelled);
    if (s->last)
        s->last->next = w;
    else
        s->first = w;
    s->last = w;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void cancel(struct tr_transcriber *t, struct tr_request *r)
{
    struct solo *s = (struct solo *)t;
    pthread_mutex_lock(&s->lock);
    r->cancelled = true;
    if (r->work)
        atomic_store(&r->work->cancelled, true);
    pthread_mutex_unlock(&s->lock);
}

static void release(struct solo *s)
{
    tr_engine_close(&s->engine);
    tr_pieces_close(&s->pieces);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    free(s);
}

static void close_solo(struct tr_transcriber *t)
{
    struct solo *s = (struct solo *)t;
    pthread_mutex_lock(&s->lock);
    s->ends = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    release(s);
}

static const struct tr_transcriber_ops ops = { add, cancel, close_solo };

int tr_solo_open(struct tr_transcriber **out, const struct tr_settings *settings)
{
    struct solo *s = calloc(1, sizeof *s);
    if (!s)
        return gd__fail("no memory");
    s->base = (struct tr_transcriber){ .ops = &ops, .files = 1 };
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (tr_pieces_open(&s->pieces, settings->piece_seconds, settings->clip_timestamps) < 0 ||
        tr_engine_open(&s->engine, settings) < 0) {
        release(s);
        return -1;
    }
    if (gd__thread_start(&s->thread, "transcriber", work, s) != 0) {
        release(s);
        return gd__fail("no thread for transcribing");
    }
    *out = &s->base;
    return 0;
}
