/* SPDX-License-Identifier: MIT
 *
 * A file of any length, piece by piece, in bounded memory.
 *
 * A file that is not longer than a piece is transcribed as a whole. If more audio follows a piece, the last half minute
 * of the piece is transcribed badly, because whisper.cpp does not get the audio after it. Segments that end in this
 * half minute are dropped, and the next piece begins at the end of the last segment that was kept.
 */
#ifndef GD_TRANSCRIBE_ENGINE_PIECES_H
#define GD_TRANSCRIBE_ENGINE_PIECES_H

#include "apps/transcribe/audio/audio.h"
#include "apps/transcribe/engine/decoding/lists.h"
#include "apps/transcribe/engine/engine.h"

enum { TR_TAIL = 30, TR_LEAST_PIECE = 90 }; /* seconds */

/* Which segments of a piece are kept (the first `kept`), and where the next piece begins. */
struct tr_cut {
    size_t kept;
    double at;
};

struct tr_cut tr_pieces_cut(const struct tr_span *spans, size_t n, double length);

/* The samples of a piece. A zeroed struct is empty. */
struct tr_pieces {
    float *samples;
    size_t most;     /* size of a piece; one sample more is read, to see whether the file goes on */
    size_t position; /* in the current file: the number of samples that were read */
    size_t before;   /* samples of the file before the piece */
    /* Called with the time up to which the file is done, in seconds. NULL: not called. */
    void (*reached)(void *user, double seconds);
    void *user;
    struct tr_clips clips; /* the parts that are transcribed; empty: the whole file */
};

/* Whether files can be transcribed in pieces of this length; 0 is the default. Returns 0, or -1 with gd__fail_text(). */
int tr_pieces_possible(unsigned seconds);

/* 0 seconds means TR_AHEAD. clips is the setting clip_timestamps. Returns 0, or -1 with gd__fail_text(). */
int tr_pieces_open(struct tr_pieces *p, unsigned seconds, const char *clips);
void tr_pieces_close(struct tr_pieces *p);

/* Transcribes the whole file, or its clips. The rest of the file is read too, so that its duration is known and a fault
 * in it is found. Returns TR_HEARD; TR_CANCELLED; TR_BAD_FILE or TR_FILE_AWAY with an error message in
 * message; or another result of tr_engine_hear(). */
enum tr_outcome tr_pieces_hear(struct tr_pieces *p, struct tr_engine *e, struct tr_audio *a, struct tr_transcript *t,
                               char message[TR_MESSAGE_MAX]);

#endif
