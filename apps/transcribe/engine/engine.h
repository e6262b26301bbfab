/* SPDX-License-Identifier: MIT
 *
 * The part of whisper.cpp that a worker needs: a model that transcribes files piece by piece.
 *
 *     tr_engine_begin(e, stop, user);                     // a new file
 *     if (tr_engine_hear(e, samples, n) == TR_HEARD)      // its next piece
 *         for (i = 0; i < tr_engine_spans(e, &spans); i++)
 *             tr_engine_add(e, i, offset, transcript);    // also becomes context for the next piece
 *
 * The text depends only on the file and the settings, never on earlier files.
 */
#ifndef GD_TRANSCRIBE_ENGINE_ENGINE_H
#define GD_TRANSCRIBE_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>

#include "apps/transcribe/engine/settings.h"
#include "apps/transcribe/output/transcript.h"

enum tr_outcome {
    TR_HEARD = 0,
    TR_FAILED = -1,
    TR_NO_MEMORY = -2,
    TR_CANCELLED = -3,
    TR_BAD_FILE = -4,
    TR_LOST = -5,      /* the GPU was found before and can't be used any more */
    TR_FILE_AWAY = -6, /* the file could not be read this time */
};

struct tr_span {
    double start, end; /* in the piece, in seconds: 0 <= start <= end <= length, start not before the previous end */
};

struct tr_engine;

/* Loads the model; the settings are borrowed. Returns 0, or -1 with gd__fail_text(). Release with tr_engine_close(). */
int tr_engine_open(struct tr_engine **out, const struct tr_settings *s);
void tr_engine_close(struct tr_engine **e); /* NULL is fine */

/* Begins a new file. stop() is called now and then, also on whisper.cpp's threads. It returns true to cancel the
 * transcription. Returns TR_HEARD, or TR_NO_MEMORY or TR_LOST with gd__fail_text(). */
enum tr_outcome tr_engine_begin(struct tr_engine *e, bool (*stop)(void *user), void *user);

/* Sets a function that is called during tr_engine_hear(), on the same thread, at least once for each window: the piece is
 * done up to this time. It stays until it is replaced. NULL: none. */
void tr_engine_watch(struct tr_engine *e, void (*reached)(void *user, double seconds), void *user);

/* Transcribes a piece. Returns TR_HEARD, TR_CANCELLED, or TR_FAILED or TR_NO_MEMORY with gd__fail_text(). */
enum tr_outcome tr_engine_hear(struct tr_engine *e, const float *samples, size_t n);

/* Whether the transcription is to be cancelled: what stop() returns. */
bool tr_engine_stopped(const struct tr_engine *e);

/* The segments of the piece. Valid until the next piece. */
size_t tr_engine_spans(const struct tr_engine *e, const struct tr_span **out);

/* Adds one segment to a transcript. offset is where the piece begins. Returns 0, or -1 if out of memory. */
int tr_engine_add(struct tr_engine *e, size_t segment, double offset, struct tr_transcript *t);

/* The language, as a static string. NULL before anything was transcribed. *probability < 0: not known. */
const char *tr_engine_language(const struct tr_engine *e, float *probability);

#endif
