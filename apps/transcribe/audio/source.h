/* SPDX-License-Identifier: MIT
 *
 * The frames of an audio file, at the file's own rate. Opens the file, checks it, chooses the decoder, and finds out
 * whether the file is complete. Private to audio.c.
 *
 * Most files are one stream. An Ogg file may have several, one after the other, each with its own rate and channels:
 *
 *     tr_source_open(&s, &how, message);
 *     do
 *         while ((n = tr_source_read(&s, frames, max, message)) > 0) ...     // frames of s.sound.lanes samples
 *     while (n == 0 && (n = tr_source_next(&s, message)) > 0);               // n == 0: the end of the file
 *
 * Functions return a code (TR_UNFIT, TR_UNREAD) with an error message in message, if they fail. A file that has changed
 * since it was opened is reported as such, whatever else is wrong with it, because another attempt may succeed.
 */
#ifndef GD_TRANSCRIBE_AUDIO_SOURCE_H
#define GD_TRANSCRIBE_AUDIO_SOURCE_H

#include <time.h>

#include "apps/transcribe/audio/audio.h"
#include "apps/transcribe/audio/decoder.h"

enum { TR_SOURCE_NAME = 128 };

/* A zeroed struct with file.fd = -1 is closed. */
struct tr_source {
    char name[TR_SOURCE_NAME]; /* for messages */
    struct tr_file file;       /* the stream, as the decoder sees it */
    const struct tr_decoder *decoder;
    void *state;
    struct tr_sound sound; /* of this stream */
    double seconds;        /* duration of the file, maybe estimated; 0: not known */
    uint64_t decoded;      /* frames of this stream so far */
    double before_s;       /* duration of the streams before it */

    char *path;              /* NULL: the caller gave a descriptor */
    uint64_t whole;          /* size of the file when it was opened */
    struct timespec written; /* when it was written to last */

    bool accept_truncated;
    bool truncated;    /* the file is truncated, which was accepted */
    bool cut;          /* this stream is */
    double promised_s; /* the duration by the header of a truncated file; 0: not known */
    char warning[TR_MESSAGE_MAX];
};

int tr_source_open(struct tr_source *s, const struct tr_audio_how *how, char message[TR_MESSAGE_MAX]);

/* Returns the number of frames read; 0 at the end of the stream. */
long tr_source_read(struct tr_source *s, float *to, size_t frames, char message[TR_MESSAGE_MAX]);

/* Opens the next stream, which changes s->sound. Returns 1, or 0 at the end of the file. */
int tr_source_next(struct tr_source *s, char message[TR_MESSAGE_MAX]);

/* How much was read so far, in seconds. */
double tr_source_time(const struct tr_source *s);

void tr_source_close(struct tr_source *s);

/* Appends what tr_audio_about() appends. */
void tr_source_about(struct gd__buffer *b);

/* Writes an error message. Returns TR_UNFIT. */
__attribute__((format(printf, 2, 3))) int tr_source_say(char message[TR_MESSAGE_MAX], const char *format, ...);

/* Writes an error message: "NAME cannot be WHAT: strerror(error); ...". Returns the code for this errno. */
int tr_source_unread(const struct tr_source *s, char message[TR_MESSAGE_MAX], const char *what, int error);

#endif
