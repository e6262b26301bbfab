/* SPDX-License-Identifier: MIT
 *
 * A file as a row of parts, each of which is decoded as one lane.
 *
 * A short file is one part. With `--split auto`, a file of more than five minutes is cut where it is quiet, into parts of
 * two to five minutes, which do not depend on each other. With `--split never`, parts are ten minutes long and overlap:
 * the next part begins where the last text that was kept ends, and has that text as context. So it can be made only
 * when the part before is decoded.
 *
 * If only clips of a file are transcribed, each clip is a file of its own in this respect. With a VAD model, only the speech
 * of a part is decoded.
 */
#ifndef GD_TRANSCRIBE_ENGINE_LANES_PART_H
#define GD_TRANSCRIBE_ENGINE_LANES_PART_H

#include <stdatomic.h>

#include "apps/transcribe/audio/audio.h"
#include "apps/transcribe/engine/decoding/lists.h"
#include "apps/transcribe/engine/lanes/lane.h"
#include "apps/transcribe/engine/speech.h"
#include "apps/transcribe/engine/words/token_times.h"
#include "apps/transcribe/output/transcript.h"

enum { TR_LEAST_PART = 120, TR_MOST_PART = 300 }; /* seconds, with --split auto */

struct tr_part {
    struct tr_part *next;
    struct tr_lane *lane;  /* its spectrum is freed when it is decoded */
    double offset, length; /* seconds */
    size_t kept;           /* phrases that are part of the text */
    bool last;             /* of the file */
    bool ends_clip;        /* the next part is another clip, or there is none */
    bool decoded;
    double told;                 /* seconds that were reported as progress */
    struct tr_speech_map map;    /* with a VAD model */
    bool words;                  /* times of words are wanted */
    struct tr_loudness loudness; /* for them */
    void *user;
};

/* What is the same for all parts. Borrowed. */
struct tr_part_kit {
    const struct tr_filters *filters;
    const struct tr_decoding *how;
    const int *prompt;
    size_t n_prompt;
    const struct tr_clips *clips; /* none: the whole file */
    bool words;
};

/* The reading of one file. */
struct tr_reading {
    struct tr_audio *audio;
    bool split;     /* --split auto */
    size_t most;    /* samples of a part */
    float *samples; /* read, but not in a part yet */
    size_t have, room;
    size_t before;   /* samples of the file before these */
    size_t position; /* samples that were read from the file */
    size_t clip;     /* number of clips that are behind */
    bool in_clip;    /* its beginning was found */
    bool at_end;     /* the file has no more samples */
    int *context;    /* with --split never: the text before, as tokens */
    size_t n_context, context_room;
    const atomic_bool *stopped; /* set by another thread when no more is wanted of this file */
};

void tr_reading_free(struct tr_reading *r);

/* Reads the next part. speech: a VAD model, or NULL. Returns 0, or TR_UNFIT or TR_UNREAD with an error message in message,
 * which is TR_UNREAD soon after the reading was stopped. After an error, nothing more can be read. */
int tr_part_read(struct tr_part **out, struct tr_reading *r, const struct tr_part_kit *kit, struct tr_speech *speech,
                 int language, char message[TR_MESSAGE_MAX]);
void tr_part_free(struct tr_part *p); /* NULL is fine */

/* With --split never: decides what is kept of a decoded part, and where the next one begins. Returns 0, or -1 if out of
 * memory. */
int tr_part_follow(struct tr_part *p, struct tr_reading *r);

/* How much of a part is decoded, in seconds. Called by the thread that decodes it. */
double tr_part_done(const struct tr_part *p);

/* Adds the text of a decoded part to a transcript. Returns 0, or -1 if out of memory. */
int tr_part_add(const struct tr_part *p, struct tr_transcript *t);

#endif
