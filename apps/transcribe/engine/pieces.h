/* SPDX-License-Identifier: MIT
 *
 * A file of any length, piece by piece, in bounded memory.
 *
 * A file that is no longer than a piece is heard whole. Of a piece with more to come, the last half minute is heard
 * badly, since whisper.cpp can't see how it goes on: segments that end there are dropped, and the next piece begins
 * where the last one that was kept ended.
 */
#ifndef GD_TRANSCRIBE_ENGINE_PIECES_H
#define GD_TRANSCRIBE_ENGINE_PIECES_H

#include "apps/transcribe/audio/audio.h"
#include "apps/transcribe/engine/engine.h"

enum { TR_TAIL = 30, TR_LEAST_PIECE = 90 }; /* seconds */

/* What of a piece is kept: its first segments, and where the next piece begins. */
struct tr_cut {
    size_t kept;
    double at;
};

struct tr_cut tr_pieces_cut(const struct tr_span *spans, size_t n, double length);

/* The samples of a piece. Zeroed is none. */
struct tr_pieces {
    float *samples;
    size_t most; /* without the one more that tells that there are more */
};

int tr_pieces_open(struct tr_pieces *p, unsigned seconds); /* 0: TR_AHEAD. 0, or -1 with gd__fail_text() */
void tr_pieces_close(struct tr_pieces *p);

/* Hears all of it. TR_HEARD; TR_CANCELLED; TR_BAD_FILE, TR_FILE_AWAY, with words; or what tr_engine_hear() gives. */
enum tr_outcome tr_pieces_hear(struct tr_pieces *p, struct tr_engine *e, struct tr_audio *a, struct tr_transcript *t,
                               char words[TR_WORDS]);

#endif
