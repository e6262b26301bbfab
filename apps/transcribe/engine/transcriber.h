/* SPDX-License-Identifier: MIT
 *
 * Transcribes files, on threads of its own. There are two kinds:
 *
 *   tr_lanes_open()  many files at once, with the decoder in lanes/
 *   tr_solo_open()   one file after the other, with whisper.cpp's decoder, which can also do a beam search
 *
 *     static void done(struct tr_request *r, enum tr_outcome outcome, const char *message) { ... }
 *     struct tr_request r = { .audio = audio, .done = done };
 *     tr_transcriber_add(t, &r);
 */
#ifndef GD_TRANSCRIBE_ENGINE_TRANSCRIBER_H
#define GD_TRANSCRIBE_ENGINE_TRANSCRIBER_H

#include "apps/transcribe/audio/audio.h"
#include "apps/transcribe/engine/engine.h"
#include "apps/transcribe/engine/settings.h"
#include "apps/transcribe/output/transcript.h"

struct tr_work; /* what a transcriber knows about a request */

/* A file that is to be transcribed. Owned by the caller, and valid until done() has returned. */
struct tr_request {
    struct tr_audio *audio;           /* borrowed */
    struct tr_transcript *transcript; /* borrowed; its segments are added and its duration is set before done() */
    const char *language;             /* set before done(), as a static string; NULL: nothing was transcribed */
    float language_probability;       /* < 0: not known */
    /* Called now and then, on any thread, but not on two at once: so many seconds of the file are done. NULL: not called. */
    void (*progress)(struct tr_request *r, double seconds);
    /* Called once, on any thread. message: why the file was not transcribed; "" for TR_HEARD and TR_CANCELLED. */
    void (*done)(struct tr_request *r, enum tr_outcome outcome, const char *message);
    struct tr_work *work; /* NULL at first */
    bool cancelled;       /* false at first */
};

struct tr_transcriber {
    const struct tr_transcriber_ops {
        void (*add)(struct tr_transcriber *t, struct tr_request *r);
        void (*cancel)(struct tr_transcriber *t, struct tr_request *r);
        void (*close)(struct tr_transcriber *t);
    } * ops;
    unsigned files; /* how many files it works on at once */
};

/* Load the model of the settings, which are borrowed. Return 0, or -1 with gd__fail_text(). Release with
 * tr_transcriber_close(). tr_lanes_open() returns TR_LANES_UNFIT, also with gd__fail_text(), if the model or the device can
 * only be used by tr_solo_open(). */
enum { TR_LANES_UNFIT = -2 };
int tr_solo_open(struct tr_transcriber **out, const struct tr_settings *s);
int tr_lanes_open(struct tr_transcriber **out, const struct tr_settings *s);

/* Adds a file. Its done() may be called before this function returns. */
static inline void tr_transcriber_add(struct tr_transcriber *t, struct tr_request *r)
{
    t->ops->add(t, r);
}

/* Ends the work on a file soon: its done() is then called with TR_CANCELLED, unless it is ready just now. If the request is
 * not at work, that happens when it is added again. The request must be valid during this call. */
static inline void tr_transcriber_cancel(struct tr_transcriber *t, struct tr_request *r)
{
    t->ops->cancel(t, r);
}

/* Waits for threads. There must be no file left. */
static inline void tr_transcriber_close(struct tr_transcriber **t)
{
    if (*t)
        (*t)->ops->close(*t);
    *t = NULL;
}

#endif
